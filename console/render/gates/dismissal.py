"""What a dismissal takes with it: its worth, venues, accounts and age, and what may stand at a venue. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from backends.records import Entry
from console.render import value
from console.render.line import HANG, Line, line, trusted
from console.services.layout_fields import layout_of, occurred_at, origin, text
from console.services.market.entry_value import VenueTypes, value_of
from console.services.triage.triage import classified
from console.text.durations import long_age
from console.text.untrusted import safe

_UNITS = (("B", 9), ("M", 6), ("k", 3))
_MOST_PLACES = 6
_MOST_CURRENCIES = 3
_NAME_LENGTH = 24


@dataclass
class DismissalStake:
    """Adds up the entries that are about to be dismissed; amounts of two currencies are never added."""

    counted: int = 0
    worth: dict[str, Decimal] = field(default_factory=dict)
    unvalued: int = 0
    venues: Counter[str] = field(default_factory=Counter)
    accounts: Counter[tuple[str, str]] = field(default_factory=Counter)
    oldest: datetime | None = None
    reached: int = 0  # may stand at the venue
    whose: str = "account"

    def add(self, entries: Iterable[Entry], types: VenueTypes) -> None:
        for entry in entries:
            self._add(entry, types)

    def _add(self, entry: Entry, types: VenueTypes) -> None:
        fields, venue = layout_of(entry), origin(entry)
        self.counted += 1
        self.venues[venue] += 1
        self.whose = fields.words.whose
        if fields.words.whose:
            self.accounts[venue, text(entry, "account_id" if fields.has_modes else fields.words.whose)] += 1
        at = occurred_at(entry)
        self.oldest = at if self.oldest is None or (at is not None and at < self.oldest) else self.oldest
        if not fields.has_modes:
            return
        self.reached += entry.state == "pending" and classified(entry).reach == "maybe"
        made = value_of(entry, types)
        if made.notional is None:
            self.unvalued += 1
        else:
            currency = made.currency or ""
            self.worth[currency] = self.worth.get(currency, Decimal(0)) + made.notional


def short_amount(amount: Decimal) -> str:
    """`9.96M`, `18.0k`, `950`: three digits are enough to see what is at stake."""
    for unit, places in _UNITS:
        if abs(amount) >= Decimal(10) ** places * Decimal("0.9995"):
            scaled = amount / Decimal(10) ** places
            return f"{scaled:.{max(0, 2 - max(0, scaled.adjusted()))}f}{unit}"
    return f"{amount:.2f}".rstrip("0").rstrip(".")


def short_amounts(worth: Mapping[str, Decimal]) -> str:
    """`9.96M USD, 120k EUR`, the largest first; how many more where it is cut."""
    ranked = sorted(worth.items(), key=lambda one: -abs(one[1]))
    shown = [
        f"{short_amount(amount)} {safe(currency, 12) or 'of no known currency'}"
        for currency, amount in ranked[:_MOST_CURRENCIES]
    ]
    more = len(ranked) - len(shown)
    return ", ".join(shown) + (f", {value.many(more, 'more currency')}" if more > 0 else "")


def dismiss_title(count: int, stake: DismissalStake | None) -> Line:
    """`Dismiss 200 entries · 9.96M USD`"""
    worth = f" · {short_amounts(stake.worth)}" if stake is not None and stake.worth else ""
    return line(trusted(f"Dismiss {value.many(count, 'entry')}{worth}"))


def stake_lines(stake: DismissalStake, now: datetime, ask: str) -> list[Line]:
    """Where they belong and how old they are, then what may stand at the venue. `ask`: the key that asks there."""
    parts = [*_places(stake)]
    if stake.oldest is not None:
        parts.append(f"oldest {long_age(stake.oldest, now)}")
    if stake.unvalued:
        parts.append(f"{value.count(stake.unvalued)} without a value")
    lines = [line(trusted(" "), HANG, trusted(" · ".join(parts)))]
    if stake.reached:
        what = f"! {value.count(stake.reached)} may have reached the venue"
        told = f": dismissing cancels nothing there ({ask} asks)"
        lines.append(line(trusted(" "), HANG, trusted(what, "danger"), trusted(told, "warning")))
    return lines


def _places(stake: DismissalStake) -> Iterable[str]:
    """`alpaca 145 · kalshi 55 · 11 accounts`; few accounts are named with their venue and their count."""
    named = {place: count for place, count in stake.accounts.items() if place[1]}
    if named and len(stake.accounts) <= max(3, len(stake.venues)):
        for (venue, account), count in stake.accounts.most_common(_MOST_PLACES):
            yield f"{_name(venue)} {_name(account)} {value.count(count)}" if account else _counted(venue, count)
        yield from _rest(len(stake.accounts) - _MOST_PLACES, stake.whose)
        return
    for venue, count in stake.venues.most_common(_MOST_PLACES):
        yield _counted(venue, count)
    yield from _rest(len(stake.venues) - _MOST_PLACES, "venue")
    if named:
        yield value.many(len(stake.accounts), stake.whose)
        top = [f"{_name(account or '(none)')} {count:,}" for (_, account), count in stake.accounts.most_common(3)]
        yield f"most in {', '.join(top)}, …"


def _counted(venue: str, count: int) -> str:
    return f"{_name(venue)} {value.count(count)}"


def _name(text_of: str) -> str:
    return safe(text_of, _NAME_LENGTH) or "(none)"


def _rest(count: int, word: str) -> Iterable[str]:
    if count > 0:
        yield f"… {value.count(count)} more {word}{'' if count == 1 else 's'}"

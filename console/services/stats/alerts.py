"""The alert rules over a store's tally. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from console.services.stats.tally import Tally
from console.settings.config import Alerts
from console.text.durations import long_age

RISE = 0.2  # a rise or fall counts from this share of the earlier half
_ENOUGH = 10  # fewer entries than this show neither a rise nor a cause
Rule = Literal["depth", "oldest", "dominance", "poison", "in-doubt", "arrivals", "ledger-unreadable"]
RULES: tuple[Rule, ...] = ("depth", "oldest", "dominance", "poison", "in-doubt", "arrivals", "ledger-unreadable")
OF_LEDGER: frozenset[Rule] = frozenset({"poison", "in-doubt"})  # rules that nobody can judge without the ledger


@dataclass(frozen=True, slots=True)
class Alert:
    rule: Rule
    text: str
    subject: str | None = None  # the venue, queue, provider or category that it is about
    value: float = 0
    limit: float = 0
    severe: bool = False
    brief: str = ""  # the short form for the status line


def alerts(tally: Tally, limits: Alerts) -> tuple[Alert, ...]:
    """The alerts that are raised, most urgent first."""
    return (
        *(() if tally.is_readable else (_UNREADABLE,)),
        *(_in_doubt(tally) if tally.is_readable else ()),
        *(_poison(tally) if tally.is_readable else ()),
        *_depth(tally, limits.depth),
        *_oldest(tally, limits.oldest),
        *_dominance(tally, limits.dominance),
        *_arrivals(tally.arrivals),
    )


_UNREADABLE = Alert(
    "ledger-unreadable",
    "this role cannot read the console's ledger: what is in doubt or poisoned is unknown; dlq doctor prints the grant",
    value=0,
    limit=1,
    severe=True,
    brief="ledger unreadable: in doubt unknown",
)


def _named(name: str, tally: Tally) -> str:
    return name or f"(no {tally.words.origin})"


def _in_doubt(tally: Tally) -> list[Alert]:
    count = tally.states.get("in_doubt", 0)
    if not count:
        return []
    are, what = ("entry is", "it") if count == 1 else ("entries are", "them")
    held = f"{tally.words.counterpart} may hold the {tally.words.one}"
    text = f"{count:,} {are} in doubt: {held}; reconcile {what}"
    return [Alert("in-doubt", text, value=count, limit=1, severe=True, brief=f"reconcile {count} in doubt")]


def _poison(tally: Tally) -> list[Alert]:
    again = "again and again in the same way: fix the cause first"
    return [
        Alert(
            "poison",
            f"{venue.poisoned:,} {'fails' if venue.poisoned == 1 else 'fail'} at {_named(name, tally)} {again}",
            name or None,
            value=venue.poisoned,
            limit=1,
            brief=f"{venue.poisoned:,} poisoned at {_named(name, tally)}",
        )
        for name, venue in tally.venues.items()
        if venue.poisoned
    ]


def _depth(tally: Tally, limit: int) -> list[Alert]:
    return [
        Alert(
            "depth",
            f"{venue.depth:,} open at {_named(name, tally)}, the limit is {limit:,}",
            name or None,
            value=venue.depth,
            limit=limit,
            brief=f"{venue.depth:,} open at {_named(name, tally)}",
        )
        for name, venue in tally.venues.items()
        if venue.depth >= limit
    ]


def _oldest(tally: Tally, limit: timedelta) -> list[Alert]:
    return [
        Alert(
            "oldest",
            f"the oldest at {_named(name, tally)} has waited {long_age(venue.oldest, tally.at)}",
            name or None,
            value=(tally.at - venue.oldest).total_seconds(),
            limit=limit.total_seconds(),
            brief=f"oldest at {_named(name, tally)} {long_age(venue.oldest, tally.at)}",
        )
        for name, venue in tally.venues.items()
        if venue.oldest is not None and tally.at - venue.oldest >= limit
    ]


def _dominance(tally: Tally, limit: float) -> list[Alert]:
    return [
        Alert(
            "dominance",
            f"{count / tally.open:.0%} of {tally.open:,} open are of one kind: {category}",
            category,
            value=count / tally.open,
            limit=limit,
            brief=f"{category} is {count / tally.open:.0%}",
        )
        for category, count in tally.categories.items()
        if count > _ENOUGH and count > limit * tally.open
    ]


def _arrivals(counts: Sequence[int]) -> list[Alert]:
    if change(counts) != "rising":
        return []
    half = len(counts) // 2
    earlier, later = sum(counts[:half]), sum(counts[half:])
    text = f"arrivals are rising: {later} in the last {half} minutes, {earlier} in the {half} before"
    limit = max(float(_ENOUGH), earlier * (1 + RISE))
    return [Alert("arrivals", text, value=later, limit=limit, brief=f"arrivals rising: {later} in {half}m")]


def change(counts: Sequence[int]) -> Literal["rising", "falling", "steady"]:
    """Compares the later half with the earlier one. Fewer than `_ENOUGH` entries are steady."""
    half = len(counts) // 2
    earlier, later = sum(counts[:half]), sum(counts[half:])
    if max(earlier, later) < _ENOUGH:
        return "steady"
    if later >= earlier * (1 + RISE):
        return "rising"
    return "falling" if later <= earlier * (1 - RISE) else "steady"

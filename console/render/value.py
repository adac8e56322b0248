"""Single values as people read them: orders, quantities, prices, times, counts. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import lru_cache

from dlq_sink.values import number, parse_time, readable

from backends.entry import Entry
from console.render.line import Line, Tone, fit, line, middle, text_width, trusted
from console.services import layout_fields as layout
from console.services.errors.summary import NUMBERED, summarise
from console.text.durations import age
from console.text.untrusted import safe

_PLAIN_TYPES = ("market", "limit", "")
OUTCOMES: Mapping[str, Tone] = {
    "accepted": "good",
    "rejected": "warning",
    "unknown": "danger",
    "not_sent": "warning",
    "refused": "warning",
    "skipped": "dim",
    "superseded": "dim",
}
# Not the thread's own context: a venue's library may have changed that.
_ROUNDING = Context(prec=120, rounding=ROUND_HALF_EVEN)
_NAME_LENGTH = 128
_SUBJECT_LENGTH = 80
_MARKET_LENGTH = 5  # shortest cut of a market name that can still be recognised
_ROOM_TO_ALIGN = 34  # columns of an order from which its quantity has a column of its own
_SIDE, _SIZE = 4, 5  # columns of the side and of the quantity there
_ROOM_TO_NAME = 10  # columns of a value from which dollars are named too
_THOUSANDS = re.compile(r"(.+?)((?:,000){1,3})")
_UNITS = ("", "k", "M", "B", "T")
_DOLLARS = frozenset({"USD", "USDT", "USDC"})  # what a bare amount is in


def quantity(value: object) -> str:
    """The quantity as the shortest decimal, without `.0`."""
    exact = number(value)
    if exact is None:
        return safe(readable(value), 60) if value is not None else "?"
    text = format(exact, ",f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def price(value: object) -> str:
    """The price in its stored digits: separated by thousands, never with an exponent."""
    exact = number(value)
    return safe(readable(value), 60) if exact is None else safe(format(exact, ",f"), 60)


def short(amount: Decimal, *, whole: bool = False) -> str:
    """`4.7k`, `232k`, `2.1M`: an amount in at most five characters below a quadrillion. `whole`: without decimals."""
    with localcontext(_ROUNDING):
        left, size = abs(amount), 0
        while left >= Decimal("999.5") and size < len(_UNITS) - 1:
            left, size = left / 1000, size + 1
        digits = 0 if whole or left >= Decimal("99.95") else 1 if size or left >= Decimal("9.995") else 2
        return f"{'−' if amount < 0 else ''}{left:,.{digits}f}{_UNITS[size]}"


def short_amounts(by_currency: Mapping[str, Decimal]) -> str:
    """`2.1M USD + 900 EUR`, the largest first; never one sum of several currencies."""
    ordered = sorted(by_currency.items(), key=lambda pair: (-pair[1], pair[0]))
    return " + ".join(f"{short(amount)} {safe(currency, 12)}".rstrip() for currency, amount in ordered)


def short_value(amount: Decimal, currency: str | None, room: int) -> str:
    """An amount in a column. Where room is short a dollar's name is left out, never another currency's."""
    text, name = short(amount), safe(currency or "", 12)
    if not name or (currency in _DOLLARS and room < _ROOM_TO_NAME):
        return text
    if text_width(f"{text} {name}") <= room:
        return f"{text} {name}"
    return f"{text}{name}" if text_width(f"{text}{name}") <= room else f"{short(amount, whole=True)}{name}"


def money(value: Decimal, *, signed: bool = False) -> str:
    with localcontext(_ROUNDING):
        text = f"{value:+,.2f}" if signed else f"{value:,.2f}"
    return text.replace("-", "−")


def amounts(by_currency: Mapping[str, Decimal], *, signed: bool = False, longest: int = 12) -> str:
    """`18,000.00 USD, 900.00 EUR`; zero where there is nothing."""
    parts = (
        f"{money(amount, signed=signed)} {safe(currency, longest)}".rstrip() for currency, amount in by_currency.items()
    )
    return ", ".join(parts) or money(Decimal(0))


def count(value: int) -> str:
    return f"{value:,}"


def many(value: int, word: str) -> str:
    """`1 entry`, `12 entries`."""
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{value:,} {word if value == 1 else plural}"


def moment(value: object) -> str:
    """The time in UTC to the second; a value that is no time is shown unchanged."""
    at = parse_time(value)
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ") if at else safe(readable(value), 60)


def entry_age(entry: Entry, now: datetime) -> str:
    failed = layout.occurred_at(entry)
    return age(failed, now) if failed else "?"


def action(entry: Entry) -> tuple[str, str]:
    """(new, replace or cancel; time in force), read from the action without checking it."""
    text = entry.text("action_json")
    if not text:
        return "new", ""
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        return "?", ""
    if not isinstance(stored, dict):
        return "?", ""
    verb, tif = stored.get("action", "new"), stored.get("time_in_force", stored.get("tif", ""))
    return _word(verb) or "?", _word(tif)


def _word(value: object) -> str:
    return safe(value.lower(), 12) if isinstance(value, str) else ""


def side(entry: Entry) -> str:
    """Sells in capitals, everything else in small letters: told apart without a colour."""
    told = entry.text("side").lower()
    return safe(told.upper() if told.startswith("sell") else told, 12)


def order(entry: Entry, room: int = 1000, *, aligned: bool = False) -> str:
    """`buy 100 AAPL @ 180.0 day`; replace and cancel orders begin with that word. Messages and calls: their subject.

    Where room is short, the time in force is left out, then a blank and a zero, then `1,000,000` is `1M`, then the
    market is cut.
    `aligned`: in a list with room for it, sides and quantities stand under each other.
    """
    if (subject := layout.layout_of(entry).subject) is not None:
        return safe(subject(entry), _SUBJECT_LENGTH)
    verb, tif = action(entry)
    size, after = _terms(entry)
    direction, market = side(entry), name(entry.text("market_id"))
    before = f"{'' if verb == 'new' else f'{verb} '}{direction} {size}"
    if aligned and verb == "new" and room >= _ROOM_TO_ALIGN:
        columns = f"{fit(direction, _SIDE) if len(direction) < _SIDE else direction} {size:>{_SIZE}}"
        before = columns if text_width(f"{columns} {market} {after}") <= room else before
    whole = " ".join([part for part in (before, market, after, tif) if part.strip()])
    if text_width(whole) <= room:
        return whole
    shorter = (after, glued := after.replace("@ ", "@"), glued.removesuffix(".0"))
    for start in (before, rounded := f"{before.removesuffix(size)}{_rounded(size)}"):
        for end in shorter:
            if text_width(f"{start} {market} {end}") <= room:
                return f"{start} {market} {end}"
    before = rounded
    if text_width(before) + min(text_width(market), _MARKET_LENGTH) + text_width(after) + 2 > room:
        after = after.replace("@ ", "@")
    left = room - text_width(before) - text_width(after) - 2
    return " ".join((before, middle(market, max(_MARKET_LENGTH, left)), after))


def _rounded(size: str) -> str:
    """`1,000,000` as `1M`, which is as exact."""
    found = _THOUSANDS.fullmatch(size)
    return size if found is None else f"{found[1]}{'kMB'[len(found[2]) // len(',000') - 1]}"


def _terms(entry: Entry) -> tuple[str, str]:
    """(how much, at what): a stop is no market order, and money is no quantity."""
    kind, stored = entry.text("order_type").lower(), entry.get("price")
    size, after = quantity(entry.get("quantity")), "" if stored is None else f"@ {price(stored)}"
    if kind in _PLAIN_TYPES and number(entry.get("quantity")):
        return size, after or "market"
    from console.render.order_row import told_terms  # the first frame of a plain store needs none of it
    from console.services.market.entry_value import currency_of

    told = told_terms(entry)
    if told.notional is not None and not number(entry.get("quantity")):
        size = f"{quantity(told.notional)} {safe(currency_of(entry, {}) or 'worth of', 12)}"
    word = f"stop {told.stop:,f}" if told.stop is not None else safe(kind.replace("_", " "), 20)
    if kind in _PLAIN_TYPES:
        word = "" if stored is not None else "market"
    return size, f"{after} {word}".strip()


def place(venue: str, account_id: str | None, account: str | None = None, *, whose: str = "account") -> str:
    """`alpaca · hedge · account PA3…`: the venue, the entry's account, and the venue's own name of it, where known.

    `whose`: what the layout calls that name; a call's is its tenant.
    """
    own = f"{whose} {safe(account, 40)}" if account else ""
    return " · ".join(part for part in (safe(venue, 40), name(account_id) if account_id else "", own) if part)


def name(text: str) -> str:
    """An identifier, with a warning sign where its characters could pass for others."""
    shown = safe(text, _NAME_LENGTH)
    if not shown:
        return "(none)"
    return shown if text.isascii() and " " not in text else f"⚠{shown}"


def group_title(title: str) -> str:
    """A group's name in a row, without a number that only eats the width."""
    return safe(NUMBERED.sub("", title), 300)


def error_head(entry: Entry, room: int) -> str:
    """What the error says, in one line; where room is short, the message without the exception around it."""
    return _error_head(entry.layout, layout.stored_error(entry), room)


@lru_cache(maxsize=1024)  # a row is painted again whenever the list moves
def _error_head(kind: str, stored: str, room: int) -> str:
    return safe(summarise(layout.without_credentials(kind, stored)).within(room), 300)


def coverage(found: int, covered: int, total: int | None, *, over: bool) -> Line:
    """`3 found · newest 40,000 of 1,000,000 searched`; `3 found` where everything was."""
    known = trusted(f"{count(found)} found", "strong" if found else "warning")
    if over:
        return line(known, trusted(" · everything was searched", "dim"))
    of = f" of {count(total)}" if total is not None and total > covered else ""
    return line(known, trusted(f" · newest {count(covered)}{of} searched", "dim"))

"""Tells whether the request that ccxt made says what it was given: builds it again without each part and compares.

ccxt drops what it does not know, or hands it on under a name that the exchange does not know; both are told here by
name. Must not send anything, nor know how a single exchange words its requests.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from dlq_sink.terms import TERMS, fold

from venues.ccxt import words
from venues.ccxt.order import Call, says_reduce_only
from venues.ccxt.params import Part
from venues.ccxt.request import number_of

Fields = Mapping[str, str]
Change = Mapping[str, tuple[str | None, str | None]]  # field → (without the part, with it)
Build = Callable[[Call, int], Fields | None]

_SIGNED = re.compile(r"sign|nonce|digest|hash|timestamp|\bsig\b", re.IGNORECASE)
_OTHER_MODE = {"isolated": "cross", "cross": "isolated"}
_WHOSE = frozenset(("side", "symbol", "instid", "pair", "market", "productid", "instrumentname", "currencypair"))
_EXITS = frozenset(("take_profit", "stop_loss"))
_HUNDRED = Decimal(100)
_COUNTER = "lastNonce"


@dataclass(frozen=True, slots=True)
class Verdict:
    unsent: tuple[str, ...] = ()
    why: str = ""
    apart: bool = False  # the exchange takes it on another path than an order that trades at once


@contextmanager
def stopped_clock(exchange: Any, seconds: int) -> Iterator[None]:
    """Let ccxt make requests at a given second, so that two of them differ in what they say only.

    Leaves no trace: ccxt counts numbers that some exchanges take only once.
    """
    units = {"seconds": 1, "milliseconds": 1000, "microseconds": 1_000_000}
    counted = exchange.options.get(_COUNTER)
    for name, many in units.items():
        setattr(exchange, name, lambda many=many: seconds * many)
    try:
        yield
    finally:
        for name in units:
            delattr(exchange, name)
        exchange.options[_COUNTER] = counted


def judge(build: Build, call: Call, sent: Fields, *, parts: tuple[Part, ...], passed_on: frozenset[str]) -> Verdict:
    """Compare `sent`, the request as it will go out; `passed_on` are ccxt's names that are the exchange's own."""
    if not parts:
        return Verdict()
    # In the past: some exchanges take no number twice, and ccxt would go on counting from a time that has not come.
    now = int(time.time()) - 2
    here, later = build(call, now), build(call, now + 1)
    if here is None or later is None:
        return Verdict((), "ccxt does not make the same request twice")
    noise = {name for name in (*here, *later, *sent) if _SIGNED.search(name)}
    noise |= _differing(here, later).keys() | _differing(here, sent).keys()
    lost: list[str] = []
    why, apart = "", False
    for part in parts:
        without = build(_without(call, part), now)
        change = None if without is None else _differing(without, here, but=noise)
        reason = _fault(part, change, call=call, here=here, passed_on=passed_on)
        if reason == _SAME and _said_anyway(part, build, call=call, here=here, noise=noise, now=now):
            reason = ""
        if reason:
            lost.append(part.name)
            why = why or f"{part.name} {reason}"
        apart = apart or (part.name in words.WAITS_FOR and (change is None or "path" in change))
    return Verdict(tuple(lost), why, apart)


_SAME = "is not in the request"


def _differing(one: Fields, other: Fields, *, but: set[str] | None = None) -> Change:
    names = {*one, *other} - (but or set())
    return {name: (one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name)}


def _without(call: Call, part: Part) -> Call:
    if part.name == "notional" and not part.keys:
        params = {key: held for key, held in call.params.items() if key != "cost"}
        return replace(call, method="create_order", arguments=call.as_quantity, params=params)
    return replace(call, params={key: held for key, held in call.params.items() if key not in part.keys})


def _fault(part: Part, change: Change | None, *, call: Call, here: Fields, passed_on: frozenset[str]) -> str:
    """Return what is wrong with a part in words; empty if the request says it."""
    if change is None:  # without it there is no such order
        return "" if _numbers_in(part, here.values()) else "has other digits in the request"
    if not change:
        return _SAME
    values = [after for _, after in change.values() if after is not None]
    if not _numbers_in(part, values):
        return "has other digits in the request"
    if part.name in TERMS or part.name == "time_in_force":
        if _handed_on(part, change, call.params) and not {*part.keys} <= passed_on:
            return "is not known to ccxt there, which would hand it on as it is"
        if part.name == "reduce_only" and ":" not in call.symbol and not says_reduce_only(here):
            return "means something else there"  # as paying back a loan by itself
        if part.name in words.WAITS_FOR and len(change) == 1:
            return "would not keep the order from trading at once"
        return ""
    return _overwritten(part, change)


def _numbers_in(part: Part, values: Any) -> bool:
    there = {number_of(value) for value in values}
    if part.name == "trail_percent":  # some count it in hundredths, some in parts of one
        return all({number, number / _HUNDRED, number * _HUNDRED} & there for number in part.numbers)
    return all(number in there for number in part.numbers)


def _last(name: str) -> str:
    return re.split(r"[.?\[\]]", name.rstrip("]"))[-1]


def _handed_on(part: Part, change: Change, params: Mapping[str, object]) -> bool:
    """Tell whether ccxt only copied the part's own keys into the request."""
    if any(before is not None for before, _ in change.values()):
        return False
    if part.name in _EXITS:
        given = {str(inner) for key in part.keys if isinstance(held := params[key], Mapping) for inner in held}
        return all(
            any(f"{key}{mark}" in name for key in part.keys for mark in ".[") and _last(name) in given
            for name in change
        )
    return all(_last(name) in part.keys and _same(after, params[_last(name)]) for name, (_, after) in change.items())


def _same(said: str | None, given: object) -> bool:
    if said is None:
        return False
    number = number_of(said)
    return said == _text(given) or (number is not None and number == number_of(_text(given)))


def _overwritten(part: Part, change: Change) -> str:
    """A parameter of the exchange's own may add to the request, but not turn it into another order."""
    for name, (before, _) in change.items():
        field = fold(_last(name))
        own = _last(name) in part.keys and field not in words.MAY_OVERWRITE
        if before is not None and name != "path" and (own or field in _WHOSE):
            return f"would overwrite {_last(name)}"
    return ""


def _said_anyway(part: Part, build: Build, *, call: Call, here: Fields, noise: set[str], now: int) -> bool:
    """Tell whether the request says a part that makes no difference, as it is the default or follows from another."""
    match part.name:
        case "reduce_only":
            return says_reduce_only(here)
        case "margin_mode":
            modes = {key: _OTHER_MODE.get(str(call.params[key]).lower()) for key in part.keys}
            other = build(replace(call, params=call.params | modes), now)
            return other is not None and bool(_differing(other, here, but=noise))
        case "time_in_force":
            return all(str(call.params[key]).upper() == "GTC" for key in part.keys)
        case _ if part.name.startswith("params."):
            return all(
                any(_last(name) == key and value == _text(call.params[key]) for name, value in here.items())
                for key in part.keys
            )
        case _:
            return False


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""The faults by name: what each does to booking, answer and delivery, and which rule applies next.

Pure data and counting. Must not know a venue, a socket or a clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

Kind = Literal["new", "replace", "cancel", "lookup", "probe", "other"]
On = Literal["order", "new", "replace", "cancel", "lookup", "probe"]
Answer = Literal[
    "own",
    "error",
    "gateway",
    "proxy",
    "garbage",
    "empty",
    "no_id",
    "wrong_id",
    "refusal",
    "redirect",
    "different",
]
Delivery = Literal["whole", "drip", "reset", "none"]

LONGEST = 1e6
ORDER_KINDS: frozenset[Kind] = frozenset(("new", "replace", "cancel"))
ANY: frozenset[On] = frozenset(get_args(On))
ORDERS: frozenset[On] = frozenset(("order", "new", "replace", "cancel"))


class FaultError(ValueError):
    """A fault that does not exist or cannot happen at the requested kind of request."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a fault does. The defaults describe an exchange without faults."""

    books: Literal["now", "later", "never"] = "now"
    answer: Answer = "own"
    status: int = 200
    delivery: Delivery = "whole"
    waits: bool = False  # answers only after `seconds`
    hides: bool = False  # look-ups do not show the order for `seconds`
    closed: bool = False
    skews: bool = False  # the clock is off by `seconds`
    cuts: bool = False  # the body ends early, and Content-Length matches
    seconds: float = 0.0
    on: frozenset[On] = ANY


NORMAL = Behaviour()


def _refused(status: int) -> Behaviour:
    return Behaviour(books="never", answer="error", status=status, seconds=2.0)


def _overloaded(status: int, books: Literal["now", "never"]) -> Behaviour:
    answer: Answer = "error" if status == 500 else "gateway"
    return Behaviour(books=books, answer=answer, status=status, on=ANY if books == "never" else ORDERS)


BEHAVIOURS: Mapping[str, Behaviour] = {
    "accept_then_drop": Behaviour(delivery="none"),
    "drop_before_accept": Behaviour(books="never", delivery="none"),
    "delay": Behaviour(waits=True, seconds=30.0),
    **{f"http_{status}": _refused(status) for status in (400, 401, 403, 404, 408, 409, 410, 422, 429)},
    **{f"http_{status}": _overloaded(status, "never") for status in (500, 503, 504)},
    "html_403": Behaviour(books="never", answer="proxy", status=403),
    **{f"booked_{status}": _overloaded(status, "now") for status in (500, 503, 504)},
    "garbage_200": Behaviour(answer="garbage"),
    "empty_200": Behaviour(answer="empty"),
    "no_id_200": Behaviour(answer="no_id"),
    "wrong_id_200": Behaviour(answer="wrong_id"),
    "slow_headers": Behaviour(delivery="drip", seconds=30.0),
    "reset_mid_body": Behaviour(delivery="reset"),
    "truncated_json": Behaviour(cuts=True),
    "late_visibility": Behaviour(hides=True, seconds=60.0, on=ORDERS),
    "late_booking": Behaviour(books="later", delivery="none", seconds=5.0, on=ORDERS),
    "redirect_307": Behaviour(books="never", answer="redirect", status=307),
    "reject": Behaviour(books="never", answer="refusal", on=ORDERS),
    "closed": Behaviour(closed=True, on=frozenset(("probe",))),
    "wrong_date": Behaviour(skews=True, seconds=3600.0),
    "lookup_different": Behaviour(answer="different", on=frozenset(("lookup",))),
}

DEMO_SYMBOLS: Mapping[str, str] = {
    "REJECT": "reject",
    "TIMEOUT": "delay",
    "DROP": "accept_then_drop",
    "LOST": "drop_before_accept",
    "BUSY": "http_429",
    "DENIED": "http_403",
    "PROXY": "html_403",
    "DOWN": "http_503",
    "ERROR": "booked_500",
    "GATEWAY": "booked_504",
    "GARBAGE": "garbage_200",
    "EMPTY": "empty_200",
    "NOID": "no_id_200",
    "WRONGID": "wrong_id_200",
    "SLOW": "slow_headers",
    "RESET": "reset_mid_body",
    "CUT": "truncated_json",
    "HIDDEN": "late_visibility",
    "LATE": "late_booking",
    "REDIRECT": "redirect_307",
}
"""Symbols that always misbehave when a new order names them: `REJECT`, `KX-REJECT` and `REJECTUSDT` alike."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule: the next `times` requests of this kind for this symbol (`*`: any) get this behaviour."""

    symbol: str
    name: str
    on: On = "order"
    times: int | None = None  # None: until removed
    seconds: float | None = None  # None: the fault's default

    def __post_init__(self) -> None:
        behaviour = BEHAVIOURS.get(self.name)
        if behaviour is None:
            raise FaultError(f"no fault {self.name!r}; there are: {', '.join(BEHAVIOURS)}")
        if self.on not in behaviour.on:
            raise FaultError(f"{self.name} cannot happen on {self.on!r}; only on: {', '.join(sorted(behaviour.on))}")
        if self.times is not None and self.times < 1:
            raise FaultError("times must be 1 or more, or null for ever")
        if self.seconds is not None and not abs(self.seconds) <= LONGEST:
            raise FaultError(f"seconds must be a number, at most {LONGEST:.0f}")

    @property
    def behaviour(self) -> Behaviour:
        return BEHAVIOURS[self.name]

    @property
    def lasting(self) -> float:
        return self.behaviour.seconds if self.seconds is None else self.seconds

    def strikes(self, kind: Kind, symbol: str | None) -> bool:
        if self.on != kind and not (self.on == "order" and kind in ORDER_KINDS):
            return False
        return self.symbol == "*" or (symbol is not None and bare(self.symbol) == bare(symbol))


def parse_fault(item: object) -> Fault:
    """Read a rule from `{"symbol", "on", "fault", "times", "seconds"}`. Raises FaultError."""
    if not isinstance(item, dict):
        raise FaultError("a fault is a JSON object")
    unknown = set(item) - {"symbol", "on", "fault", "times", "seconds"}
    if unknown:
        raise FaultError(f"unknown keys: {', '.join(sorted(map(str, unknown)))}")
    times, seconds = item.get("times"), item.get("seconds")
    if times is not None and (not isinstance(times, int) or isinstance(times, bool)):
        raise FaultError("times must be a whole number or null")
    try:
        lasting = None if seconds is None else float(seconds)
    except (TypeError, ValueError) as error:
        raise FaultError("seconds must be a number") from error
    return Fault(
        str(item.get("symbol", "*")),
        str(item.get("fault")),
        on=cast(On, str(item.get("on", "order"))),  # Fault refuses any other word
        times=times,
        seconds=lasting,
    )


class FaultTable:
    """The rules in the order they were added; the first that fits applies, until its times are used up."""

    def __init__(self) -> None:
        self._rules: list[tuple[Fault, int | None]] = []

    def add(self, fault: Fault) -> None:
        self._rules.append((fault, fault.times))

    def clear(self) -> None:
        self._rules.clear()

    def left(self) -> tuple[tuple[Fault, int | None], ...]:
        return tuple(self._rules)

    def take(self, kind: Kind, symbol: str | None) -> Fault | None:
        for at, (fault, left) in enumerate(self._rules):
            if fault.strikes(kind, symbol):
                if left == 1:
                    del self._rules[at]
                elif left is not None:
                    self._rules[at] = (fault, left - 1)
                return fault
        return demo_fault(symbol) if kind == "new" and symbol else None


def demo_fault(symbol: str) -> Fault | None:
    for word in re.split(r"[-/:.]", symbol.upper()):
        name = DEMO_SYMBOLS.get(word.removesuffix("USDT"))
        if name is not None:
            return Fault(symbol, name)
    return None


def bare(symbol: str) -> str:
    """Return the symbol for comparing: `BTC/USDT` and `BTCUSDT` are one market."""
    return symbol.replace("/", "").upper()

"""Records of the index: an entry as it is filed, and the answers the index gives. Standard library only, no I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from dlq_sink.values import parse_time, utc_time

from backends.layouts.roles import TableMemory, place_of, roles
from backends.records import OPEN_STATES, Entry, RowKey, State, readable

MINUTE = 60_000_000  # in microseconds
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LAST_STEP = 5  # retries are counted as 0, 1, 2, 3, 4, and 5 or more
_MOST_RETRIES = 10**9  # larger counts are cut to this, so that sums fit a database's integer
# Precise enough that sums are exact in any order; an amount beyond _LARGEST digits counts as none.
MONEY = Context(prec=120)
_LARGEST = 40

Dimension = Literal["venue", "account", "market"]
DIMENSIONS: tuple[Dimension, ...] = ("venue", "account", "market")


class Label(NamedTuple):
    """The group an error belongs to, the group's readable name, and the kind of failure.

    `may_arrive`: the error does not prove that the order never reached the venue. `worth`: what the entry's order is
    worth; None: it has no value, or nobody can tell.
    """

    fingerprint: str
    title: str
    category: str
    may_arrive: bool = False
    worth: Decimal | None = None

    @property
    def kind(self) -> str:
        """The category as the index files it: with what its error leaves open."""
        return f"{self.category}{_OPEN_END}" if self.may_arrive else self.category


_OPEN_END = "?"


def read_kind(kind: str) -> tuple[str, bool]:
    """(category, whether the order may have reached the venue)"""
    return kind.removesuffix(_OPEN_END), kind.endswith(_OPEN_END)


Labeller = Callable[[Entry], Label]


class IndexedEntry(NamedTuple):
    """An entry as the index counts it. `captured` is microseconds since the epoch, or None if it is no time."""

    id: str
    state: State
    label: Label
    venue: str
    account: str
    market: str
    retries: int
    captured: int | None
    notional: Decimal | None
    purse: str = ""

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


class _Places(NamedTuple):
    """Where the columns stand that are counted by; -1 where a table has none."""

    origins: tuple[int, ...]  # the one that is shown first
    account: int
    market: int
    retries: int
    moment: int
    read_time: Callable[[object], datetime | None]


def _places(layout: str, names: tuple[str, ...]) -> _Places:
    role = roles(layout, names)
    origins = dict.fromkeys((role.venue, *role.origins))
    return _Places(
        origins=tuple(place_of(names, name) for name in origins if name),
        account=place_of(names, role.account),
        market=place_of(names, role.market),
        retries=place_of(names, role.retries),
        moment=place_of(names, role.moment),
        read_time=parse_time if layout == "orders" else utc_time,  # others may keep times without a zone
    )


_PLACES = TableMemory(_places)


def file_entry(entry: Entry, label: Label) -> IndexedEntry:
    places, values = _PLACES.of(entry.layout, entry.names), entry.values
    venue, market = _venue(values, places), _text(values, places.market)
    return IndexedEntry(
        entry.id,
        entry.state,
        label,
        venue,
        _text(values, places.account),
        market,
        _retries(values, places),
        _captured(values, places),
        _countable(label.worth),
        purse_of(venue, market),
    )


def _text(values: tuple[object, ...], place: int) -> str:
    held = values[place] if place >= 0 else None
    if type(held) is str and held.isascii():
        return held
    return "" if held is None else readable(held)


@lru_cache(maxsize=4096)
def purse_of(venue: str, market: str) -> str:
    """Amounts of one purse are of one currency: `/USD alpaca`. The shortest market that names it, then the venue."""
    parts = market.split(":")
    if len(parts) == 4:
        short = f":::{parts[3]}"
    else:
        short = f"/{market.partition('/')[2].partition(':')[0]}" if "/" in market else ""
    return f"{short} {venue}"


def read_purse(purse: str) -> tuple[str, str]:
    """(venue, market)"""
    market, _, venue = purse.partition(" ")
    return venue, market


def merged(*purses: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """The sums of each purse; those that came to nothing are left out."""
    total: dict[str, Decimal] = {}
    for one in purses:
        for purse, amount in one.items():
            total[purse] = MONEY.add(total.get(purse, Decimal(0)), amount)
    return {purse: amount for purse, amount in total.items() if amount}


def venue_of(entry: Entry) -> str:
    """The venue, queue or provider."""
    return _venue(entry.values, _PLACES.of(entry.layout, entry.names))


def _venue(values: tuple[object, ...], places: _Places) -> str:
    for place in places.origins:
        if found := _text(values, place):
            return found
    return ""


def retries_of(entry: Entry) -> int:
    return _retries(entry.values, _PLACES.of(entry.layout, entry.names))


def _retries(values: tuple[object, ...], places: _Places) -> int:
    counted = values[places.retries] if places.retries >= 0 else None
    return min(max(counted, 0), _MOST_RETRIES) if isinstance(counted, int) else 0


def moment(captured: int | None) -> datetime | None:
    return None if captured is None else EPOCH + timedelta(microseconds=captured)


def micros(at: datetime) -> int:
    return (at - EPOCH) // _MICROSECOND


def captured_of(entry: Entry) -> int | None:
    return _captured(entry.values, _PLACES.of(entry.layout, entry.names))


def _captured(values: tuple[object, ...], places: _Places) -> int | None:
    at = places.read_time(values[places.moment]) if places.moment >= 0 else None
    return None if at is None else micros(at)


def _countable(amount: Decimal | None) -> Decimal | None:
    """The amount, if sums of such amounts are exact."""
    if amount is None or (amount and not -_LARGEST < amount.adjusted() < _LARGEST):
        return None
    return amount


@dataclass(frozen=True, slots=True)
class SummaryLine:
    """One row of the summary: a group's entries of one category and state."""

    fingerprint: str
    title: str
    category: str
    state: State
    count: int
    retries: int
    notional: Mapping[str, Decimal]  # by purse
    unpriced: int
    first: int | None
    last: int | None
    may_arrive: bool = False


@dataclass(frozen=True, slots=True)
class VenueLine:
    """The entries of one venue, category, state and number of retries. `captured` is the sum of the times of `timed`
    of them, in microseconds; the others have none."""

    venue: str
    category: str
    state: State
    step: int
    count: int
    retries: int
    timed: int
    captured: int

    @classmethod
    def of(cls, mark: IndexedEntry) -> VenueLine:
        step, timed = min(mark.retries, LAST_STEP), int(mark.captured is not None)
        return cls(mark.venue, mark.label.category, mark.state, step, 1, mark.retries, timed, mark.captured or 0)


@dataclass(frozen=True, slots=True)
class VenueAge:
    """When the oldest open entry of a venue came, and how many open ones came after the moment asked for."""

    venue: str
    oldest: int | None
    later: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How many entries there were at a moment."""

    at: datetime
    open: int
    in_doubt: int
    total: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the build is. `expected` is how many entries the store held when it began."""

    filed: int
    searchable: int
    expected: int
    built: bool
    texts_built: bool
    states: Mapping[State, int]
    high: str | None  # the newest row key filed, as `spell` writes it
    audit_seq: int
    next_high: int
    text_low: int

    @property
    def complete(self) -> bool:
        return self.built and self.texts_built

    @property
    def share(self) -> float:
        """The share done of both passes, 0 to 1."""
        if self.complete:
            return 1.0
        whole = max(self.expected, self.filed, 1)
        return min(0.99, (min(self.filed, whole) + min(self.searchable, whole)) / (2 * whole))


@dataclass(frozen=True, slots=True)
class IndexQuestion:
    """A search: which entries, below which number, how many, and a deadline on the monotonic clock."""

    expression: str
    below: int
    limit: int
    deadline: float
    states: frozenset[State] = OPEN_STATES


@dataclass(frozen=True, slots=True)
class Candidates:
    """Entries that may match, as (number, id), newest first; the search covered every number from `reached` up."""

    rows: tuple[tuple[int, str], ...]
    reached: int
    bottom: bool  # nothing below is searchable


@dataclass(frozen=True, slots=True)
class Cross:
    """How many entries of a group share a venue, an account and a market."""

    venue: str
    account: str
    market: str
    count: int


def summed_amount(worth: Mapping[str, Decimal]) -> Decimal:
    total = Decimal(0)
    for amount in worth.values():
        total = MONEY.add(total, amount)
    return total


def write_worth(worth: Mapping[str, Decimal]) -> str:
    return json.dumps({purse: str(amount) for purse, amount in worth.items()})


def read_worth(text: str) -> dict[str, Decimal]:
    return {purse: Decimal(amount) for purse, amount in json.loads(text).items()}


def spell(place: RowKey | None) -> str:
    return json.dumps(None if place is None else [_tagged(value) for value in place])


def unspell(text: str | None) -> RowKey | None:
    parts = json.loads(text) if text else None
    return None if parts is None else tuple(_value(kind, value) for kind, value in parts)


def _tagged(value: object) -> tuple[str, object]:
    match value:
        case None:
            return ("none", None)
        case bool() | int() | str():
            return ("plain", value)
        case float():
            return ("float", value.hex())
        case datetime():
            return ("time", value.isoformat())
        case bytes():
            return ("bytes", value.hex())
        case Decimal():
            return ("decimal", str(value))
        case _:
            return ("plain", readable(value))


def _value(kind: str, value: object) -> object:
    match kind, value:
        case "float", str(text):
            return float.fromhex(text)
        case "time", str(text):
            return datetime.fromisoformat(text)
        case "bytes", str(text):
            return bytes.fromhex(text)
        case "decimal", str(text):
            return Decimal(text)
        case _:
            return value

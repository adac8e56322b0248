"""What a batch changes in the index's sums: by group, venue, hour and minute. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import repeat
from typing import NamedTuple, TypeVar

from backends.index.rows import LAST_STEP, MINUTE, MONEY, IndexedEntry
from backends.index.schema import KINDS

HOUR = 3_600_000_000
Key = tuple[int, int, int]  # shape, category, state
PartKey = tuple[int, int, int, int]  # shape, kind, name, open
VenueKey = tuple[int, int, int, int]  # venue, category, state, step of retries


class Filed(NamedTuple):
    """A row of the index's entry table, with names as numbers."""

    n: int
    id: str
    shape: int
    category: int
    venue: int
    account: int
    market: int
    state: int
    retries: int
    captured: int | None
    notional: str | None


_NOTHING = Decimal(0)


@dataclass(slots=True)
class Sum:
    count: int = 0
    retries: int = 0
    notional: dict[str, Decimal] = field(default_factory=dict)  # by purse
    unpriced: int = 0
    first: int | None = None
    last: int | None = None
    lost: bool = False  # an entry left, so first and last must be looked up again

    def add_worth(self, amount: Decimal, purse: str) -> None:
        self.notional[purse] = MONEY.add(self.notional.get(purse, _NOTHING), amount)

    def seen(self, times: Sequence[int]) -> None:
        if times:
            self.first = min(times) if self.first is None else min(self.first, *times)
            self.last = max(times) if self.last is None else max(self.last, *times)


@dataclass(slots=True)
class VenueSum:
    count: int = 0
    retries: int = 0
    timed: int = 0
    captured: int = 0

    def add(self, rows: Sequence[Filed], sign: int) -> None:
        times = [row.captured for row in rows if row.captured is not None]
        self.count += sign * len(rows)
        self.retries += sign * sum([row.retries for row in rows])
        self.timed += sign * len(times)
        self.captured += sign * sum(times)


@dataclass(slots=True)
class Delta:
    open_states: frozenset[int]
    sums: dict[Key, Sum] = field(default_factory=lambda: defaultdict(Sum))
    parts: Counter[PartKey] = field(default_factory=Counter)
    venues: dict[VenueKey, VenueSum] = field(default_factory=lambda: defaultdict(VenueSum))
    hours: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    minutes: Counter[int] = field(default_factory=Counter)
    states: Counter[int] = field(default_factory=Counter)

    def arrived(self, rows: Sequence[Filed], marks: Sequence[IndexedEntry]) -> None:
        """Rows with what they were made of. Counts columns, not rows: a build files a million of them."""
        alike: dict[Key, list[tuple[Filed, IndexedEntry]]] = defaultdict(list)
        for pair in zip(rows, marks, strict=True):
            row = pair[0]
            alike[row.shape, row.category, row.state].append(pair)
        for key, pairs in alike.items():
            total = self.sums[key]
            total.count += len(pairs)
            total.retries += sum([row.retries for row, _ in pairs])
            total.seen([row.captured for row, _ in pairs if row.captured is not None])
            for _, mark in pairs:
                if mark.notional is None:
                    total.unpriced += 1
                else:
                    total.add_worth(mark.notional, mark.purse)
        self._count(rows, 1)
        self._arrivals(rows, 1)

    def gone(self, rows: Sequence[Filed]) -> None:
        for row in rows:
            self._sum(row, -1)
        self._count(rows, -1)
        self._arrivals(rows, -1)

    def moved(self, before: Sequence[Filed], after: Sequence[Filed]) -> None:
        for rows, sign in ((before, -1), (after, 1)):
            for row in rows:
                self._sum(row, sign)
            self._count(rows, sign)

    def _sum(self, row: Filed, sign: int) -> None:
        total = self.sums[row.shape, row.category, row.state]
        total.count += sign
        total.retries += sign * row.retries
        if row.notional is None:
            total.unpriced += sign
        else:
            amount, _, purse = row.notional.partition(" ")
            total.add_worth(Decimal(amount) if sign > 0 else -Decimal(amount), purse)
        if sign < 0:
            total.lost = True
        elif row.captured is not None:
            total.seen((row.captured,))

    def _arrivals(self, rows: Sequence[Filed], sign: int) -> None:
        timed = [(row.captured, row.shape, row.category) for row in rows if row.captured is not None]
        _take(self.hours, [(at // HOUR, shape, category) for at, shape, category in timed], sign)
        _take(self.minutes, [at // MINUTE for at, _, _ in timed], sign)

    def _count(self, rows: Sequence[Filed], sign: int) -> None:
        if not rows:
            return
        by_venue: dict[VenueKey, list[Filed]] = defaultdict(list)
        for row in rows:
            by_venue[row.venue, row.category, row.state, min(row.retries, LAST_STEP)].append(row)
        for key, alike in by_venue.items():
            self.venues[key].add(alike, sign)
        _, _, shapes, _, venues, accounts, markets, states, *_ = zip(*rows, strict=True)
        _take(self.states, states, sign)
        are_open = [int(state in self.open_states) for state in states]
        for kind, names in (("venue", venues), ("account", accounts), ("market", markets)):
            _take(self.parts, zip(shapes, repeat(KINDS[kind]), names, are_open, strict=False), sign)


T = TypeVar("T")


def _take(counts: Counter[T], keys: Iterable[T], sign: int) -> None:
    if sign > 0:
        counts.update(keys)
    else:
        counts.subtract(keys)

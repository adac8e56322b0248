"""What a batch of marks adds to the summaries and takes from them. Pure: counts up, writes nothing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal

from backends.index.rows import MONEY
from backends.index.schema import KINDS

HOUR = 3_600_000_000
MINUTE = 60_000_000
Key = tuple[int, int, int]  # shape, category, state
PartKey = tuple[int, int, int, int]  # shape, kind, name, open


@dataclass(frozen=True, slots=True)
class Filed:
    """A row of the index's entry table, names as numbers."""

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


@dataclass(slots=True)
class Sum:
    count: int = 0
    retries: int = 0
    notional: Decimal = Decimal(0)
    unpriced: int = 0
    first: int | None = None
    last: int | None = None
    lost: bool = False  # something left: the ends must be looked up again


@dataclass(slots=True)
class Delta:
    open_states: frozenset[int]
    sums: dict[Key, Sum] = field(default_factory=lambda: defaultdict(Sum))
    parts: dict[PartKey, int] = field(default_factory=lambda: defaultdict(int))
    hours: dict[tuple[int, int, int], int] = field(default_factory=lambda: defaultdict(int))
    minutes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    states: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def arrived(self, row: Filed) -> None:
        self._count(row, 1)
        self._arrival(row, 1)

    def gone(self, row: Filed) -> None:
        self._count(row, -1)
        self._arrival(row, -1)

    def moved(self, before: Filed, after: Filed) -> None:
        self._count(before, -1)
        self._count(after, 1)

    def _arrival(self, row: Filed, sign: int) -> None:
        if row.captured is not None:
            self.hours[row.captured // HOUR, row.shape, row.category] += sign
            self.minutes[row.captured // MINUTE] += sign

    def _count(self, row: Filed, sign: int) -> None:
        self.states[row.state] += sign
        total = self.sums[row.shape, row.category, row.state]
        total.count += sign
        total.retries += sign * row.retries
        if row.notional is None:
            total.unpriced += sign
        else:
            amount = Decimal(row.notional)
            total.notional = MONEY.add(total.notional, amount if sign > 0 else -amount)
        if sign < 0:
            total.lost = True
        elif row.captured is not None:
            total.first = row.captured if total.first is None else min(total.first, row.captured)
            total.last = row.captured if total.last is None else max(total.last, row.captured)
        is_open = int(row.state in self.open_states)
        self.parts[row.shape, KINDS["venue"], row.venue, is_open] += sign
        self.parts[row.shape, KINDS["account"], row.account, is_open] += sign
        self.parts[row.shape, KINDS["market"], row.market, is_open] += sign

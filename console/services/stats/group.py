"""Like failures together: counting marks into groups, and making them of the index's summary. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from backends.index import IndexedEntry, SummaryLine
from backends.index.rows import MONEY, micros, moment
from backends.index.summary import HOUR
from backends.records import OPEN_STATES, STATES, State

TREND_HOURS = 24
Parts = Mapping[str, Mapping[str, Mapping[str, int]]]  # fingerprint → dimension → name → entries


@dataclass(frozen=True, slots=True)
class Group:
    """Entries whose errors say the same. `trend` counts every arrival, hour by hour, also of what is settled by now."""

    fingerprint: str
    title: str
    category: str
    count: int
    states: Mapping[State, int]
    first_seen: datetime | None
    last_seen: datetime | None
    retries: int
    notional: Decimal
    unpriced: int  # entries without a price: not in the notional
    venues: Mapping[str, int]
    accounts: Mapping[str, int]
    markets: Mapping[str, int]
    trend: tuple[int, ...] = ()
    new: int | None = None  # since it was looked at; None where it never was


@dataclass(slots=True)
class Counting:
    """One group in the making."""

    title: str
    states: Counter[State] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    venues: Counter[str] = field(default_factory=Counter)
    accounts: Counter[str] = field(default_factory=Counter)
    markets: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    notional: Decimal = Decimal(0)
    unpriced: int = 0
    first: int | None = None
    last: int | None = None

    def add(self, mark: IndexedEntry) -> None:
        self.states[mark.state] += 1
        self.categories[mark.label.category] += 1
        self.venues[mark.venue] += 1
        self.accounts[mark.account] += 1
        self.markets[mark.market] += 1
        self.retries += mark.retries
        if mark.notional is None:
            self.unpriced += 1
        else:
            self.notional = MONEY.add(self.notional, mark.notional)
        self.seen(mark.captured, mark.captured)

    def add_line(self, line: SummaryLine) -> None:
        self.states[line.state] += line.count
        self.categories[line.category] += line.count
        self.retries += line.retries
        self.notional = MONEY.add(self.notional, line.notional)
        self.unpriced += line.unpriced
        self.seen(line.first, line.last)

    def seen(self, first: int | None, last: int | None) -> None:
        if first is not None:
            self.first = first if self.first is None else min(self.first, first)
        if last is not None:
            self.last = last if self.last is None else max(self.last, last)

    def group(self, fingerprint: str, *, trend: tuple[int, ...] = (), new: int | None = None) -> Group:
        return Group(
            fingerprint=fingerprint,
            title=self.title,
            category=min(self.categories, key=lambda name: (-self.categories[name], name)),
            count=sum(self.states.values()),
            states={state: self.states[state] for state in STATES if self.states[state]},
            first_seen=moment(self.first),
            last_seen=moment(self.last),
            retries=self.retries,
            notional=self.notional,
            unpriced=self.unpriced,
            venues=largest_first(self.venues),
            accounts=largest_first(self.accounts),
            markets=largest_first(self.markets),
            trend=trend,
            new=new,
        )


def largest_first(counts: Mapping[str, int]) -> dict[str, int]:
    """The nameless (a null account) is left out."""
    return dict(sorted(((name, n) for name, n in counts.items() if name), key=lambda pair: (-pair[1], pair[0])))


class Grouping:
    """Marks one by one."""

    def __init__(self) -> None:
        self._groups: dict[str, Counting] = {}
        self._hours: dict[str, Counter[int]] = {}
        self.count = 0

    def add(self, mark: IndexedEntry) -> None:
        label = mark.label
        if label.fingerprint not in self._groups:
            self._groups[label.fingerprint] = Counting(label.title)
        self._groups[label.fingerprint].add(mark)
        self.count += 1

    def arrival(self, mark: IndexedEntry) -> None:
        """For the trend: also of entries that are not counted."""
        if mark.captured is not None:
            self._hours.setdefault(mark.label.fingerprint, Counter())[mark.captured // HOUR] += 1

    def groups(self, now: datetime | None = None) -> tuple[Group, ...]:
        return ordered(
            counting.group(fingerprint, trend=trend(self._hours.get(fingerprint, {}), now) if now else ())
            for fingerprint, counting in self._groups.items()
        )


def from_lines(
    lines: Iterable[SummaryLine],
    parts: Parts,
    *,
    everything: bool,
    trends: Mapping[str, tuple[int, ...]],
    new: Mapping[str, int],
) -> tuple[Group, ...]:
    found: dict[str, Counting] = {}
    for line in lines:
        if everything or line.state in OPEN_STATES:
            found.setdefault(line.fingerprint, Counting(line.title)).add_line(line)
    for fingerprint, counting in found.items():
        split = parts.get(fingerprint, {})
        counting.venues = Counter(split.get("venue", {}))
        counting.accounts = Counter(split.get("account", {}))
        counting.markets = Counter(split.get("market", {}))
    return ordered(
        counting.group(one, trend=trends.get(one, (0,) * TREND_HOURS), new=new.get(one))
        for one, counting in found.items()
    )


def trend(hours: Mapping[int, int], now: datetime) -> tuple[int, ...]:
    last = micros(now) // HOUR
    return tuple(hours.get(hour, 0) for hour in range(last - TREND_HOURS + 1, last + 1))


def ordered(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Largest first, then the one seen last."""

    def key(group: Group) -> tuple[int, float, str]:
        last = group.last_seen.timestamp() if group.last_seen else float("-inf")
        return (-group.count, -last, group.fingerprint)

    return tuple(sorted(groups, key=key))

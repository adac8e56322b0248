"""Groups of like failures: their figures, from the index or counted from entries; their members; their notes.

Each answer says how much of the store it covers. Knows neither SQL nor screens.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple

from backends.index import Cross, IndexedEntry, IndexUnavailable, Reader, SummaryLine, file_entry
from backends.index.delta import HOUR
from backends.index.reader import NoIndex
from backends.index.rows import DIMENSIONS, MONEY, Dimension, merged, micros, moment, summed_amount
from backends.records import OPEN_STATES, STATES, Entry, Filter, Note, RowKey, State
from console.clock import Clock
from console.services.browse.engine_intent import intents_of
from console.services.browse.filter_match import fits
from console.services.index.keeper import label, labelled
from console.services.stats.group_sort import sorted_groups
from console.services.stats.group_trend import (
    BUCKET,
    DAY,
    LONGEST,
    MOST,
    STEPS,
    WINDOWS,
    TrendWindow,
    begins,
    fitting,
    steps,
)
from console.services.triage.poison import poisoned
from console.services.triage.triage import GROUP_SUBJECT, Query, Triage, classified, group_subject, matches, uncut

Parts = Mapping[str, Mapping[str, Mapping[str, int]]]  # fingerprint → dimension → name → entries


@dataclass(frozen=True, slots=True)
class Group:
    """Entries with one fingerprint. `trend` counts all arrivals by step, including entries no longer open."""

    fingerprint: str
    title: str
    category: str
    count: int
    states: Mapping[State, int]
    first_seen: datetime | None
    last_seen: datetime | None
    retries: int
    worth: Mapping[str, Decimal]  # by purse: amounts of two currencies are never added
    unpriced: int  # entries without a price, which the notional leaves out
    venues: Mapping[str, int]
    accounts: Mapping[str, int]
    markets: Mapping[str, int]
    trend: tuple[int, ...] = ()
    new: int | None = None  # arrivals since somebody looked; None if nobody has
    poisoned: int = 0  # open members that failed too often in one way; 0 also where the ledger cannot be read
    may_have_arrived: int = 0  # pending members whose error does not prove that the venue never got them
    notes: int = 0  # on the group itself

    @property
    def notional(self) -> Decimal:
        """The bare figures added up, whatever they are of: for programs, which get no currency."""
        return summed_amount(self.worth)


@dataclass(slots=True)
class Counting:
    """The running sums of one group."""

    title: str
    states: Counter[State] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    venues: Counter[str] = field(default_factory=Counter)
    accounts: Counter[str] = field(default_factory=Counter)
    markets: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    worth: dict[str, Decimal] = field(default_factory=dict)
    unpriced: int = 0
    first: int | None = None
    last: int | None = None
    poisoned: int = 0
    may_have_arrived: int = 0

    def add(self, mark: IndexedEntry) -> None:
        self.states[mark.state] += 1
        self.may_have_arrived += mark.state == "pending" and mark.label.may_arrive
        self.categories[mark.label.category] += 1
        self.venues[mark.venue] += 1
        self.accounts[mark.account] += 1
        self.markets[mark.market] += 1
        self.retries += mark.retries
        if mark.notional is None:
            self.unpriced += 1
        else:
            self.worth[mark.purse] = MONEY.add(self.worth.get(mark.purse, Decimal(0)), mark.notional)
        self.seen(mark.captured, mark.captured)

    def add_line(self, line: SummaryLine) -> None:
        self.states[line.state] += line.count
        self.may_have_arrived += line.count * (line.state == "pending" and line.may_arrive)
        self.categories[line.category] += line.count
        self.retries += line.retries
        self.worth = merged(self.worth, line.notional)
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
            worth={purse: amount for purse, amount in self.worth.items() if amount},
            unpriced=self.unpriced,
            venues=largest_first(self.venues),
            accounts=largest_first(self.accounts),
            markets=largest_first(self.markets),
            trend=trend,
            new=new,
            poisoned=self.poisoned,
            may_have_arrived=self.may_have_arrived,
        )


def largest_first(counts: Mapping[str, int]) -> dict[str, int]:
    """Sorted by count. Leaves out the empty name (a null account)."""
    return dict(sorted(((name, n) for name, n in counts.items() if name), key=lambda pair: (-pair[1], pair[0])))


class GroupTrends(NamedTuple):
    """The arrivals of each group, by fingerprint, in the steps of one window."""

    window: TrendWindow
    steps: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(
        cls, arrivals: Mapping[str, Mapping[int, int]], size: int, window: TrendWindow, now: datetime
    ) -> GroupTrends:
        return cls(window, {name: steps(counts, size, window, now) for name, counts in arrivals.items()})


class Grouping:
    """Collects entries into groups, one by one. `poisoned` has the ids of those that are."""

    def __init__(self, poisoned: Collection[str] = ()) -> None:
        self._poisoned = poisoned
        self._groups: dict[str, Counting] = {}
        self._arrivals: dict[str, Counter[int]] = {}
        self.count = 0

    def add(self, mark: IndexedEntry) -> None:
        label = mark.label
        if label.fingerprint not in self._groups:
            self._groups[label.fingerprint] = Counting(label.title)
        counting = self._groups[label.fingerprint]
        counting.add(mark)
        counting.poisoned += mark.id in self._poisoned
        self.count += 1

    def arrival(self, mark: IndexedEntry) -> None:
        """Counts an entry for the trend only."""
        if mark.captured is not None:
            self._arrivals.setdefault(mark.label.fingerprint, Counter())[mark.captured // BUCKET] += 1

    def groups(self) -> tuple[Group, ...]:
        return sorted_groups((one.group(fingerprint) for fingerprint, one in self._groups.items()), "count")

    def trends(self, now: datetime) -> GroupTrends:
        whole = sum(self._arrivals.values(), Counter[int]())
        return GroupTrends.of(self._arrivals, BUCKET, fitting(whole, BUCKET, now), now)


def from_lines(
    lines: Iterable[SummaryLine],
    parts: Parts,
    *,
    everything: bool,
    trends: Mapping[str, tuple[int, ...]],
    new: Mapping[str, int],
    poisoned: Mapping[str, int],
    beside: Iterable[IndexedEntry] = (),
) -> tuple[Group, ...]:
    """`poisoned`: by fingerprint; `beside`: what the index does not hold."""
    found: dict[str, Counting] = {}
    for line in lines:
        if everything or line.state in OPEN_STATES:
            found.setdefault(line.fingerprint, Counting(line.title)).add_line(line)
    for fingerprint, counting in found.items():
        split = parts.get(fingerprint, {})
        counting.venues = Counter(split.get("venue", {}))
        counting.accounts = Counter(split.get("account", {}))
        counting.markets = Counter(split.get("market", {}))
        counting.poisoned = poisoned.get(fingerprint, 0)
    for mark in beside:
        found.setdefault(mark.label.fingerprint, Counting(mark.label.title)).add(mark)
    made = (
        counting.group(one, trend=trends.get(one, (0,) * STEPS), new=new.get(one)) for one, counting in found.items()
    )
    return sorted_groups(made, "count")


_PAGE = 100  # classifying more at once would delay key presses
_MANY = 100
_MOST = 200_000  # most entries that one answer counts or selects
_LATEST = 50_000  # newest entries whose minutes are read from the index
_TELL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class GroupView:
    """`covered` of `total` entries are counted; `complete` if that is all of them."""

    groups: tuple[Group, ...]
    covered: int
    total: int
    complete: bool
    source: Literal["index", "store"]
    window: TrendWindow = DAY  # of the groups' trends

    @property
    def count(self) -> int:
        return sum(group.count for group in self.groups)


@dataclass(frozen=True, slots=True)
class Members:
    """The entries of a group, each read from the store and checked."""

    entries: tuple[Entry, ...]
    complete: bool


class Groups:
    def __init__(self, triage: Triage, reader: Reader | None, clock: Clock) -> None:
        self._triage = triage
        self._store = triage.store
        self._worth = triage.worth
        self._reader = reader
        self._clock = clock

    async def view(self, *, everything: bool = False, whole: bool = False, budget: float = 0.1) -> GroupView:
        """From the index as far as it is built; without one, from the newest entries read in `budget` seconds.
        Includes accounts and markets only with `whole`; `split` gives those of one group."""
        view = await self._from_index(everything=everything, dimensions=DIMENSIONS if whole else ("venue",))
        return view or await self._newest(budget, everything=everything)

    async def counted(self, query: Query) -> GroupView:
        """Exact figures, counted from every matching entry. Takes as long as reading them."""
        grouping = Grouping(await self._poisoned())
        async for row in self._triage.stream(query, whole=True):
            grouping.add(file_entry(row.entry, labelled(row, self._worth)))
        return GroupView(grouping.groups(), grouping.count, grouping.count, True, "store")

    async def growing(self, query: Query) -> AsyncIterator[GroupView]:
        """As `counted`, newest first, with partial results on the way. Never blocks the event loop for long."""
        grouping, query = Grouping(await self._poisoned()), await self._triage.resolved(query)
        row_key: RowKey | None = None
        told, more = time.monotonic(), True
        while more and grouping.count < _MOST:
            page = await self._store.page(query.where, limit=_PAGE, after=row_key, newest_first=True)
            for row in map(classified, await uncut(self._store, page.entries)):
                if matches(row, query):
                    mark = file_entry(row.entry, labelled(row, self._worth))
                    grouping.add(mark)
                    grouping.arrival(mark)
            more, row_key = page.more, page.entries[-1].row_key if page.entries else None
            if more and time.monotonic() > told + _TELL_SECONDS:
                told = time.monotonic()
                yield await self._view(grouping, grouping.count, complete=False)
            await asyncio.sleep(0)
        for mark in await self._left_open(query):
            grouping.add(mark)
            grouping.arrival(mark)
        yield await self._view(grouping, grouping.count, complete=not more)

    async def _left_open(self, query: Query) -> list[IndexedEntry]:
        """What engines that are gone left open: no page of the store has it, and no index."""
        found = map(classified, await intents_of(self._store, query.where))
        return [file_entry(row.entry, labelled(row, self._worth)) for row in found if matches(row, query)]

    async def _view(self, grouping: Grouping, total: int, *, complete: bool) -> GroupView:
        """What was counted so far, with its trends and notes."""
        trends = grouping.trends(self._clock())
        groups = tuple(replace(one, trend=trends.steps.get(one.fingerprint, ())) for one in grouping.groups())
        return GroupView(await self._noted(groups), grouping.count, total, complete, "store", trends.window)

    async def _noted(self, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        counts = await self._store.note_counts(GROUP_SUBJECT)
        if not counts:
            return groups
        return tuple(replace(one, notes=counts.get(group_subject(one.fingerprint), 0)) for one in groups)

    async def split(
        self,
        fingerprint: str,
        asked: Query | None = None,
        *,
        everything: bool = False,
        limit: int = 200,
        budget: float | None = None,
    ) -> tuple[Cross, ...]:
        """A group, or what of it matches `asked`, by venue, account and market. Without an index, which knows no
        filter, of the newest entries read in `budget` seconds."""
        states = frozenset(STATES) if everything else OPEN_STATES
        query = asked or Query(Filter(states=states))
        query = await self._triage.resolved(replace(query, group=fingerprint))
        if self._reader is not None and asked is None:
            try:
                return tuple(await self._reader.cross(fingerprint, states=states, limit=limit))
            except (NoIndex, IndexUnavailable):
                pass
        found: dict[tuple[str, str, str], int] = {}
        ends = None if budget is None else time.monotonic() + budget
        async for page in self._pages(query, newest_first=True):
            for entry in page:
                mark = file_entry(entry, label(entry))
                key = (mark.venue, mark.account, mark.market)
                found[key] = found.get(key, 0) + 1
            if ends is not None and time.monotonic() > ends:
                break
        rows = sorted(((-count, key) for key, count in found.items()))
        return tuple(Cross(*key, -count) for count, key in rows[:limit])

    async def members(
        self, fingerprint: str, asked: Query | None = None, *, tell: Callable[[int], None] = lambda _: None
    ) -> Members:
        """The group's open entries that also match `asked`, oldest first, as the selection for an act.
        Calls `tell` with the number found so far."""
        query = await self._triage.resolved(replace(asked or Query(), group=fingerprint))
        if self._reader is not None:
            try:
                progress = await self._reader.progress()
                if progress is not None and progress.built:
                    ids = await self._reader.members(fingerprint, query.where.states)
                    kept = await self._checked(ids[:_MOST], query, tell)
                    return Members(kept, len(ids) <= _MOST)
            except (NoIndex, IndexUnavailable):
                pass
        return await self._gathered(query, tell)

    async def _gathered(self, query: Query, tell: Callable[[int], None]) -> Members:
        found: list[Entry] = []
        async for page in self._pages(query, newest_first=False):
            found += page
            tell(len(found))
            if len(found) > _MOST:
                return Members(tuple(found[:_MOST]), False)
        return Members(tuple(found), True)

    async def _pages(self, query: Query, *, newest_first: bool) -> AsyncIterator[list[Entry]]:
        """Matching entries, in pages small enough that classifying one does not delay key presses."""
        row_key: RowKey | None = None
        while True:
            page = await self._store.page(query.where, limit=_PAGE, after=row_key, newest_first=newest_first)
            yield [entry for entry in await uncut(self._store, page.entries) if matches(classified(entry), query)]
            if not page.more:
                return
            row_key = page.entries[-1].row_key
            await asyncio.sleep(0)

    async def looked(self, fingerprints: tuple[str, ...]) -> None:
        """Marks these groups as seen."""
        if self._reader is None:
            return
        try:
            await self._reader.looked(fingerprints)
        except IndexUnavailable:
            return  # without an index nothing counts as new

    async def note(self, fingerprint: str, text: str) -> None:
        await self._triage.note(group_subject(fingerprint), text)

    async def notes(self, fingerprint: str) -> tuple[Note, ...]:
        return await self._store.notes(group_subject(fingerprint))

    async def _from_index(self, *, everything: bool, dimensions: tuple[Dimension, ...]) -> GroupView | None:
        if self._reader is None:
            return None
        try:
            progress = await self._reader.progress()
            if progress is None or not (progress.built or progress.filed):
                return None
            lines = await self._reader.lines()
            parts: Parts = await self._reader.parts(dimensions, everything=everything)
            trends = await self._trends(self._reader, self._clock())
            new = await self._reader.arrived()
            poisoned = Counter((await self._poisoned()).values())
        except (NoIndex, IndexUnavailable):
            return None
        beside = await self._left_open(Query(Filter(states=frozenset(STATES) if everything else OPEN_STATES)))
        groups = from_lines(
            lines, parts, everything=everything, trends=trends.steps, new=new, poisoned=poisoned, beside=beside
        )
        total = progress.filed if progress.built else max(progress.expected, progress.filed)
        noted = await self._noted(groups)
        return GroupView(noted, progress.filed, total, progress.built, "index", trends.window)

    async def _poisoned(self) -> dict[str, str]:
        """The fingerprint of each poisoned entry, by its id."""
        found = await poisoned(self._store, self._triage.limits.poison_after)
        return {one.entry.id: label(one.entry).fingerprint for one in found}

    async def _trends(self, reader: Reader, now: datetime) -> GroupTrends:
        """By the hour; by the minute where nearly everything came within two hours."""
        found: dict[str, Counter[int]] = {}
        for (fingerprint, _), hours in (await reader.hours(begins(LONGEST, now) // HOUR)).items():
            found.setdefault(fingerprint, Counter()).update(hours)
        whole, lately = sum(found.values(), Counter[int]()), micros(now) // HOUR - 2
        if sum(count for hour, count in whole.items() if hour >= lately) <= _LATEST:
            recent = await reader.lately(begins(WINDOWS[0], now), BUCKET, most=_LATEST)
            came = sum(sum(counts.values()) for counts in recent.values())
            if whole and came >= MOST * whole.total():
                return GroupTrends.of(recent, BUCKET, WINDOWS[0], now)
        return GroupTrends.of(found, HOUR, fitting(whole, HOUR, now), now)

    async def _newest(self, budget: float, *, everything: bool) -> GroupView:
        ends = time.monotonic() + budget
        states = frozenset(STATES) if everything else OPEN_STATES
        grouping = Grouping(await self._poisoned())
        row_key: RowKey | None = None
        more = True
        while more and (row_key is None or time.monotonic() < ends):
            page = await self._store.page(Filter(states=states), limit=_PAGE, after=row_key, newest_first=True)
            for entry in await uncut(self._store, page.entries):
                mark = file_entry(entry, labelled(classified(entry), self._worth))
                grouping.add(mark)
                grouping.arrival(mark)
            more = page.more
            row_key = page.entries[-1].row_key if page.entries else None
        total = grouping.count
        if more:
            counts = await self._store.counts(Filter(states=states))
            total = max(total, sum(counts.by_state.values()))
        for mark in await self._left_open(Query(Filter(states=states))):
            grouping.add(mark)
            total += 1
        return await self._view(grouping, total, complete=not more)

    async def _checked(self, ids: list[str], query: Query, tell: Callable[[int], None]) -> tuple[Entry, ...]:
        kept: list[Entry] = []
        for start in range(0, len(ids), _MANY):
            chunk = tuple(ids[start : start + _MANY])
            found = await self._store.many(chunk)
            kept += [
                entry
                for entry in (found[one] for one in chunk if one in found)
                if fits(entry, query.where) and matches(classified(entry), query)
            ]
            tell(len(kept))
        return tuple(kept)

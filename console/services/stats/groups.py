"""The groups of a store: from the index at once, or counted from its entries; their members as a frozen set; notes.

Says how much of the store an answer covers. No SQL, no screens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from backends.index import Cross, IndexUnavailable, Reader, file_entry
from backends.index.reader import NoIndex
from backends.index.rows import DIMENSIONS, Dimension, micros
from backends.index.summary import HOUR
from backends.records import OPEN_STATES, STATES, Entry, Filter, Note, RowKey
from console.clock import Clock
from console.services.browse.filter_match import fits
from console.services.index.keeper import label, labelled
from console.services.stats.group import TREND_HOURS, Group, Grouping, Parts, from_lines, trend
from console.services.triage.triage import Query, Triage, classified, matches, uncut

_PAGE = 100  # labelling more at a time would be felt at the keyboard
_MANY = 100
_MOST = 200_000  # entries counted or frozen at once
_TELL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class GroupView:
    """`covered` of `total` entries are counted here; `complete` where that is all of them."""

    groups: tuple[Group, ...]
    covered: int
    total: int
    complete: bool
    source: Literal["index", "store"]

    @property
    def count(self) -> int:
        return sum(group.count for group in self.groups)


@dataclass(frozen=True, slots=True)
class Members:
    """The frozen set behind a group: each was read and found to belong to it."""

    entries: tuple[Entry, ...]
    complete: bool


class Groups:
    def __init__(self, triage: Triage, reader: Reader | None, clock: Clock) -> None:
        self._triage = triage
        self._store = triage.store
        self._reader = reader
        self._clock = clock

    async def view(self, *, everything: bool = False, whole: bool = False, budget: float = 0.1) -> GroupView:
        """At once: from the index as far as it is built, else of the newest entries that `budget` seconds can read.
        Accounts and markets are told where `whole` is asked for; `split` has those of one group."""
        view = await self._from_index(everything=everything, dimensions=DIMENSIONS if whole else ("venue",))
        return view or await self._newest(budget, everything=everything)

    async def counted(self, query: Query) -> GroupView:
        """Exactly, from every entry that matches: takes as long as reading them does."""
        grouping = Grouping()
        async for row in self._triage.stream(query, whole=True):
            grouping.add(file_entry(row.entry, labelled(row)))
        return GroupView(grouping.groups(), grouping.count, grouping.count, True, "store")

    async def growing(self, query: Query) -> AsyncIterator[GroupView]:
        """As `counted`, newest first, with what there is so far every now and then; the loop is never held up."""
        grouping = Grouping()
        row_key: RowKey | None = None
        told, more = time.monotonic(), True
        while more and grouping.count < _MOST:
            page = await self._store.page(query.where, limit=_PAGE, after=row_key, newest_first=True)
            for row in map(classified, await uncut(self._store, page.entries)):
                if matches(row, query):
                    mark = file_entry(row.entry, labelled(row))
                    grouping.add(mark)
                    grouping.arrival(mark)
            more, row_key = page.more, page.entries[-1].row_key if page.entries else None
            if more and time.monotonic() > told + _TELL_SECONDS:
                told = time.monotonic()
                yield GroupView(grouping.groups(self._clock()), grouping.count, grouping.count, False, "store")
            await asyncio.sleep(0)
        yield GroupView(grouping.groups(self._clock()), grouping.count, grouping.count, not more, "store")

    async def split(
        self, fingerprint: str, *, everything: bool = False, limit: int = 200, budget: float | None = None
    ) -> tuple[Cross, ...]:
        """A group by venue, account and market; without an index, of what `budget` seconds can read, newest first."""
        states = frozenset(STATES) if everything else OPEN_STATES
        if self._reader is not None:
            try:
                return tuple(await self._reader.cross(fingerprint, states=states, limit=limit))
            except (NoIndex, IndexUnavailable):
                pass
        found: dict[tuple[str, str, str], int] = {}
        ends = None if budget is None else time.monotonic() + budget
        async for page in self._pages(Query(Filter(states=states), group=fingerprint), newest_first=True):
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
        """Open entries of the group, oldest first, that also match `asked`; to be marked, replayed or dismissed.
        `tell` hears how many there are so far."""
        query = replace(asked or Query(), group=fingerprint)
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
        """What matches, in pages small enough that labelling one is not felt at the keyboard."""
        row_key: RowKey | None = None
        while True:
            page = await self._store.page(query.where, limit=_PAGE, after=row_key, newest_first=newest_first)
            yield [entry for entry in await uncut(self._store, page.entries) if matches(classified(entry), query)]
            if not page.more:
                return
            row_key = page.entries[-1].row_key
            await asyncio.sleep(0)

    async def looked(self, fingerprints: tuple[str, ...]) -> None:
        """From now on these count as seen."""
        if self._reader is None:
            return
        try:
            await self._reader.looked(fingerprints)
        except IndexUnavailable:
            return  # without an index nothing is new

    async def note(self, fingerprint: str, text: str) -> None:
        await self._triage.note(f"group:{fingerprint}", text)

    async def notes(self, fingerprint: str) -> tuple[Note, ...]:
        return await self._store.notes(f"group:{fingerprint}")

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
        except (NoIndex, IndexUnavailable):
            return None
        groups = from_lines(lines, parts, everything=everything, trends=trends, new=new)
        total = progress.filed if progress.built else max(progress.expected, progress.filed)
        return GroupView(groups, progress.filed, total, progress.built, "index")

    async def _trends(self, reader: Reader, now: datetime) -> dict[str, tuple[int, ...]]:
        found: dict[str, dict[int, int]] = {}
        for (fingerprint, _), hours in (await reader.hours(micros(now) // HOUR - TREND_HOURS + 1)).items():
            into = found.setdefault(fingerprint, {})
            for hour, count in hours.items():
                into[hour] = into.get(hour, 0) + count
        return {fingerprint: trend(hours, now) for fingerprint, hours in found.items()}

    async def _newest(self, budget: float, *, everything: bool) -> GroupView:
        ends = time.monotonic() + budget
        states = frozenset(STATES) if everything else OPEN_STATES
        grouping = Grouping()
        row_key: RowKey | None = None
        more = True
        while more and (row_key is None or time.monotonic() < ends):
            page = await self._store.page(Filter(states=states), limit=_PAGE, after=row_key, newest_first=True)
            for entry in await uncut(self._store, page.entries):
                mark = file_entry(entry, label(entry))
                grouping.add(mark)
                grouping.arrival(mark)
            more = page.more
            row_key = page.entries[-1].row_key if page.entries else None
        total = grouping.count
        if more:
            counts = await self._store.counts(Filter(states=states))
            total = max(total, sum(counts.by_state.values()))
        return GroupView(grouping.groups(self._clock()), grouping.count, total, not more, "store")

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

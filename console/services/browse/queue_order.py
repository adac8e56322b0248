"""The order of the queue: entries in doubt or in flight first, then newest (or oldest) first.

Reads by key in both directions. Never counts rows, never uses an offset, holds at most one page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import NamedTuple

from backends.records import Entry, Page, RowKey, State
from backends.store import HoldsIntents, Store
from console.services.browse.engine_intent import intents_of
from console.services.browse.filter_match import fits
from console.services.browse.filter_syntax import HELD, split_held
from console.services.triage.triage import Query, classified, few_of, matches, standing, uncut

_SCAN = 500  # page size when the category or group is decided here, not by the store
_LONGEST_SCAN = 20_000  # entries read for one answer, so that a rare category cannot block the view


# Named tuples, because the first frame needs them: defining one takes a fifth of the time a dataclass takes.
class View(NamedTuple):
    query: Query = Query()
    newest_first: bool = True


class ListedEntry(NamedTuple):
    """An entry with its part of the queue: 0 for the held entries where there are any, then the rest."""

    part: int
    entry: Entry

    @property
    def mark(self) -> QueueMark:
        return QueueMark(self.part, self.entry.row_key)


class QueueMark(NamedTuple):
    part: int
    row_key: RowKey


class QueueSection(NamedTuple):
    spots: tuple[ListedEntry, ...]
    more: bool  # more entries follow in the direction of reading
    reached: QueueMark | None = None  # how far the store was read, if further than the last spot


class QueueOrder:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def after(self, view: View, mark: QueueMark | None, limit: int) -> QueueSection:
        return await self._read(view, mark, limit, forward=True)

    async def before(self, view: View, mark: QueueMark | None, limit: int) -> QueueSection:
        """The `limit` spots just before a mark (or before the end), in queue order."""
        return await self._read(view, mark, limit, forward=False)

    async def around(self, view: View, spot: ListedEntry, limit: int) -> tuple[QueueSection, QueueSection]:
        """The section before a spot, and the section that starts with it if it still matches."""
        before = await self.before(view, spot.mark, limit)
        last = before.spots[-1].mark if before.spots else before.reached
        return before, await self.after(view, last, limit)

    async def chosen(self, view: View) -> AsyncIterator[list[Entry]]:
        """Every match in its current version, one page at a time: the selection "mark all" makes."""
        mark: QueueMark | None = None
        while True:
            stretch = await self.after(view, mark, _SCAN)
            yield [spot.entry for spot in stretch.spots]
            if not stretch.more:
                return
            mark = stretch.reached or stretch.spots[-1].mark

    async def newer(self, view: View, than: RowKey, limit: int) -> tuple[Entry, ...]:
        """Entries that arrived after this one, oldest first."""
        page = await self._store.page(view.query.where, limit=limit, after=than)
        entries = await uncut(self._store, page.entries) if view.query.by_class else page.entries
        return tuple(entry for entry in entries if _fits(entry, view.query))

    async def newest(self, view: View) -> RowKey | None:
        page = await self._store.page(view.query.where, limit=1, newest_first=True)
        return page.entries[0].row_key if page.entries else None

    async def _read(self, view: View, mark: QueueMark | None, limit: int, *, forward: bool) -> QueueSection:
        queries = self._parts(view.query)
        order = list(range(len(queries))) if forward else list(reversed(range(len(queries))))
        if mark is not None:
            order = order[order.index(min(mark.part, len(queries) - 1)) :]
        found: list[ListedEntry] = []
        for part in order:
            row_key = mark.row_key if mark is not None and mark.part == part else None
            read = self._part if part < len(split_held(view.query)) else self._settled
            entries, more, reached = await read(view, queries[part], row_key, limit - len(found), forward=forward)
            found += [ListedEntry(part, entry) for entry in entries]
            if more or len(found) >= limit:
                at_last = part == order[-1] and not more
                where = QueueMark(part, reached) if reached is not None else None
                return _stretch(found, forward=forward, more=not at_last, reached=where)
        return _stretch(found, forward=forward, more=False, reached=None)

    async def _part(
        self, view: View, query: Query, row_key: RowKey | None, limit: int, *, forward: bool
    ) -> tuple[list[Entry], bool, RowKey | None]:
        """(entries in reading direction, whether more follow, how far the store was read)."""
        if query.where.states <= HELD or query.ids is not None:
            known = await (self._few(view, query) if query.ids is not None else self.held(view, query))
            held = [entry for entry in known if _fits(entry, query)]
            behind = _behind(held if forward else held[::-1], row_key, descending=view.newest_first == forward)
            return behind[:limit], len(behind) > limit, None
        found: list[Entry] = []
        looked = 0
        while True:
            size = _SCAN if query.by_class else limit - len(found)
            page = await self._page(view, query, row_key, size, forward=forward)
            entries = await uncut(self._store, page.entries) if query.by_class else page.entries
            read = entries if forward else tuple(reversed(entries))
            for entry in read:
                row_key = entry.row_key
                if _fits(entry, query):
                    found.append(entry)
                    if len(found) >= limit:
                        return found, page.more or entry is not read[-1], None
            looked += len(read)
            if not page.more:
                return found, False, None
            if not query.by_class or looked >= _LONGEST_SCAN:
                return found, True, row_key

    def _parts(self, query: Query) -> tuple[Query, ...]:
        """The parts of the queue; the last is what engines left open and was found at its venue, where it is asked."""
        parts = split_held(query)
        settled = isinstance(self._store, HoldsIntents) and "replayed" in query.where.states
        return (*parts, _of_states(query, frozenset({"replayed"}))) if settled else parts

    async def _settled(
        self, view: View, query: Query, row_key: RowKey | None, limit: int, *, forward: bool
    ) -> tuple[list[Entry], bool, RowKey | None]:
        known = [entry for entry in await intents_of(self._store, query.where) if _fits(entry, query)]
        known.sort(key=lambda entry: standing(entry.row_key), reverse=view.newest_first == forward)
        behind = _behind(known, row_key, descending=view.newest_first == forward)
        return behind[:limit], len(behind) > limit, None

    async def _few(self, view: View, query: Query) -> list[Entry]:
        found = await few_of(self._store, query)
        return sorted(found, key=lambda entry: standing(entry.row_key), reverse=view.newest_first)

    async def held(self, view: View, query: Query) -> list[Entry]:
        """Found through the open attempts and intents, which are few, so that the whole table need not be read."""
        ids = tuple(dict.fromkeys(attempt.entry_id for attempt in await self._store.open_attempts()))
        found = await self._store.many(ids) if ids else {}
        entries = [entry for entry in found.values() if fits(entry, query.where)]
        entries += [one for one in await intents_of(self._store, query.where) if one.id not in found]
        return sorted(entries, key=lambda entry: standing(entry.row_key), reverse=view.newest_first)

    async def _page(self, view: View, query: Query, row_key: RowKey | None, limit: int, *, forward: bool) -> Page:
        newest_first = view.newest_first
        if forward:
            return await self._store.page(query.where, limit=limit, after=row_key, newest_first=newest_first)
        if row_key is not None:
            return await self._store.page(query.where, limit=limit, before=row_key, newest_first=newest_first)
        page = await self._store.page(query.where, limit=limit, newest_first=not newest_first)
        return Page(tuple(reversed(page.entries)), page.more)


def _behind(entries: list[Entry], row_key: RowKey | None, *, descending: bool) -> list[Entry]:
    if row_key is None:
        return entries
    limit = standing(row_key)
    if descending:
        return [entry for entry in entries if standing(entry.row_key) < limit]
    return [entry for entry in entries if standing(entry.row_key) > limit]


def _of_states(query: Query, states: frozenset[State]) -> Query:
    return replace(query, where=replace(query.where, states=states))


def _fits(entry: Entry, query: Query) -> bool:
    return not query.by_class or matches(classified(entry), query)


def _stretch(found: list[ListedEntry], *, forward: bool, more: bool, reached: QueueMark | None) -> QueueSection:
    return QueueSection(tuple(found if forward else reversed(found)), more, reached)

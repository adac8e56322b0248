"""Fills a filtered view in short steps where one query would have to read most of the store.

Lists entries in doubt first, then newest first, and reports how much it has searched. Knows no screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from backends.index import IndexUnavailable
from backends.index.reader import NoIndex
from backends.records import Entry
from console.services.browse.engine_intent import intents_of
from console.services.browse.filter_match import fits
from console.services.browse.filter_syntax import HELD, split_held
from console.services.browse.queue_order import ListedEntry, QueueOrder, View
from console.services.browse.search import Cursor
from console.services.triage.triage import Query, classified, matches, uncut

if TYPE_CHECKING:
    from backends.store import Store
    from console.services.index.status import IndexStatus

_MEMBERS = 200  # members of a group read in one step


class IncrementalSearch:
    def __init__(self, index_status: IndexStatus, store: Store, view: View) -> None:
        self.view = view
        self.covered = 0
        self.total: int | None = None
        self.found = 0
        self.is_over = False
        self._is_read = False  # nothing is left to look at
        self._index_status = index_status
        self._store = store
        self._listed: set[str] = set()
        self._cursor: Cursor | None = None
        self._below = 1 << 62
        self._has_begun = False
        self._left: list[Entry] = []  # found and not handed out yet

    @property
    def _lists_members(self) -> bool:
        """Whether the index knows every member of a group."""
        progress = self._index_status.progress
        return self._index_status.is_trusted and progress is not None and progress.built

    @property
    def query(self) -> Query:
        return self.view.query

    @staticmethod
    def suits(view: View, index_status: IndexStatus) -> bool:
        """True for whatever a store may have to look for row by row."""
        query = view.query
        if not view.newest_first or query.ids is not None:
            return False
        built = index_status.is_trusted and index_status.progress is not None and index_status.progress.built
        return not query.where.is_open or query.by_class or (query.group is not None and built)

    async def step(self, limit: int) -> tuple[ListedEntry, ...]:
        """Up to `limit` further matches, found within the time budget of one step."""
        found: list[ListedEntry] = []
        if not self._has_begun:
            self._has_begun = True
            found += await self._held()
        for part, query in self._free():
            wanted = max(1, limit - len(found))
            entries = self._fresh(self._left or await self._more(query, wanted))
            self._left = entries[wanted:]
            self._listed.difference_update(entry.id for entry in self._left)
            found += [ListedEntry(part, entry) for entry in entries[:wanted]]
        self.is_over = (self._is_read or not self._free()) and not self._left
        self.found += len(found)
        return tuple(found)

    def renewed(
        self, spots: list[ListedEntry], entries: Mapping[str, Entry], come: Sequence[Entry]
    ) -> list[ListedEntry]:
        """The listed entries that still match, as they are now, with new arrivals inserted below the held ones."""
        where, last = self.query.where, len(split_held(self.query)) - 1
        kept = [
            ListedEntry(spot.part, entry)
            for spot in spots
            if (entry := entries.get(spot.entry.id)) is not None and fits(entry, where) and self._is_meant(entry)
        ]
        new = [ListedEntry(last, entry) for entry in reversed(self._fresh(come))]
        self.found += len(new) - (len(spots) - len(kept))
        held = [spot for spot in kept if spot.part < last]
        return [*held, *new, *kept[len(held) :]]

    def _free(self) -> list[tuple[int, Query]]:
        parts = enumerate(split_held(self.view.query))
        return [(part, query) for part, query in parts if not query.where.states <= HELD]

    async def _held(self) -> list[ListedEntry]:
        """What the store's own rows do not tell: entries in doubt or in flight, and the intents of engines."""
        found: list[ListedEntry] = []
        for part, query in enumerate(split_held(self.view.query)):
            if query.where.states <= HELD:
                known = await QueueOrder(self._store).held(self.view, query)
            else:
                known = list(reversed(await intents_of(self._store, query.where)))
            found += [ListedEntry(part, entry) for entry in self._fresh(list(filter(self._is_meant, known)))]
        return found

    def _fresh(self, entries: Sequence[Entry]) -> list[Entry]:
        fresh = [entry for entry in entries if entry.id not in self._listed]
        self._listed.update(entry.id for entry in fresh)
        return fresh

    def _is_meant(self, entry: Entry) -> bool:
        return not self.view.query.by_class or matches(classified(entry), self.view.query)

    async def _more(self, query: Query, limit: int) -> list[Entry]:
        if query.group is not None and query.where.is_open and self._lists_members:
            try:
                return await self._members(query, query.group)
            except (NoIndex, IndexUnavailable):
                pass  # the index was removed meanwhile: search the entries instead
        budget = self._index_status.budget
        got = await self._index_status.search.find(query.where, limit=limit, budget=budget, cursor=self._cursor)
        self.covered = got.covered if got.source == "index" else self.covered + got.covered
        self.total = got.total
        self._cursor = got.next
        self._is_read = got.next is None
        entries = await uncut(self._store, got.entries) if query.by_class else got.entries
        return [entry for entry in entries if self._is_meant(entry)]

    async def _members(self, query: Query, group: str) -> list[Entry]:
        reader = self._index_status.reader
        page = await reader.newest(group, query.where.states, below=self._below, limit=_MEMBERS)
        self._is_read = len(page) < _MEMBERS
        if not page:
            return []
        self._below = page[-1][0]
        found = await self._store.many(tuple(entry_id for _, entry_id in page))
        self.covered += len(page)
        there = (found[entry_id] for _, entry_id in page if entry_id in found)
        return [entry for entry in there if fits(entry, query.where) and self._is_meant(entry)]

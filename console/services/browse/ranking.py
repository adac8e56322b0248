"""The queue sorted by value, tries or venue: the newest matches, read in steps and ranked in memory.

No index of the store answers these orders, and sorting a million rows would take seconds. Keeps a key and an id for
each entry, never the entry itself; in-doubt entries stay on top. Knows neither SQL nor screens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import NamedTuple

from backends.records import Entry
from backends.store import Store
from console.services.browse.filter_syntax import HELD, split_held
from console.services.browse.queue_order import ListedEntry, QueueMark, QueueOrder, QueueSection, View
from console.services.browse.sort import Sort
from console.services.layout_fields import origin, tries

MOST = 10_000  # entries that are ranked; more are counted and said
STEP = 500  # entries read at once: more would delay a key
_HELD_MOST = 200
Weigh = Callable[[Entry], Decimal | None]


class _Ranked(NamedTuple):
    part: int
    key: Decimal | int | str | None  # None: it has no such value, and comes last


class Ranking:
    def __init__(self, order: QueueOrder, store: Store, view: View, sort: Sort, weigh: Weigh) -> None:
        self.sort = sort
        self.view = view
        self.is_over = False
        self.has_more = False  # the store has matches beyond those that are ranked
        self._order = order
        self._store = store
        self._weigh = weigh
        self._mark: QueueMark | None = None
        self._rest = len(split_held(view.query)) - 1  # the part of what is not held
        self._ranked: dict[str, _Ranked] = {}
        self._sorted: list[str] | None = None

    def __len__(self) -> int:
        return len(self._ranked)

    async def step(self) -> None:
        """Read and rank the next newest matches."""
        section = await self._order.after(self.view, self._mark, STEP)
        for spot in section.spots:
            self._add(spot.entry, spot.part)
        if section.spots or section.reached:
            self._mark = section.reached or section.spots[-1].mark
        self.has_more = section.more
        self.is_over = not section.more or len(self._ranked) >= MOST

    async def section(self, start: int, limit: int) -> QueueSection:
        """The entries from this rank on, as the store has them now."""
        ids = tuple(self._ids[start : start + limit])
        found = await self._store.many(ids) if ids else {}
        spots = [ListedEntry(self._ranked[one].part, found[one]) for one in ids if one in found and one in self._ranked]
        return QueueSection(tuple(spots), start + limit < len(self._ranked))

    def rank_of(self, entry_id: str) -> int | None:
        return self._ids.index(entry_id) if entry_id in self._ranked else None

    async def renew(self, listed: Iterable[ListedEntry], come: Iterable[Entry]) -> None:
        """Take in what arrived, what is held now, and what became of the listed entries."""
        held = await self._order.after(self.view, None, _HELD_MOST)
        first_held = {spot.entry.id: spot for spot in held.spots if spot.entry.state in HELD}
        ids = tuple(spot.entry.id for spot in listed)
        found = await self._store.many(ids) if ids else {}
        states = self.view.query.where.states
        for entry_id in ids:
            entry = found.get(entry_id)
            if entry is None or entry.state not in states:
                self._ranked.pop(entry_id, None)
            else:
                self._add(entry, self._part(entry, first_held))
        for entry in (*come, *(spot.entry for spot in first_held.values())):
            self._add(entry, self._part(entry, first_held))
        self._sorted = None

    def _part(self, entry: Entry, held: dict[str, ListedEntry]) -> int:
        if entry.id in held:
            return held[entry.id].part
        return 0 if entry.state in HELD else self._rest

    def _add(self, entry: Entry, part: int) -> None:
        self._ranked[entry.id] = _Ranked(part, self._key(entry))
        self._sorted = None

    def _key(self, entry: Entry) -> Decimal | int | str | None:
        match self.sort.by:
            case "value":
                return self._weigh(entry)
            case "venue":
                return origin(entry) or None
            case _:
                held = tries(entry)
                return held if isinstance(held, int) else None

    @property
    def _ids(self) -> list[str]:
        """The ids by rank. Equal ones stay in the order in which they were read, the newest first."""
        if self._sorted is None:
            known = [(one, ranked) for one, ranked in self._ranked.items() if ranked.key is not None]
            known.sort(key=lambda pair: pair[1].key, reverse=self.sort.descending)  # type: ignore[arg-type,return-value]  # one kind of key in a ranking
            rest = [(one, ranked) for one, ranked in self._ranked.items() if ranked.key is None]
            self._sorted = [one for one, _ in sorted((*known, *rest), key=lambda pair: pair[1].part)]
        return self._sorted

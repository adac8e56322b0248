"""Pages, entries by id and counts of any layout that a database keeps. Knows no SQL: a layout's subclass asks.

Reads only, and holds no transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from backends.layouts.orders import quoted
from backends.layouts.roles import roles
from backends.ledger.schema import shown_state
from backends.records import Counts, Entry, Filter, Page, RowKey, State, StoreInfo, readable
from backends.sql.connection import CompiledQuery, Connection, ReadConnection, UndecodableValue
from backends.sql.filter_sql import answerable
from backends.sql.history import SQLHistory
from backends.sql.postgres_columns import spelled

T = TypeVar("T")
_MANY = 1000  # ids in one query


class LayoutSelect(Protocol):
    """A layout's SELECTs over one attached table."""

    @property
    def with_ledger(self) -> bool: ...


S = TypeVar("S", bound=LayoutSelect)


@dataclass(frozen=True, slots=True)
class PageWindow:
    """At most so many rows from just behind a place on, or from the beginning."""

    place: RowKey | None
    descending: bool
    most: int


class EntryReads(SQLHistory, ABC, Generic[S]):
    @property
    def info(self) -> StoreInfo:
        return self._attached.info

    async def page(
        self,
        where: Filter,
        *,
        limit: int,
        after: RowKey | None = None,
        before: RowKey | None = None,
        newest_first: bool = False,
    ) -> Page:
        asked = answerable(where, self._attached)
        if asked is None:
            return Page((), more=False)
        backwards = before is not None
        window = PageWindow(before if backwards else after, newest_first != backwards, limit + 1)
        lane = self._slow if where.terms or where.without else self._quick
        found = await self._read(lane, lambda link, as_text: self._ask_page(link, asked, window, as_text=as_text))
        entries = found[:limit]
        return Page(tuple(reversed(entries) if backwards else entries), len(found) > limit)

    async def get(self, entry_id: str) -> Entry | None:
        return (await self.many((entry_id,))).get(entry_id)

    async def many(self, ids: tuple[str, ...]) -> dict[str, Entry]:
        return await self._by_ids(ids, whole=True)

    async def states(self, ids: tuple[str, ...]) -> dict[str, Entry]:
        """Like `many`, with long values cut."""
        return await self._by_ids(ids, whole=False)

    async def _by_ids(self, ids: tuple[str, ...], *, whole: bool) -> dict[str, Entry]:
        possible = list(filter(self._is_id, ids))
        found: dict[str, Entry] = {}
        for start in range(0, len(possible), _MANY):
            chunk = possible[start : start + _MANY]

            async def work(link: Connection, as_text: bool, chunk: list[str] = chunk) -> list[Entry]:
                return await self._ask_ids(link, chunk, whole=whole, as_text=as_text)

            for entry in await self._read(self._quick, work):
                # A table without a unique id may hold one twice; the open one must be seen.
                held = found.get(entry.id)
                found[entry.id] = entry if held is None or held.state != "pending" else held
        return found

    async def counts(self, where: Filter) -> Counts:
        asked = answerable(where, self._attached)
        if asked is None:
            return Counts({}, None)

        async def work(link: Connection, as_text: bool) -> Counts:
            select = await self._look(link, as_text=as_text)
            unfiltered = asked == Filter(states=asked.states)
            tally = await (self._tally_all(link, select) if unfiltered else self._tally(link, select, asked))
            oldest = await self._ask_oldest(link, select, asked) if "pending" in asked.states else None
            return Counts({state: count for state, count in tally.items() if state in asked.states}, oldest)

        return await self._read(self._slow, work)

    async def origins(self) -> frozenset[str]:
        role = roles(self.info.layout, self.info.columns)
        if not role.origins:
            return frozenset()
        names = [f"t.{quoted(name)}" for name in reversed(role.origins)]
        if self.info.dialect == "postgresql":
            kinds = [self._attached.column(name).type for name in reversed(role.origins)]
            names = [spelled(name, kind) for name, kind in zip(names, kinds, strict=True)]
        query = CompiledQuery(f"SELECT DISTINCT {', '.join(names)} FROM {self._attached.found.quoted} t", (), {})
        rows = await self._read(self._slow, lambda link, _: link.fetch(query, {}))
        return frozenset(next((readable(held) for held in row if held not in (None, "")), "") for row in rows)

    async def _tally(self, link: Connection, select: S, where: Filter) -> dict[State, int]:
        tally: dict[State, int] = {}
        for stored, count in await self._ask_tally(link, select, where):
            state = shown_state(stored)
            tally[state] = tally.get(state, 0) + count
        return tally

    async def _tally_all(self, link: Connection, select: S) -> dict[State, int]:
        """Without a filter: the owner's table by its indexes, corrected by the few entries that the ledger knows."""
        pending, dismissed = await self._ask_totals(link, select)
        tally: dict[State, int] = {"pending": pending, "dismissed": dismissed}
        for stored, was_open, count in await self._ask_known(link, select) if select.with_ledger else ():
            tally["pending" if was_open else "dismissed"] -= count
            state = shown_state(stored)
            tally[state] = tally.get(state, 0) + count
        return tally

    async def _read(self, lane: ReadConnection, work: Callable[[Connection, bool], Awaitable[T]]) -> T:
        try:
            return await lane.run(lambda link: work(link, False))
        except UndecodableValue:
            return await self._tolerant.run(lambda link: work(link, True))

    # What a layout asks in its own SQL. `as_text` reads times that Python cannot hold as the server spells them.

    @abstractmethod
    def _is_id(self, text: str) -> bool:
        """Could a query by id find this?"""

    @abstractmethod
    async def _look(self, link: Connection, *, as_text: bool) -> S:
        """The SELECTs as the tables are now."""

    @abstractmethod
    async def _ask_page(self, link: Connection, where: Filter, window: PageWindow, *, as_text: bool) -> list[Entry]: ...

    @abstractmethod
    async def _ask_ids(self, link: Connection, ids: list[str], *, whole: bool, as_text: bool) -> list[Entry]: ...

    @abstractmethod
    async def _ask_tally(self, link: Connection, select: S, where: Filter) -> Sequence[Any]:
        """(stored state, count) of what a filter means."""

    @abstractmethod
    async def _ask_totals(self, link: Connection, select: S) -> tuple[int, int]:
        """All entries that are open by their owner's word, and all others."""

    @abstractmethod
    async def _ask_known(self, link: Connection, select: S) -> Sequence[Any]:
        """(stored state, open by its owner's word?, count) of the entries that the ledger knows."""

    @abstractmethod
    async def _ask_oldest(self, link: Connection, select: S, where: Filter) -> datetime | None:
        """When the oldest pending match failed."""

"""Pages, entries by id and counts of any layout that a database keeps. Knows no SQL: a layout's subclass asks.

Reads only, and holds no transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import repeat
from typing import Any, Generic, Protocol, TypeVar

from backends.filter_match import fits_all
from backends.layouts.orders import quoted
from backends.layouts.roles import roles
from backends.ledger.names import shown_state
from backends.records import Counts, Entry, Filter, Page, RowKey, ScannedRows, State, StoreInfo, readable, utc_time
from backends.sql.connection import Connection, ReadConnection, UndecodableValue
from backends.sql.filter_sql import FilterSQL
from backends.sql.history import SQLHistory
from backends.sql.postgres_columns import spelled
from backends.sql.text.query import CompiledQuery

T = TypeVar("T")
_MANY = 1000  # ids in one query
_EARLIEST_AMONG = 1000  # how many of the first pending matches are compared
_MOST_ROWS = 2000  # rows read at once to be judged here


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
    until: RowKey | None = None  # the last row, if there are not too many
    unsure: bool = False  # only rows of which the database cannot tell whether they fit


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Entries as the database found them, and which of them surely fit: the others have to be judged."""

    entries: list[Entry]
    sure: Sequence[object] = ()  # true of the entry at the same place; empty: of none

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def last(self) -> RowKey:
        return self.entries[-1].row_key


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
        backwards = before is not None
        window = PageWindow(before if backwards else after, newest_first != backwards, limit + 1)
        found = await self._fitting(where, window)
        entries = found[:limit]
        return Page(tuple(reversed(entries) if backwards else entries), len(found) > limit)

    async def _fitting(self, where: Filter, window: PageWindow) -> list[Entry]:
        """At most `window.most` entries that fit. What the database cannot tell is judged here, row by row."""
        if where.is_open:
            return (await self._rows(self._quick, where, window)).entries
        lane = self._quick if self._filter_sql(where).is_exact and not window.unsure else self._slow
        found: list[Entry] = []
        asked = window
        while True:
            rows = await self._rows(lane, where, asked)
            found += await self._judge(rows, where)
            if len(rows) < asked.most or len(found) >= window.most:
                return found[: window.most]
            size = min(_MOST_ROWS, max(asked.most, 2 * len(rows) if not found else asked.most))
            asked = replace(asked, place=rows.last, most=size)

    async def _rows(self, lane: ReadConnection, where: Filter, window: PageWindow) -> FoundRows:
        return await self._read(lane, lambda link, as_text: self._ask_page(link, where, window, as_text=as_text))

    async def _judge(self, rows: FoundRows, where: Filter) -> list[Entry]:
        """Those that fit, as the page has them. Cut values are read whole: a text may stand at their end."""
        if rows.sure and all(rows.sure):
            return rows.entries
        pairs = list(zip(rows.entries, rows.sure or repeat(False)))  # noqa: B905 - the one has no end
        cut = tuple(entry.id for entry, sure in pairs if entry.clipped and not sure)
        whole = await self.many(cut) if cut else {}
        every = where.every
        return [entry for entry, sure in pairs if sure or fits_all(whole.get(entry.id, entry), every)]

    async def scan(
        self, where: Filter, *, most: int, after: RowKey | None = None, newest_first: bool = True
    ) -> ScannedRows:
        if where.is_open:
            rows = await self._rows(self._slow, where, PageWindow(after, newest_first, most))
            return ScannedRows(tuple(rows.entries), rows.last if rows else after, len(rows), len(rows) == most)
        states = Filter(states=where.states)
        edge = PageWindow(after, newest_first, most)
        reached, looked = await self._read(self._slow, lambda link, _: self._ask_edge(link, states, edge))
        if looked is None:
            rows = replace(await self._rows(self._slow, states, edge), sure=())  # sure of the states alone
            fitting = tuple(await self._judge(rows, where))
            return ScannedRows(fitting, rows.last if rows else after, len(rows), len(rows) == most)
        within = replace(edge, most=most + 1, until=reached)
        rows = await self._rows(self._slow, where, within) if looked else FoundRows([])
        return ScannedRows(tuple(await self._judge(rows, where)), reached or after, looked, reached is not None)

    async def _ask_edge(self, link: Connection, where: Filter, window: PageWindow) -> tuple[RowKey | None, int | None]:  # noqa: ARG002 - for layouts that can
        """(the key of the last row of the window, how many rows it has); the count is None where nobody can tell."""
        return None, None

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
        async def work(link: Connection, as_text: bool) -> Counts:
            select = await self._look(link, as_text=as_text)
            tally = await (self._tally_all(link, select) if where.is_open else self._tally(link, select, where))
            pending: frozenset[State] = frozenset({"pending"})
            exact = where.is_open or self._filter_sql(where).is_exact
            only = replace(where, states=pending)
            oldest = await self._ask_oldest(link, select, only) if exact and "pending" in where.states else None
            return Counts({state: count for state, count in tally.items() if state in where.states}, oldest)

        counted = await self._read(self._slow, work)
        return counted if where.is_open or self._filter_sql(where).is_exact else await self._with_unsure(where, counted)

    async def _with_unsure(self, where: Filter, sure: Counts) -> Counts:
        """Adds the matches among the rows that the database could not judge."""
        tally, window = dict(sure.by_state), PageWindow(None, descending=False, most=_MOST_ROWS, unsure=True)
        while found := await self._fitting(where, window):
            for entry in found:
                tally[entry.state] = tally.get(entry.state, 0) + 1
            if len(found) < window.most:
                break
            window = replace(window, place=found[-1].row_key)
        oldest = None
        if "pending" in where.states:
            first = await self.page(replace(where, states=frozenset({"pending"})), limit=_EARLIEST_AMONG)
            moment = roles(self.info.layout, self.info.columns).moment
            oldest = min((at for one in first.entries if (at := utc_time(one.get(moment)))), default=None)
        return Counts(tally, oldest)

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
    def _filter_sql(self, where: Filter) -> FilterSQL:
        """What the database can say of a filter."""

    @abstractmethod
    async def _ask_page(self, link: Connection, where: Filter, window: PageWindow, *, as_text: bool) -> FoundRows: ...

    @abstractmethod
    async def _ask_ids(self, link: Connection, ids: list[str], *, whole: bool, as_text: bool) -> list[Entry]: ...

    @abstractmethod
    async def _ask_tally(self, link: Connection, select: S, where: Filter) -> Sequence[Any]:
        """(stored state, count) of what surely fits a filter."""

    @abstractmethod
    async def _ask_totals(self, link: Connection, select: S) -> tuple[int, int]:
        """All entries that are open by their owner's word, and all others."""

    @abstractmethod
    async def _ask_known(self, link: Connection, select: S) -> Sequence[Any]:
        """(stored state, open by its owner's word?, count) of the entries that the ledger knows."""

    @abstractmethod
    async def _ask_oldest(self, link: Connection, select: S, where: Filter) -> datetime | None:
        """When the oldest pending match failed."""

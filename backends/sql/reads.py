"""Reads the order layout: the SQL of its pages, entries and counts, and ids that are not plain text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from dlq_sink.values import is_plain, to_bytes

from backends.criterion import Criterion
from backends.detect import Attached
from backends.ledger.schema import LedgerTables
from backends.records import Entry, Filter, RowKey, parse_time
from backends.sql.connection import Connection, ReadConnection
from backends.sql.entry_reads import EntryReads, FoundRows, PageWindow
from backends.sql.filter_sql import FilterSQL
from backends.sql.order_select import OrderSelect, RowOrder, RowRange, filter_values, row_filter
from backends.sql.postgres_columns import spelled
from backends.sql.text.order_row import RowMark, placer
from backends.sql.text.query import CompiledQuery
from backends.sql.text.spelling import Spelled, are_too_many, fitting, indexed, stored_values

_MOST_QUERIES = 500
_EARLIEST_AMONG = 1000  # how many of the first pending entries are compared
_ESCAPED_BYTE = re.compile(rb"\\x([89a-f][0-9a-f])")


def _stretches(shape: OrderSelect, window: PageWindow) -> list[RowRange]:
    made = shape.order.stretches(window.place, descending=window.descending)
    return [replace(one, until=window.until) for one in made] if window.until is not None else made


def _fits_some(spelled: Sequence[Spelled]) -> bool:
    return all(one.values for one in spelled)


class SQLReads(EntryReads[OrderSelect]):
    def __init__(
        self, attached: Attached, book: LedgerTables, lanes: tuple[ReadConnection, ReadConnection, ReadConnection]
    ) -> None:
        EntryReads.__init__(self, attached, book, lanes)
        self._stray = False
        self._queries: dict[tuple[object, ...], CompiledQuery] = {}
        self._filters: dict[Filter, FilterSQL] = {}
        self._indexes: dict[Filter, tuple[Attached, tuple[tuple[str, Criterion], ...]]] = {}
        self._known: dict[Filter, tuple[Spelled, ...]] = {}
        self._various: set[str] = set()  # columns of so many values that an index does not help a filter

    async def _ask_page(self, link: Connection, where: Filter, window: PageWindow, *, as_text: bool) -> FoundRows:
        shape = await self._shape(link, as_text=as_text)
        spelled = await self._answered(link, where, window)
        if not _fits_some(spelled):
            return FoundRows([])  # whatever the ledger is like
        rows = await self._page_rows(link, shape, where, window, spelled)
        if not rows or RowMark.of(rows[0][0]).unfit:
            fitting = await self._refit(link, shape)
            again = await self._read_values(link, where) if spelled else spelled
            if fitting != shape or again != spelled:
                shape = fitting
                rows = await self._page_rows(link, shape, where, window, again) if _fits_some(again) else []
        return FoundRows(shape.entries(rows), self._sure(where, rows))

    def _sure(self, where: Filter, rows: Sequence[Any]) -> list[bool]:
        made = self._filter_sql(where)
        return RowMark.are_sure(rows) if made.may_be_sure else [not made.surely] * len(rows)

    async def _page_rows(
        self, link: Connection, shape: OrderSelect, where: Filter, window: PageWindow, spelled: Sequence[Spelled]
    ) -> list[Any]:
        """Each row is judged by the whole filter, also by what an index answers: a collation may call more equal."""
        descending, most = window.descending, window.most
        made = self._filter_sql(where)
        given = filter_values(made) | {"source": self._attached.found.shown}
        for one in spelled:
            given |= one.given(on_postgres=shape.on_postgres)
        ask = (made.unsure if window.unsure else made.may, *(one.key for one in spelled))
        seen = (shape.with_ledger, shape.stray, shape.as_text, shape.unreadable)
        asked = (*seen, where.states, ask, made.surely, descending, most)
        page = partial(shape.page, descending=descending, most=most, unsure=window.unsure, spelled=spelled)
        rows: list[Any] = []
        for stretch in _stretches(shape, window):
            make = partial(page, where, stretch)
            query = self._query((*asked, stretch.key), make)
            rows += await link.fetch(query, {**given, **stretch.values})
            if len(rows) >= most:
                break
        return rows[:most]

    async def _answered(self, link: Connection, where: Filter, window: PageWindow) -> tuple[Spelled, ...]:
        """By what the columns held when they were last read; each page tells whether they hold something else now."""
        if window.until is not None or not self._indexed(where):
            return ()  # a short stretch needs no index
        known = self._known.get(where)
        return known if known is not None and _fits_some(known) else await self._read_values(link, where)

    async def _read_values(self, link: Connection, where: Filter) -> tuple[Spelled, ...]:
        if len(self._known) >= _MOST_QUERIES:
            self._known.clear()
        found = self._known[where] = await self._spelled(link, where)
        return found

    async def _spelled(self, link: Connection, where: Filter) -> tuple[Spelled, ...]:
        """What the indexes of the table can answer of a filter, by the values that are stored now."""
        found: list[Spelled] = []
        for name, asked in self._indexed(where):
            if name in self._various:
                continue
            stored = [row[0] for row in await link.fetch(stored_values(self._attached, name), {})]
            if are_too_many(stored):
                self._various.add(name)
            elif (values := fitting(asked, stored)) is not None:
                found.append(Spelled(len(found), name, values, tuple(map(str, stored))))
        return tuple(found)

    def _indexed(self, where: Filter) -> tuple[tuple[str, Criterion], ...]:
        known = self._indexes.get(where)
        if known is None or known[0] is not self._attached:
            if len(self._indexes) >= _MOST_QUERIES:
                self._indexes.clear()
            self._known.pop(where, None)
            known = self._indexes[where] = (self._attached, tuple(indexed(where, self._attached)))
        return known[1]

    async def _ask_edge(self, link: Connection, where: Filter, window: PageWindow) -> tuple[RowKey | None, int | None]:
        shape, descending = await self._shape(link), window.descending
        stretches = _stretches(shape, window)
        if len(stretches) != 1 or stretches[0].part != "all":
            return None, None
        [stretch] = stretches
        given = {"source": self._attached.found.shown, **stretch.values}
        key = (shape.with_ledger, shape.stray, where.states, descending, window.most, stretch.key)
        make = partial(shape.edge, where, stretch, descending=descending, most=window.most)
        if rows := await link.fetch(self._query(("edge", *key), make), given):
            return ((rows[0][0],) if self._attached.by_rowid else placer(self._attached)(rows[0])), window.most
        count = partial(shape.rest, where, stretch, descending=descending, most=window.most)
        return None, int((await link.fetch(self._query(("rest", *key), count), given))[0][0])

    def _query(self, key: tuple[object, ...], make: Callable[[], CompiledQuery]) -> CompiledQuery:
        query = self._queries.get(key)
        if query is None:
            if len(self._queries) >= _MOST_QUERIES:
                self._queries.clear()
            query = self._queries[key] = make()
        return query

    async def get(self, entry_id: str) -> Entry | None:
        return await EntryReads.get(self, entry_id) or await self._odd(entry_id)

    def _is_id(self, text: str) -> bool:
        return is_plain(text)

    async def _ask_ids(self, link: Connection, ids: list[str], *, whole: bool, as_text: bool) -> list[Entry]:
        shape = await self._shape(link, as_text=as_text, look=self._ledger != "ready")
        query = self._query(("ids", whole, shape.with_ledger, as_text), lambda: shape.by_ids(whole=whole))
        asked = {"ids": ids if shape.on_postgres else json.dumps(ids), "source": self.info.table}
        return shape.entries(await link.fetch(query, asked))

    async def _odd(self, entry_id: str) -> Entry | None:
        """An entry whose id is not plain text, by the spelling that a page shows."""
        if self.info.dialect == "postgresql":
            return None
        blob = re.fullmatch(r"x'((?:[0-9a-f]{2})*)'", entry_id)
        raw = bytes.fromhex(blob[1]) if blob else to_bytes(entry_id)
        raw = raw if blob else _ESCAPED_BYTE.sub(lambda match: bytes.fromhex(match[1].decode()), raw)

        async def work(link: Connection, as_text: bool) -> list[Entry]:
            shape = await self._shape(link, as_text=as_text, look=self._ledger != "ready")
            query = self._query(("raw", shape.with_ledger), shape.by_bytes)
            return shape.entries(await link.fetch(query, {"raw": raw, "source": self.info.table}))

        return next((entry for entry in await self._read(self._slow, work) if entry.id == entry_id), None)

    def _filter_sql(self, where: Filter) -> FilterSQL:
        made = self._filters.get(where)
        if made is None:
            if len(self._filters) >= _MOST_QUERIES:
                self._filters.clear()
            made = self._filters[where] = row_filter(self._attached, where)
        return made

    async def _ask_tally(self, link: Connection, select: OrderSelect, where: Filter) -> Sequence[Any]:
        state, spelled = select.state(), await self._spelled(link, where)
        statement = select.source(sa.select(state, sa.func.count())).where(*select.sure_conditions(where))
        given = filter_values(self._filter_sql(where))
        for one in spelled:
            given |= one.named
        return (await link.execute(statement.where(*select.spelled(spelled)).group_by(state), given)).fetchall()

    async def _ask_totals(self, link: Connection, select: OrderSelect) -> tuple[int, int]:
        table = sa.select(sa.func.count()).select_from(select.table)
        total = (await link.execute(table)).scalar_one()
        pending = (await link.execute(table.where(select.pending()))).scalar_one()
        return pending, total - pending

    async def _ask_known(self, link: Connection, select: OrderSelect) -> Sequence[Any]:
        """Of an entry that paper and live attempts hold, the live one decides: paper was accepted before it."""
        attempt, live = self._book.attempt, self._book.attempt.alias("console_live")
        same = (live.c.source == attempt.c.source, live.c.entry_id == attempt.c.entry_id, live.c.holds == 1)
        decided = sa.exists().where(*same, live.c.mode == "live")
        mine = (attempt.c.source == self.info.table, attempt.c.holds == 1)
        deciding = sa.or_(attempt.c.mode == "live", sa.and_(attempt.c.mode == "paper", sa.not_(decided)))
        is_open = sa.case((select.pending(), 1), else_=0)
        reopened = sa.and_(attempt.c.mode == "paper", attempt.c.state == "accepted", select.pending())
        state = sa.case((reopened, sa.literal_column("'pending'")), else_=attempt.c.state).label("shown")
        held = attempt.join(select.table, attempt.c.entry_id == sa.literal_column(select.order.identity))
        rows = sa.select(state, is_open.label("is_open"), sa.func.count()).select_from(held).where(*mine, deciding)
        return (await link.execute(rows.group_by(sa.text("1"), sa.text("2")))).fetchall()

    async def _ask_oldest(self, link: Connection, select: OrderSelect, where: Filter) -> datetime | None:
        """The earliest captured_at of the first pending matches in insertion order.

        Capture mostly follows insertion; only as many as are cheap to read are compared.
        """
        captured = self._captured()
        statement = select.source(sa.select(captured)).where(*select.conditions(where)).limit(_EARLIEST_AMONG)
        given = filter_values(self._filter_sql(where))
        for stretch in select.order.stretches(None, descending=False):
            rows = (await link.execute(select.order.apply(statement, stretch, descending=False), given)).fetchall()
            if rows:
                return min((at for (text,) in rows if (at := parse_time(text)) is not None), default=None)
        return None

    def _captured(self) -> sa.ColumnElement[Any]:
        """The time of capture as text."""
        column = f"{self._attached.found.quoted}.captured_at"
        if self.info.dialect == "postgresql":
            return sa.literal_column(spelled(column, self._attached.column("captured_at").type))
        return sa.literal_column(f"CAST({column} AS TEXT)")

    async def _first_row(self) -> Sequence[Any]:
        order = RowOrder(self._attached)
        identity: sa.ColumnElement[Any] = sa.literal_column(f"{self._attached.found.quoted}.dlq_id")
        table = sa.text(self._attached.found.quoted)
        first = sa.select(identity, self._captured()).select_from(table).limit(1)

        async def work(link: Connection, as_text: bool) -> Sequence[Any]:  # noqa: ARG001 - it always reads text
            for stretch in order.stretches(None, descending=False):
                row = (await link.execute(order.apply(first, stretch, descending=False))).first()
                if row is not None:
                    return tuple(row)
            return ()

        return await self._read(self._quick, work)

    async def _look(self, link: Connection, *, as_text: bool) -> OrderSelect:
        return await self._shape(link, as_text=as_text, look=True)

    async def _shape(self, link: Connection, *, as_text: bool = False, look: bool = False) -> OrderSelect:
        """The SELECTs for the tables as last seen; with `look`, as they are now."""
        shape = OrderSelect(self._attached, self._ledger == "ready", self._stray, as_text, self._is_unreadable)
        return await self._refit(link, shape) if look or self._stray else shape

    @property
    def _is_unreadable(self) -> bool:
        return self._ledger == "unreadable"

    async def _refit(self, link: Connection, shape: OrderSelect) -> OrderSelect:
        with_ledger = await self._has_ledger(link)
        self._stray = with_ledger and bool(await link.scalar(f"SELECT {shape.stray_sql()}"))
        return OrderSelect(self._attached, with_ledger, self._stray, shape.as_text, self._is_unreadable)

"""Reading an attached store: pages, entries, counts. Never writes, holds no transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa

from backends.detect import Attached
from backends.ledger.schema import LedgerTables
from backends.records import STATES, Counts, Entry, Filter, Page, RowKey, State, StoreInfo, parse_time
from backends.sql import filter_sql as condition
from backends.sql.connection import CompiledQuery, Connection, ReadConnection, UndecodableValue
from backends.sql.history import SQLHistory
from backends.sql.order_select import HELD, OrderSelect
from backends.values import is_encodable, to_bytes

T = TypeVar("T")
_MANY = 1000  # entries of one question by id
_MOST_QUERIES = 500
_EARLIEST_AMONG = 1000  # pending entries, the first inserted
_ESCAPED_BYTE = re.compile(rb"\\x([89a-f][0-9a-f])")


class SQLReads(SQLHistory):
    def __init__(
        self, attached: Attached, book: LedgerTables, lanes: tuple[ReadConnection, ReadConnection, ReadConnection]
    ) -> None:
        SQLHistory.__init__(self, attached, book, lanes)
        self._stray = False
        self._queries: dict[tuple[object, ...], CompiledQuery] = {}

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
        asked = condition.answerable(where, self._attached)
        if asked is None:
            return Page((), more=False)
        backwards = before is not None
        place, descending = before if backwards else after, newest_first != backwards

        async def work(link: Connection, as_text: bool) -> list[Entry]:
            shape = await self._shape(link, as_text=as_text)
            rows = await self._page_rows(link, shape, asked, (place, descending, limit + 1))
            if not rows or rows[0][2]:
                fitting = await self._refit(link, shape)
                if fitting != shape:
                    shape = fitting
                    rows = await self._page_rows(link, shape, asked, (place, descending, limit + 1))
            read = shape.reader()
            return [read(row) for row in rows]

        lane = self._slow if where.terms or where.without else self._quick
        found = await self._read(lane, work)
        entries = found[:limit]
        return Page(tuple(reversed(entries) if backwards else entries), len(found) > limit)

    async def _page_rows(
        self, link: Connection, shape: OrderSelect, where: Filter, window: tuple[RowKey | None, bool, int]
    ) -> list[Any]:
        place, descending, most = window
        given = condition.values(where, self._attached)
        given["source"] = self._attached.found.shown
        rows: list[Any] = []
        for stretch in shape.order.stretches(place, descending=descending):
            key = (
                shape.with_ledger,
                shape.stray,
                shape.as_text,
                condition.key(where, self._attached),
                stretch.key,
                descending,
                most,
            )
            query = self._query(key, partial(shape.page, where, stretch, descending=descending, most=most))
            rows += await link.fetch(query, {**given, **stretch.values})
            if len(rows) >= most:
                break
        return rows[:most]

    def _query(self, key: tuple[object, ...], make: Callable[[], CompiledQuery]) -> CompiledQuery:
        query = self._queries.get(key)
        if query is None:
            if len(self._queries) >= _MOST_QUERIES:
                self._queries.clear()
            query = self._queries[key] = make()
        return query

    async def get(self, entry_id: str) -> Entry | None:
        found = (await self.many((entry_id,))).get(entry_id)
        return found or await self._odd(entry_id)

    async def many(self, ids: tuple[str, ...]) -> dict[str, Entry]:
        return await self._by_ids(ids, whole=True)

    async def states(self, ids: tuple[str, ...]) -> dict[str, Entry]:
        """Like `many`, with long values cut."""
        return await self._by_ids(ids, whole=False)

    async def _by_ids(self, ids: tuple[str, ...], *, whole: bool) -> dict[str, Entry]:
        plain = [entry_id for entry_id in ids if "\0" not in entry_id and is_encodable(entry_id)]
        found: dict[str, Entry] = {}
        for start in range(0, len(plain), _MANY):
            chunk = plain[start : start + _MANY]

            async def work(link: Connection, as_text: bool, chunk: list[str] = chunk) -> list[Entry]:
                shape = await self._shape(link, as_text=as_text, look=self._ledger != "ready")
                query = self._query(("ids", whole, shape.with_ledger, as_text), lambda: shape.by_ids(whole=whole))
                asked = {"ids": chunk if shape.on_postgres else json.dumps(chunk), "source": self.info.table}
                return list(map(shape.reader(), await link.fetch(query, asked)))

            found |= {entry.id: entry for entry in await self._read(self._quick, work)}
        return found

    async def _odd(self, entry_id: str) -> Entry | None:
        """An entry whose id is not plain text, by the spelling that a page gives it."""
        if self.info.dialect == "postgresql":
            return None
        blob = re.fullmatch(r"x'((?:[0-9a-f]{2})*)'", entry_id)
        raw = bytes.fromhex(blob[1]) if blob else to_bytes(entry_id)
        raw = raw if blob else _ESCAPED_BYTE.sub(lambda match: bytes.fromhex(match[1].decode()), raw)

        async def work(link: Connection, as_text: bool) -> list[Entry]:
            shape = await self._shape(link, as_text=as_text, look=self._ledger != "ready")
            query = self._query(("raw", shape.with_ledger), shape.by_bytes)
            return list(map(shape.reader(), await link.fetch(query, {"raw": raw, "source": self.info.table})))

        return next((entry for entry in await self._read(self._slow, work) if entry.id == entry_id), None)

    async def counts(self, where: Filter) -> Counts:
        asked = condition.answerable(where, self._attached)
        if asked is None:
            return Counts({}, None)

        async def work(link: Connection, as_text: bool) -> Counts:
            shape = await self._shape(link, as_text=as_text, look=True)
            unfiltered = asked == Filter(states=asked.states)
            tally = await (self._tally_all(link, shape) if unfiltered else self._tally(link, shape, asked))
            oldest = await self._oldest(link, shape, asked)
            return Counts({state: n for state, n in tally.items() if state in asked.states}, oldest)

        return await self._read(self._slow, work)

    async def _tally(self, link: Connection, shape: OrderSelect, where: Filter) -> dict[State, int]:
        state = shape.state()
        statement = shape.source(sa.select(state, sa.func.count())).where(*shape.conditions(where)).group_by(state)
        given = condition.values(where, self._attached)
        tally: dict[State, int] = {}
        for name, count in (await link.execute(statement, given)).fetchall():
            shown = HELD.get(name, name if name in STATES else "in_doubt")
            tally[shown] = tally.get(shown, 0) + count
        return tally

    async def _tally_all(self, link: Connection, shape: OrderSelect) -> dict[State, int]:
        """Without a filter the indexes answer: everything, what is open, and the few that are held."""
        table = sa.select(sa.func.count()).select_from(shape.table)
        total = (await link.execute(table)).scalar_one()
        pending = (await link.execute(table.where(shape.pending()))).scalar_one()
        tally: dict[State, int] = {"pending": pending, "dismissed": total - pending}
        if not shape.with_ledger:
            return tally
        attempt = self._book.attempt
        is_open = sa.case((shape.pending(), 1), else_=0)
        held = attempt.join(shape.table, attempt.c.entry_id == sa.literal_column(shape.order.identity))
        mine = (attempt.c.source == self.info.table) & (attempt.c.holds == 1)
        rows = sa.select(attempt.c.state, is_open, sa.func.count()).select_from(held).where(mine)
        for name, was_open, count in (await link.execute(rows.group_by(attempt.c.state, is_open))).fetchall():
            tally["pending" if was_open else "dismissed"] -= count
            shown = HELD.get(name, "in_doubt")
            tally[shown] = tally.get(shown, 0) + count
        return tally

    async def _oldest(self, link: Connection, shape: OrderSelect, where: Filter) -> datetime | None:
        """The earliest captured_at of the first pending matches in insertion order.

        Capture mostly follows insertion; a store that was filled otherwise is told right as far as is cheap.
        """
        if "pending" not in where.states:
            return None
        only = replace(where, states=frozenset({"pending"}))
        captured: sa.ColumnElement[Any] = sa.literal_column(f"CAST({self._attached.found.quoted}.captured_at AS TEXT)")
        statement = shape.source(sa.select(captured)).where(*shape.conditions(only)).limit(_EARLIEST_AMONG)
        given = condition.values(where, self._attached)
        for stretch in shape.order.stretches(None, descending=False):
            rows = (await link.execute(shape.order.apply(statement, stretch, descending=False), given)).fetchall()
            if rows:
                return min((at for (text,) in rows if (at := parse_time(text)) is not None), default=None)
        return None

    async def _read(self, lane: ReadConnection, work: Callable[[Connection, bool], Awaitable[T]]) -> T:
        try:
            return await lane.run(lambda link: work(link, False))
        except UndecodableValue:
            return await self._tolerant.run(lambda link: work(link, True))

    async def _shape(self, link: Connection, *, as_text: bool = False, look: bool = False) -> OrderSelect:
        """As last seen; with `look`, as it is now."""
        shape = OrderSelect(self._attached, self._ledger == "ready", self._stray, as_text)
        return await self._refit(link, shape) if look or self._stray else shape

    async def _refit(self, link: Connection, shape: OrderSelect) -> OrderSelect:
        with_ledger = await self._has_ledger(link)
        self._stray = with_ledger and bool(await link.scalar(f"SELECT {shape.stray_sql()}"))
        return OrderSelect(self._attached, with_ledger, self._stray, shape.as_text)

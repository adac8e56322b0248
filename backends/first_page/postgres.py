"""Reads the first page of a Postgres store with asyncpg alone, on an event loop of its own. For a bounded time.

Logs in by the same rules, reads in the same READ ONLY transaction and under the same search_path as the store, and
reads no row of a table whose reading would run another role's code. Prepares no statement by a name, so that it may
go through a pooler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
from dlq_sink.libpq.connection import connect

from backends.detect import other_layouts, postgres
from backends.detect.asked import BareRows
from backends.detect.candidates import choose
from backends.detect.foreign_code import foreign_calls
from backends.entry import Entry, State
from backends.first_page.page import HELD, HELD_MOST, PENDING, FirstPage, made
from backends.ledger.presence import look
from backends.postgres_session import BEGIN_READING, END_READING, SPELLING
from backends.records import Filter
from backends.sql.other.row import entries
from backends.sql.other.select import Select
from backends.sql.text.order_row import OrderRow, order_parts
from backends.target import PostgresTarget

_MOST_SECONDS = 4.0  # after that the store reads the page itself, and says what is wrong
_ANSWERED = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


class _Undecodable(Exception):
    """Python has no value for a time that the server holds."""

    def __init__(self, states: frozenset[State]) -> None:
        self.states = states


def read(target: PostgresTarget, limit: int, table: str | None) -> FirstPage | None:
    try:
        return asyncio.run(_bounded(target, limit, table))
    except _ANSWERED:
        return None


async def _bounded(target: PostgresTarget, limit: int, table: str | None) -> FirstPage | None:
    as_text: set[frozenset[State]] = set()
    async with asyncio.timeout(_MOST_SECONDS):
        while True:
            try:
                return await _session(target, limit, table, frozenset(as_text))
            except _Undecodable as problem:
                if problem.states in as_text:
                    return None
                as_text.add(problem.states)  # the store, too, reads such a page again on another connection


async def _session(
    target: PostgresTarget, limit: int, table: str | None, as_text: frozenset[frozenset[State]]
) -> FirstPage | None:
    settings = SPELLING | target.settings.server_settings
    connection = await connect(target, server_settings=settings, statement_cache_size=0)
    try:
        await connection.execute(BEGIN_READING)
        page = await _read(_Reading(connection, as_text), target, limit, table)
        await connection.execute(END_READING)
        await connection.close(timeout=1.0)
    except BaseException:
        connection.terminate()
        raise
    return page


class _Reading:
    def __init__(self, connection: Any, as_text: frozenset[frozenset[State]]) -> None:
        self.connection = connection
        self.as_text = as_text

    async def exec_driver_sql(self, statement: str, parameters: Sequence[Any] | None = None, /) -> BareRows:
        return BareRows(await self.connection.fetch(statement, *(parameters or ())))

    async def rows(self, sql: str, values: Sequence[object], states: frozenset[State]) -> list[Any]:
        try:
            return list(await self.connection.fetch(sql, *values))
        except (OverflowError, ValueError) as problem:
            if isinstance(problem, _ANSWERED):
                raise
            raise _Undecodable(states) from None


async def _read(reading: _Reading, target: PostgresTarget, limit: int, table: str | None) -> FirstPage | None:
    there = await postgres.tables(reading)
    found = choose(there, table, target.label)
    if any(one.is_intent_table for one in there):
        return None  # an engine's intents may be in doubt, and belong on top: the store reads them
    if await foreign_calls(reading, [found.quoted]):
        return None
    if found.other_layout is None:
        attached = postgres.bare(target.label, found, read_only=True)
        read_part = _orders
    else:
        attached = await other_layouts.bare(reading, target.label, found, read_only=True)
        read_part = _others
    seen = await look(reading, attached.info)
    if seen.presence == "unreadable":
        return None
    ledger = seen.presence == "ready"
    held = await read_part(reading, attached, ledger, HELD, HELD_MOST + 1) if ledger else []
    pending = await read_part(reading, attached, ledger, PENDING, limit + 1)
    return made(target.label, attached.info.layout, held, pending, limit)


async def _orders(reading: _Reading, attached: Any, ledger: bool, states: frozenset[State], most: int) -> list[Entry]:
    row = OrderRow(attached, ledger, as_text=states in reading.as_text)
    rows: list[Any] = []
    for part in order_parts(attached, descending=True):
        rows += await reading.rows(row.newest(states, part, most), (), states)
        if len(rows) >= most:
            break
    return row.entries(rows[:most])


async def _others(reading: _Reading, attached: Any, ledger: bool, states: frozenset[State], most: int) -> list[Entry]:
    select = Select(attached, ledger, as_text=states in reading.as_text)
    query = select.page(Filter(states=states), None, descending=True, most=most)
    rows = await reading.rows(query.text, query.values({}), states)
    repeated: frozenset[str] = frozenset()
    if rows and attached.ids_repeat:
        asked = select.repeats([row[1] for row in rows])
        found = await reading.rows(asked.text, asked.values({}), states)
        repeated = frozenset(str(row[0]) for row in found)
    return entries(select, rows, repeated=repeated)

"""Reads the first page of a SQLite store with sqlite3 alone: no asyncio, no SQLAlchemy. For a bounded time."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from backends.detect import sqlite
from backends.detect.asked import BareRows
from backends.detect.candidates import choose
from backends.entry import Entry, State
from backends.first_page.page import HELD, HELD_MOST, PENDING, FirstPage, made
from backends.ledger.presence import look
from backends.sql.text.order_row import OrderRow, order_parts
from backends.sqlite_file import check_file
from backends.sqlite_guard import PRIME, connect, keep_bytes, only_reading
from backends.target import SQLiteTarget

T = TypeVar("T")
_MOST_SECONDS = 2.0  # after that the store reads the page itself, and says what is wrong


def read(target: SQLiteTarget, limit: int, table: str | None) -> FirstPage | None:
    try:
        check_file(target)
        tail = "immutable=1" if target.immutable else "mode=ro"
        connection = connect(f"file:{quote(os.fsencode(target.path.absolute()))}?{tail}", timeout=1.0)
        try:
            connection.execute(PRIME)
            connection.execute("PRAGMA query_only = ON")
            connection.set_authorizer(only_reading)
            ends = time.monotonic() + _MOST_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > ends, 100_000)
            return _read(connection, target, limit, table)
        finally:
            connection.close()
    except (sqlite3.Error, MemoryError, OSError):
        return None


def _read(connection: sqlite3.Connection, target: SQLiteTarget, limit: int, table: str | None) -> FirstPage | None:
    asked = _BareConnection(connection)
    there = _finished(sqlite.tables(asked))
    found = choose(there, table, target.label)
    if found.other_layout is not None or any(one.is_intent_table for one in there):
        return None  # an engine's intents may be in doubt, and belong on top: the store reads them
    by_rowid = _finished(sqlite.has_rowid(asked, found))
    attached = sqlite.bare(target, found, by_rowid=by_rowid, read_only=True)
    seen = _finished(look(asked, attached.info))
    if seen.presence == "unreadable":
        return None
    row = OrderRow(attached, with_ledger=seen.presence == "ready")
    held = _entries(connection, row, HELD, HELD_MOST + 1) if row.with_ledger else []
    pending = _entries(connection, row, PENDING, limit + 1)
    return made(target.label, attached.info.layout, held, pending, limit)


def _entries(connection: sqlite3.Connection, row: OrderRow, states: frozenset[State], most: int) -> list[Entry]:
    try:
        return row.entries(_rows(connection, row, states, most))
    except sqlite3.OperationalError as problem:
        if "decode to utf-8" not in str(problem).lower():
            raise
    connection.text_factory = keep_bytes
    tolerant = OrderRow(row.attached, row.with_ledger, as_text=True)
    try:
        return tolerant.entries(_rows(connection, tolerant, states, most))
    finally:
        connection.text_factory = str


def _rows(connection: sqlite3.Connection, row: OrderRow, states: frozenset[State], most: int) -> list[Any]:
    rows: list[Any] = []
    for part in order_parts(row.attached, descending=True):
        rows += connection.execute(row.newest(states, part, most)).fetchall()
        if len(rows) >= most:
            break
    return rows[:most]


class _BareConnection:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def exec_driver_sql(self, statement: str, parameters: Sequence[Any] | None = None, /) -> BareRows:
        return BareRows(self._connection.execute(statement, parameters or ()).fetchall())


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits, as all it awaits is sqlite3's answer. Needs no event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("it waited for something")

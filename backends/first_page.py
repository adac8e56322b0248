"""Reads the first page of a SQLite order store with plain sqlite3, before SQLAlchemy is loaded.

Answers only for an ordinary table; for anything else it returns None and the store reads the page later.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from backends.layouts import orders
from backends.records import CLIP, Entry, State
from backends.sqlite_file import check_file
from backends.sqlite_guard import connect
from backends.store import StoreError
from backends.target import SQLiteTarget, Target

_STATES: dict[str, State] = {"submitting": "in_flight", "in_doubt": "in_doubt", "pending": "pending"}
_TABLES = (
    'SELECT m.name, c.name, c.type, c."notnull", t.wr FROM sqlite_master m '
    "JOIN pragma_table_list t ON t.name = m.name AND t.schema = 'main' JOIN pragma_table_xinfo(m.name) c "
    "WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "AND m.name NOT LIKE 'console\\_%' ESCAPE '\\' ORDER BY m.name, c.cid"
)
_LEDGER = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'console\\_%' ESCAPE '\\'"
_CORE = ("approval", "attempt", "audit", "audit_entry", "claim", "halt", "meta", "note")  # of a whole ledger
_HELD_MOST = 200
_MOST_SECONDS = 2.0  # after that the store reads the page itself, and says what is wrong


class FirstPage(NamedTuple):
    label: str
    held: tuple[Entry, ...]  # in doubt or in flight, newest first
    entries: tuple[Entry, ...]  # pending, newest first
    more: bool


def read_first_page(target: Target, *, limit: int, table: str | None = None) -> FirstPage | None:
    """None if the store is unusual or not SQLite; connecting to a server takes longer than loading the rest."""
    if not isinstance(target, SQLiteTarget):
        return None
    try:
        check_file(target)
        tail = "immutable=1" if target.immutable else "mode=ro"
        uri = f"file:{quote(os.fsencode(target.path.absolute()))}?{tail}"
        connection = connect(uri, timeout=1.0)
        try:
            ends = time.monotonic() + _MOST_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > ends, 100_000)
            return _read(connection, target, limit, table)
        finally:
            connection.close()
    except (sqlite3.Error, MemoryError, StoreError, OSError):
        return None


def _read(connection: sqlite3.Connection, target: SQLiteTarget, limit: int, table: str | None) -> FirstPage | None:
    shape = _find(connection, table)
    if shape is None:
        return None
    there = {name.removeprefix("console_") for (name,) in connection.execute(_LEDGER)}.intersection(_CORE)
    if there and len(there) < len(_CORE):
        return None  # what a ledger in pieces would tell is unknown, and the store says so
    ledger = bool(there)
    rows = connection.execute(shape.pending(ledger=ledger, limit=limit + 1), shape.source(ledger=ledger)).fetchall()
    held = connection.execute(shape.held(), shape.source(ledger=True)).fetchall() if ledger else []
    if len(held) > _HELD_MOST:
        return None
    entries = [shape.entry(row) for row in rows[:limit]]
    return FirstPage(target.label, tuple(map(shape.entry, held)), tuple(entries), len(rows) > limit)


class _Shape(NamedTuple):
    """The SELECTs over one table of the order layout."""

    table: str
    names: tuple[str, ...]
    cut: tuple[str, ...]  # columns that a page cuts if they are long
    flag_not_null: bool

    @property
    def quoted(self) -> str:
        return orders.quoted(self.table)

    def source(self, *, ledger: bool) -> tuple[str, ...]:
        return (self.table,) if ledger else ()

    def _columns(self) -> str:
        long = " OR ".join(self._exceeds(name) for name in self.cut) or "0"
        shown = [self._shown(name) for name in self.names]
        return f"({long}), t._rowid_, {', '.join(shown)}"

    def _exceeds(self, name: str) -> str:
        column = f"t.{orders.quoted(name)}"
        return f"({column} >= '' AND length(CAST({column} AS BLOB)) > {CLIP})"

    def _shown(self, name: str) -> str:
        column = f"t.{orders.quoted(name)}"
        if name not in self.cut:
            return column
        return f"CASE WHEN {self._exceeds(name)} THEN substr({column}, 1, {CLIP}) ELSE {column} END"

    def pending(self, *, ledger: bool, limit: int) -> str:
        flag = "t.dismissed = 0" if self.flag_not_null else "(t.dismissed = 0 OR t.dismissed IS NULL)"
        # An entry accepted in paper whose row is open was opened again.
        held = "a.entry_id = t.dlq_id AND a.holds = 1 AND NOT (a.mode = 'paper' AND a.state = 'accepted')"
        join = f"LEFT JOIN console_attempt a ON a.source = ? AND {held}" if ledger else ""
        free = "AND a.state IS NULL" if ledger else ""
        return (
            f"SELECT 'pending', {self._columns()} FROM {self.quoted} t {join} WHERE {flag} {free} "
            f"ORDER BY t._rowid_ DESC LIMIT {int(limit)}"
        )

    def held(self) -> str:
        # The + makes SQLite start from the few open attempts instead of walking the whole table.
        return (
            f"SELECT a.state, {self._columns()} FROM console_attempt a CROSS JOIN {self.quoted} t "
            "ON t.dlq_id = a.entry_id WHERE +a.source = ? AND a.holds = 1 AND a.state IN ('submitting', 'in_doubt') "
            f"ORDER BY t._rowid_ DESC LIMIT {_HELD_MOST + 1}"
        )

    def entry(self, row: Sequence[Any]) -> Entry:
        values = tuple(row[3:])
        version = values[-3:-1] if "retry_count" in self.names else values[-2:-1]
        return Entry(orders.NAME, values[0], _STATES[row[0]], version, (row[2],), self.names, values, bool(row[1]))


def _find(connection: sqlite3.Connection, wanted: str | None) -> _Shape | None:
    tables: dict[str, dict[str, tuple[str, bool]]] = {}
    for name, column, kind, not_null, without_rowid in connection.execute(_TABLES):
        if without_rowid == 0:
            tables.setdefault(name, {})[column] = (kind.lower(), bool(not_null))
    fitting = [name for name, columns in tables.items() if columns.keys() >= orders.REQUIRED]
    if wanted is not None:
        fitting = [name for name in fitting if name == wanted]
    if len(fitting) != 1:
        return None
    columns = tables[fitting[0]]
    if columns["dlq_id"] != ("text", True):
        return None
    names = tuple(name for name in orders.COLUMNS if name in columns)
    cut = tuple(name for name in names if name not in ("dlq_id", "retry_count", "dismissed"))
    return _Shape(fitting[0], names, cut, flag_not_null=columns["dismissed"][1])

"""`SQLiteDLQ`: a sink on a SQLite file. One connection under one lock; every act is one short transaction."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dlq_sink import order_table as orders
from dlq_sink.contract import ClosingSink, Entries, IntentRows, check_usable
from dlq_sink.error import ActRefused, BadEntry, BadTarget, DuplicateEntry, NotADLQ, Unreachable
from dlq_sink.error_codes import sqlite_error
from dlq_sink.record import DeadLetteredOrder
from dlq_sink.rows import SinkTable, Values, choose, differing, pending, record, taken, values
from dlq_sink.target import SQLiteTarget, parse_target

BUSY_SECONDS = 30.0
_ASKING_SECONDS = 0.001
_TABLES = (
    'SELECT m.name, t.wr, c.name, c.type, c."notnull" OR c.pk FROM sqlite_master m '
    "JOIN pragma_table_list(m.name) t ON t.schema = 'main' JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table' "
    "AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND m.name NOT LIKE 'console\\_%' ESCAPE '\\' ORDER BY m.name, c.cid"
)


class SQLiteDLQ(ClosingSink):
    """Takes a path or `sqlite:///path`; makes file and layout where they are missing, else uses the table it finds.

    `url` and `table` name the same entries to `open_store`.
    """

    def __init__(self, path: str | os.PathLike[str], *, table: str | None = None) -> None:
        target = _target(path)
        self._target = target
        self._label = target.label
        self._lock = threading.Lock()
        self._closed = False
        self._is_forking = False
        self._connection: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # the one whose tables are known
        self._makers: list[Callable[[sqlite3.Connection], None]] = []  # of the tables that another file would lack
        try:
            with self._transaction() as connection:
                self._table = _attach(connection, table, self._label)
            self._makers.append(self._attach_again)
        except BaseException:
            self.close()
            raise
        self._columns = ", ".join(orders.COLUMNS)
        self.url = f"sqlite:///{quote(str(target.path))}"
        self.table = self._table.shown
        self._survive_forks()

    def write(self, entry: DeadLetteredOrder) -> None:
        row = values(entry)
        with self._transaction() as connection:
            self._insert_row(connection, row)

    def list(self, *, include_dismissed: bool = False) -> Entries:
        """In insertion order (rowid), as `dlq list` shows them; a table without rowid by captured_at, then dlq_id."""
        where = "" if include_dismissed else f" WHERE {self._table.pending}"
        sql = f"SELECT {self._columns} FROM {self._table.quoted}{where} ORDER BY {self._table.order}"
        with self._reading() as connection:
            rows = connection.execute(sql).fetchall()
        return [record(row) for row in rows]

    def get(self, dlq_id: str) -> DeadLetteredOrder | None:
        with self._reading() as connection:
            row = self._fetch(connection, dlq_id)
        return None if row is None else record(row)

    def mark_dismissed(self, dlq_id: str) -> bool:
        with self._transaction() as connection:
            return self._dismiss(connection, dlq_id)

    def bump_retry(self, dlq_id: str) -> int:
        with self._transaction() as connection:
            sql = f"UPDATE {self._table.quoted} SET retry_count = coalesce(retry_count, 0) + 1 WHERE dlq_id = ?"
            if connection.execute(sql, (dlq_id,)).rowcount < 1:
                raise KeyError(dlq_id)
            sql = f"SELECT retry_count FROM {self._table.quoted} WHERE dlq_id = ?"
            return int(connection.execute(sql, (dlq_id,)).fetchone()[0])

    def depth(self) -> int:
        with self._reading() as connection:
            sql = f"SELECT count(*) FROM {self._table.quoted} WHERE {self._table.pending}"
            return int(connection.execute(sql).fetchone()[0])

    def close(self) -> None:
        self._end_renewal()
        with self._lock:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _before_fork(self) -> None:
        """A file that is open across a fork loses its locks in the child, so nobody has it open then."""
        self._is_forking = self._lock.acquire(timeout=BUSY_SECONDS)
        if self._is_forking:
            self._disconnect()

    def _after_fork(self) -> None:
        if self._is_forking:
            self._is_forking = False
            self._lock.release()

    def _after_fork_in_child(self) -> None:
        super()._after_fork_in_child()
        if not self._is_forking:  # another thread of the parent was at it all the time: it stays the parent's
            self._closed, self._lock = True, threading.Lock()
            self._inherited, self._connection = self._connection, None
        self._after_fork()

    def _dsn(self) -> str:
        """The target for `open_store`."""
        return self.url

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        check_usable(closed=self._closed)
        with self._lock:
            check_usable(closed=self._closed)
            try:
                yield self._connected()
            except sqlite3.Error as problem:
                raise sqlite_error(problem, self._label) from None

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._target.found_file() != self._file:
            self._leave_file(self._connection)
        if self._connection is None:  # at first, after a fork, and where another file was put in the place of ours
            made = _connect(self._target)
            found = self._target.found_file()
            try:
                if self._makers and found != self._file:
                    self._prepare(made)
            except BaseException:
                made.close()
                raise
            self._connection, self._file = made, found
        return self._connection

    def _leave_file(self, connection: sqlite3.Connection) -> None:
        """The file was moved or deleted under us: what is written to it now, nobody would find.

        All that it was given is put into it first, as its log may have stayed behind.
        """
        import logging  # an engine that only imports the package needs none

        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._disconnect()
        told = logging.getLogger("dlq_sink")
        told.error("%s was moved or deleted: entries go to the file that is in its place, or to a new one", self._label)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        _begin(connection)
        for make in self._makers:
            make(connection)
        connection.execute("COMMIT")

    def _attach_again(self, connection: sqlite3.Connection) -> None:
        self._table = _attach(connection, self.table, self._label)

    @contextmanager
    def _transaction(self, *, synced: bool = True) -> Iterator[sqlite3.Connection]:
        """Durable once it ends; not `synced`: a power cut may undo it, and nothing but it."""
        with self._reading() as connection:
            # With a rollback journal a transaction that is not synced may cost the whole file, and not only itself.
            synced = synced or connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal"
            if not synced:
                connection.execute("PRAGMA synchronous = NORMAL")
            try:
                _begin(connection)
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if not synced:
                    connection.execute("PRAGMA synchronous = FULL")

    def _insert_row(self, connection: sqlite3.Connection, row: Values) -> None:
        dlq_id = str(row[0])
        if self._fetch(connection, dlq_id) is not None:
            raise DuplicateEntry(f"{dlq_id} is already in {self._label}; nothing was overwritten")
        places = ", ".join("?" for _ in row)
        connection.execute(
            f"INSERT INTO {self._table.quoted} ({self._columns}) VALUES ({places})", _bound(row, self._table.types)
        )
        # A column of another type or a trigger may alter a value; then nothing is written.
        if changed := differing(row, self._fetch(connection, dlq_id)):
            raise BadEntry(f"{self._label} does not keep the value it is given, nothing was written: {changed}")

    def _dismiss(self, connection: sqlite3.Connection, dlq_id: str) -> bool:
        sql = f"UPDATE {self._table.quoted} SET dismissed = 1 WHERE dlq_id = ?"
        return connection.execute(sql, (dlq_id,)).rowcount > 0

    def _intent_rows(self) -> IntentRows:
        from dlq_sink.witness.sqlite import SQLiteIntents

        return SQLiteIntents(self)

    def _fetch(self, connection: sqlite3.Connection, dlq_id: str) -> tuple[Any, ...] | None:
        sql = f"SELECT {self._columns} FROM {self._table.quoted} WHERE dlq_id = ?"
        row: tuple[Any, ...] | None = connection.execute(sql, (dlq_id,)).fetchone()
        return row

    def __repr__(self) -> str:
        return f"SQLiteDLQ({self._label!r}, table={self.table!r})"


def _bound(row: Values, types: Mapping[str, str]) -> list[object]:
    bound: list[object] = list(row)
    for name in ("quantity", "price"):
        place = orders.COLUMNS.index(name)
        number = row[place]
        # SQLite stores NaN as NULL, and cuts a float to 15 digits in a column of text.
        if isinstance(number, str) and number != "nan" and orders.sqlite_affinity(types[name]) != "text":
            bound[place] = float(number)
    return bound


def _target(path: str | os.PathLike[str]) -> SQLiteTarget:
    text = os.fspath(path)
    if text == ":memory:":
        raise BadTarget("a sink in memory is InMemoryDLQ()")
    target = parse_target(text) if isinstance(path, str) else SQLiteTarget(Path(path))
    if not isinstance(target, SQLiteTarget):
        raise BadTarget("SQLiteDLQ takes a path or sqlite:///path; for Postgres there is PostgresDLQ")
    if target.immutable:
        raise BadTarget("an engine cannot write to an immutable store")
    return SQLiteTarget(target.path.absolute())


def _connect(target: SQLiteTarget) -> sqlite3.Connection:
    if target.path.is_dir():
        raise NotADLQ(f"{target.label} is a directory, not a SQLite file")
    if not target.path.parent.is_dir():
        raise Unreachable(f"{target.label} cannot be made: there is no directory {target.path.parent}")
    if target.path.exists() and not os.access(target.path, os.W_OK):
        # SQLite would open it for reading and refuse the first entry; an engine must hear it before.
        raise ActRefused(f"{target.label} cannot be written by this user")
    uri = f"file:{quote(str(target.path))}?mode=rwc"
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False)
    except sqlite3.Error as problem:
        raise sqlite_error(problem, target.label) from None
    # Others may have stored bytes that are no text; they must not make the rest unreadable.
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    try:
        connection.execute("PRAGMA synchronous = FULL")
        if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
            _write_ahead(connection)
    except sqlite3.Error as problem:
        connection.close()
        raise sqlite_error(problem, target.label) from None
    return connection


def _begin(connection: sqlite3.Connection) -> None:
    """Wait for other writers by asking often: SQLite itself would sleep up to 0.1 s beside a file that is free."""
    deadline = time.monotonic() + BUSY_SECONDS
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as problem:
                if not problem.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                    raise
                time.sleep(_ASKING_SECONDS)
            else:
                return
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to WAL, so that readers never block the engine. Retries, since the switch ignores the busy timeout."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as problem:
            if not problem.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _attach(connection: sqlite3.Connection, wanted: str | None, label: str) -> SinkTable:
    found = choose(_tables(connection), wanted, label)
    if found is not None:
        return found
    name = wanted or orders.DEFAULT_TABLE
    if connection.execute("SELECT 1 FROM sqlite_master WHERE lower(name) = lower(?)", (name,)).fetchone():
        raise taken(name, label)
    for statement in orders.sqlite_ddl(name):
        connection.execute(statement)
    made = choose(_tables(connection), name, label)
    if made is None:
        raise BadTarget(f"{label}: {name} cannot be the name of a table of entries")
    return made


def _tables(connection: sqlite3.Connection) -> list[SinkTable]:
    types: dict[str, dict[str, str]] = {}
    pending_as: dict[str, str] = {}
    order: dict[str, str] = {}
    for name, without_rowid, column, declared, not_null in connection.execute(_TABLES):
        types.setdefault(name, {})[column] = (declared or "").lower()
        if column == "dismissed":
            pending_as[name] = pending(is_boolean=False, is_required=bool(not_null))
        order[name] = "captured_at, dlq_id" if without_rowid else "_rowid_"
    return [SinkTable(None, name, types[name], pending_as[name], order[name]) for name in pending_as]

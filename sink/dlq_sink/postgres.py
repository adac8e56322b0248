"""`PostgresDLQ`: a sink on Postgres, and its connection. Every act is one short transaction."""

from __future__ import annotations

import asyncio
import atexit
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar, assert_never

import asyncpg

from dlq_sink import order_table as orders
from dlq_sink.contract import ClosingSink, Entries, IntentRows, check_usable
from dlq_sink.error import (
    ActRefused,
    BadEntry,
    BadTarget,
    CommitUnknown,
    DuplicateEntry,
    NotADLQ,
    StoreError,
    Unreachable,
)
from dlq_sink.error_codes import is_lost_state, postgres_error, sqlstate
from dlq_sink.libpq.connection import connect
from dlq_sink.record import DeadLetteredOrder
from dlq_sink.rows import SinkTable, Values, choose, differing, is_same, pending, record, refuse_nul, taken, values
from dlq_sink.target import PostgresTarget, parse_target

_PAUSE = 0.05  # before reconnecting to a server that ended the connection
_TURNS_TO_HEAR = 5  # of the loop, from what has come in to a closed connection, through TLS, too
IDLE_SECONDS = 5.0  # after this a firewall may have dropped the connection silently
_SAFE_PATH = "search_path = pg_catalog, pg_temp"
_SERVER_PID = "SELECT pg_catalog.pg_backend_pid()"  # a pooler tells another as its own
SAVEPOINT = "dlq_sink"  # where every writing transaction begins
_DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
Result = TypeVar("Result")
# Changes nothing; looks for the table and may make it; can be repeated safely; cannot; brings its own transaction
# and can be repeated safely.
Effect = Literal["reads", "attaches", "settles", "counts", "scripts"]
Work = Callable[[Any, bool], Awaitable[Result]]  # takes the connection, and whether an earlier try may have succeeded


class SinkConnection:
    """One connection, driven by the thread that calls: no other thread stands between an order and its commit."""

    def __init__(self, target: PostgresTarget, timeout: float) -> None:
        self._target = target
        self._label = target.label
        self._timeout = timeout
        self._closed = False
        self._turn = threading.Lock()
        self._loop: Any = None
        self._connection: Any = None
        self._used = 0.0
        self._per_transaction = ""  # what every transaction sets, behind a pooler
        self._inherited: list[Any] = []

    def begin_again(self) -> None:
        """In a forked child: what it inherited stays untouched, since the parent goes on with it."""
        self._inherited += [self._loop, self._connection]
        self._loop = self._connection = None
        self._turn = threading.Lock()

    def call(self, work: Work[Result], effect: Effect, *, patient: bool = True) -> Result:
        """Run `work` on the connection; a patient call retries a server that is down until the timeout."""
        check_usable(closed=self._closed)
        return _outside_a_loop(lambda: self._take_turn(work, effect, patient))

    def script(self, sql: str, *, synced: bool, is_own: str | None = None) -> str:
        """One statement as one round trip and one transaction; the status it ends with.

        What a simple query holds is one transaction, and what it sets ends with it.
        `is_own`: the SQLSTATE that a second try meets where the first one was committed after all.
        """
        unsynced = "" if synced else "SET LOCAL synchronous_commit = off; "

        async def work(link: Any, repeated: bool) -> str:
            try:
                return str(await link.execute(self._per_transaction + unsynced + sql))
            except asyncpg.PostgresError as problem:
                if repeated and problem.sqlstate == is_own:
                    return ""
                raise

        return self.call(work, "scripts")

    def close(self) -> None:
        if not self._closed:
            _outside_a_loop(self._close)

    def _close(self) -> None:
        # Earlier calls go first, and each ends within its own timeout.
        is_ours = self._turn.acquire(timeout=self._timeout)
        self._closed = True
        if is_ours:
            try:
                self._drive(self._end())
            finally:
                self._loop.close()
                self._turn.release()

    async def _end(self) -> None:
        if self._connection is not None:
            try:
                await self._connection.close(timeout=min(1.0, self._timeout))
            except _DRIVER_ERRORS:
                self._connection.terminate()

    def _take_turn(self, work: Work[Result], effect: Effect, patient: bool) -> Result:
        deadline = time.monotonic() + self._timeout  # the loop's clock
        if not self._turn.acquire(timeout=self._timeout):
            raise Unreachable(f"{self._label} did not answer in time; nothing was written")
        try:
            check_usable(closed=self._closed)
            return self._drive(self._persist(work, effect, deadline=deadline, patient=patient))
        finally:
            self._used = time.monotonic()
            self._turn.release()

    def _drive(self, work: Coroutine[Any, Any, Result]) -> Result:
        if self._loop is None:  # at first, and after a fork
            self._loop = asyncio.new_event_loop()
        loop: asyncio.AbstractEventLoop = self._loop
        task = loop.create_task(work)
        try:
            result: Result = loop.run_until_complete(task)
        except Exception:
            raise
        except BaseException:
            # Ctrl-C met it at some point of the protocol: nobody can say what the connection would answer next.
            if self._connection is not None:
                self._connection.terminate()
            task.cancel()
            with suppress(Exception, asyncio.CancelledError):
                self._loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            raise
        return result

    async def _persist(self, work: Work[Result], effect: Effect, *, deadline: float, patient: bool) -> Result:
        repeated = False
        while True:
            try:
                connection = await self._connected(deadline, patient=patient)
            except StoreError as problem:
                raise (self._unknown() if repeated else problem) from None
            # Closes the socket at the deadline; cancelling would wait for the server to roll back.
            timer = self._loop.call_at(deadline, connection.terminate)
            try:
                return await self._transacted(connection, partial(work, connection, repeated), effect)
            except _DRIVER_ERRORS as problem:
                if not (connection.is_closed() or _is_lost(problem)):
                    raise postgres_error(problem, self._label) from None
                connection.terminate()
                match effect:
                    case "reads":
                        pass
                    case "settles" | "attaches" | "scripts":
                        repeated = True
                    case "counts":
                        raise self._unknown() from None
                    case _:
                        assert_never(effect)
            finally:
                timer.cancel()
            await asyncio.sleep(_PAUSE)

    async def _transacted(self, connection: Any, work: Callable[[], Awaitable[Result]], effect: Effect) -> Result:
        """Looks under a search_path that holds the server's own objects alone; writes under the role's own path."""
        match effect:
            case "scripts":
                return await work()
            case "attaches":
                async with connection.transaction():
                    await connection.execute(f"{self._per_transaction}SET LOCAL {_SAFE_PATH}")
                    return await work()
            case "reads":
                begin = f"BEGIN READ ONLY; {self._per_transaction}SET LOCAL {_SAFE_PATH}"
            case "settles" | "counts":
                begin = f"BEGIN; {self._per_transaction}SAVEPOINT {SAVEPOINT}"
            case _:
                assert_never(effect)
        # Begun in one message: beside a busy machine every round trip is one more wait for a processor.
        await connection.execute(begin)
        try:
            result = await work()
            ended = await connection.execute("COMMIT")
        except BaseException:
            if not connection.is_closed() and connection.is_in_transaction():
                await connection.execute("ROLLBACK")
            raise
        if ended != "COMMIT":
            raise ActRefused(f"{self._label} did not commit: nothing was written")
        return result

    async def _connected(self, deadline: float, *, patient: bool) -> Any:
        if await self._is_alive():
            return self._connection
        pause = _PAUSE
        while True:
            left = deadline - self._loop.time()
            if left <= 0:
                raise Unreachable(f"{self._label} did not answer in time")
            try:
                self._connection = await self._connect(left)
            except _DRIVER_ERRORS as problem:
                if not patient or not _is_passing(problem) or left <= pause:
                    raise postgres_error(problem, self._label) from None
            else:
                return self._connection
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.5)

    async def _connect(self, left: float) -> Any:
        # No setting that a pooler refuses, and no statement that it would have to keep.
        deadline = self._loop.time() + left
        connection = await connect(
            self._target,
            seconds=left,
            server_settings={"application_name": "dlq-sink", **self._target.settings.server_settings},
            statement_cache_size=0,
        )
        try:
            async with asyncio.timeout_at(deadline):
                await self._settle_session(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _settle_session(self, connection: Any) -> None:
        """Settings for the whole session; behind a pooler, which gives it to others, each transaction makes them."""
        allowed = max(1, int(self._timeout * 1000))
        settings = (
            "synchronous_commit = on",
            f"statement_timeout = {allowed}",
            # Half of the timeout, so that a locked table is reported as such and not as an unknown outcome.
            f"lock_timeout = {max(1, allowed // 2)}",
            f"idle_in_transaction_session_timeout = {allowed}",
        )
        async with connection.transaction():
            has_pooler = await connection.fetchval(_SERVER_PID) != connection.get_server_pid()
        if has_pooler:
            level = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
            self._per_transaction = level + "".join(f"SET LOCAL {setting}; " for setting in settings)
        else:
            level = "default_transaction_isolation = 'read committed'"
            await connection.execute("; ".join(f"SET SESSION {setting}" for setting in (*settings, level)))
            self._per_transaction = ""

    async def _is_alive(self) -> bool:
        connection = self._connection
        if connection is None or connection.is_closed():
            return False
        idle = self._loop.time() - self._used
        if idle < min(_PAUSE, IDLE_SECONDS):
            return True
        for _ in range(_TURNS_TO_HEAR):  # nobody listened meanwhile: the server may have ended the connection
            await asyncio.sleep(0)
        if connection.is_closed():
            return False
        if idle < IDLE_SECONDS:
            return True
        try:
            await connection.fetchval("SELECT 1", timeout=self._timeout / 4)
        except _DRIVER_ERRORS:
            connection.terminate()
            return False
        return True

    def _unknown(self) -> CommitUnknown:
        return CommitUnknown(
            f"the connection to {self._label} was lost before it answered: the act may have taken place. Look again "
            "when the store is back; writing the entry again is safe"
        )


def _outside_a_loop(work: Callable[[], Result]) -> Result:
    """Here; or, where this thread runs a loop of the engine's, in another, since no thread runs two."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as problem:  # noqa: BLE001 - raised again where it was called
            done.set_exception(problem)

    threading.Thread(target=run, name="dlq-sink", daemon=True).start()
    return done.result()


def _is_lost(problem: BaseException) -> bool:
    return isinstance(problem, OSError) or is_lost_state(sqlstate(problem))


def _is_passing(problem: BaseException) -> bool:
    """Whether trying again may help: with a server that is down, starting or full, but not with a wrong password."""
    if isinstance(problem, asyncpg.PostgresError):
        return str(problem.sqlstate)[:2] in ("08", "57", "53")
    return isinstance(problem, OSError) and not isinstance(problem, ssl.SSLError)


MAKING = 0x646C715F6D616B65  # the advisory lock held while creating the layout
_TABLES = """
SELECT n.nspname::text AS schema, c.relname::text AS name,
       array_agg(a.attname::text) AS names, array_agg(format_type(a.atttypid, a.atttypmod)) AS types,
       array_agg(a.attnotnull) AS not_null,
       EXISTS (SELECT 1 FROM pg_index i JOIN pg_attribute k ON k.attrelid = c.oid AND k.attname = 'dlq_id'
               WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                 AND i.indnkeyatts = 1 AND i.indkey[0] = k.attnum) AS has_key
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^(pg_|information_schema$|dlq_console$)'
  AND 3 = (SELECT count(*) FROM pg_attribute x WHERE x.attrelid = c.oid AND x.attname = ANY ($1))
GROUP BY c.oid, n.nspname, c.relname, c.relkind
"""
_READ_AS_IS = frozenset({"text", "double precision", "boolean", "smallint", "integer", "bigint"})
_EQ = "OPERATOR(pg_catalog.=)"  # the server's own, whatever the search_path is
_OF_THE_GRAMMAR = ("big", "int", "small", "bool", "num", "real", "double", "char", "time", "bit")
_RACED = frozenset({"42P07", "42710", "42723", "23505", "XX000"})  # seen if others create it without that lock


class PostgresDLQ(ClosingSink):
    """Takes `postgresql://user@host/db`; makes the layout where it is missing, else uses the table it finds.

    No call takes longer than `timeout` seconds; within it, a server that restarts is waited for. `url` (which never
    holds the password) and `table` name the same entries to `open_store`.
    """

    def __init__(self, url: str, *, table: str | None = None, timeout: float = 10.0) -> None:
        target = parse_target(url)
        if not isinstance(target, PostgresTarget):
            raise BadTarget("PostgresDLQ takes postgresql://user@host/db; for a file there is SQLiteDLQ")
        if not timeout > 0:
            raise ValueError("timeout must be more than 0 seconds")
        self._given = url
        self._label = target.label
        self._line = SinkConnection(target, timeout)
        try:
            self._table = self._line.call(lambda link, _: _attach(link, table, self._label), "attaches", patient=False)
        except BaseException:
            self._line.close()
            raise
        self._columns = ", ".join(_reading(name, self._table.types[name]) for name in orders.COLUMNS)
        kinds = (_type(self._table.types[name]) for name in orders.COLUMNS)
        places = (f"CAST(CAST(${n} AS pg_catalog.text) AS {kind})" for n, kind in enumerate(kinds, 1))
        self._insert = (
            f"INSERT INTO {self._table.quoted} ({', '.join(orders.COLUMNS)}) VALUES ({', '.join(places)}) "
            f"RETURNING {self._columns}"
        )
        self.url = target.dsn
        self.table = self._table.shown
        self._survive_forks()
        atexit.register(self.close)  # an engine that forgets it ends in order

    def write(self, entry: DeadLetteredOrder) -> None:
        row = values(entry)
        refuse_nul(row, self._label)
        self._line.call(lambda link, repeated: self._insert_row(link, row, repeated), "settles")

    def list(self, *, include_dismissed: bool = False) -> Entries:
        """By captured_at, then dlq_id, as `dlq list` shows them: no column says in which order they were written."""
        where = "" if include_dismissed else f" WHERE {self._table.pending}"
        sql = f"SELECT {self._columns} FROM {self._table.quoted}{where} ORDER BY {self._table.order}"
        rows: list[Any] = self._line.call(lambda link, _: link.fetch(sql), "reads")
        return [record(row) for row in rows]

    def get(self, dlq_id: str) -> DeadLetteredOrder | None:
        row: Any = self._line.call(lambda link, _: self._fetch(link, dlq_id), "reads")
        return None if row is None else record(row)

    def mark_dismissed(self, dlq_id: str) -> bool:
        return self._line.call(lambda link, _: self._dismiss(link, dlq_id), "settles")

    def bump_retry(self, dlq_id: str) -> int:
        sql = (
            f"UPDATE {self._table.quoted} SET retry_count = coalesce(retry_count, 0) OPERATOR(pg_catalog.+) 1 "
            f"WHERE dlq_id {_EQ} $1 RETURNING retry_count"
        )
        count: int | None = self._line.call(lambda link, _: link.fetchval(sql, dlq_id), "counts")
        if count is None:
            raise KeyError(dlq_id)
        return int(count)

    def depth(self) -> int:
        sql = f"SELECT count(*) FROM {self._table.quoted} WHERE {self._table.pending}"
        count: int = self._line.call(lambda link, _: link.fetchval(sql), "reads")
        return count

    def close(self) -> None:
        atexit.unregister(self.close)
        self._end_renewal()
        self._line.close()

    def _after_fork_in_child(self) -> None:
        super()._after_fork_in_child()
        self._line.begin_again()

    def _dsn(self) -> str:
        """The target for `open_store`, as given, with its password if it had one."""
        return self._given

    async def _insert_row(self, link: Any, row: Values, repeated: bool) -> None:
        given = [value if value is None else str(value) for value in row]
        try:
            kept = await link.fetchrow(self._insert, *given)
        except asyncpg.UniqueViolationError:
            await link.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
            stored = await self._fetch(link, str(row[0]))
            if stored is None:
                raise ActRefused(f"{self._label} refused the entry: another rule than the id's is broken") from None
            if not (repeated and is_same(row, stored)):
                raise DuplicateEntry(f"{row[0]} is already in {self._label}; nothing was overwritten") from None
            return
        # A column of another type or a trigger may alter a value; then nothing is written.
        if changed := differing(row, kept):
            raise BadEntry(f"{self._label} does not keep the value it is given, nothing was written: {changed}")

    async def _dismiss(self, link: Any, dlq_id: str) -> bool:
        yes = f"CAST('1' AS {_type(self._table.types['dismissed'])})"
        sql = f"UPDATE {self._table.quoted} SET dismissed = {yes} WHERE dlq_id {_EQ} $1 RETURNING 1"
        return await link.fetchval(sql, dlq_id) is not None

    def _intent_rows(self) -> IntentRows:
        from dlq_sink.witness.postgres import PostgresIntents

        return PostgresIntents(self)

    async def _fetch(self, link: Any, dlq_id: str) -> Any:
        return await link.fetchrow(f"SELECT {self._columns} FROM {self._table.quoted} WHERE dlq_id {_EQ} $1", dlq_id)

    def __repr__(self) -> str:
        return f"PostgresDLQ({self._label!r}, table={self.table!r})"


def _reading(name: str, declared: str) -> str:
    # Read as text, a number of another type keeps its digits; the driver would widen or round it.
    as_is = declared in _READ_AS_IS or declared.startswith("timestamp")
    return name if as_is else f"CAST({name} AS pg_catalog.text)"


def _type(declared: str) -> str:
    """A type as the catalog spells it, so that no search_path can give the name to another type."""
    return declared if "." in declared or declared.startswith(_OF_THE_GRAMMAR) else f"pg_catalog.{declared}"


async def _attach(link: Any, wanted: str | None, label: str) -> SinkTable:
    found = await _find(link, wanted, label)
    if found is not None:
        return found
    schema, _, name = (wanted or orders.DEFAULT_TABLE).rpartition(".")
    try:
        async with link.transaction(isolation="read_committed"):
            await link.execute("SELECT pg_advisory_xact_lock($1)", MAKING)
            if await _find(link, wanted, label) is None:
                for statement in orders.postgres_ddl(name, schema or "public"):
                    await link.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        raise ActRefused(f"{label}: this role may not make {name}; its owner can, with `dlq init`") from None
    except asyncpg.PostgresError as problem:
        if problem.sqlstate not in _RACED:
            raise
    made = await _find(link, wanted, label)
    if made is None:
        raise taken(name, label)
    return made


def _table(row: Any) -> SinkTable:
    types = dict(zip(row["names"], row["types"], strict=True))
    not_null = dict(zip(row["names"], row["not_null"], strict=True))
    is_open = pending(is_boolean=types["dismissed"] == "boolean", is_required=not_null["dismissed"])
    return SinkTable(row["schema"], row["name"], types, is_open, "captured_at, dlq_id")  # no column holds the insertion


async def _find(link: Any, wanted: str | None, label: str) -> SinkTable | None:
    rows = await link.fetch(_TABLES, sorted(orders.ANCHORS))
    tables = [_table(row) for row in rows]
    found = choose(tables, wanted, label)
    if found is not None and not rows[tables.index(found)]["has_key"]:
        fix = f"CREATE UNIQUE INDEX ON {found.quoted} (dlq_id)"
        raise NotADLQ(f"{label}: {found.shown} does not keep dlq_id unique, so an entry could be there twice; {fix}")
    return found

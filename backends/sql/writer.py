"""Runs every change as a short transaction that takes the write lock first, and appends its audit events.

Owns the writing connection, creates the ledger, and finds out whether a commit took place if its answer was lost.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import sqlalchemy as sa

from backends.async_engine import AsyncConnection, AsyncEngine
from backends.detect import Attached
from backends.driver_errors import driver_errors, is_denied, is_lost, store_errors, translate
from backends.engine import BUSY_SECONDS
from backends.ledger import audit_chain as chain
from backends.ledger.evidence import bodies_of, halt_of, switch_sql
from backends.ledger.functions import CALLS
from backends.ledger.migrations import EVENT, MARK_FUNCTION, mark_of, migration_statements
from backends.ledger.names import AUDIT_LOCK, MANY, SCHEMA, SWITCH_MARK, VERSION
from backends.ledger.presence import look
from backends.ledger.schema import LedgerTables, create_statements
from backends.ledger.shape import LedgerShape, is_newer, is_older
from backends.ledger.stored_type import required
from backends.postgres_session import OWN_PATH, SAFE_PATH, is_pooled_connection, writing
from backends.records import ActContext, Actor, parse_time
from backends.sql.connection import PreparedQuery, ReadConnection, ShieldedTasks, discard
from backends.sql.ledger_access import owner_sql
from backends.store import ActRefused, CommitUnknown, StoreError, Unreachable


@dataclass(frozen=True, slots=True)
class Event:
    """An audit event to be written, with the marks of its entries."""

    seq: int
    body: bytes
    hash: bytes
    marks: list[int]


@dataclass(slots=True)
class Transaction:
    connection: AsyncConnection
    driver: Any  # the driver's own connection
    book: LedgerTables
    on_postgres: bool
    source: str
    role: str
    session: int = 0  # Postgres: the process id of the server's session
    hash: bytes | None = None  # of its last audit event, which proves that it took place
    seq: int = 0
    contended: bool = False  # somebody else wrote since our last act
    held: float | None = None  # SQLite: seconds for which it kept others from writing, once it has ended
    tail: tuple[int, bytes] | None = None  # the end of the chain, if known
    wrote_owners: bool = False  # Postgres: triggers of the owner's table may wait for the commit

    @asynccontextmanager
    async def as_owners_do(self) -> AsyncIterator[None]:
        """For statements that write the owner's table: under the role's own search_path, as its engine writes.

        So that the owner's triggers find what they name. Such a statement must itself name everything with its schema,
        and its lists must be of text: about others the driver asks the catalog, with operators of any search_path.
        """
        if not self.on_postgres:
            yield
            return
        await self.driver.execute(OWN_PATH)
        self.wrote_owners = True
        yield
        await self.driver.execute(SAFE_PATH)

    async def execute(
        self, statement: sa.Executable, args: Mapping[str, object] | None = None
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        return await self.connection.execute(statement, dict(args or {}))

    async def ask(self, prepared: PreparedQuery, **given: object) -> list[Any]:
        """Run a statement; on SQLite with one hop to the driver's thread instead of four."""
        told = {f"given_{name}": value for name, value in given.items()}
        if not self.on_postgres:
            return await self.rows(prepared.query.text, prepared.query.values(told))
        result = await self.execute(prepared.statement, told)
        return list(result.fetchall()) if result.returns_rows else []

    async def audit(
        self,
        kind: str,
        ids: Sequence[str],
        actor: Actor,
        why: ActContext,
        *,
        detail: Mapping[str, object] | None = None,
        also: Sequence[int] = (),
    ) -> None:
        """Append one event that names these entries, and index it for each of them."""
        if not self.on_postgres:
            await self.append(await self.compose(kind, ids, actor, why, detail=detail, also=also))
            return
        await self.tell(kind, actor, self.evidence(ids, why, detail))

    def evidence(
        self, ids: Sequence[str], why: ActContext, detail: Mapping[str, object] | None = None
    ) -> tuple[str, list[str]]:
        """For Postgres: what an event tells of these entries, and their marks."""
        return self.about(ids, why, detail), list(map(str, sorted(set(chain.marks(self.source, ids)))))

    async def tell(self, kind: str, actor: Actor, evidence: tuple[str, list[str]]) -> None:
        about, marks = evidence
        await self.call("append_event", actor, about, kind=kind, marks=marks)

    def about(self, ids: Sequence[str], why: ActContext, detail: Mapping[str, object] | None = None) -> str:
        """For Postgres: what an event tells beside who and when, which the database itself sets."""
        context = {"operation": why.operation, "source": self.source, "reason": why.reason, "note": why.note}
        return chain.canonical({**context, **(detail or {"entries": list(ids)})}).decode("ascii")

    async def call(self, function: str, actor: Actor, about: str, **given: object) -> Any:
        """For Postgres: let a function of the ledger's owner write an event. Returns its row."""
        who = chain.canonical(actor.evidence).decode("ascii")
        row = (await self.execute(_function_call(function), {**given, "about": about, "who": who})).one()
        self.seq, self.hash = int(row.event_seq), bytes(row.event_hash)
        self.tail = (self.seq, self.hash)
        return row

    async def is_halted(self) -> bool:
        audit, index = self.book.audit.fullname, self.book.audit_entry.fullname
        query = switch_sql(audit, index, SWITCH_MARK)
        return halt_of(bodies_of(await self.plain(query))) is not None

    async def compose(
        self,
        kind: str,
        ids: Sequence[str],
        actor: Actor,
        why: ActContext,
        *,
        detail: Mapping[str, object] | None = None,
        also: Sequence[int] = (),
    ) -> Event:
        """For SQLite: the event that `append` would write next; `also` has marks that stand for no entry."""
        if self.tail is None:
            self.tail = await self._read_tail()
        seq, previous = self.tail
        body = chain.canonical(
            {
                "v": 1,
                "seq": seq + 1,
                "kind": kind,
                "operation": why.operation,
                "at": why.at.isoformat(),
                "who": actor.evidence | {"db_role": self.role},
                "source": self.source,
                "reason": why.reason,
                "note": why.note,
                **(detail or {"entries": list(ids)}),
            }
        )
        marks = sorted({*chain.marks(self.source, ids), *also})
        return Event(seq + 1, body, chain.link(previous, body), marks)

    async def append(self, event: Event) -> None:
        self.seq, self.hash = event.seq, event.hash
        self.tail = (event.seq, event.hash)
        index = (self.book.audit_bulk if len(event.marks) >= MANY else self.book.audit_entry).fullname
        values = (event.seq, event.body, event.hash)
        marks = f"INSERT INTO {index} (mark, seq) SELECT value, ? FROM json_each(?)"
        await asyncio.gather(
            self.rows("INSERT INTO console_audit (seq, body, hash) VALUES (?, ?, ?)", values),
            self.rows(marks, (event.seq, json.dumps(event.marks))),
        )

    async def plain(self, sql: str) -> list[Any]:
        """A query of the ledger that is the same in every database; nothing is compiled while the file is held."""
        return list((await self.execute(sa.text(sql))).fetchall()) if self.on_postgres else await self.rows(sql)

    async def rows(self, sql: str, args: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """For SQLite: run one statement with one hop to the driver's thread."""
        return list(await self.driver.execute_fetchall(sql, args))

    async def _read_tail(self) -> tuple[int, bytes]:
        last = f"SELECT seq, hash FROM {self.book.audit.fullname} ORDER BY seq DESC LIMIT 1"
        rows = await self.plain(last)
        return (int(required(rows[0][0])), bytes(required(rows[0][1]))) if rows else (0, chain.GENESIS)


# The driver knows lists of text; about others it asks the server first.
_TYPES: dict[str, Any] = {"text": sa.Text, "bigint": sa.BigInteger, "bigint[]": sa.ARRAY(sa.Text)}


@cache
def _function_call(name: str) -> sa.TextClause:
    given = ", ".join(f"{one} => CAST(:{one} AS {kind})" for one, kind in CALLS[name])
    binds = (sa.bindparam(one, type_=_TYPES[kind]) for one, kind in CALLS[name])
    return sa.text(f"SELECT * FROM {SCHEMA}.{name}({given})").bindparams(*binds)


T = TypeVar("T")
_NOT_MADE = "the console's ledger is not there and this role may not make it"
_NOT_MIGRATED = "the console's ledger was made by an earlier version and this role may not migrate it"
_RESOLVE_SECONDS = 15.0  # to wait for a lost server before a commit counts as unknown
_RECONNECT_SECONDS = 0.25
_NUMBER = "SELECT pg_catalog.txid_current()"  # of this transaction, one more than that of the last one that wrote
# Ends a lost session of ours that the server still keeps open and that holds the chain's lock.
_END_LOST_SESSION = f"""
SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objid = {AUDIT_LOCK}
AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND granted AND pid = {{}}
"""


class StoreWriter:
    def __init__(
        self,
        engine: AsyncEngine,
        attached: Attached,
        book: LedgerTables,
        *,
        first_id: Callable[[], Awaitable[str]],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`first_id` gives the store's id for its first act; `check` raises if the store was replaced."""
        self._engine = engine
        self._attached = attached
        self._book = book
        self._first_id = first_id
        self._check = check
        self._connection: AsyncConnection | None = None
        self._driver: Any = None
        self._session = 0
        self._version: int | None = None  # of the database: changes with every commit of others
        self._tail: tuple[int, bytes] | None = None
        self._shape = LedgerShape(attached.info.dialect)
        self._ready = False
        self.head: tuple[int, bytes] | None = None  # the end of the chain after our last act that added to it
        self._lock = asyncio.Lock()
        self._on_postgres = attached.info.dialect == "postgresql"
        self._tasks = ShieldedTasks(attached.info.label)

    def take(self, attached: Attached) -> None:
        """Advise by what is known of the store now."""
        self._attached = attached

    async def run(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run `work` in one transaction; cancelling the caller does not interrupt it.

        `work` runs again if the connection is lost before the commit, so it must use nothing but its transaction.
        """
        return await self._tasks.run(self._run(work))

    async def _run(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async with self._lock:
            self._check()
            with store_errors(self._attached.info.label):
                try:
                    return await self._once(work)
                except driver_errors() as problem:
                    if is_denied(problem):
                        raise self._refusal("this role may not do that") from None
                    if not is_lost(problem):
                        raise
                return await self._once(work)

    async def _once(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        store_id = "" if self._ready else await self._first_id()
        try:
            connection = self._connection or await self._open()
            if not self._ready:
                await self._get_ready(connection)
            await (connection.begin() if self._on_postgres else self._driver.execute_fetchall("BEGIN IMMEDIATE"))
            began = time.monotonic()
            transaction = await self._begin(connection, store_id)
            result = await work(transaction)
        except BaseException as problem:
            await self._undo(problem)
            raise
        try:
            if transaction.wrote_owners:
                await self._driver.execute(OWN_PATH)  # for triggers that are deferred to the commit
            await (connection.commit() if self._on_postgres else self._driver.commit())
            transaction.held = None if self._on_postgres else time.monotonic() - began
            self._tail = transaction.tail
        except driver_errors() as problem:
            await self._drop()  # also ends a transaction that the store still holds open
            if not is_lost(problem):
                raise
            await self._resolve(transaction)
        self._ready = True
        self.head = transaction.tail or self.head
        return result

    def write_back(self) -> None:
        """For SQLite: starts to copy what is committed from the log to the file; others may write meanwhile.

        Else a later commit does so, and whoever measures how long it kept others out counts that too.
        """
        with suppress(Unreachable):  # closed meanwhile: the log has it all
            self._tasks.start(self._write_back())

    async def _write_back(self) -> None:
        async with self._lock:
            if self._connection is not None:
                with suppress(*driver_errors()):
                    await self._driver.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")

    async def _open(self) -> AsyncConnection:
        self._connection = await self._engine.connect()
        self._driver = (await self._connection.get_raw_connection()).driver_connection
        if not self._on_postgres:
            await self._connection.execution_options(isolation_level="AUTOCOMMIT")
        else:
            # A pooler ends the transaction of a client that is lost; its session may be another client's by now.
            self._session = 0 if is_pooled_connection(self._driver) else int(self._driver.get_server_pid())
        return self._connection

    async def _get_ready(self, connection: AsyncConnection) -> None:
        """What a first act needs and takes long to work out, before it holds the file that an engine writes."""
        if not self._on_postgres and not (await look(connection, self._attached.info)).shape.exists:
            create_statements(self._attached.info.dialect)

    async def _undo(self, problem: BaseException) -> None:
        if self._connection is None or not isinstance(problem, StoreError):
            await self._drop()
            return
        try:
            await (self._connection.rollback() if self._on_postgres else self._driver.rollback())
        except driver_errors():
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._version = None
        self._ready = False  # a backup may have brought another ledger back meanwhile
        if connection is not None:
            await discard(connection)

    async def _begin(self, connection: AsyncConnection, store_id: str) -> Transaction:
        info, source = self._attached.info, self._attached.found.shown
        transaction = Transaction(
            connection, self._driver, self._book, self._on_postgres, source, info.role, self._session
        )
        if self._on_postgres:
            await self._take_lock(connection)
            number = int((await connection.exec_driver_sql(_NUMBER)).scalar_one())
            # Each of our acts takes one number; another took those in between.
            transaction.contended = self._version not in (None, number - 1)
            self._version = number
        else:
            ((version,),) = await transaction.rows("PRAGMA data_version")
            transaction.contended = self._version not in (None, version)
            transaction.tail = self._tail if self._version == version else None
            self._version = version
        if not self._ready:
            await self._make_ledger(transaction, store_id)
        return transaction

    async def _take_lock(self, connection: AsyncConnection) -> None:
        await connection.exec_driver_sql(SAFE_PATH)  # SQLAlchemy begins only with the first statement
        told = f"SELECT pg_advisory_xact_lock({AUDIT_LOCK}); SELECT pg_notify('{SCHEMA}', '')"
        await self._driver.execute(f"{writing(BUSY_SECONDS)}; {told}")

    async def _make_ledger(self, transaction: Transaction, store_id: str) -> None:
        connection, meta = transaction.connection, self._book.meta
        seen = await look(connection, self._attached.info)
        self._shape = seen.shape
        if seen.presence == "unreadable" and not (self._on_postgres and seen.shape.is_whole):
            raise ActRefused(f"the console's ledger cannot be used: {seen.why}")
        if seen.presence == "unreadable":
            raise self._refusal("this role may not use the console's ledger")
        if not seen.shape.exists:
            await self._change(create_statements(self._attached.info.dialect), _NOT_MADE)
        asked = f"SELECT {meta.c.key.name}, {meta.c.value.name} FROM {meta.fullname}"
        have = {str(row[0]): row[1] for row in await transaction.plain(asked)}
        version = have.get("schema_version")
        if is_newer(version):
            raise ActRefused("the console's ledger was made by a newer version of dlq-console: upgrade to act here")
        if seen.shape.exists and is_older(version, seen.shape):
            await self._migrate(transaction, version or "1")
        if "store_id" not in have:
            told = ("schema_version", VERSION, "store_id", store_id)
            if self._on_postgres:
                rows = [{"key": key, "value": value} for key, value in zip(told[::2], told[1::2], strict=True)]
                await connection.execute(meta.insert(), rows)
            else:
                await transaction.rows(f"INSERT INTO {meta.fullname} (key, value) VALUES (?, ?), (?, ?)", told)

    async def _migrate(self, transaction: Transaction, version: str) -> None:
        if not self._on_postgres:
            await self._driver.create_function(MARK_FUNCTION, 2, mark_of, deterministic=True)
        await self._change(migration_statements(self._shape), _NOT_MIGRATED)
        why = ActContext(await self._moment(transaction.connection), f"migrate-{secrets.token_hex(4)}")
        detail = {"entries": [], "from": version, "to": VERSION}
        await transaction.audit(EVENT, (), this_process(), why, detail=detail)

    async def _moment(self, connection: AsyncConnection) -> datetime:
        now = "clock_timestamp()" if self._on_postgres else "strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"
        at = parse_time((await connection.exec_driver_sql(f"SELECT {now}")).scalar())
        assert at is not None, "the database tells the time"
        return at

    async def _change(self, statements: Iterable[str], refused: str) -> None:
        try:
            if self._on_postgres:
                await self._driver.execute(";\n".join(statements))  # in one message
                return
            await self._driver.execute_each(tuple(statements))
        except driver_errors() as problem:
            if isinstance(translate(problem, self._attached.info.label), ActRefused):
                raise self._refusal(refused) from None
            raise

    def _refusal(self, text: str) -> ActRefused:
        return ActRefused(f"{text}; an owner would run:\n{owner_sql(self._attached, self._shape)}")

    async def _resolve(self, transaction: Transaction) -> None:
        """After a lost commit, look for its event in the chain. Returns if the act took place, else raises."""
        label = self._attached.info.label
        if transaction.hash is None:
            raise Unreachable(f"{label} was lost while it committed: try again")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _RESOLVE_SECONDS
        while loop.time() < deadline:
            try:
                took_place = await self._is_in_chain(transaction)
            except driver_errors() as problem:
                await self._drop()
                if not is_lost(problem) and not isinstance(translate(problem, label), Unreachable):
                    raise
                await asyncio.sleep(_RECONNECT_SECONDS)
                continue
            if took_place:
                return
            raise Unreachable(f"{label} was lost before the act was committed: nothing was changed")
        raise CommitUnknown(f"{label} was lost while it committed; whether the act took place is not known: look again")

    async def _is_in_chain(self, transaction: Transaction) -> bool:
        connection = self._connection or await self._open()
        audit = self._book.audit
        await connection.begin()
        await connection.exec_driver_sql(SAFE_PATH)
        await self._driver.execute(writing(BUSY_SECONDS))
        await connection.exec_driver_sql(_END_LOST_SESSION.format(transaction.session))
        # The lost transaction holds this lock until it has committed or rolled back.
        await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({AUDIT_LOCK})")
        row = (await connection.execute(sa.select(audit.c.hash).where(audit.c.seq == transaction.seq))).first()
        await connection.rollback()
        return row is not None and bytes(row[0]) == transaction.hash

    async def aclose(self) -> None:
        await self._tasks.aclose()
        connection, self._connection = self._connection, None
        if connection is not None:
            with store_errors(self._attached.info.label):
                await connection.close()
        await self._engine.dispose()


def this_process() -> Actor:
    """Who acts where no operator asked for it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return Actor(operator=user, os_user=user, host=socket.gethostname(), program="dlq-console")


async def close_store(writer: StoreWriter | None, lanes: Iterable[ReadConnection]) -> None:
    """Closes the writer first: an act that is under way may still need to read."""
    if writer is not None:
        await writer.aclose()
    for lane in lanes:
        await lane.aclose()

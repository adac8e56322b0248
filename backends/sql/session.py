"""Held connections to one store: reading lanes that come back after a restart, and one writer with its audit chain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from backends.detect import Attached
from backends.engine import is_lost, store_errors, translate
from backends.ledger import chain
from backends.ledger.schema import SCHEMA, VERSION, Ledger, create_statements
from backends.records import Actor, Why
from backends.store import ActRefused, CommitUnknown

T = TypeVar("T")
_AUDIT_LOCK = 0x646C71  # "dlq": one writer of the chain at a time, for as long as its transaction lasts
_RECONNECTS = 20
_RECONNECT_SECONDS = 0.25


class UndecodableText(Exception):
    """A row holds text that is not UTF-8: read it again, keeping the bytes as escapes."""


class Lane:
    """One held autocommit connection. Calls queue behind each other; a lost server is tried once more."""

    def __init__(self, engine: AsyncEngine, label: str) -> None:
        self._engine = engine
        self._label = label
        self._lock = asyncio.Lock()
        self._connection: AsyncConnection | None = None
        self._running: set[asyncio.Task[object]] = set()

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        # A cancelled caller must not tear a connection in the middle of an answer.
        task = asyncio.ensure_future(self._run(work))
        self._running.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()

    async def _run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        async with self._lock:
            with store_errors(self._label):
                for final in (False, True):
                    try:
                        connection = self._connection or await self._open()
                        return await work(connection)
                    except (SQLAlchemyError, OSError) as problem:
                        await self._drop()
                        if "decode to utf-8" in str(getattr(problem, "orig", "")).lower():
                            raise UndecodableText from None
                        if final or not is_lost(problem):
                            raise
                raise AssertionError("unreachable: the second round returns or raises")

    async def _open(self) -> AsyncConnection:
        connection = await self._engine.connect()
        self._connection = await connection.execution_options(isolation_level="AUTOCOMMIT")
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.invalidate()
            await connection.close()

    async def aclose(self) -> None:
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with store_errors(self._label):
                await connection.close()
        await self._engine.dispose()


@dataclass(slots=True)
class Transaction:
    """An act in the making: its statements and its audit event commit together."""

    connection: AsyncConnection
    book: Ledger
    on_postgres: bool
    source: str
    role: str
    hash: bytes | None = None
    seq: int = 0
    _tail: tuple[int, bytes] | None = field(default=None)

    async def execute(
        self, statement: sa.Executable, args: Mapping[str, object] | None = None
    ) -> sa.CursorResult[object]:
        return await self.connection.execute(statement, dict(args or {}))

    async def audit(
        self,
        kind: str,
        ids: Sequence[str],
        actor: Actor,
        why: Why,
        *,
        detail: Mapping[str, object] | None = None,
    ) -> None:
        """Append one event that names every entry; each of them finds it by the index."""
        seq, previous = self._tail or await self._read_tail()
        self.seq = seq + 1
        body = chain.canonical(
            {
                "v": 1,
                "seq": self.seq,
                "kind": kind,
                "operation": why.operation,
                "at": why.at.isoformat(),
                "who": {
                    "operator": actor.operator,
                    "os_user": actor.os_user,
                    "host": actor.host,
                    "db_role": self.role,
                    "program": actor.program,
                },
                "source": self.source,
                "reason": why.reason,
                "note": why.note,
                **(detail or {"entries": list(ids)}),
            }
        )
        self.hash = chain.link(previous, body)
        self._tail = (self.seq, self.hash)
        await self.execute(self.book.audit.insert(), {"seq": self.seq, "body": body, "hash": self.hash})
        if ids:
            await self.execute(
                _INDEX_POSTGRES if self.on_postgres else _INDEX_SQLITE,
                {
                    "ids": list(ids) if self.on_postgres else json.dumps(list(dict.fromkeys(ids))),
                    "source": self.source,
                    "seq": self.seq,
                },
            )

    async def _read_tail(self) -> tuple[int, bytes]:
        audit = self.book.audit
        row = (await self.execute(sa.select(audit.c.seq, audit.c.hash).order_by(audit.c.seq.desc()).limit(1))).first()
        return (row[0], bytes(row[1])) if row else (0, chain.GENESIS)


_INDEX_SQLITE = sa.text(
    "INSERT INTO console_audit_entry (entry_id, source, seq) SELECT value, :source, :seq FROM json_each(:ids)"
)
_INDEX_POSTGRES = sa.text(
    f"INSERT INTO {SCHEMA}.audit_entry (entry_id, source, seq) "
    "SELECT DISTINCT id, CAST(:source AS text), CAST(:seq AS bigint) FROM unnest(CAST(:ids AS text[])) id"
).bindparams(sa.bindparam("ids", type_=sa.ARRAY(sa.Text)))


class Writer:
    """The only way to change anything: short transactions that begin with the write lock in hand."""

    def __init__(self, engine: AsyncEngine, attached: Attached, book: Ledger, first_id: Callable[[], Awaitable[str]]):
        self._engine = engine
        self._attached = attached
        self._book = book
        self._store_id = first_id
        self._ready = False
        self._lock = asyncio.Lock()
        self._on_postgres = attached.info.dialect == "postgresql"

    async def run(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """One transaction. Once begun it is not torn by cancellation: it commits or fails."""
        return await asyncio.shield(asyncio.ensure_future(self._run(work)))

    async def _run(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        label = self._attached.info.label
        async with self._lock:
            store_id = "" if self._ready else await self._store_id()
            committing: Transaction | None = None
            try:
                async with self._engine.connect() as connection:
                    await connection.begin()
                    try:
                        transaction = await self._begin(connection, store_id)
                        result = await work(transaction)
                    except BaseException:
                        await connection.rollback()
                        raise
                    committing = transaction
                    await connection.commit()
            except (SQLAlchemyError, OSError, TimeoutError) as problem:
                if committing is not None and is_lost(problem) and await self._took_place(committing):
                    return result
                raise translate(problem, label) from None
            self._ready = True
            return result

    async def _begin(self, connection: AsyncConnection, store_id: str) -> Transaction:
        info = self._attached.info
        source = self._attached.found.shown
        transaction = Transaction(connection, self._book, self._on_postgres, source, info.role)
        if self._on_postgres:
            await connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_AUDIT_LOCK})")
        if not self._ready:
            await self._make_ledger(transaction, store_id)
        if self._on_postgres:
            await connection.exec_driver_sql(f"SELECT pg_notify('{SCHEMA}', '')")
        return transaction

    async def _make_ledger(self, transaction: Transaction, store_id: str) -> None:
        connection, meta = transaction.connection, self._book.meta
        present = await ledger_state(connection, on_postgres=self._on_postgres)
        if present == "unreadable":
            raise ActRefused(f"this role may not use the console's ledger; an owner would run:\n{self.owner_sql()}")
        if present == "absent":
            try:
                for statement in create_statements(self._attached.info.dialect):
                    await connection.exec_driver_sql(statement)
            except SQLAlchemyError as problem:
                refused = translate(problem, self._attached.info.label)
                if isinstance(refused, ActRefused):
                    raise ActRefused(
                        f"the console's ledger is not there and this role may not make it; an owner would run:\n"
                        f"{self.owner_sql()}"
                    ) from None
                raise
        have = {row[0]: row[1] for row in await transaction.execute(sa.select(meta.c.key, meta.c.value))}
        if int(have.get("schema_version", VERSION)) > int(VERSION):
            raise ActRefused("the console's ledger was made by a newer version of dlq-console: upgrade to act here")
        if "store_id" not in have:
            for key, value in (("schema_version", VERSION), ("store_id", store_id)):
                await transaction.execute(meta.insert(), {"key": key, "value": value})

    def owner_sql(self) -> str:
        statements = ";\n".join(create_statements(self._attached.info.dialect)) + ";"
        if not self._on_postgres:
            return statements
        role = self._attached.info.role
        return (
            f"{statements}\nGRANT USAGE ON SCHEMA {SCHEMA} TO {role};\n"
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO {role};\n"
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {role};"
        )

    async def _took_place(self, transaction: Transaction) -> bool:
        """After a commit whose answer was lost: the chain tells whether it counts."""
        if transaction.hash is None:
            return False
        audit = self._book.audit
        for _ in range(_RECONNECTS):
            try:
                async with self._engine.connect() as connection:
                    found = await connection.execute(sa.select(audit.c.hash).where(audit.c.seq == transaction.seq))
                    row = found.first()
                    return row is not None and bytes(row[0]) == transaction.hash
            except (SQLAlchemyError, OSError, TimeoutError) as problem:
                if not is_lost(problem):
                    raise translate(problem, self._attached.info.label) from None
                await asyncio.sleep(_RECONNECT_SECONDS)
        raise CommitUnknown(
            f"{self._attached.info.label} was lost while it committed; whether the act took place is not known: look again"
        )

    async def aclose(self) -> None:
        await self._engine.dispose()


async def ledger_state(connection: AsyncConnection, *, on_postgres: bool) -> str:
    """ "ready", "absent", or "unreadable" where it is there but not for this role."""
    if not on_postgres:
        found = await connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'console_audit_entry'")
        return "ready" if found.first() else "absent"
    found = await connection.exec_driver_sql(
        f"SELECT has_schema_privilege(n.oid, 'usage') AND has_table_privilege(c.oid, 'select') "
        f"FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'audit_entry' "
        f"WHERE n.nspname = '{SCHEMA}'"
    )
    row = found.first()
    if row is None:
        return "absent"
    return "ready" if row[0] else "unreadable"

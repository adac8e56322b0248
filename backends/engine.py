"""Makes the database engines of a target: readers that cannot write, and one durable writer. Knows no table."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import aiosqlite
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from backends.libpq.connection import connect
from backends.postgres_session import ANSWER_SECONDS, DIALECT_URL, PooledConnection, has_pooler
from backends.target import PostgresTarget, SQLiteTarget, Target
from backends.values import utc_time

BUSY_SECONDS = 5.0
_NOON_2000 = 2451545.0  # as a Julian day
_PRIME = "SELECT 1 FROM " + ", ".join(
    [f"pragma_{name}('x')" for name in ("table_xinfo", "table_info", "table_list", "index_list", "index_info")]
    + ["json_each('[]') LIMIT 0"]
)
_ASKING_PRAGMAS = frozenset({"data_version", "journal_mode", "query_only"})
# These only read, even with an argument; SQLAlchemy resets read_uncommitted on close, and it affects only reads.
_HARMLESS_PRAGMAS = frozenset(
    {"table_xinfo", "table_info", "table_list", "index_list", "index_info", "read_uncommitted"}
)
# Fixed, so that the spelling of times does not depend on the server's settings. A pooler takes these when a session
# starts, and no others: everything else is set by each transaction.
_SPELLING = {"application_name": "dlq-console", "TimeZone": "UTC", "DateStyle": "ISO"}
_pooled: set[str] = set()  # where a pooler answered, so that the next connection need not find out


def reader_engine(target: Target, *, read_only: bool, tolerant: bool = False) -> AsyncEngine:
    """An autocommit engine that refuses to write; `tolerant` reads undecodable text as escapes instead of failing."""
    if isinstance(target, SQLiteTarget):

        async def sqlite() -> aiosqlite.Connection:
            connection = await _sqlite(target, "ro" if read_only else "rw")
            # A table-valued function declares its table on first use; the authorizer would refuse that as a write.
            await connection.execute(_PRIME)
            await connection.create_function("dlq_julianday", 1, _julian_day, deterministic=True)
            await connection.execute("PRAGMA query_only = ON")
            await connection.set_authorizer(only_reading)
            if tolerant:
                connection.text_factory = _keep_bytes
            return connection

        return _engine("sqlite+aiosqlite://", sqlite)

    async def postgres() -> Any:
        return await _session(target, command_timeout=ANSWER_SECONDS)

    return _engine(DIALECT_URL, postgres)


def writer_engine(target: Target) -> AsyncEngine:
    """An engine whose commits are durable; on SQLite the caller begins, as SQLAlchemy would not begin IMMEDIATE."""
    if isinstance(target, SQLiteTarget):

        async def sqlite() -> aiosqlite.Connection:
            connection = await _sqlite(target, "rw")
            await connection.execute("PRAGMA synchronous = FULL")
            await connection.execute("PRAGMA foreign_keys = OFF")
            return connection

        return _engine("sqlite+aiosqlite://", sqlite)

    async def postgres() -> Any:
        return await _session(target)

    return _engine(DIALECT_URL, postgres)


def _engine(url: str, creator: Callable[[], Awaitable[Any]]) -> AsyncEngine:
    return create_async_engine(
        url,
        async_creator=creator,
        poolclass=sa.AsyncAdaptedQueuePool,
        pool_size=1,
        max_overflow=0,
        pool_reset_on_return=None,
    )


def _julian_day(value: object) -> float | None:
    """Reads times that SQLite's own julianday does not: `+0000`, `+00`, `20260418T143215Z`, surrounding blanks."""
    at = utc_time(value)
    return None if at is None else _NOON_2000 + (at - datetime(2000, 1, 1, 12, tzinfo=UTC)) / timedelta(days=1)


def _keep_bytes(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


async def _sqlite(target: SQLiteTarget, mode: str) -> aiosqlite.Connection:
    tail = "immutable=1" if target.immutable else f"mode={mode}"
    uri = f"file:{quote(os.fsencode(target.path.absolute()))}?{tail}"
    # Without this, aiosqlite's worker thread would keep a finished process alive.
    connecting = aiosqlite.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
    thread = getattr(connecting, "_thread", None)
    if thread is not None:
        thread.daemon = True
    return await connecting


async def _session(target: PostgresTarget, **options: Any) -> Any:
    """A connection that is a `PooledConnection` where a pooler answers, and then keeps no prepared statement."""
    if target.dsn not in _pooled:
        connection = await _postgres(target, **options)
        try:
            pooled = await has_pooler(connection)
        except BaseException:
            connection.terminate()
            raise
        if not pooled:
            return connection
        _pooled.add(target.dsn)
        await connection.close(timeout=1.0)
    return await _postgres(target, connection_class=PooledConnection, statement_cache_size=0, **options)


async def _postgres(target: PostgresTarget, **options: Any) -> Any:
    return await connect(target, server_settings=_SPELLING | target.settings.server_settings, **options)


def only_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Decides what a reading connection may do; SQLite calls it while it prepares a statement."""
    match action:
        case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_READ | sqlite3.SQLITE_RECURSIVE | sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_FUNCTION if second != "load_extension":
            return sqlite3.SQLITE_OK
        case sqlite3.SQLITE_PRAGMA if first in _HARMLESS_PRAGMAS or (first in _ASKING_PRAGMAS and second is None):
            return sqlite3.SQLITE_OK
        case _:
            return sqlite3.SQLITE_DENY

"""Makes the database engines of a target: readers that cannot write, and one durable writer. Knows no table."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import aiosqlite
import sqlalchemy as sa
from dlq_sink.values import utc_time

from backends.async_engine import AsyncEngine, create_async_engine
from backends.guarded_connection import connected
from backends.postgres_session import ANSWER_SECONDS, SPELLING, has_pooler
from backends.sqlite_guard import PRIME, keep_bytes, only_acting, only_reading
from backends.target import PostgresTarget, SQLiteTarget, Target

BUSY_SECONDS = 5.0
_WRITER_CACHE_KB = 16_000  # a bulk act looks up its ids at random: most of the index on them fits
_NOON_2000 = 2451545.0  # as a Julian day
_pooled: set[str] = set()  # where a pooler answered, so that the next connection need not find out


def reader_engine(target: Target, *, read_only: bool, tolerant: bool = False) -> AsyncEngine:
    """An autocommit engine that refuses to write; `tolerant` reads undecodable text as escapes instead of failing."""
    if isinstance(target, SQLiteTarget):

        async def sqlite() -> aiosqlite.Connection:
            connection = await _sqlite(target, "ro" if read_only else "rw", leaves=True)
            async with _closing_if_it_fails(connection):
                # A table-valued function declares its table on first use; the authorizer would refuse that as a write.
                await connection.execute(PRIME)
                await connection.create_function("dlq_julianday", 1, _julian_day, deterministic=True)
                await connection.execute("PRAGMA query_only = ON")
                await connection.set_authorizer(only_reading)
                if tolerant:
                    connection.text_factory = keep_bytes
            return connection

        return _engine("sqlite+aiosqlite://", sqlite)

    async def postgres() -> Any:
        return await _session(target, command_timeout=ANSWER_SECONDS)

    return _postgres_engine(postgres)


def writer_engine(target: Target) -> AsyncEngine:
    """An engine whose commits are durable; on SQLite the caller begins, as SQLAlchemy would not begin IMMEDIATE."""
    if isinstance(target, SQLiteTarget):

        async def sqlite() -> aiosqlite.Connection:
            connection = await _sqlite(target, "rw", leaves=False)
            async with _closing_if_it_fails(connection):
                await connection.execute("PRAGMA synchronous = FULL")
                await connection.execute("PRAGMA foreign_keys = OFF")
                await connection.execute(f"PRAGMA cache_size = -{_WRITER_CACHE_KB}")
                await connection.set_authorizer(only_acting)
            return connection

        return _engine("sqlite+aiosqlite://", sqlite)

    async def postgres() -> Any:
        return await _session(target)

    return _postgres_engine(postgres)


def _postgres_engine(creator: Callable[[], Awaitable[Any]]) -> AsyncEngine:
    from backends.quiet_dialect import DIALECT_URL  # only here: SQLite needs no asyncpg

    return _engine(DIALECT_URL, creator)


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


async def _sqlite(target: SQLiteTarget, mode: str, *, leaves: bool) -> aiosqlite.Connection:
    tail = "immutable=1" if target.immutable else f"mode={mode}"
    uri = f"file:{quote(os.fsencode(target.path.absolute()))}?{tail}"
    return await connected(uri, timeout=BUSY_SECONDS, leaves=leaves)


@asynccontextmanager
async def _closing_if_it_fails(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    """A connection that is given to nobody would hold its lock on the file."""
    try:
        yield
    except BaseException:
        await connection.close()
        raise


async def _session(target: PostgresTarget, **options: Any) -> Any:
    """A connection that is a `PooledConnection` where a pooler answers, and then keeps no prepared statement."""
    from backends.quiet_dialect import PooledConnection

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
    from dlq_sink.libpq.connection import connect

    return await connect(target, server_settings=SPELLING | target.settings.server_settings, **options)

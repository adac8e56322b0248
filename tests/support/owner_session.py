"""One session of the owner for each of the tests' databases, kept from one test to the next. Knows no table.

A new session costs the server more than most of what a test asks in it, and a test asks some ten times.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar

import asyncpg

T = TypeVar("T")
Work = Callable[[Any], Awaitable[T]]  # is given a connection of the driver


class _Kept:
    """The session of one database; it is made when it is first needed, and again when it was lost."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None
        self.is_busy = False

    async def run(self, work: Work[T]) -> T:
        """Leaves the session as a new one is, or gives it up: what it set, or whom it became, is nobody else's."""
        self.is_busy = True
        try:
            if self._connection is None or self._connection.is_closed():
                # What a test drops and makes again has another number each time: no statement is remembered.
                self._connection = await asyncpg.connect(self._dsn, statement_cache_size=0)
            result = await work(self._connection)
            await self._connection.execute("DISCARD ALL")
        except BaseException:
            if self._connection is not None:
                self._connection.terminate()
            raise
        finally:
            self.is_busy = False
        return result

    async def aclose(self) -> None:
        if self._connection is not None and not self._connection.is_closed():
            await self._connection.close()


_kept: dict[str, _Kept] = {}


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Each test has a loop of its own, which ends with it; a session needs one that stays."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="owner-sessions", daemon=True).start()
    return loop


def keep_session(dsn: str) -> None:
    """Of this database from now on, until `end_session`."""
    _kept.setdefault(dsn, _Kept(dsn))


def end_session(dsn: str) -> None:
    if (kept := _kept.pop(dsn, None)) is not None:
        asyncio.run_coroutine_threadsafe(kept.aclose(), _loop()).result()


async def in_session(dsn: str, work: Work[T]) -> T:
    """In the session that is kept of this database; where there is none, or it is busy, in one of its own."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_in_session(dsn, work), _loop()))


def in_session_apart(dsn: str, work: Work[T]) -> T:
    """The same for who is on no loop, or must not wait on it."""
    return asyncio.run_coroutine_threadsafe(_in_session(dsn, work), _loop()).result()


async def _in_session(dsn: str, work: Work[T]) -> T:
    kept = _kept.get(dsn)
    if kept is not None and not kept.is_busy:
        return await kept.run(work)
    connection = await asyncpg.connect(dsn)
    try:
        return await work(connection)
    finally:
        await connection.close()


async def rows_of(dsn: str, statement: str, *args: object) -> list[tuple[Any, ...]]:
    return await in_session(dsn, lambda connection: _rows(connection, statement, args))


def rows_apart(dsn: str, statement: str, *args: object) -> list[tuple[Any, ...]]:
    return in_session_apart(dsn, lambda connection: _rows(connection, statement, args))


async def _rows(connection: Any, statement: str, args: tuple[object, ...]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await connection.fetch(statement, *args)]

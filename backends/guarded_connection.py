"""A SQLite connection for the event loop that waits for the next row, but not for ever. Knows no table."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import aiosqlite

from backends.sqlite_guard import connect

QUIET_SECONDS = 14.0  # without another row; the whole command must end within 20, on a busy machine too
_GRACE_SECONDS = 1.5  # until a statement that was interrupted must have ended
_SLOW_SECONDS = 0.2
_MOST_ROWS = 4096


class Stuck(sqlite3.OperationalError):
    """No row came for too long, and the statement may still be running."""

    sqlite_errorname = "SQLITE_INTERRUPT"


class GuardedConnection(aiosqlite.Connection):
    """Interrupts a statement that gives no next row; one that cannot be interrupted is left to its thread.

    A writer is never left alone with its statement: it might still commit what was reported as failed.
    """

    def __init__(self, connector: Callable[[], sqlite3.Connection], *, leaves: bool) -> None:
        super().__init__(connector, 64)
        self._thread.daemon = True  # it must not keep a finished process alive
        self._leaves = leaves
        self._is_stuck = False
        self._since = float("inf")

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._is_stuck:
            if getattr(fn, "__name__", "") in ("close", "rollback"):
                return None  # its thread does so once the statement ends
            raise Stuck
        if not self._running or not self._connection:
            raise ValueError("Connection closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._tx.put_nowait((future, partial(self._timed, fn, *args, **kwargs)))
        watch = loop.call_later(QUIET_SECONDS, self._look, future)
        try:
            return await future
        finally:
            watch.cancel()

    def stop(self) -> asyncio.Future[Any] | None:
        """Ends the thread; nobody waits for one that is stuck."""
        ended = super().stop()
        return None if self._is_stuck else ended

    async def close(self) -> None:
        if not self._is_stuck:
            await super().close()
            return
        self._connection = None
        self.stop()

    def _timed(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._since = time.monotonic()
        try:
            return fn(*args, **kwargs)
        except UnicodeDecodeError:  # of a name in the schema or in a message: sqlite3 has no error of its own for it
            damaged = sqlite3.DatabaseError("text in it is not UTF-8")
            damaged.sqlite_errorname = "SQLITE_CORRUPT"
            raise damaged from None
        finally:
            self._since = float("inf")

    def _execute_fetchall(self, sql: str, parameters: Any) -> Iterable[Any]:
        """Fetches a few rows at a time where they come slowly, so that it is seen that they come."""
        cursor = self._conn.execute(sql, parameters)
        found: list[Any] = []
        size = 1
        while part := cursor.fetchmany(size):
            found += part
            now = time.monotonic()
            size = min(_MOST_ROWS, size * 4) if now - self._since < _SLOW_SECONDS else 1
            self._since = now
        return found

    async def execute_each(self, statements: Iterable[str]) -> None:
        """One hop to the thread for all of them, so that a transaction that has many is short."""
        await self._execute(self._execute_each, statements)

    def _execute_each(self, statements: Iterable[str]) -> None:
        for statement in statements:
            self._conn.execute(statement)
            self._since = time.monotonic()

    def _look(self, future: asyncio.Future[Any]) -> None:
        """Called when a call might have waited too long; calls itself again for as long as rows come."""
        if future.done():
            return
        left = self._since + QUIET_SECONDS - time.monotonic()
        if left > 0:
            again = min(left, QUIET_SECONDS)
            asyncio.get_running_loop().call_later(again, self._look, future)
            return
        if self._connection is not None:
            self._connection.interrupt()
        if self._leaves:
            asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._leave, future)

    def _leave(self, future: asyncio.Future[Any]) -> None:
        if not future.done():
            self._is_stuck = True
            future.set_exception(Stuck())


async def connected(uri: str, *, timeout: float, leaves: bool) -> aiosqlite.Connection:  # noqa: ASYNC109 - SQLite's own
    return await GuardedConnection(partial(connect, uri, timeout=timeout), leaves=leaves)

"""One Postgres connection on an event loop of its own thread: it reconnects, and every call ends within the timeout.

Knows nothing of entries.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Literal, TypeVar, assert_never

import asyncpg

from backends.sink.contract import check_usable
from backends.sink.fault import postgres_fault
from backends.store import CommitUnknown, StoreError, Unreachable
from backends.target import PostgresTarget

_PAUSE = 0.05  # before knocking again at a server that dropped us
IDLE_SECONDS = 5.0  # a connection idle for longer may have been dropped on the way without a word
_DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
Result = TypeVar("Result")
Effect = Literal["reads", "settles", "counts"]  # nothing; the same however often it is done; more each time
Work = Callable[[Any, bool], Awaitable[Result]]  # takes the connection, and whether it may have been done before


class SinkConnection:
    def __init__(self, target: PostgresTarget, timeout: float) -> None:
        self._target = target
        self._label = target.label
        self._timeout = timeout
        self._gate = threading.Lock()  # nothing is handed to the loop once it is told to end
        self._pid = os.getpid()
        self._closed = False
        self._connection: Any = None
        self._used = 0.0
        ready: Future[asyncio.AbstractEventLoop] = Future()
        # A daemon: an engine that forgets to close its sink must still be able to exit.
        self._thread = threading.Thread(target=self._serve, args=(ready,), name="dlq-sink", daemon=True)
        self._thread.start()
        self._loop = ready.result()

    def call(self, work: Work[Result], effect: Effect, *, patient: bool = True) -> Result:
        """A patient call keeps knocking at a server that is down until its time is up."""
        check_usable(closed=self._closed, pid=self._pid)
        with self._gate:
            check_usable(closed=self._closed, pid=self._pid)
            pending = asyncio.run_coroutine_threadsafe(self._take_turn(work, effect, patient), self._loop)
        return pending.result()

    def close(self) -> None:
        if self._pid != os.getpid():
            return  # thread and connection are the parent's
        with self._gate:
            if self._closed:
                return
            self._closed = True
            ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        ending.result()
        self._thread.join(self._timeout)

    def _serve(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        asyncio.run(self._live(ready))

    async def _live(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        self._turn = asyncio.Lock()
        self._over = asyncio.Event()
        ready.set_result(asyncio.get_running_loop())
        await self._over.wait()

    async def _end(self) -> None:
        # Whoever was handed over earlier holds the turn first, and lets go within its own timeout.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._turn.acquire(), self._timeout)
        if self._connection is not None:
            try:
                await self._connection.close(timeout=min(1.0, self._timeout))
            except _DRIVER_ERRORS:
                self._connection.terminate()
        self._over.set()

    async def _take_turn(self, work: Work[Result], effect: Effect, patient: bool) -> Result:
        deadline = self._loop.time() + self._timeout
        try:
            await asyncio.wait_for(self._turn.acquire(), self._timeout)
        except TimeoutError:
            raise Unreachable(f"{self._label} did not answer in time; nothing was written") from None
        try:
            return await self._persist(work, effect, deadline=deadline, patient=patient)
        finally:
            self._used = self._loop.time()
            self._turn.release()

    async def _persist(self, work: Work[Result], effect: Effect, *, deadline: float, patient: bool) -> Result:
        repeated = False
        while True:
            try:
                connection = await self._connected(deadline, patient=patient)
            except StoreError as problem:
                raise (self._unknown() if repeated else problem) from None
            # At the deadline the socket goes: cancelling would wait for the server's consent to roll back.
            timer = self._loop.call_at(deadline, connection.terminate)
            try:
                return await work(connection, repeated)
            except _DRIVER_ERRORS as problem:
                if not (connection.is_closed() or _is_lost(problem)):
                    raise postgres_fault(problem, self._label) from None
                connection.terminate()
                match effect:
                    case "reads":
                        pass
                    case "settles":
                        repeated = True
                    case "counts":
                        raise self._unknown() from None
                    case _:
                        assert_never(effect)
            finally:
                timer.cancel()
            await asyncio.sleep(_PAUSE)

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
                    raise postgres_fault(problem, self._label) from None
            else:
                return self._connection
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.5)

    async def _connect(self, left: float) -> Any:
        allowed = str(max(1, int(self._timeout * 1000)))
        return await asyncpg.connect(
            dsn=self._target.dsn,
            password=self._target.password,
            timeout=left,
            server_settings={
                "application_name": "dlq-sink",
                "synchronous_commit": "on",
                "statement_timeout": allowed,
                # Half of it, so that a locked table is told as such and not as an unknown outcome.
                "lock_timeout": str(max(1, int(self._timeout * 500))),
                "idle_in_transaction_session_timeout": allowed,
            },
        )

    async def _is_alive(self) -> bool:
        connection = self._connection
        if connection is None or connection.is_closed():
            return False
        if self._loop.time() - self._used < IDLE_SECONDS:
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


def _is_lost(problem: BaseException) -> bool:
    return isinstance(problem, OSError) or str(getattr(problem, "sqlstate", ""))[:3] in ("080", "57P")


def _is_passing(problem: BaseException) -> bool:
    """A server that is down, starting or full may be back in a moment; a wrong password will not be right then."""
    if isinstance(problem, asyncpg.PostgresError):
        return str(problem.sqlstate)[:2] in ("08", "57", "53")
    return isinstance(problem, OSError) and not isinstance(problem, ssl.SSLError)

"""The sink's connection to Postgres: one session, each act one short transaction, repeated where that is safe."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar, assert_never

import asyncpg

from dlq_sink.contract import check_usable
from dlq_sink.error import ActRefused, CommitUnknown, StoreError, Unreachable
from dlq_sink.error_codes import is_lost_state, postgres_error, sqlstate
from dlq_sink.libpq.connection import connect
from dlq_sink.target import PostgresTarget

_PAUSE = 0.05  # before reconnecting to a server that ended the connection
_TURNS_TO_HEAR = 5  # of the loop, from what has come in to a closed connection, through TLS, too
IDLE_SECONDS = 5.0  # after this a firewall may have dropped the connection silently
_SAFE_PATH = "search_path = pg_catalog, pg_temp"
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
        self._is_pooled = False
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

    def script(self, sql: str) -> str:
        """One statement as one round trip and one transaction that is not synced; the status it ends with."""

        async def work(link: Any, _: bool) -> str:
            # What a simple query holds is one transaction, and what it sets ends with it.
            return str(await link.execute(f"{self._per_transaction}SET LOCAL synchronous_commit = off; {sql}"))

        return self.call(work, "scripts")

    def insert(self, sql: str, given: Sequence[str | None], spell: Callable[[], str], is_own: str) -> None:
        """One row as one round trip and one synced transaction; `spell` gives the statement with its values in it.

        `is_own`: the SQLSTATE that a second try meets where the first one was committed after all.
        """

        async def work(link: Any, repeated: bool) -> None:
            try:
                await (link.execute(self._per_transaction + spell()) if self._is_pooled else link.execute(sql, *given))
            except asyncpg.PostgresError as problem:
                if not (repeated and problem.sqlstate == is_own):
                    raise

        self.call(work, "scripts")

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
                if self._loop is not None:
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
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done() or task.cancelled() or not isinstance(task.exception(), Exception):
                self._abandon(loop, task)
            raise

    def _abandon(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
        """Ctrl-C met it at some point of the protocol: nobody can say what connection and loop would do next."""
        connection, self._connection, self._loop = self._connection, None, None
        if connection is not None:
            connection.terminate()
        task.cancel()
        with suppress(Exception, asyncio.CancelledError):
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        with suppress(Exception):
            loop.close()

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
            except asyncpg.InvalidCachedStatementError:
                continue  # the table was altered; the driver has forgotten the statement, and nothing was done
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
        deadline = self._loop.time() + left
        connection = await self._dialled(left)
        try:
            async with asyncio.timeout_at(deadline):
                if not self._is_pooled and await _has_pooler(connection):
                    self._is_pooled = True
                    await connection.close()
                    connection = await self._dialled(deadline - self._loop.time())
                await self._settle_session(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _dialled(self, left: float) -> Any:
        """With no setting that a pooler refuses; behind one, with no statement that it would have to keep."""
        return await connect(
            self._target,
            seconds=left,
            server_settings={"application_name": "dlq-sink", **self._target.settings.server_settings},
            **({"statement_cache_size": 0} if self._is_pooled else {}),
        )

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
        if self._is_pooled:
            level = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
            self._per_transaction = level + "".join(f"SET LOCAL {setting}; " for setting in settings)
        else:
            level = "default_transaction_isolation = 'read committed'"
            await connection.execute("; ".join(f"SET SESSION {setting}" for setting in (*settings, level)))

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


async def _has_pooler(connection: Any) -> bool:
    """Whether a pooler answered: it tells a number of its own for the server's."""
    async with connection.transaction():
        asked = await connection.prepare("SELECT pg_catalog.pg_backend_pid()", name="")
        return bool(await asked.fetchval() != connection.get_server_pid())


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

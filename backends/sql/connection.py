"""Compiled queries, and held read connections that queue their calls and reconnect after a loss."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine.url import make_url

from backends.async_engine import AsyncConnection, AsyncEngine
from backends.driver_errors import driver_errors, is_conflict, is_lost, is_undecodable, store_errors
from backends.postgres_session import BEGIN_READING, END_READING, is_pooled_connection
from backends.sql.text.query import CompiledQuery
from backends.store import Unreachable

if TYPE_CHECKING:
    from backends.postgres_trip import SingleTrip


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A statement that transactions run again and again, also compiled to text for calling the driver directly."""

    statement: sa.Executable
    query: CompiledQuery
    columns: tuple[str, ...]  # of its result

    @classmethod
    def of(cls, statement: Any, *, on_postgres: bool) -> PreparedQuery:
        selected = statement.selected_columns if isinstance(statement, sa.Select) else ()
        names = tuple(str(column.key) for column in selected)
        return cls(statement, compiled(statement, on_postgres=on_postgres), names)


def compiled(statement: Any, *, on_postgres: bool) -> CompiledQuery:
    made = statement.compile(dialect=_dialect(on_postgres=on_postgres))
    own = {name: bind.value for name, bind in made.binds.items() if not bind.required}
    return CompiledQuery(str(made), tuple(made.positiontup or ()), own)


@cache
def _dialect(*, on_postgres: bool) -> sa.Dialect:
    return make_url("postgresql+asyncpg://" if on_postgres else "sqlite+aiosqlite://").get_dialect()()


T = TypeVar("T")


class UndecodableValue(Unreachable):
    """A row holds a value that the driver cannot convert; the tolerant connection can read it, where there is one."""


class Connection:
    """One connection: `execute` runs Core statements, `fetch` runs compiled queries directly on the driver.

    On Postgres everything that is read runs in a READ ONLY transaction, under a search_path that holds nobody's objects
    but the server's. It begins with the first statement, or goes out together with it: see `SingleTrip`.
    """

    def __init__(self, connection: AsyncConnection, driver: Any) -> None:
        self._connection = connection
        self._driver = driver
        self._on_postgres = connection.dialect.name == "postgresql"
        self._trip = _single_trip(driver) if self._on_postgres else None
        self._is_reading = False
        self._has_begun = False

    @property
    def is_pooled(self) -> bool:
        """A pooler hands the server's session to others between two transactions."""
        return is_pooled_connection(self._driver)

    async def core(self) -> AsyncConnection:
        """For Core statements of others; while something is read, in its transaction."""
        await self._begin()
        return self._connection

    async def driver(self) -> Any:
        """The driver's own connection; while something is read, in its transaction."""
        await self._begin()
        return self._driver

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        if not self._on_postgres:
            return await work(self)
        self._is_reading = True
        try:
            result = await work(self)
        except driver_errors():
            raise  # the caller drops the connection, and with it the transaction
        except BaseException:
            await self._end()
            raise
        await self._end()
        return result

    async def _begin(self) -> None:
        if self._is_reading and not self._has_begun:
            await self._driver.execute(BEGIN_READING)
            self._has_begun = True

    async def _end(self) -> None:
        self._is_reading = False
        if self._has_begun:
            await self._driver.execute(END_READING)
            self._has_begun = False

    async def execute(
        self, statement: sa.Executable, args: Mapping[str, object] | None = None
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        return await (await self.core()).execute(statement, dict(args or {}))

    async def scalar(self, sql: str) -> Any:
        return (await (await self.core()).exec_driver_sql(sql)).scalar()

    async def fetch(self, query: CompiledQuery, given: Mapping[str, object]) -> Sequence[Any]:
        values = query.values(given)
        if not self._on_postgres:
            return list(await self._driver.execute_fetchall(query.text, values))
        try:
            return await self._fetched(query.text, values)
        except (OverflowError, ValueError) as problem:
            if isinstance(problem, driver_errors()):
                raise
            raise UndecodableValue("a value in the store cannot be read") from None

    async def _fetched(self, text: str, values: Sequence[object]) -> list[Any]:
        if self._trip is None or not self._is_reading:
            return list(await (await self.driver()).fetch(text, *values))
        if not self._has_begun and self._trip.knows(text):
            return await self._trip.fetch(text, values)
        await self._begin()
        return list(await (await self._trip.learn(text)).fetch(*values))

    async def discard(self) -> None:
        """Close a connection that may be broken; the pool does not get it back."""
        await discard(self._connection)

    async def aclose(self) -> None:
        await self._connection.close()


def _single_trip(driver: Any) -> SingleTrip | None:
    from backends.postgres_trip import SingleTrip  # only here: SQLite needs none of it

    return SingleTrip.on(driver)


class ShieldedTasks:
    """Runs work to its end even if the caller is cancelled: a connection must not stop in the middle of an answer."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.shield(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        if self._closed:
            work.close()
            raise Unreachable(f"{self._label} was closed")
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()

    async def aclose(self) -> None:
        """Refuse new work and wait for what is running."""
        self._closed = True
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)


async def discard(connection: AsyncConnection) -> None:
    """Close a connection that may be broken; the pool does not get it back."""
    await connection.invalidate()
    await connection.close()


class ReadConnection:
    """One held connection. Calls queue behind each other, each in a transaction; a lost server is tried once more."""

    def __init__(self, engine: AsyncEngine, label: str) -> None:
        self._engine = engine
        self._label = label
        self._lock = asyncio.Lock()
        self._link: Connection | None = None
        self._tasks = ShieldedTasks(label)

    async def run(self, work: Callable[[Connection], Awaitable[T]], *, bare: bool = False) -> T:
        """`bare`: outside a transaction, for what lasts longer than one."""
        return await self._tasks.run(self._run(work, bare=bare))

    async def _run(self, work: Callable[[Connection], Awaitable[T]], *, bare: bool) -> T:
        async with self._lock:
            with store_errors(self._label):
                try:
                    return await self._once(work, bare=bare)
                except driver_errors() as problem:
                    # Who did not answer in time would only take as long again.
                    if isinstance(problem, TimeoutError) or not (is_lost(problem) or is_conflict(problem)):
                        raise
                return await self._once(work, bare=bare)

    async def _once(self, work: Callable[[Connection], Awaitable[T]], *, bare: bool) -> T:
        try:
            link = self._link or await self._open()
            return await (work(link) if bare else link.read(work))
        except driver_errors() as problem:
            if is_undecodable(problem):
                raise UndecodableValue(f"{self._label} is damaged: text in it is not UTF-8") from None
            await self._drop()
            raise

    async def _open(self) -> Connection:
        connection = await self._engine.connect()
        connection = await connection.execution_options(isolation_level="AUTOCOMMIT")
        raw = await connection.get_raw_connection()
        self._link = Connection(connection, raw.driver_connection)
        return self._link

    async def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.discard()

    async def aclose(self) -> None:
        await self._tasks.aclose()
        link, self._link = self._link, None
        if link is not None:
            with store_errors(self._label):
                await link.aclose()
        await self._engine.dispose()

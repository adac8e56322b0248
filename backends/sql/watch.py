"""Watches a store for changes: SQLite by data_version, Postgres by LISTEN or its snapshot. Never misses a change."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any

from backends.detect import Attached
from backends.detect.intent_table import intent_table_of, with_later_intents
from backends.driver_errors import driver_errors
from backends.ledger.names import SCHEMA
from backends.sql.connection import Connection, ReadConnection
from backends.sql.intent.select import IntentSelect
from backends.sql.text.query import CompiledQuery
from backends.store import Change, StoreError


class FileWatcher:
    """Watches from a thread; polling from the event loop costs several times as much.

    `still` returns True if nothing changed since its last call; only the thread calls it.
    """

    def __init__(self, still: Callable[[], bool], pause: float) -> None:
        self._still = still
        self._pause = pause
        self._moved = asyncio.Event()
        self._over = threading.Event()

    async def moved(self) -> None:
        """Wait until the store may have changed."""
        await self._moved.wait()
        self._moved.clear()

    def __enter__(self) -> FileWatcher:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._look, args=(loop,), name="lookout", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._over.wait(self._pause):
            if self._still():
                continue
            try:
                loop.call_soon_threadsafe(self._moved.set)
            except RuntimeError:  # the loop ended first
                return


SQLITE_POLL_SECONDS = 0.1
POSTGRES_POLL_SECONDS = 0.25
LEASE_POLL_SECONDS = 5.0
# A standby's snapshot does not name every transaction that is under way on the primary.
_POSTGRES_MARK = (
    "SELECT CAST(pg_current_snapshot() AS text), "
    "CASE WHEN pg_is_in_recovery() THEN CAST(pg_last_wal_replay_lsn() AS text) END"
)
# Whether there is a table of that name beside the queue, and whether this role may read any of it.
_SQLITE_INTENTS = "SELECT count(*) FROM main.sqlite_master WHERE type IN ('table', 'view') AND name = ?"
_POSTGRES_INTENTS = (
    "SELECT c.oid, has_any_column_privilege(c.oid, 'select') "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2"
)
_LONGEST_BACKOFF = 2.0
_HALF_OPEN_SECONDS = 15.0
_ANSWER_SECONDS = 10.0  # SQLite waits up to five for a lock


class SQLWatch:
    """`check` raises if the store is no longer the attached one; `still` makes a probe for FileWatcher."""

    def __init__(
        self,
        attached: Attached,
        lane: ReadConnection,
        *,
        check: Callable[[], None] = lambda: None,
        still: Callable[[], Callable[[], bool]] = lambda: lambda: False,
    ) -> None:
        self._attached = attached
        self._lane = lane
        self._is_same = check
        self._stillness = still
        self._beside: object = None  # what was known of an intent table when it was last looked for

    async def changes(self) -> AsyncIterator[Change]:
        """Runs until it is closed. The first change after a loss is "back": anything may have changed."""
        lost, backoff = False, 0.1
        while True:
            try:
                async with aclosing(self._beats()) as beats:
                    async for _ in beats:
                        yield Change("back" if lost else "changed")
                        lost, backoff = False, 0.1
            except StoreError as problem:
                if not lost:
                    lost = True
                    yield Change("lost", str(problem))
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LONGEST_BACKOFF)

    async def _beats(self) -> AsyncGenerator[None]:
        """The pulse; and of an engine's intents also what writes nothing here: a lease that ends, their first table."""
        pulse = self._pulse()
        if self._attached.found.other_layout is not None:
            async for _ in pulse:
                yield
            return
        coming: asyncio.Future[None] | None = None
        gone: object = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(pulse))
                if (await asyncio.wait({coming}, timeout=LEASE_POLL_SECONDS))[0]:
                    heard, coming = coming, None
                    await heard
                    await self._intents_came()
                    yield
                elif self._attached.intents is None:
                    if self._attached.info.dialect == "postgresql" and await self._intents_came():
                        yield
                elif (now := await self._gone()) != gone:
                    gone = now
                    yield
        except StopAsyncIteration:
            return
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})
            await pulse.aclose()

    async def _gone(self) -> object:
        ended = CompiledQuery(IntentSelect(self._attached).count_gone, (), {})
        return await self._lane.run(lambda link: _one(link, ended))

    async def _intents_came(self) -> bool:
        """Whether an intent table is there, or can be read, since it was last looked for; takes it into use.

        No trigger tells of it: a server that notifies is asked now and then, one row of its catalog.
        """
        if self._attached.intents is not None:
            return False
        schema, name = intent_table_of(self._attached.found)
        given: dict[str, object] = {"name": name} if schema is None else {"schema": schema, "name": name}
        asked = CompiledQuery(_SQLITE_INTENTS if schema is None else _POSTGRES_INTENTS, tuple(given), {})
        nothing = (0,) if schema is None else ()
        beside = await self._lane.run(lambda link: _row(link, asked, given))
        if beside == (self._beside or nothing):
            return False
        self._take(await self._lane.run(self._with_intents))
        self._beside = beside
        return True

    async def _with_intents(self, link: Connection) -> Attached:
        return await with_later_intents(await link.core(), self._attached)

    def _take(self, attached: Attached) -> None:
        """Work with what is known of the store now."""
        self._attached = attached

    async def _pulse(self) -> AsyncGenerator[None]:
        if self._attached.info.dialect == "sqlite":
            async for _ in self._poll("PRAGMA data_version", SQLITE_POLL_SECONDS):
                yield
        elif self._attached.channel is None:
            async for _ in self._poll(_POSTGRES_MARK, POSTGRES_POLL_SECONDS):
                yield
        else:
            async for _ in self._listen(self._attached.channel):
                yield

    async def _poll(self, text: str, pause: float) -> AsyncIterator[None]:
        """Yields whenever a commit changed the mark, and once at the start, since earlier changes are unknown."""

        query = CompiledQuery(text, (), {})  # bypasses SQLAlchemy, as an idle console does nothing else

        seen: object = None
        with FileWatcher(self._stillness(), pause) as lookout:
            while True:
                self._is_same()
                mark = await self._lane.run(lambda link: _one(link, query))
                if mark != seen:
                    seen = mark
                    yield
                await lookout.moved()

    async def _listen(self, channel: str) -> AsyncIterator[None]:
        heard, gone = asyncio.Event(), asyncio.Event()

        def on_note(*_: object) -> None:
            heard.set()

        def on_end(*_: object) -> None:
            gone.set()
            heard.set()

        async def work(link: Connection) -> Any:
            driver = await link.driver()
            driver.add_termination_listener(on_end)
            for name in (channel, SCHEMA):
                await driver.add_listener(name, on_note)
            return driver

        driver = await self._lane.run(work, bare=True)
        yield
        try:
            while True:
                try:
                    await asyncio.wait_for(heard.wait(), _HALF_OPEN_SECONDS)
                except TimeoutError:
                    await self._lane.run(_alive)
                    continue
                heard.clear()
                if gone.is_set():
                    await self._lane.run(_alive)
                    return
                yield
        finally:
            if not gone.is_set():
                await _unlisten(driver, (channel, SCHEMA), on_note)


async def _one(link: Connection, query: CompiledQuery) -> object:
    return await _row(link, query, {})


async def _row(link: Connection, query: CompiledQuery, given: Mapping[str, object]) -> tuple[Any, ...]:
    """The first row; empty where there is none."""
    async with asyncio.timeout(_ANSWER_SECONDS):
        return next((tuple(row) for row in await link.fetch(query, given)), ())


async def _alive(link: Connection) -> None:
    async with asyncio.timeout(_ANSWER_SECONDS):
        await link.scalar("SELECT 1")


async def _unlisten(driver: Any, names: tuple[str, ...], callback: Any) -> None:
    try:
        for name in names:
            await driver.remove_listener(name, callback)
    except driver_errors():
        return  # the connection is gone, and with it its listeners

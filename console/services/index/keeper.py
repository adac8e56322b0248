"""Finds a store's index, builds and follows it (IndexJob), runs that as a process of its own (IndexProcess) and
starts that process for a console (IndexSupervisor). Only reads the store; knows no screen.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.index import (
    BuildPace,
    Cache,
    IndexBuilder,
    IndexUnavailable,
    IndexWriter,
    Label,
    Progress,
    Reader,
    default_folder,
)
from backends.index.rows import spell
from backends.index.writer import EVERYTHING
from backends.records import Entry, StoreInfo
from backends.store import Store, StoreError
from console.clock import Clock
from console.own_program import OWN_PROGRAM
from console.services.errors import category, fingerprint
from console.services.market import entry_value
from console.services.market.entry_value import VenueTypes
from console.services.triage.marks import may_arrive
from console.services.triage.triage import ClassifiedEntry, Worth, classified

if TYPE_CHECKING:
    from backends.records import Counts
    from console.services.index.status import IndexStatus
    from console.services.session import StoreSession


VERSION = f"{fingerprint.VERSION}.{category.VERSION}.{entry_value.VERSION}"
_PROGRESS_SECONDS = 0.5
_GRACE_SECONDS = 0.5
_EXIT_SECONDS = 5.0
_NICE = 10


def labeller(worth: Worth) -> Callable[[Entry], Label]:
    return lambda entry: labelled(classified(entry), worth)


def label(entry: Entry) -> Label:
    """Without what it is worth."""
    return labelled(classified(entry))


def labelled(row: ClassifiedEntry, worth: Worth | None = None) -> Label:
    value = worth(row.entry) if worth is not None else None
    mark, kind = row.judged
    return Label(mark.id, mark.title, kind.category, may_arrive(row), value)


async def cache_of(store: Store, folder: Path | None = None, *, types: VenueTypes | None = None) -> Cache:
    """An index of its own for each set of `types`: what an order is worth depends on them."""
    info = store.info
    return Cache.of(
        folder or default_folder(os.environ),
        store_id=await store.store_id(),
        label=_place(info),
        table=info.table + (f"\n{sorted(types.items())}" if types else ""),
        version=VERSION,
    )


def _place(info: StoreInfo) -> str:
    """Resolves a SQLite path, so that one file has one index from any working directory."""
    path = info.label.removeprefix("sqlite ")
    return str(Path(path).resolve()) if info.dialect == "sqlite" else info.label


async def reader_of(store: Store, folder: Path | None = None, *, types: VenueTypes | None = None) -> Reader:
    return Reader(await cache_of(store, folder, types=types))


async def is_current(store: Store, progress: Progress | None) -> bool:
    """Whether counting the store now would give the index's figures, as far as cheap checks can tell."""
    if progress is None or not progress.built or not await has_caught_up(store, progress):
        return False
    counted = (await store.counts(EVERYTHING)).by_state
    return all(counted.get(state, 0) == count for state, count in progress.states.items())


async def has_caught_up(store: Store, progress: Progress) -> bool:
    """Whether the index holds the newest entry and the last act. Cheap at any size; does not check the rest."""
    newest = await store.page(EVERYTHING, limit=1, newest_first=True)
    if newest.entries and spell(newest.entries[0].row_key) != progress.high:
        return False
    async for _ in store.audit(after=progress.audit_seq):
        return False
    return True


class IndexJob:
    """One run that builds or follows an index. Only reads the store."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        folder: Path | None = None,
        pace: BuildPace | None = None,
        types: VenueTypes | None = None,
    ) -> None:
        self._types = types or {}
        self._store = store
        self._clock = clock
        self._folder = folder
        self._pace = pace

    async def build(self, tell: Callable[[Progress], None] = lambda _: None) -> bool:
        """Builds the index up to now. False if the store's counts do not agree with its entries."""
        return await self._keep(tell, follow=False)

    async def follow(self, tell: Callable[[Progress], None] = lambda _: None) -> None:
        """Runs until cancelled. Raises IndexUnavailable, also if another process keeps this index."""
        await self._keep(tell, follow=True)

    async def _keep(self, tell: Callable[[Progress], None], *, follow: bool) -> bool:
        cache = await cache_of(self._store, self._folder, types=self._types)
        label = labeller(entry_value.worth_by(self._types))
        with cache.writing() as connection:
            feed = IndexBuilder(self._store, IndexWriter(connection), label, now=self._clock, pace=self._pace)
            reader = Reader(cache)
            telling = asyncio.create_task(_tell(reader, tell))
            try:
                if not follow:
                    return await feed.settle()
                await feed.run()
                return True
            finally:
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)
                if (progress := await reader.progress()) is not None:
                    tell(progress)
                await reader.aclose()
                feed.close()


async def _tell(reader: Reader, tell: Callable[[Progress], None]) -> None:
    while True:
        if (progress := await reader.progress()) is not None:
            tell(progress)
        await asyncio.sleep(_PROGRESS_SECONDS)


def nicer(by: int) -> int:
    """A process priority that many steps below this process's own."""
    return min(19, os.getpriority(os.PRIO_PROCESS, 0) + by)


def _put_last(pid: int, priority: int) -> None:
    """Set here, not by the child: lower than what `dlq index` gives itself when a person runs it and waits."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, priority)
        if sys.platform == "linux":  # key presses then preempt the index at once
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        # Where Linux shares the processor between sessions, a priority counts only inside one: so the session's, too.
        Path(f"/proc/{pid}/autogroup").write_text(str(priority), encoding="ascii")


class IndexProcess:
    """The process that keeps the index while a console is open: `dlq index --follow` on the same store.

    It ends with its console, even if that is killed, because its stdin then ends.
    """

    def __init__(self, words: tuple[str, ...], environ: Mapping[str, str], *, nice: int = _NICE) -> None:
        """`words` are global options without the target, which `environ` holds as DLQ_DB."""
        self._nice = nice
        self._words = words
        self._environ = dict(environ)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *OWN_PROGRAM,
            "index",
            "--follow",
            "--with-parent",
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._environ,
            start_new_session=True,
        )
        _put_last(self._process.pid, nicer(self._nice))

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        # An index survives being killed at any point, so quitting need not wait for it.
        for seconds, end in ((_GRACE_SECONDS, process.terminate), (_EXIT_SECONDS, process.kill)):
            try:
                await asyncio.wait_for(process.wait(), seconds)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    end()
        await process.wait()


__all__ = [
    "VERSION",
    "IndexJob",
    "IndexProcess",
    "IndexUnavailable",
    "cache_of",
    "has_caught_up",
    "is_current",
    "label",
    "labelled",
    "reader_of",
]


Keep = Callable[[], "IndexProcess"]
_BUILDING_SECONDS = 3.0
_IDLE_SECONDS = 5.0
_AGAIN_SECONDS = 30.0  # between two tries to start the process


class IndexSupervisor:
    def __init__(self, session: StoreSession, keep: Keep | None, counts: Callable[[], Counts | None]) -> None:
        """`keep` is None if the index may be used but not built."""
        self._session = session
        self._keep = keep
        self._counts = counts
        self._keeper: IndexProcess | None = None
        self._next_try = 0.0

    async def run(self, tell: Callable[..., None]) -> None:
        """Checks the index and passes what the header shows to `tell`, until cancelled."""
        while True:
            said = await self.look()
            if said is not None:
                tell(**said)
            building = said is not None and said["indexing"] is not None
            await asyncio.sleep(_BUILDING_SECONDS if building else _IDLE_SECONDS)

    async def aclose(self) -> None:
        """Stops the process, if this console started it."""
        if self._keeper is not None:
            await self._keeper.stop()

    async def look(self) -> dict[str, Any] | None:
        """The index's share of the header; None while the store does not answer, which is reported elsewhere."""
        try:
            index_status = await self._session.index_status()
            await index_status.look(kept=await self._is_kept(index_status))
            raised = await index_status.alerts(self._counts())
        except StoreError:
            return None
        return {"indexing": self._percent(index_status), "alerts": raised}

    async def _is_kept(self, index_status: IndexStatus) -> bool:
        if self._keeper is not None and self._keeper.running:
            return True
        if index_status.reader.is_kept:
            return True  # another console keeps it
        if self._keep is None or time.monotonic() < self._next_try:
            return False
        self._next_try = time.monotonic() + _AGAIN_SECONDS
        self._keeper = self._keep()
        await self._keeper.start()
        return True

    def _percent(self, index_status: IndexStatus) -> int | None:
        """Progress of the build; None if nothing is being built."""
        progress = index_status.progress
        if progress is None:
            return 0 if self._keeper is not None and self._keeper.running else None
        return None if progress.complete else int(progress.share * 100)

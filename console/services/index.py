"""The index from the services' side: what entries are filed under, where a store's index lies, and who keeps it.

The keeper is a process of its own, so that building an index of a million entries never costs a key press.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from backends.index import Cache, Feed, IndexUnavailable, Label, Pace, Progress, Reader, Writer, default_folder
from backends.records import Entry
from backends.store import Store
from console.clock import Clock
from console.services import category, fingerprint
from console.services.triage import look

VERSION = f"{fingerprint.VERSION}.{category.VERSION}"
_PROGRESS_SECONDS = 0.5
_EXIT_SECONDS = 5.0


def label(entry: Entry) -> Label:
    row = look(entry)
    return Label(row.fingerprint, row.title, row.category)


async def cache_of(store: Store, folder: Path | None = None) -> Cache:
    info = store.info
    return Cache.of(
        folder or default_folder(os.environ),
        store_id=await store.store_id(),
        label=info.label,
        table=info.table,
        version=VERSION,
    )


async def reader_of(store: Store, folder: Path | None = None) -> Reader:
    return Reader(await cache_of(store, folder))


class Keeping:
    """One run of keeping an index. Only reads the store."""

    def __init__(self, store: Store, clock: Clock, *, folder: Path | None = None, pace: Pace | None = None) -> None:
        self._store = store
        self._clock = clock
        self._folder = folder
        self._pace = pace

    async def build(self, tell: Callable[[Progress], None] = lambda _: None) -> bool:
        """Once, up to now. False: the store's counts do not agree with its entries."""
        return await self._keep(tell, follow=False)

    async def follow(self, tell: Callable[[Progress], None] = lambda _: None) -> None:
        """Until cancelled. Raises IndexUnavailable, also where another console keeps this index."""
        await self._keep(tell, follow=True)

    async def _keep(self, tell: Callable[[Progress], None], *, follow: bool) -> bool:
        cache = await cache_of(self._store, self._folder)
        with cache.writing() as connection:
            feed = Feed(self._store, Writer(connection), label, now=self._clock, pace=self._pace)
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


class Keeper:
    """The process that keeps the index while a console is open: `dlq index --follow` on the same store.

    It goes when its console goes, however that ends, as it then reads the end of its stdin.
    """

    def __init__(self, words: tuple[str, ...], environ: Mapping[str, str]) -> None:
        """`words`: the global words of the command line, without the target; that is in `environ` as DLQ_DB."""
        self._words = words
        self._environ = dict(environ)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "console",
            "index",
            "--follow",
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=self._environ,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _EXIT_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


__all__ = ["VERSION", "IndexUnavailable", "Keeper", "Keeping", "cache_of", "label", "reader_of"]

"""Looking ten times a second whether a SQLite file moved, on a thread: waking an event loop for it costs far more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType


class FileWatcher:
    """`still` says that nothing moved since it was last asked; it is asked on the thread alone."""

    def __init__(self, still: Callable[[], bool], pause: float) -> None:
        self._still = still
        self._pause = pause
        self._moved = asyncio.Event()
        self._over = threading.Event()

    async def moved(self) -> None:
        """Waits until the store should be asked again."""
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

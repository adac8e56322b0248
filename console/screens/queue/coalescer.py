"""Runs one read at a time and at most one more for everybody who asks meanwhile. Knows no store and no screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

_REST = 3.0  # pause between two reads, as a multiple of the read's own time: a slow store is read less often


class Coalescer:
    def __init__(self, work: Callable[[], Awaitable[None]], *, rest: float = _REST) -> None:
        """`rest`: 0 for work that keeps its own pace, whose waiting is no cost of the store."""
        self._work = work
        self._rest = rest
        self._running = False
        self._again = False

    async def __call__(self) -> None:
        """Run the work, or leave it to the caller that is running it now and return at once."""
        self._again = True
        if self._running:
            return
        self._running = True
        try:
            while self._again:
                self._again = False
                began = time.monotonic()
                await self._work()
                if self._again:
                    await asyncio.sleep((time.monotonic() - began) * self._rest)
        finally:
            self._running = False

"""Work that is asked for more often than it can be done: one at a time, and once more for all who asked meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

_REST = 3.0  # times as long as it took: a store that is slow to read is read seldom


class Coalescer:
    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._running = False
        self._again = False

    async def __call__(self) -> None:
        """Returns when what was asked for is done; at once where somebody else is at it, who will see to it."""
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
                    await asyncio.sleep((time.monotonic() - began) * _REST)
        finally:
            self._running = False

"""One connection on a thread of its own: an event loop may wait for it, and nothing else ever touches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Thread:
    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        # A cancelled caller must not leave a connection in the middle of a statement that the next one finds.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._executor, work))

    def close(self) -> None:
        self._executor.shutdown(wait=True)

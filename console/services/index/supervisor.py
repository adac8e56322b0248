"""Looks after the index of the attached store while the console is open: its process, how far it is, what it raises.

Knows no screen: what the frame should say is handed on in one call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from backends.store import StoreError

if TYPE_CHECKING:
    from backends.records import Counts
    from console.services.index.keeper import IndexProcess
    from console.services.index.status import IndexStatus
    from console.services.session import StoreSession

Keep = Callable[[], "IndexProcess"]
_BUILDING_SECONDS = 3.0
_IDLE_SECONDS = 5.0
_AGAIN_SECONDS = 30.0  # between two tries to be the one that keeps the index


class IndexSupervisor:
    def __init__(self, session: StoreSession, keep: Keep | None, counts: Callable[[], Counts | None]) -> None:
        """`keep` is None where the index may be used but not built."""
        self._session = session
        self._keep = keep
        self._counts = counts
        self._keeper: IndexProcess | None = None
        self._next_try = 0.0

    async def run(self, tell: Callable[..., None]) -> None:
        """Until cancelled."""
        while True:
            said = await self.look()
            if said is not None:
                tell(**said)
            building = said is not None and said["indexing"] is not None
            await asyncio.sleep(_BUILDING_SECONDS if building else _IDLE_SECONDS)

    async def aclose(self) -> None:
        """The process ends with its console."""
        if self._keeper is not None:
            await self._keeper.stop()

    async def look(self) -> dict[str, Any] | None:
        """What the frame should say; None while the store does not answer, which others tell."""
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
            return True  # another console's
        if self._keep is None or time.monotonic() < self._next_try:
            return False
        self._next_try = time.monotonic() + _AGAIN_SECONDS
        self._keeper = self._keep()
        await self._keeper.start()
        return True

    def _percent(self, index_status: IndexStatus) -> int | None:
        """None once there is nothing to wait for."""
        progress = index_status.progress
        if progress is None:
            return 0 if self._keeper is not None and self._keeper.running else None
        return None if progress.complete else int(progress.share * 100)

"""When the next request to a venue may go: evenly spaced, look-ups included."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Pace:
    """`turn()` returns when it is this request's turn. A venue's "slow down" moves every later turn."""

    def __init__(self, per_minute: int | None, now: Callable[[], float] = time.monotonic) -> None:
        self.gap = 60.0 / per_minute if per_minute else 0.0
        self._now = now
        self._next = 0.0

    def book(self) -> float:
        """Seconds to wait for a turn that is now taken."""
        now = self._now()
        turn = max(self._next, now)
        self._next = turn + self.gap
        return turn - now

    def hold(self, seconds: float) -> None:
        self._next = max(self._next, self._now() + seconds)

    async def turn(self) -> None:
        wait = self.book()
        if wait > 0:
            await asyncio.sleep(wait)

"""A breaker per venue: five failures in a row open it, thirty seconds later one try, two successes close it. Pure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

FAILURES = 5
OPEN_SECONDS = 30.0
SUCCESSES = 2


@dataclass(frozen=True, slots=True)
class Breaker:
    state: Literal["closed", "open", "half-open"] = "closed"
    failures: int = 0
    successes: int = 0
    opened_at: float = 0.0

    def succeeded(self) -> Breaker:
        """A definite answer: accepted, rejected, or told to slow down."""
        if self.state == "half-open":
            done = self.successes + 1
            return Breaker() if done >= SUCCESSES else replace(self, successes=done)
        return Breaker()

    def failed(self, now: float) -> Breaker:
        """Not sent, or no clear answer."""
        failures = self.failures + 1
        if self.state != "closed" or failures >= FAILURES:
            return Breaker("open", FAILURES, 0, now)
        return replace(self, failures=failures)

    def at(self, now: float) -> Breaker:
        """As it stands at this moment: an open one lets a try through after its time."""
        if self.state == "open" and now - self.opened_at >= OPEN_SECONDS:
            return replace(self, state="half-open", successes=0)
        return self

    @property
    def room(self) -> int:
        """How many sends may be under way at once without a sixth failure being possible."""
        match self.state:
            case "open":
                return 0
            case "half-open":
                return 1
            case "closed":
                return FAILURES - self.failures


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

"""When the next request may go out: a breaker and a pace per venue, and waits that stopping a run ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

from backends.records import BreakerRow

FAILURES = 5
OPEN_SECONDS = 30.0
SUCCESSES = 2
Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


class Wait(NamedTuple):
    """How long something has to be waited for from now on, and why."""

    seconds: float
    why: str


Waiting = Callable[[str, Wait | None], None]  # what is waited for, and how long; None: it goes on
FAILED_IN_A_ROW = "it failed several times in a row"


async def unless_stopped(work: Awaitable[T], stopped: asyncio.Event) -> T | None:
    """The result of `work`; None when `stopped` is set first, and then the work is cancelled."""
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def wait_unless_stopped(seconds: float, stopped: asyncio.Event, sleep: Sleep = asyncio.sleep) -> bool:
    """Wait so many seconds, or until `stopped` is set. True when it is not set."""
    if seconds > 0 and not stopped.is_set():
        await unless_stopped(sleep(seconds), stopped)
    return not stopped.is_set()


@dataclass(frozen=True, slots=True)
class Breaker:
    """Opens after five failures in a row, lets one try through after thirty seconds, closes after two successes."""

    state: Literal["closed", "open", "half-open"] = "closed"
    failures: int = 0
    successes: int = 0
    opened_at: float = 0.0

    def succeeded(self) -> Breaker:
        """The breaker after a definite answer: accepted, rejected, or told to slow down."""
        if self.state == "half-open":
            done = self.successes + 1
            return Breaker() if done >= SUCCESSES else replace(self, successes=done)
        return Breaker()

    def failed(self, now: float) -> Breaker:
        """The breaker after a request that was not sent or got no clear answer."""
        failures = self.failures + 1
        if self.state != "closed" or failures >= FAILURES:
            return Breaker("open", FAILURES, 0, now)
        return replace(self, failures=failures)

    def at(self, now: float) -> Breaker:
        """The breaker at this moment: an open one is half-open once its time is over."""
        if self.state == "open" and now - self.opened_at >= OPEN_SECONDS:
            return replace(self, state="half-open", successes=0)
        return self

    @classmethod
    def kept(cls, row: BreakerRow | None, now: float) -> Breaker:
        """The breaker as the ledger has it for every console of the store."""
        if row is None:
            return cls()
        if row.opened_ago is None:
            return cls(failures=min(row.failures, FAILURES - 1))
        if row.opened_ago >= OPEN_SECONDS:
            return cls("half-open", FAILURES, row.successes)
        return cls("open", FAILURES, 0, now - row.opened_ago)

    @property
    def room(self) -> int:
        """How many sends may be under way at once, so that no sixth failure is possible."""
        match self.state:
            case "open":
                return 0
            case "half-open":
                return 1
            case "closed":
                return FAILURES - self.failures


def breaker_text(label: str, failures: int, seconds: float) -> str:
    """Why an order alone does not go now."""
    return f"{label}: its last {failures} sends failed; one more may be tried in {seconds:.0f} s"


class Pace:
    """Spaces the requests to one venue. `hold` delays every later turn when a venue asks to slow down."""

    def __init__(self, per_minute: int | None, now: Callable[[], float] = time.monotonic) -> None:
        self.gap = 60.0 / per_minute if per_minute else 0.0
        self.holds = 0  # how often the venue asked to slow down: a turn taken before is no longer good
        self._now = now
        self._next = 0.0
        self._held_until = 0.0

    def wait(self) -> float:
        """The seconds until the next turn; takes none."""
        return max(self._next - self._now(), 0.0)

    @property
    def why(self) -> str:
        """What the next turn waits for."""
        return "it asked to slow down" if self._held_until > self._now() else "its rate limit"

    def book(self) -> float:
        """Take the next turn and return the seconds until it begins."""
        wait = self.wait()
        self._next = self._now() + wait + self.gap
        return wait

    def hold(self, seconds: float) -> None:
        """Let nothing go for so long, not even what has taken its turn already."""
        if seconds <= 0:
            return
        self.holds += 1
        self._held_until = max(self._held_until, self._now() + seconds)
        self._next = max(self._next, self._held_until)

    async def turn(self) -> None:
        wait = self.book()
        if wait > 0:
            await asyncio.sleep(wait)

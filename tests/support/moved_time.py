"""Time that passes only when a test says so: a wall clock, the ticks that stand still in a suspended machine, a venue
that asks to be waited for, and a console whose waits end at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from console import clock
from console.services.replay import batch, submit, venue_pool
from console.services.replay.batch import ReplayBatch
from console.services.replay.flow_control import Pace
from tests.support.venue.in_process import FakeDesk, FakeVenue
from venues import Lookup, LookupFailed, Prepared

LEAD = timedelta(minutes=5)  # ahead of the store's clock, so that this one alone decides
_WORTH_A_WAIT = 1.0


class MovedTime:
    """The wall clock and the monotonic one, which move by hand."""

    def __init__(self) -> None:
        self.wall = datetime.now(UTC) + LEAD
        self.ticks = 1000.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.ticks

    def pass_by(self, seconds: float) -> None:
        self.suspend(seconds)
        self.ticks += seconds

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: the wall clock goes on, the monotonic one does not."""
        self.wall += timedelta(seconds=seconds)


@dataclass
class BusyVenue(FakeVenue):
    """Answers the next look-ups with 429 and these seconds to wait."""

    retry_after: list[float] = field(default_factory=list)

    async def lookup(self, prepared: Prepared) -> Lookup:
        if self.retry_after:
            self.asked.append(prepared)
            return LookupFailed("HTTP 429", retry_after=self.retry_after.pop(0))
        return await super().lookup(prepared)


@dataclass(frozen=True)
class Hooks:
    """What happens while a console waits, or between two of its steps."""

    waited: Callable[[float], None]
    reached: Callable[[submit.Point], None]


def move_time(patch: pytest.MonkeyPatch, time: MovedTime, venue: FakeVenue, hooks: Hooks) -> None:
    """Put a console of this process under these clocks, at this venue; `patch` takes it back."""

    async def waited(seconds: float, stopped: asyncio.Event, *_: Any) -> bool:
        if seconds >= _WORTH_A_WAIT:
            hooks.waited(seconds)
        return not stopped.is_set()

    async def waited_for_breaker(_: ReplayBatch, __: Any, seconds: float) -> None:
        hooks.waited(seconds)

    patch.setattr(clock, "now", time.now)
    patch.setattr(venue_pool, "VenuePool", lambda settings, _: FakeDesk({"fake": venue}, settings))
    patch.setattr(batch, "time", SimpleNamespace(monotonic=time.monotonic))
    patch.setattr(batch, "Pace", partial(Pace, now=time.monotonic))
    patch.setattr(batch, "ReplayBatch", partial(ReplayBatch, at=hooks.reached))
    patch.setattr(ReplayBatch, "_wait_for_breaker", waited_for_breaker)
    patch.setattr(submit, "wait_unless_stopped", waited)

"""A replay off the caller's thread, with its own loop: it outlives a screen, a signal and a stuck terminal.

The thread is not a daemon: the process waits for what has begun to be recorded.
"""

from __future__ import annotations

import asyncio
import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

from backends.records import Entry, Selection
from console.services.replay.flow_control import Wait
from console.services.replay.outcome import EntryOutcome

Work = Callable[["RunHandle"], Awaitable[tuple[EntryOutcome, ...]]]


class Stoppable(Protocol):
    def stop(self) -> None: ...


@runtime_checkable
class Guarded(Protocol):
    def breakers(self) -> dict[str, str]: ...


class RunHandle:
    """What the running work shows and obeys; every method may be called from any thread."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self.events: queue.SimpleQueue[EntryOutcome | None] = queue.SimpleQueue()
        self.total = 0  # results to come, once that is known
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: Stoppable | None = None
        self._lock = threading.Lock()
        self._waits: dict[str, tuple[float, str]] = {}  # what → until when, and why
        self._ticks = ticks

    def wait_for(self, what: str, wait: Wait | None) -> None:
        """Say what the work waits for at one venue and account; None: it goes on."""
        with self._lock:
            if wait is None:
                self._waits.pop(what, None)
            else:
                self._waits[what] = self._ticks() + wait.seconds, wait.why

    @property
    def waiting(self) -> str:
        """What the work waits for now, and how much longer; "" where it does not wait."""
        with self._lock:
            now, waits = self._ticks(), dict(self._waits)
        told = ((what, max(0, math.ceil(until - now)), why) for what, (until, why) in waits.items())
        return "; ".join(f"{what} waits {left} s: {why}" for what, left, why in told)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def tell(self, ended: EntryOutcome) -> None:
        self.events.put(ended)

    def attend(self, running: Stoppable) -> None:
        """Called from the work's own loop once there is something to stop."""
        with self._lock:
            self._loop, self._running = asyncio.get_running_loop(), running
        if self._stop.is_set():
            running.stop()

    def breakers(self) -> dict[str, str]:
        """Venue → closed, open or half-open, as it stands or as the run left it."""
        with self._lock:
            running = self._running
        return running.breakers() if isinstance(running, Guarded) else {}

    def stop(self) -> None:
        self._stop.set()
        with self._lock:
            if self._loop is None or self._running is None:
                return
            with suppress(RuntimeError):  # the work has ended, and its loop with it
                self._loop.call_soon_threadsafe(self._running.stop)


class BackgroundRun:
    """One run. `results` after `join`; an unexpected error is raised there, not swallowed."""

    def __init__(self, work: Work, ticks: Callable[[], float] = time.monotonic) -> None:
        self.handle = RunHandle(ticks)
        self._work = work
        self._results: tuple[EntryOutcome, ...] = ()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="dlq-batch")

    def start(self) -> BackgroundRun:
        self._thread.start()
        return self

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self.handle.stop()

    def wait(self) -> None:
        """Until all that was begun is recorded; how it ended is `join`'s to say."""
        self._thread.join()

    def join(self) -> tuple[EntryOutcome, ...]:
        self._thread.join()
        if self._problem is not None:
            raise self._problem
        return self._results

    def _run(self) -> None:
        try:
            self._results = asyncio.run(self._main())
        except BaseException as problem:  # noqa: BLE001 - handed to whoever joins
            self._problem = problem
        finally:
            self.handle.events.put(None)

    async def _main(self) -> tuple[EntryOutcome, ...]:
        return await self._work(self.handle)


Kind = Literal["replay", "reconcile"]
_ANSWERED = ("accepted", "rejected", "unknown")  # outcomes of what went to the other side
_SETTLED = ("accepted", "rejected", "not_sent")  # outcomes with which a reconcile ends an attempt
_THERE = ("found:", "nothing to cancel")  # how the detail of an order begins that needed no sending
_FULL = "max-batch:"


@dataclass(frozen=True)
class RunScope:
    """What a run was asked for: what would go, what that supersedes, and which entries were chosen."""

    going: tuple[str, ...] = ()
    beneath: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    chosen: Selection = field(default_factory=lambda: Selection(()))
    rehearsal: bool = False
    origin: str = ""  # the group or the filter that the entries were chosen by

    @cached_property
    def sent_ids(self) -> frozenset[str]:
        return frozenset(self.going)

    @cached_property
    def held_ids(self) -> frozenset[str]:
        return frozenset(self.held)


@dataclass(slots=True)
class RunProgress:
    kind: Kind
    mode: str
    total: int
    batch: BackgroundRun
    ticks: Callable[[], float] = time.monotonic
    landed: list[EntryOutcome] = field(default_factory=list)
    stopping: bool = False
    over: bool = False
    began: float = 0.0
    ended: float = 0.0
    store: str = ""  # where it runs, which may be left meanwhile
    problem: str | None = None  # why it ended early, in one line
    scope: RunScope = RunScope()
    entries: dict[str, Entry] = field(default_factory=dict)  # as far as they have been read

    def start(self) -> RunProgress:
        self.began = self.ticks()
        self.batch.start()
        return self

    def stop(self) -> None:
        self.stopping = True
        self.batch.stop()

    def drain(self) -> list[EntryOutcome]:
        """What has landed since the last look; never waits."""
        fresh: list[EntryOutcome] = []
        while True:
            try:
                ended = self.batch.handle.events.get_nowait()
            except queue.Empty:
                break
            if ended is None:
                self.over, self.ended = True, self.ticks()
                break
            fresh.append(ended)
        self.landed += fresh
        return fresh

    @property
    def seconds(self) -> float:
        return (self.ended if self.over else self.ticks()) - self.began

    @property
    def rate(self) -> float:
        """Entries a minute; what was left out or stopped before it began took none."""
        begun = sum(ended.outcome not in ("refused", "skipped") for ended in self.landed)
        return 60 * begun / self.seconds if self.seconds > 0 else 0.0

    @property
    def tally(self) -> Counter[str]:
        return Counter(ended.outcome for ended in self.landed)

    @property
    def planned(self) -> int:
        """How many it would send, or ask about; what stays is no part of it."""
        if self.scope.going:
            return len(self.scope.going)
        return self.total - (sum(map(self._is_beside, self.landed)) if self.kind == "replay" else 0)

    @property
    def done(self) -> int:
        """How many were sent, found at the other side, or settled by a reconcile."""
        ends = _ANSWERED if self.kind == "replay" else _SETTLED
        return sum(one.outcome in ends for one in self.landed)

    @property
    def found(self) -> int:
        """How many of these needed no sending: the other side had them."""
        there = (one for one in self.landed if one.outcome == "accepted" and self.kind == "replay")
        return sum((one.detail or "").startswith(_THERE) for one in there)

    @property
    def unsent(self) -> tuple[EntryOutcome, ...]:
        """What would have gone and did not."""
        if self.kind != "replay":
            return ()
        return tuple(one for one in self.landed if one.outcome not in _ANSWERED and not self._is_beside(one))

    @property
    def held(self) -> tuple[EntryOutcome, ...]:
        """What the plan kept back."""
        kept = self.scope.held_ids
        return tuple(one for one in self.landed if one.entry_id in kept or (not kept and one.outcome == "refused"))

    @property
    def missing(self) -> tuple[str, ...]:
        """What would go and has no outcome yet."""
        there = {one.entry_id for one in self.landed}
        return tuple(one for one in self.scope.going if one not in there)

    @property
    def doubted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.entry_id for one in self.landed if one.outcome == "unknown"))

    @property
    def left(self) -> Selection:
        """What was chosen and not sent: what stopped, and what the batch had no room for. As it was chosen."""
        ids = {one.entry_id for one in self._left()}
        return Selection(tuple(pick for pick in self.scope.chosen.picks if pick[0] in ids))

    def _left(self) -> Iterator[EntryOutcome]:
        yield from (one for one in self.unsent if one.outcome != "refused")
        yield from (one for one in self.landed if one.entry_id in self.scope.beneath and one.outcome == "skipped")
        yield from (one for one in self.held if is_full(one))

    def _is_beside(self, one: EntryOutcome) -> bool:
        """Whether this entry would not have been sent anyway."""
        if self.scope.going:
            return one.entry_id not in self.scope.sent_ids
        return one.outcome in ("refused", "superseded")

    @property
    def word(self) -> str:
        state = "stopping" if self.stopping else self.kind
        return f"{state} {self.done}/{self.planned} {self.mode.upper()}"


def is_full(ended: EntryOutcome) -> bool:
    """Whether the entry stayed only because the batch had no room for it."""
    return ended.outcome == "refused" and (ended.detail or "").startswith(_FULL)

"""A replay off the caller's thread, with its own loop: it outlives a screen, a signal and a stuck terminal.

The thread is not a daemon: the process waits for what has begun to be recorded.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from console.services.replay.outcome import EntryOutcome

Work = Callable[["RunHandle"], Awaitable[tuple[EntryOutcome, ...]]]


class Stoppable(Protocol):
    def stop(self) -> None: ...


@runtime_checkable
class Guarded(Protocol):
    def breakers(self) -> dict[str, str]: ...


class RunHandle:
    """What the running work shows and obeys; every method may be called from any thread."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[EntryOutcome | None] = queue.SimpleQueue()
        self.total = 0  # results to come, once that is known
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: Stoppable | None = None
        self._lock = threading.Lock()
        self._waits: dict[str, str] = {}

    def wait_for(self, what: str, text: str | None) -> None:
        """Say what the work waits for at one venue and account; None: it goes on."""
        with self._lock:
            if text is None:
                self._waits.pop(what, None)
            else:
                self._waits[what] = text

    @property
    def waiting(self) -> str:
        """What the work waits for now; "" where it does not wait."""
        with self._lock:
            return "; ".join(f"{what} {text}" for what, text in self._waits.items())

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

    def __init__(self, work: Work) -> None:
        self.handle = RunHandle()
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
    def word(self) -> str:
        done, state = len(self.landed), "stopping" if self.stopping else self.kind
        return f"{state} {done}/{self.total} {self.mode.upper()}"

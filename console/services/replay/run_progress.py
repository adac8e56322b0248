"""A batch as a screen follows it: what has landed so far, how fast, and how it ended. Outlives every screen."""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from console.services.replay.background_run import BackgroundRun
from console.services.replay.outcome import EntryOutcome

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

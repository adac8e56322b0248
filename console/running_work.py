"""Tracks the acts on the store and the one batch that may run, and stops them.

Knows no screen: the app polls it with `follow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backends.store import StoreError

if TYPE_CHECKING:
    from console.services.replay.background_run import RunProgress


class Act:
    """An act on the store that runs on this event loop and can be stopped between entries."""

    def __init__(self) -> None:
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def is_stopped(self) -> bool:
        return self._stopped


class RunningWork:
    def __init__(self) -> None:
        self.run: RunProgress | None = None
        self.replayed: RunProgress | None = None  # the last replay, which a reconcile may have followed
        self._acts: list[Act] = []
        self._waiting = ""

    def take(self, run: RunProgress) -> None:
        """Follow this run from now on."""
        self.run = run
        if run.kind == "replay":
            self.replayed = run

    @contextmanager
    def acting(self) -> Iterator[Act]:
        act = Act()
        self._acts.append(act)
        try:
            yield act
        finally:
            self._acts.remove(act)

    @property
    def has_batch(self) -> bool:
        return self.run is not None and not self.run.over

    @property
    def is_busy(self) -> bool:
        return self.has_batch or bool(self._acts)

    def stop(self) -> str:
        """Stop everything without asking; returns what to tell the operator."""
        for act in self._acts:
            act.stop()
        if self.run is not None and not self.run.over:
            self.run.stop()
            return "stopping: what has begun is brought to its end, nothing new is begun"
        return "stopping" if self._acts else "nothing is running"

    def breakers(self) -> dict[str, str]:
        """The circuit breakers of the venues that the running or last batch sent to."""
        return {} if self.run is None else self.run.batch.handle.breakers()

    def stop_batch(self) -> None:
        """Stop the batch, from any thread."""
        if self.run is not None:
            self.run.batch.stop()

    def drain(self) -> None:
        """Wait, on any thread, until everything that was sent is recorded."""
        if self.run is not None:
            self.run.batch.wait()

    @property
    def waiting(self) -> str:
        """What the running batch waits for; "" where it does not wait."""
        return self.run.batch.handle.waiting if self.run is not None and self.has_batch else ""

    def follow(self) -> bool:
        """Take in the outcomes that have arrived; True where there were any, or where it waits for something else."""
        run = self.run
        if run is None or run.over:
            return False
        fresh = run.drain()
        before, self._waiting = self._waiting, self.waiting
        if run.over:
            try:
                run.batch.join()
            except StoreError as problem:
                run.problem = str(problem)
        return bool(fresh) or run.over or before != self._waiting

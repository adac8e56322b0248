"""What every sink promises an engine. Knows no database."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from backends.records import DeadLetteredOrder
from backends.store import StoreError

Entries = list[DeadLetteredOrder]  # a sink's own `list` hides the builtin inside its class


class SinkClosed(StoreError):
    """The sink was closed, or belongs to the process this one was forked from."""


@runtime_checkable
class DLQSink(Protocol):
    """Synchronous; may be called from any thread, also from one that runs an event loop."""

    def write(self, entry: DeadLetteredOrder) -> None:
        """Durable once it returns. Raises DuplicateEntry if the id is already there; overwrites nothing."""

    def list(self, *, include_dismissed: bool = False) -> Entries:
        """In insertion order; Postgres: by captured_at, then dlq_id."""

    def get(self, dlq_id: str) -> DeadLetteredOrder | None: ...

    def mark_dismissed(self, dlq_id: str) -> bool:
        """False for an unknown id; True again for one that was dismissed before."""

    def bump_retry(self, dlq_id: str) -> int:
        """The new count. Raises KeyError for an unknown id."""

    def depth(self) -> int:
        """Entries that are not dismissed."""

    def close(self) -> None: ...


def check_usable(*, closed: bool, pid: int) -> None:
    if closed:
        raise SinkClosed("this sink is closed: open a new one")
    if pid != os.getpid():
        raise SinkClosed("this sink belongs to the process that opened it: open one of its own after a fork")


class ClosingSink:
    """A sink as a context manager."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

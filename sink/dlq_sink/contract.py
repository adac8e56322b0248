"""What every sink promises an engine. Knows no database."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable
from weakref import WeakSet

from dlq_sink.error import SinkClosed
from dlq_sink.record import DeadLetteredOrder

if TYPE_CHECKING:
    from dlq_sink.witness.lease import IntentKeeper

Entries = list[DeadLetteredOrder]  # a sink's own `list` hides the builtin inside its class


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


class IntentRows(Protocol):
    """Where a sink keeps its open intents."""

    lingers: bool  # whether a note that an order was placed waits for others, so that its engine does not wait

    def open(self, entry: DeadLetteredOrder, owner: str, host: str) -> None:
        """Durable once it returns."""

    def resolve(self, placed: Mapping[str, str | None]) -> Sequence[str]:
        """By dlq_id the orders' ids at the venue. Those that others had made entries of, which are dismissed now."""

    def fail(self, entry: DeadLetteredOrder) -> None:
        """The entry of the same id, and the intent resolved, at once."""

    def renew(self, owner: str) -> None: ...

    def clean(self, most: int) -> int: ...


def check_usable(*, closed: bool) -> None:
    if closed:
        raise SinkClosed("this sink is closed: open a new one")


class ClosingSink:
    """A sink as a context manager, and the intents it keeps once somebody asks for a witness.

    After a fork each process has a connection of its own; an intent stays with the process that opened it.
    """

    _keeper: IntentKeeper | None = None

    def _survive_forks(self) -> None:
        """At the end of `__init__`."""
        self._making_a_keeper = threading.Lock()
        _SINKS.add(self)

    def _before_fork(self) -> None: ...

    def _after_fork(self) -> None: ...

    def _after_fork_in_child(self) -> None:
        self._keeper = None
        self._making_a_keeper = threading.Lock()  # another thread may have held it

    def intents(self) -> IntentKeeper:
        """Makes the table of intents at the first call."""
        if self._keeper is None:
            from dlq_sink.witness.lease import IntentKeeper

            rows = self._intent_rows()
            with self._making_a_keeper:
                self._keeper = self._keeper or IntentKeeper(rows)
        return self._keeper

    def _intent_rows(self) -> IntentRows:
        raise NotImplementedError

    def _end_renewal(self) -> None:
        if self._keeper is not None:
            self._keeper.end()

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


_SINKS: WeakSet[ClosingSink] = WeakSet()


def _before_fork() -> None:
    for sink in list(_SINKS):
        sink._before_fork()


def _after_fork() -> None:
    for sink in list(_SINKS):
        sink._after_fork()


def _after_fork_in_child() -> None:
    for sink in list(_SINKS):
        sink._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)

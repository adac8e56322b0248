"""`InMemoryDLQ`: a sink for tests and research that keeps entries in memory, by the rules of the other sinks."""

from __future__ import annotations

import threading
from dataclasses import replace

from dlq_sink.contract import ClosingSink, Entries, IntentRows, check_usable
from dlq_sink.error import DuplicateEntry
from dlq_sink.record import DeadLetteredOrder
from dlq_sink.rows import values


class InMemoryDLQ(ClosingSink):
    def __init__(self) -> None:
        self._entries: dict[str, DeadLetteredOrder] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._survive_forks()  # each process goes on with its own copy

    def write(self, entry: DeadLetteredOrder) -> None:
        values(entry)
        with self._lock:
            self._check()
            if entry.dlq_id in self._entries:
                raise DuplicateEntry(f"{entry.dlq_id} is already in memory; nothing was overwritten")
            self._entries[entry.dlq_id] = entry

    def list(self, *, include_dismissed: bool = False) -> Entries:
        """In insertion order."""
        with self._lock:
            self._check()
            return [entry for entry in self._entries.values() if include_dismissed or not entry.dismissed]

    def get(self, dlq_id: str) -> DeadLetteredOrder | None:
        with self._lock:
            self._check()
            return self._entries.get(dlq_id)

    def mark_dismissed(self, dlq_id: str) -> bool:
        with self._lock:
            self._check()
            if dlq_id not in self._entries:
                return False
            self._entries[dlq_id] = replace(self._entries[dlq_id], dismissed=True)
            return True

    def bump_retry(self, dlq_id: str) -> int:
        with self._lock:
            self._check()
            entry = self._entries[dlq_id]
            self._entries[dlq_id] = replace(entry, retry_count=entry.retry_count + 1)
            return entry.retry_count + 1

    def depth(self) -> int:
        return len(self.list())

    def close(self) -> None:
        self._end_renewal()
        self._closed = True

    def _before_fork(self) -> None:
        self._lock.acquire()

    def _after_fork(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        super()._after_fork_in_child()
        self._lock.release()

    def _intent_rows(self) -> IntentRows:
        from dlq_sink.witness.memory import MemoryIntents

        return MemoryIntents(self)

    def _check(self) -> None:
        check_usable(closed=self._closed)

    def __repr__(self) -> str:
        return "InMemoryDLQ()"

"""Intents in memory, by the rules of the others, for tests and research."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dlq_sink.memory import InMemoryDLQ
    from dlq_sink.record import DeadLetteredOrder


class MemoryIntents:
    lingers = False

    def __init__(self, sink: InMemoryDLQ) -> None:
        self._sink = sink
        self.rows: dict[str, DeadLetteredOrder] = {}  # those that are open

    def open(self, entry: DeadLetteredOrder, owner: str, host: str) -> None:  # noqa: ARG002 - nobody else looks
        self.rows[entry.dlq_id] = entry

    def resolve(self, placed: Mapping[str, str | None]) -> Sequence[str]:
        for dlq_id in placed:
            self.rows.pop(dlq_id, None)
        return ()  # nobody else looks

    def fail(self, entry: DeadLetteredOrder) -> None:
        self._sink.write(entry)
        self.rows.pop(entry.dlq_id, None)

    def renew(self, owner: str) -> None:
        pass

    def clean(self, most: int) -> int:  # noqa: ARG002 - resolved ones are gone at once
        return 0

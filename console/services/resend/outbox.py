"""Puts dead-lettered messages back into their outbox, one store transaction each. Every entry gets one outcome."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import assert_never

from backends.records import ActContext, Actor, Entry
from backends.store import ClaimRefused, CommitUnknown, Requeued, Requeues, Store, StoreError
from console.clock import Clock
from console.services.replay.attempt import refused
from console.services.replay.outcome import EntryOutcome, not_begun
from console.services.triage.triage import Triage

Tell = Callable[[EntryOutcome], None]


class OutboxBatch:
    """Replays entries one after another. A requeue needs no attempt: the store commits it in one transaction."""

    def __init__(self, store: Store, actor: Actor, clock: Clock) -> None:
        if not isinstance(store, Requeues):
            raise TypeError("this store's replays go to a venue")
        self._store: Requeues = store
        self._triage = Triage(store, actor, clock)
        self._actor = actor
        self._clock = clock
        self._stopped = self._halted = False

    def stop(self) -> None:
        """Begin no further entry."""
        self._stopped = True

    async def run(
        self, entries: Sequence[Entry], *, note: str | None = None, tell: Tell = lambda _: None
    ) -> tuple[EntryOutcome, ...]:
        self._store.check_requeue()
        results = []
        operation = uuid.uuid4().hex
        for entry in entries:
            if self._stopped or self._halted:
                ended = not_begun(entry.id, "halt" if self._halted else "stopped")
            else:
                why = ActContext(at=self._clock(), operation=operation, reason="replay", note=note)
                ended = await self._one(entry, why)
            results.append(ended)
            tell(ended)
        return tuple(results)

    async def _one(self, entry: Entry, why: ActContext) -> EntryOutcome:
        try:
            result = await self._store.requeue(entry.id, entry.version, self._actor, why)
        except CommitUnknown as problem:
            return EntryOutcome(entry.id, "unknown", None, detail=f"{problem}; the entry's own state tells")
        except StoreError as problem:
            return EntryOutcome(entry.id, "refused", None, detail=str(problem))
        match result:
            case Requeued():
                gone = ", the dead-lettered row is deleted" if result.deleted else ""
                text = f"in {result.outbox} for {result.queue}{gone}"
                return EntryOutcome(entry.id, "accepted", None, result.row_id, result.key, text)
            case ClaimRefused():
                self._halted = result.code == "halt"
                ended = refused(result)
                if ended.outcome == "refused":
                    await self._triage.refuse("replay", (entry.id,), result.why)
                return ended
            case _:
                assert_never(result)

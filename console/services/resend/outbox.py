"""A batch of an outbox's replays: each is one transaction of the store; every entry ends with a word."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import assert_never

from backends.records import ActContext, Actor, Entry
from backends.store import ClaimRefused, CommitUnknown, Requeued, Requeues, Store, StoreError
from console.clock import Clock
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.services.triage.triage import Triage

Tell = Callable[[EntryOutcome], None]


class OutboxBatch:
    def __init__(self, store: Store, actor: Actor, clock: Clock) -> None:
        if not isinstance(store, Requeues):
            raise TypeError("this store's replays go to a venue")
        self._store: Requeues = store
        self._triage = Triage(store, actor, clock)
        self._actor = actor
        self._clock = clock
        self._stopped = False

    def stop(self) -> None:
        """No further entry is begun."""
        self._stopped = True

    async def run(
        self, entries: Sequence[Entry], *, note: str | None = None, tell: Tell = lambda _: None
    ) -> tuple[EntryOutcome, ...]:
        self._store.check_requeue()
        results = []
        operation, halted = uuid.uuid4().hex, False
        for entry in entries:
            why = ActContext(at=self._clock(), operation=operation, reason="replay", note=note)
            if self._stopped or halted:
                text = "halt: nothing was changed" if halted else "stopped: nothing was changed"
                ended = EntryOutcome(entry.id, "refused" if halted else "skipped", None, detail=text)
            else:
                ended = await self._one(entry, why)
                halted = (ended.detail or "").startswith("halt")
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
                word: OutcomeKind = "refused" if result.code in ("halt", "conflict") else "skipped"
                if word == "refused":
                    await self._triage.refuse("replay", (entry.id,), result.why)
                prefix = "halt: " if result.code == "halt" else ""
                return EntryOutcome(entry.id, word, None, detail=prefix + result.why)
            case _:
                assert_never(result)

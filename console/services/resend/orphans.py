"""Settles calls whose end nobody recorded, and finishes the rows of accepted calls. Sends nothing.

A provider cannot be asked what became of a call, and it may have accepted it: such a call stays in doubt until a person
settles it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from backends.records import ActContext, Actor, Attempt
from backends.store import Requests, Result, Store
from console.clock import Clock
from console.services.replay.outcome import EntryOutcome

_BY_HAND = "it cannot be asked: look there yourself, then dlq settle it"
Tell = Callable[[EntryOutcome], None]


class OrphanedCalls:
    """Puts calls in doubt whose outcome nobody recorded, once their lease is over; finishes rows that are left."""

    def __init__(self, store: Store, actor: Actor, clock: Clock) -> None:
        self._store = store
        self._actor = actor
        self._clock = clock
        self._stopped = False

    def stop(self) -> None:
        """Settle no further attempt."""
        self._stopped = True

    async def run(self, ids: tuple[str, ...], *, tell: Tell = lambda _: None) -> tuple[EntryOutcome, ...]:
        """Settle the open attempts of these entries and finish their rows, or of all when there are no ids."""
        attempts = [one for one in await self._store.open_attempts() if not ids or one.entry_id in ids]
        left = tuple(await self._store.unfinished(ids)) if isinstance(self._store, Requests) else ()
        asked = {*left, *(one.entry_id for one in attempts)}
        results: list[EntryOutcome] = []

        def ended(result: EntryOutcome) -> None:
            results.append(result)
            tell(result)

        for one in ids:
            if one not in asked:
                ended(EntryOutcome(one, "skipped", None, detail="not in doubt"))
        for attempt in attempts:
            ended(await self._one(attempt))
        for entry_id in left:
            ended(await self._finished(entry_id))
        return tuple(results)

    async def _one(self, attempt: Attempt) -> EntryOutcome:
        key = attempt.client_order_id or None
        if self._stopped:
            return EntryOutcome(attempt.entry_id, "skipped", None, None, key, "stopped")
        now = await self._store.clock()
        if attempt.outcome is None and attempt.lease_until > now.timestamp():
            return EntryOutcome(attempt.entry_id, "unknown", None, None, key, "its owner may still be sending it")
        text = attempt.error or f"its end was not recorded: the provider may have acted on key {key}"
        told = EntryOutcome(attempt.entry_id, "unknown", None, None, key, f"{text}; {_BY_HAND}")
        if attempt.outcome is not None:
            return told
        if not await self._store.settle(attempt, Result("unknown", error=text), self._actor, self._why()):
            return EntryOutcome(attempt.entry_id, "skipped", None, None, key, "settled elsewhere meanwhile")
        return told

    async def _finished(self, entry_id: str) -> EntryOutcome:
        if self._stopped:
            return EntryOutcome(entry_id, "skipped", None, detail="stopped")
        assert isinstance(self._store, Requests)
        left = await self._store.finish_row(entry_id, self._actor, self._why())
        if left is not None:
            return EntryOutcome(entry_id, "skipped", None, detail=f"the provider accepted it; {left}")
        return EntryOutcome(entry_id, "accepted", None, detail="the provider had accepted it; its row is done with now")

    def _why(self) -> ActContext:
        return ActContext(at=self._clock(), operation=uuid.uuid4().hex, reason="reconcile")

"""An integration's retries whose owner is gone before the answer was recorded. Settles them; never sends.

The provider cannot be asked. As in the hub, a retry whose end nobody saw counts as failed; a person decides what next.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from backends.records import ActContext, Actor, Attempt
from backends.store import Result, Store
from console.clock import Clock
from console.services.replay.outcome import EntryOutcome

Tell = Callable[[EntryOutcome], None]


class OrphanedCalls:
    def __init__(self, store: Store, actor: Actor, clock: Clock) -> None:
        self._store = store
        self._actor = actor
        self._clock = clock
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    async def run(self, ids: tuple[str, ...], *, tell: Tell = lambda _: None) -> tuple[EntryOutcome, ...]:
        """These entries', or all."""
        attempts = [one for one in await self._store.open_attempts() if not ids or one.entry_id in ids]
        asked = {one.entry_id for one in attempts}
        results = [EntryOutcome(one, "skipped", None, detail="not in doubt") for one in ids if one not in asked]
        for ended in results:
            tell(ended)
        for attempt in attempts:
            ended = await self._one(attempt)
            results.append(ended)
            tell(ended)
        return tuple(results)

    async def _one(self, attempt: Attempt) -> EntryOutcome:
        key = attempt.client_order_id or None
        if self._stopped:
            return EntryOutcome(attempt.entry_id, "skipped", None, None, key, "stopped")
        now = await self._store.clock()
        if attempt.outcome is None and attempt.lease_until > now.timestamp():
            return EntryOutcome(attempt.entry_id, "unknown", None, None, key, "its owner may still be sending it")
        text = f"its end was not recorded; counted as failed, but the provider may have acted on key {key}"
        why = ActContext(at=self._clock(), operation=uuid.uuid4().hex, reason="reconcile")
        settled = await self._store.settle(attempt, Result("rejected", error=text, counts=True), self._actor, why)
        if not settled:
            return EntryOutcome(attempt.entry_id, "skipped", None, None, key, "settled elsewhere meanwhile")
        return EntryOutcome(attempt.entry_id, "rejected", None, None, key, text)

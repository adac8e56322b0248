"""Whether a store's ledger still has what this machine saw there, or was restored from a backup meanwhile."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from backends.store import Store
from console.clock import Clock
from console.settings.kept_heads import KeptHead, KeptHeads


class LedgerMemory:
    def __init__(self, store: Store, heads: KeptHeads, clock: Clock) -> None:
        self._store = store
        self._heads = heads
        self._clock = clock
        self._lost_at: datetime | None = None
        self._store_id: str | None = None

    async def lost_at(self) -> datetime | None:
        """Acts up to this moment may be missing in the ledger; None where it has all that this machine saw."""
        self._store_id = await self._store.store_id()
        kept = self._heads.read(self._store_id)
        if kept is None:
            return None
        there = await self._store.event_hash(kept.count)
        if there is None or there.hex() != kept.hash:
            self._lost_at = max(kept.at, kept.lost_at or kept.at)
            self._heads.keep(self._store_id, replace(kept, lost_at=self._lost_at))
        else:
            self._lost_at = kept.lost_at
        return self._lost_at

    def keep(self) -> None:
        """After an intent is committed and before the venue hears of it."""
        head = self._store.head
        if head is not None and self._store_id is not None:
            count, digest = head
            self._heads.keep(self._store_id, KeptHead(count, digest.hex(), self._clock(), self._lost_at))

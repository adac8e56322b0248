"""The store's time without asking it every time: one look, then this machine's steady clock.

What one console writes as the moment of a send, another compares with the store's clock: both must mean the same.
"""

from __future__ import annotations

import time
from datetime import timedelta

from backends.store import Store
from console.clock import Clock


async def anchored(store: Store) -> Clock:
    since = time.monotonic()
    start = await store.clock()
    # Counted from before the look: never earlier than the store's own time.
    return lambda: start + timedelta(seconds=time.monotonic() - since)

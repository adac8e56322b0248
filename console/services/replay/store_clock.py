"""The store's time without asking it every time: a few looks, then this machine's steady clock.

What one console writes as the moment of a send, another compares with the store's clock: both must mean the same.
"""

from __future__ import annotations

import time
from datetime import timedelta

from backends.store import Store
from console.clock import Clock

_LOOKS = 3  # the first may open a connection, or meet a busy machine: the quickest answer is the truest


async def anchored(store: Store) -> Clock:
    quickest, since, start = float("inf"), 0.0, None
    for _ in range(_LOOKS):
        before = time.monotonic()
        told = await store.clock()
        took = time.monotonic() - before
        if start is None or took < quickest:
            quickest, since, start = took, before, told
    assert start is not None
    anchor = start
    # Counted from before the look: never earlier than the store's own time, and later by less than the look took.
    return lambda: anchor + timedelta(seconds=time.monotonic() - since)

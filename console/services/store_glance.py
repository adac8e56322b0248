"""A quick look at a store that is not attached: how many entries are open and in doubt, or why nobody can tell.

Writes nothing and knows no screen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from backends.records import Filter
from backends.store import Store, StoreError

SECONDS = 4.0  # a store that takes longer is not waited for


class StoreGlance(NamedTuple):
    """None: unknown."""

    open: int | None = None
    in_doubt: int | None = None
    problem: str = ""  # why it cannot be read


async def glance(opens: Callable[[], Awaitable[Store]], seconds: float = SECONDS) -> StoreGlance:
    try:
        async with asyncio.timeout(seconds):
            return await _read(opens)
    except TimeoutError:
        return StoreGlance(problem=f"no answer in {seconds:.0f} s")
    except StoreError as problem:
        return StoreGlance(problem=str(problem))


async def _read(opens: Callable[[], Awaitable[Store]]) -> StoreGlance:
    store = await opens()
    try:
        counts = await store.counts(Filter())
        doubt = counts.by_state.get("in_doubt", 0) if store.info.ledger_is_readable else None
        return StoreGlance(counts.open, doubt)
    finally:
        await store.aclose()

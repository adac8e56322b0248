"""Messages that were replayed and came back: their ancestors, how many there are, and that in words.

Knows the store contract; neither SQL nor screens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backends.records import Ancestor
from backends.store import Lineages, Store


async def ancestors_of(store: Store, entry_id: str) -> tuple[Ancestor, ...]:
    """Oldest first; none for an entry that did not come back, and in stores where nothing does."""
    return (await store.lineage((entry_id,))).get(entry_id, ()) if isinstance(store, Lineages) else ()


async def came_back(store: Store) -> Mapping[str, int]:
    """How often each open entry came back, for those that did."""
    return await store.came_back() if isinstance(store, Lineages) else {}


async def returned_among(store: Store, ids: Sequence[str]) -> frozenset[str]:
    """Those of these entries that are no arrivals, but messages that came back."""
    return frozenset(await store.lineage(ids)) if isinstance(store, Lineages) else frozenset()


def told(times: int) -> str:
    return "came back once" if times == 1 else f"came back {times:,} times"

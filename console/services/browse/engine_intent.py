"""An engine's open intents among the entries of its queue: which to list, and how many. Asks the store alone."""

from __future__ import annotations

from dataclasses import replace

from backends.records import ENGINE_SEND, Attempt, Counts, Entry, Filter, readable, utc_time
from backends.store import HoldsIntents, Store


async def intents_of(store: Store, where: Filter, *, owned: bool = False) -> tuple[Entry, ...]:
    """Oldest first; none where no engine keeps any."""
    return await store.intents(where, owned=owned) if isinstance(store, HoldsIntents) else ()


async def counts_of(store: Store, where: Filter) -> Counts:
    """Entries and intents by state."""
    counted = await store.counts(where)
    tally = dict(counted.by_state)
    for entry in await intents_of(store, where):
        tally[entry.state] = tally.get(entry.state, 0) + 1
    return replace(counted, by_state=tally)


async def is_intent(store: Store, entry_id: str) -> bool:
    found = await store.get(entry_id) if isinstance(store, HoldsIntents) else None
    return found is not None and found.origin == "intent"


def engine_send(entry: Entry, mode: str) -> Attempt:
    """An engine's open intent as an attempt in doubt, so that the same evidence settles it.

    Until its lease ended the engine may have sent it.
    """
    captured = utc_time(entry.get("captured_at"))
    (lease,) = entry.version
    return Attempt(
        entry_id=entry.id,
        attempt_no=ENGINE_SEND,
        mode=mode,
        venue=entry.text("venue_name"),
        client_order_id=entry.text("client_order_id"),
        payload_hash="",
        outcome="unknown",
        venue_order_id=None,
        error=entry.text("error"),
        started_at=captured.isoformat() if captured else entry.text("captured_at"),
        finished_at=readable(lease),
        operator="engine",
        os_user="",
        lease_seen=readable(lease),
    )

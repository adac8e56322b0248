"""Figures that only one layout has, for Prometheus. Knows the store contract; no SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from backends.store import CountsOutbox, OutboxFigures, QueueLoad, Store
from console.services.stats.metrics import Family, Labels
from console.services.stats.tally import ledger_is_readable
from console.services.triage.lineage import came_back

_LOADS: tuple[tuple[str, str, Callable[[QueueLoad], float]], ...] = (
    ("dlq_outbox_depth", "Rows of the outbox by queue.", lambda one: one.rows),
    ("dlq_outbox_leased", "Rows of the outbox that a broker holds.", lambda one: one.leased),
    (
        "dlq_outbox_leases_expired",
        "Rows of the outbox held for more than 60 s, the package's default: they may fail without a dead letter.",
        lambda one: one.expired,
    ),
    ("dlq_outbox_oldest_lease_seconds", "How long the longest of them is held.", lambda one: one.oldest_lease),
)


async def own_families(store: Store) -> tuple[Family, ...]:
    """None for orders and calls. No samples of what is not known, as only the ledger tells what is still open."""
    if not isinstance(store, CountsOutbox):
        return ()
    figures = await store.figures()
    known = ledger_is_readable(store.info)
    return outbox_families(figures, len(await came_back(store)) if known else None)


def outbox_families(figures: OutboxFigures, back: int | None) -> tuple[Family, ...]:
    """`back`: how many came back; None where the ledger, which tells what is open, cannot be read."""
    return (*_of_messages(None if back is None else figures, back or 0), *_of_outbox(figures.queues))


def _of_messages(figures: OutboxFigures | None, back: int) -> Iterator[Family]:
    reasons = figures.reasons.items() if figures else ()
    by_reason = tuple(({"queue": queue, "reason": reason}, float(count)) for (queue, reason), count in reasons)
    yield Family("dlq_open_by_reason", "gauge", "Open messages by queue and reason of the failure.", by_reason)
    returned: tuple[tuple[Labels, float], ...] = (({}, float(back)),) if figures else ()
    yield Family("dlq_came_back", "gauge", "Open messages that were replayed and failed again.", returned)


def _of_outbox(queues: tuple[QueueLoad, ...] | None) -> Iterator[Family]:
    readable = float(queues is not None)
    yield Family("dlq_outbox_readable", "gauge", "1 where this role can count the outbox's rows.", (({}, readable),))
    for name, text, count in _LOADS:
        samples = tuple(({"queue": one.queue}, count(one)) for one in queues or ())
        yield Family(name, "gauge", text, samples)

"""Replay and reconcile where entries are no orders: which of them go, and which room sends them. No venue, no mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from backends.records import Actor, Entry, Halt
from backends.store import Requeues, Store
from console.clock import Clock
from console.services.layout_fields import ORDERS, origin
from console.services.replay.background_run import RunHandle
from console.services.replay.flow_control import Breaker
from console.services.replay.outcome import EntryOutcome
from console.settings.providers import HUB_WAIT, ProviderConfig
from venues.credentials import Credentials


@dataclass(frozen=True, slots=True)
class ResendTools:
    """What sending again may need, from config and keyring."""

    actor: Actor
    clock: Clock
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)
    authorization: Callable[[str], Credentials | None] = lambda _: None
    hub_wait: float = HUB_WAIT
    breakers: dict[str, Breaker] = field(default_factory=dict)  # of providers, for as long as the console runs


def is_foreign(store: Store) -> bool:
    return store.info.layout != ORDERS


def sorted_out(entries: Sequence[Entry], halt: Halt | None, most: int) -> tuple[list[Entry], list[EntryOutcome]]:
    """(what would go, what stays and why). Pure."""
    going: list[Entry] = []
    left: list[EntryOutcome] = []
    for entry in entries:
        if halt is not None:
            left.append(EntryOutcome(entry.id, "refused", None, detail=f"halt set by {halt.operator}: {halt.note}"))
        elif entry.state in ("in_doubt", "in_flight"):
            left.append(
                EntryOutcome(entry.id, "refused", None, detail=f"{entry.state.replace('_', ' ')}: reconcile first")
            )
        elif entry.state != "pending":
            left.append(EntryOutcome(entry.id, "skipped", None, detail=f"already {entry.state}"))
        elif len(going) >= most:
            left.append(EntryOutcome(entry.id, "refused", None, detail=f"max-batch: the batch is full, {most} at most"))
        else:
            going.append(entry)
    return going, left


def planned(entry: Entry) -> EntryOutcome:
    return EntryOutcome(entry.id, "planned", None, detail=f"to {origin(entry)}")


async def send(
    store: Store, entries: Sequence[Entry], tools: ResendTools, handle: RunHandle, *, note: str | None = None
) -> tuple[EntryOutcome, ...]:
    """Each room is imported only where it is needed: an outbox's replay loads no HTTP."""
    if isinstance(store, Requeues):
        from console.services.resend.outbox import OutboxBatch

        requeue = OutboxBatch(store, tools.actor, tools.clock)
        handle.attend(requeue)
        return await requeue.run(entries, note=note, tell=handle.tell)
    from console.services.resend.hub_source import hub_of

    if (hub := hub_of(store)) is not None:
        from console.services.resend.hub import HubBatch, Patience

        retry = HubBatch(store, hub, tools.actor, tools.clock, patience=Patience(wait=tools.hub_wait))
        handle.attend(retry)
        return await retry.run(entries, note=note, tell=handle.tell)
    from console.services.resend.provider import ProviderBatch
    from console.services.resend.provider_pool import Providers

    providers = Providers(tools.providers, tools.authorization, tools.breakers)
    try:
        batch = ProviderBatch(store, providers, tools.actor, tools.clock)
        handle.attend(batch)
        return await batch.run(entries, note=note, tell=handle.tell)
    finally:
        await providers.aclose()


async def settle(store: Store, ids: tuple[str, ...], tools: ResendTools, handle: RunHandle) -> tuple[EntryOutcome, ...]:
    """Only an integration's retry can be left without an end; of an outbox there is nothing to settle."""
    from console.services.resend.hub_source import hub_of
    from console.services.resend.orphaned_calls import OrphanedCalls

    if (hub := hub_of(store)) is not None:
        from console.services.resend.hub import HubBatch

        retry = HubBatch(store, hub, tools.actor, tools.clock)
        handle.attend(retry)
        return await retry.settle(ids, tell=handle.tell)
    abandoned = OrphanedCalls(store, tools.actor, tools.clock)
    handle.attend(abandoned)
    return await abandoned.run(ids, tell=handle.tell)

"""What a replay of entries that are no orders would do: where they go, what stays and why, what a breaker holds back.

Asks store and config; writes and sends nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from backends.records import Actor, Entry, Halt
from backends.store import OnSuccess, Requests, Requeues, Store
from console.clock import Clock
from console.services.layout_fields import ORDERS, origin
from console.services.replay.background_run import RunHandle
from console.services.replay.flow_control import Breaker
from console.services.replay.outcome import EntryOutcome
from console.settings.config import HUB_WAIT, ProviderConfig
from venues.credentials import Credentials

if TYPE_CHECKING:
    from console.services.resend.provider import Providers


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
    from console.services.resend.provider import ProviderBatch, Providers

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
    from console.services.resend.provider import OrphanedCalls

    if (hub := hub_of(store)) is not None:
        from console.services.resend.hub import HubBatch

        retry = HubBatch(store, hub, tools.actor, tools.clock)
        handle.attend(retry)
        return await retry.settle(ids, tell=handle.tell)
    abandoned = OrphanedCalls(store, tools.actor, tools.clock)
    handle.attend(abandoned)
    return await abandoned.run(ids, tell=handle.tell)


class ResendRoute(NamedTuple):
    """One queue or provider, and how many go there."""

    name: str
    place: str  # the outbox, the provider's host, or the hub that sends
    entries: int
    held: float | None = None  # seconds until its open breaker lets a try through


class ResendPlan(NamedTuple):
    going: tuple[Entry, ...]
    left: tuple[EntryOutcome, ...]
    routes: tuple[ResendRoute, ...] = ()
    kind: str = "outbox"  # or "provider", "hub"
    after: OnSuccess | None = None  # what becomes of the owner's row once it is replayed


async def plan_resend(store: Store, entries: Sequence[Entry], tools: ResendTools, most: int) -> ResendPlan:
    """Raises StoreError where nothing could go at all."""
    going, left = sorted_out(entries, await store.halted(), most)
    if not going:
        return ResendPlan((), tuple(left), kind=_kind(store))
    match _kind(store):
        case "outbox":
            assert isinstance(store, Requeues)
            into, after = store.check_requeue(), store.after_success
            return ResendPlan(tuple(going), tuple(left), _routes(going, into), "outbox", after)
        case "hub":
            from console.services.resend.hub_source import hub_of

            hub = hub_of(store)
            assert hub is not None
            return ResendPlan(tuple(going), tuple(left), _routes(going, hub.host), "hub")
        case _:
            assert isinstance(store, Requests)
            going, unparsable = await _readable(store, going)
            # A keyring may ask its owner: never on the caller's loop.
            plan = await asyncio.to_thread(asyncio.run, _to_providers(going, [*left, *unparsable], tools))
            return plan._replace(after=store.after_success)


def _kind(store: Store) -> str:
    if isinstance(store, Requeues):
        return "outbox"
    from console.services.resend.hub_source import hub_of

    return "provider" if hub_of(store) is None else "hub"


def _routes(going: Sequence[Entry], place: str) -> tuple[ResendRoute, ...]:
    return tuple(ResendRoute(name, place, count) for name, count in Counter(map(origin, going)).most_common())


async def _readable(store: Requests, going: Sequence[Entry]) -> tuple[list[Entry], list[EntryOutcome]]:
    """(what could be sent as it is stored, what could not)."""
    from venues.integration.call import read_call
    from venues.orders import Refused

    free: list[Entry] = []
    blocked: list[EntryOutcome] = []
    for entry in going:
        stored = await store.request(entry.id)
        call = Refused("the entry is gone") if stored is None else read_call(stored)
        if isinstance(call, Refused):
            blocked.append(EntryOutcome(entry.id, "refused", None, detail=f"unparsable: {call.why}"))
        else:
            free.append(entry)
    return free, blocked


async def _to_providers(going: Sequence[Entry], left: Sequence[EntryOutcome], tools: ResendTools) -> ResendPlan:
    from console.services.resend.provider import Providers
    from venues.client import VenueError

    providers = Providers(tools.providers, tools.authorization, tools.breakers)
    free: list[Entry] = []
    blocked = list(left)
    names: Counter[str] = Counter()
    try:
        for entry in going:
            try:
                name = providers.name(entry)
                providers.client(name)
            except VenueError as problem:
                blocked.append(EntryOutcome(entry.id, "refused", None, detail=str(problem)))
                continue
            free.append(entry)
            names[name] += 1
        routes = tuple(_route(providers, name, count) for name, count in names.most_common())
    finally:
        await providers.aclose()
    return ResendPlan(tuple(free), tuple(blocked), routes, "provider")


def _route(providers: Providers, name: str, count: int) -> ResendRoute:
    from console.services.replay.flow_control import OPEN_SECONDS

    now = time.monotonic()
    breaker = providers.breaker(name).at(now)
    held = OPEN_SECONDS - (now - breaker.opened_at) if breaker.state == "open" else None
    return ResendRoute(name, providers.client(name).host, count, held)

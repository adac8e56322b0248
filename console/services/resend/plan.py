"""What a replay of entries that are no orders would do: where they go, what stays and why, what a breaker holds back.

Asks store and config; writes and sends nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from backends.records import Entry
from backends.store import OnSuccess, Requests, Requeues, Store
from console.services.layout_fields import origin
from console.services.replay.outcome import EntryOutcome
from console.services.resend.target import ResendTools, sorted_out

if TYPE_CHECKING:
    from console.services.resend.provider_pool import Providers


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
    from console.services.resend.provider_pool import Providers
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

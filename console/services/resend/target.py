"""Replay targets of the other layouts: an outbox, an integration's providers, a hub.

Each module that sends is imported only when it is needed: an outbox's replay loads no HTTP.
"""
# ruff: noqa: ARG002 - every target has the same signature

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from backends.records import Attempt, Entry
from backends.store import ActRefused, Requests, Requeues, Store
from console.services.layout_fields import origin
from console.services.replay.background_run import RunHandle
from console.services.replay.guards import Guard
from console.services.replay.outcome import EntryOutcome
from console.services.resend.plan import POISON, ResendPlan, ResendRoute, ResendTools, sorted_out
from console.services.triage.poison import poison_among

if TYPE_CHECKING:
    from console.services.evidence.reconcile import Settled
    from console.services.replay.preflight import ReplayRequest
    from console.services.replay.target import SendPlan, WorkTools
    from console.services.resend.provider import Providers, ProviderTenant
    from venues import Mode

Router = Callable[[list[Entry], list[EntryOutcome]], Awaitable[ResendPlan]]


class _Batch(Protocol):
    def stop(self) -> None: ...
    async def run(
        self, entries: Sequence[Entry], *, note: str | None, tell: Callable[[EntryOutcome], None]
    ) -> tuple[EntryOutcome, ...]: ...


@dataclass(frozen=True, slots=True)
class OutboxTarget:
    """Messages go back into their outbox, each in one transaction of the store. Nothing stays in doubt."""

    tools: ResendTools
    lists_all: bool = True

    async def plan(self, work: WorkTools, entries: Sequence[Entry], request: ReplayRequest) -> ResendPlan:
        store = work.store
        assert isinstance(store, Requeues)

        async def route(going: list[Entry], left: list[EntryOutcome]) -> ResendPlan:
            into, after = store.check_requeue(), store.after_success
            return ResendPlan(tuple(going), tuple(left), _routes(going, into), "outbox", after)

        return await _planned(work.store, entries, request, self.tools, route)

    async def send(
        self, work: WorkTools, plan: SendPlan, handle: RunHandle, note: str | None
    ) -> tuple[EntryOutcome, ...]:
        from console.services.resend.outbox import OutboxBatch

        return await _sent(OutboxBatch(work.store, self.tools.actor, self.tools.clock), plan, handle, note)

    async def reconcile(
        self, work: WorkTools, ids: tuple[str, ...], modes: Sequence[Mode], handle: RunHandle
    ) -> tuple[EntryOutcome, ...]:
        return await _orphans_settled(work.store, ids, self.tools, handle)

    async def evidence(self, work: WorkTools, attempt: Attempt) -> Settled:
        return _no_evidence("an outbox cannot be asked about a message")


@dataclass(frozen=True, slots=True)
class ProviderTarget:
    """An integration's failed calls go to their providers, with authorization from the keyring."""

    tools: ResendTools
    lists_all: bool = True

    async def plan(self, work: WorkTools, entries: Sequence[Entry], request: ReplayRequest) -> ResendPlan:
        from console.services.resend.provider import recall_breakers

        store = work.store
        assert isinstance(store, Requests)

        async def route(going: list[Entry], left: list[EntryOutcome]) -> ResendPlan:
            await store.check_success()
            await recall_breakers(work.store, self.tools.breakers, time.monotonic())
            readable, unparsable = await _readable(store, going)
            # A keyring may ask its owner: never on the caller's loop.
            asked = partial(_to_providers, readable, [*left, *unparsable], self.tools)
            plan = await asyncio.to_thread(lambda: asyncio.run(asked()))
            return replace(plan, after=store.after_success)

        return await _planned(work.store, entries, request, self.tools, route)

    async def send(
        self, work: WorkTools, plan: SendPlan, handle: RunHandle, note: str | None
    ) -> tuple[EntryOutcome, ...]:
        from console.services.resend.provider import ProviderBatch, Providers

        providers = Providers(self.tools.providers, self.tools.authorization, self.tools.breakers)
        try:
            actor, clock = self.tools.actor, self.tools.clock
            batch = ProviderBatch(work.store, providers, actor, clock, waiting=handle.wait_for)
            return await _sent(batch, plan, handle, note)
        finally:
            await providers.aclose()

    async def reconcile(
        self, work: WorkTools, ids: tuple[str, ...], modes: Sequence[Mode], handle: RunHandle
    ) -> tuple[EntryOutcome, ...]:
        return await _orphans_settled(work.store, ids, self.tools, handle)

    async def evidence(self, work: WorkTools, attempt: Attempt) -> Settled:
        return _no_evidence("a provider cannot be asked about a call")


@dataclass(frozen=True, slots=True)
class HubTarget:
    """A hub sends by itself: it is asked for retries, and about retries without an end."""

    tools: ResendTools
    lists_all: bool = False  # a retry that succeeded takes its entry off the hub's list

    async def plan(self, work: WorkTools, entries: Sequence[Entry], request: ReplayRequest) -> ResendPlan:
        from console.services.resend.hub_source import hub_of

        hub = hub_of(work.store)
        assert hub is not None

        async def route(going: list[Entry], left: list[EntryOutcome]) -> ResendPlan:
            return ResendPlan(tuple(going), tuple(left), _routes(going, hub.host), "hub")

        return await _planned(work.store, entries, request, self.tools, route)

    async def send(
        self, work: WorkTools, plan: SendPlan, handle: RunHandle, note: str | None
    ) -> tuple[EntryOutcome, ...]:
        from console.services.resend.hub import HubBatch, Patience
        from console.services.resend.hub_source import hub_of

        hub = hub_of(work.store)
        assert hub is not None
        patience = Patience(wait=self.tools.hub_wait)
        actor, clock = self.tools.actor, self.tools.clock
        batch = HubBatch(work.store, hub, actor, clock, patience=patience, waiting=handle.wait_for)
        return await _sent(batch, plan, handle, note)

    async def reconcile(
        self, work: WorkTools, ids: tuple[str, ...], modes: Sequence[Mode], handle: RunHandle
    ) -> tuple[EntryOutcome, ...]:
        from console.services.resend.hub import HubBatch
        from console.services.resend.hub_source import hub_of

        hub = hub_of(work.store)
        assert hub is not None
        retry = HubBatch(work.store, hub, self.tools.actor, self.tools.clock)
        handle.attend(retry)
        return await retry.settle(ids, tell=handle.tell)

    async def evidence(self, work: WorkTools, attempt: Attempt) -> Settled:
        from console.services.evidence.reconcile import Settled
        from console.services.resend.hub import HubBatch
        from console.services.resend.hub_source import hub_of

        hub = hub_of(work.store)
        assert hub is not None
        retry = HubBatch(work.store, hub, self.tools.actor, self.tools.clock)
        result = await retry.verdict(attempt)
        text = result.error or result.evidence
        return Settled(result.outcome, text, None if result.outcome == "unknown" else result)


def target_for(store: Store, tools: ResendTools) -> OutboxTarget | ProviderTarget | HubTarget:
    """The one place that asks what kind of store this is."""
    if isinstance(store, Requeues):
        return OutboxTarget(tools)
    from console.services.resend.hub_source import hub_of

    return ProviderTarget(tools) if hub_of(store) is None else HubTarget(tools)


async def _planned(
    store: Store, entries: Sequence[Entry], request: ReplayRequest, tools: ResendTools, route: Router
) -> ResendPlan:
    """Where nothing at all can take a replay, every entry that would go is refused with that reason."""
    bad = await _poisoned(store, entries, tools.limits().poison_after)
    found = frozenset({POISON}) if bad else frozenset[str]()
    overridden = found & request.overrides
    going, left = sorted_out(entries, await store.halted(), tools.limits().max_batch, {} if overridden else bad)
    if not going:
        return ResendPlan((), tuple(left), overridable=found - overridden)
    try:
        return replace(await route(going, left), overridable=found - overridden, overridden=overridden)
    except ActRefused as problem:
        refused = [EntryOutcome(one.id, "refused", None, detail=str(problem)) for one in going]
        return ResendPlan((), (*left, *refused), problem=str(problem))


async def _poisoned(store: Store, entries: Sequence[Entry], after: int) -> dict[str, Guard]:
    """Guards of what failed too often in one way, by entry."""
    waiting = [entry for entry in entries if entry.state == "pending"]
    bad = await poison_among(store, waiting, after) if waiting else {}
    return {entry_id: Guard(POISON, poison.text) for entry_id, poison in bad.items()}


async def _sent(batch: _Batch, plan: SendPlan, handle: RunHandle, note: str | None) -> tuple[EntryOutcome, ...]:
    assert isinstance(plan, ResendPlan)
    for outcome in plan.held:
        handle.tell(outcome)
    if not plan.going:
        return plan.held
    handle.attend(batch)
    if plan.overridden:
        note = f"override {', '.join(sorted(plan.overridden))}: {note or ''}"
    return (*plan.held, *await batch.run(plan.going, note=note, tell=handle.tell))


def _no_evidence(why: str) -> Settled:
    from console.services.evidence.reconcile import Settled

    return Settled("unknown", why)


async def _orphans_settled(
    store: Store, ids: tuple[str, ...], tools: ResendTools, handle: RunHandle
) -> tuple[EntryOutcome, ...]:
    from console.services.resend.orphans import OrphanedCalls

    orphans = OrphanedCalls(store, tools.actor, tools.clock)
    handle.attend(orphans)
    return await orphans.run(ids, tell=handle.tell)


def _routes(going: Sequence[Entry], place: str) -> tuple[ResendRoute, ...]:
    return tuple(ResendRoute(name, place, count) for name, count in Counter(map(origin, going)).most_common())


async def _readable(store: Requests, going: Sequence[Entry]) -> tuple[list[Entry], list[EntryOutcome]]:
    """(calls that can be sent as they are stored, calls that cannot)."""
    from console.services.resend.provider import stored_call

    free: list[Entry] = []
    blocked: list[EntryOutcome] = []
    for entry in going:
        call = await stored_call(store, entry.id)
        if isinstance(call, EntryOutcome):
            blocked.append(call)
        else:
            free.append(entry)
    return free, blocked


async def _to_providers(going: Sequence[Entry], left: Sequence[EntryOutcome], tools: ResendTools) -> ResendPlan:
    from console.services.resend.provider import Providers
    from venues.client import VenueError

    providers = Providers(tools.providers, tools.authorization, tools.breakers)
    free: list[Entry] = []
    blocked = list(left)
    counts: Counter[ProviderTenant] = Counter()
    try:
        for entry in going:
            try:
                at = providers.at(entry)
                providers.client(at)
            except VenueError as problem:
                blocked.append(EntryOutcome(entry.id, "refused", None, detail=str(problem)))
                continue
            free.append(entry)
            counts[at] += 1
        routes = tuple(_route(providers, at, count) for at, count in counts.most_common())
    finally:
        await providers.aclose()
    return ResendPlan(tuple(free), tuple(blocked), routes, "provider")


def _route(providers: Providers, at: ProviderTenant, count: int) -> ResendRoute:
    from console.services.replay.flow_control import OPEN_SECONDS

    now = time.monotonic()
    breaker = providers.breaker(at).at(now)
    held = OPEN_SECONDS - (now - breaker.opened_at) if breaker.state == "open" else None
    return ResendRoute(at.label, providers.client(at).host, count, held)

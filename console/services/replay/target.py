"""What a replay of one kind of store consists of, and the target for order stores.

A session chooses its `ReplayTarget` once; nothing else asks which layout a store has before it plans or sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from backends.records import Actor, Attempt, Entry
from backends.store import Store
from console.clock import Clock
from console.services.replay.background_run import RunHandle
from console.services.replay.outcome import EntryOutcome
from console.services.replay.preflight import ReplayRequest
from console.services.replay.venue_pool import VenuePool
from console.services.triage.triage import Triage
from console.settings.config import Limits
from venues import Mode

if TYPE_CHECKING:
    from console.services.replay.plan import ReplayPlan


class SendPlan(Protocol):
    """What both faces need to know of a plan: how much goes, what stays, who must agree."""

    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def hash(self) -> str: ...
    @property
    def needs_second(self) -> str | None: ...
    @property
    def problem(self) -> str | None: ...
    @property
    def summary(self) -> str: ...
    @property
    def overridable(self) -> frozenset[str]: ...
    @property
    def held(self) -> tuple[EntryOutcome, ...]: ...
    def without_moved(self, moved: Iterable[tuple[str, str]]) -> SendPlan: ...
    def planned(self) -> tuple[EntryOutcome, ...]: ...
    def refused(self, why: str) -> tuple[EntryOutcome, ...]: ...


@dataclass(frozen=True, slots=True)
class WorkTools:
    """What planning and sending work with; the session opens and closes both."""

    store: Store
    pool: VenuePool


class Reconciled(NamedTuple):
    outcomes: tuple[EntryOutcome, ...]
    needing_second: tuple[Attempt, ...] = ()  # absent only if a second person agrees, who has been asked


class ReplayTarget(Protocol):
    @property
    def lists_all(self) -> bool:
        """Whether an id that the store does not list has no attempt either."""

    async def plan(self, work: WorkTools, entries: Sequence[Entry], request: ReplayRequest) -> SendPlan: ...

    async def send(
        self, work: WorkTools, plan: SendPlan, handle: RunHandle, note: str | None
    ) -> tuple[EntryOutcome, ...]: ...

    async def reconcile(
        self, work: WorkTools, ids: tuple[str, ...], modes: Sequence[Mode], handle: RunHandle
    ) -> Reconciled: ...


@dataclass(frozen=True, slots=True)
class OrderTarget:
    """Orders go to their venues, in paper or live, behind the guards of a plan."""

    actor: Actor
    clock: Clock
    limits: Limits
    live_store: bool
    lists_all: bool = True

    async def plan(self, work: WorkTools, entries: Sequence[Entry], request: ReplayRequest) -> ReplayPlan:
        from console.services.replay.plan import plan
        from console.services.replay.preflight import Preflight

        preflight = Preflight(work.store, work.pool, self.limits, self.clock, live_store=self.live_store)
        return plan(entries, await preflight.facts(entries, request))

    async def send(
        self, work: WorkTools, plan: SendPlan, handle: RunHandle, note: str | None
    ) -> tuple[EntryOutcome, ...]:
        from console.services.replay.batch import ReplayBatch
        from console.services.replay.plan import ReplayPlan

        assert isinstance(plan, ReplayPlan)
        replay = ReplayBatch(work.store, work.pool, self.actor, self.clock)
        handle.attend(replay)
        return await replay.run(plan, note=note, tell=handle.tell)

    async def reconcile(
        self, work: WorkTools, ids: tuple[str, ...], modes: Sequence[Mode], handle: RunHandle
    ) -> Reconciled:
        from console.services.replay.reconcile import Reconciliation

        reconciliation = Reconciliation(work.store, work.pool, self.actor, self.clock)
        outcomes = await reconciliation.settle(ids, modes, handle)
        return Reconciled(outcomes, tuple(reconciliation.needing_second))


async def record_refusals(triage: Triage, plan: SendPlan) -> None:
    """Entries that a replay was asked for and that stay are part of the record."""
    refused = tuple(one.entry_id for one in plan.held if one.outcome == "refused")
    if refused:
        await triage.refuse("replay", refused, "; ".join(one.detail or "" for one in plan.held)[:2000])

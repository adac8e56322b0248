"""What a replay of one kind of store consists of, and the target for order stores.

A session chooses its `ReplayTarget` once; nothing else asks which layout a store has before it plans or sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from backends.records import Actor, Attempt, Entry
from backends.store import Store
from console.clock import Clock
from console.services.policy import checked
from console.services.replay.background_run import RunHandle
from console.services.replay.ledger_memory import LedgerMemory
from console.services.replay.outcome import EntryOutcome
from console.services.replay.preflight import ReplayRequest
from console.services.replay.sent_amounts import SendingRules
from console.services.replay.venue_pool import VenuePool
from console.services.triage.triage import Triage
from console.settings.kept_heads import KeptHeads
from console.settings.limits import LimitsInForce
from venues import Mode

if TYPE_CHECKING:
    from console.services.evidence.reconcile import Settled
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
    @property
    def document(self) -> str: ...
    @property
    def mode(self) -> str | None: ...
    @property
    def going_ids(self) -> tuple[str, ...]: ...
    @property
    def spoken_of(self) -> tuple[str, ...]: ...
    def is_covered_by(self, document: str) -> bool: ...
    def is_old(self, at: datetime, seconds: float) -> bool: ...
    def without_moved(self, moved: Iterable[tuple[str, str]]) -> SendPlan: ...
    def planned(self) -> tuple[EntryOutcome, ...]: ...
    def refused(self, why: str) -> tuple[EntryOutcome, ...]: ...


class Renewal(NamedTuple):
    """A plan made again because the shown one was too old."""

    plan: SendPlan
    is_same: bool  # it does what the shown one did, or less
    lost: tuple[EntryOutcome, ...] = ()  # what the shown plan would have sent and this one does not


def renewal(shown: SendPlan, made: SendPlan) -> Renewal:
    """How a plan that was made again differs from the one that was shown."""
    why = {one.entry_id: one.detail for one in made.held}
    going, mode = set(made.going_ids), shown.mode
    lost = [one for one in shown.going_ids if one not in going]
    text = "it no longer goes"
    ended = [EntryOutcome(one, "not_sent", mode, detail=why.get(one) or text) for one in lost]
    is_same = made.is_covered_by(shown.document)
    return Renewal(_with_held(shown, made, lost if is_same else ()), is_same, tuple(ended))


def after_approval(plan: SendPlan, approved: Iterable[str]) -> SendPlan:
    """A plan that an approved one is made into again: what was approved and no longer goes ends not_sent."""
    from console.services.replay.plan import ReplayPlan

    return replace(plan, lost=frozenset(approved)) if isinstance(plan, ReplayPlan) else plan


def _with_held(shown: SendPlan, made: SendPlan, lost: Iterable[str]) -> SendPlan:
    """A plan is made again of what would have gone: what was held before is still held, and what is lost ends once."""
    from console.services.replay.plan import ReplayPlan

    if not isinstance(shown, ReplayPlan) or not isinstance(made, ReplayPlan):
        return made
    gone, again = set(lost), {one.entry_id for one in made.blocked}
    before = [one for one in shown.blocked if one.entry_id not in again]
    stays = [one for one in made.blocked if one.entry_id not in gone]
    return replace(made, blocked=(*before, *stays), lost=shown.lost)


@dataclass(frozen=True, slots=True)
class WorkTools:
    """What planning and sending work with; the session opens and closes both."""

    store: Store
    pool: VenuePool


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
    ) -> tuple[EntryOutcome, ...]: ...

    async def evidence(self, work: WorkTools, attempt: Attempt) -> Settled:
        """What the other side shows of an open attempt now. Writes nothing."""


@dataclass(frozen=True, slots=True)
class OrderTarget:
    """Orders go to their venues, in paper or live, behind the guards of a plan."""

    actor: Actor
    clock: Clock
    limits: LimitsInForce
    heads: KeptHeads
    lists_all: bool = True

    async def plan(self, work: WorkTools, entries: Sequence[Entry], request: ReplayRequest) -> ReplayPlan:
        from console.services.replay.plan import plan
        from console.services.replay.preflight import Preflight

        limits = await checked(self.limits, work.store)
        preflight = Preflight(
            work.store,
            work.pool,
            limits,
            self.clock,
            environment=self.limits.environment,
            refuses_live=self.limits.refuses_live,
            lost_at=await self._memory(work).lost_at(),
            actor=self.actor,
            rules=self.limits.by_policy(),
        )
        return plan(entries, await preflight.facts(entries, request))

    async def send(
        self, work: WorkTools, plan: SendPlan, handle: RunHandle, note: str | None
    ) -> tuple[EntryOutcome, ...]:
        from console.services.replay.batch import ReplayBatch
        from console.services.replay.plan import ReplayPlan

        assert isinstance(plan, ReplayPlan)
        memory = self._memory(work)
        await memory.lost_at()
        replay = ReplayBatch(
            work.store,
            work.pool,
            self.actor,
            self.clock,
            limits=self.limits.current,
            rules=SendingRules(work.store, self.limits, self.actor),
            waiting=handle.wait_for,
            intended=memory.keep,
        )
        handle.attend(replay)
        return await replay.run(plan, note=note, tell=handle.tell)

    async def reconcile(
        self, work: WorkTools, ids: tuple[str, ...], modes: Sequence[Mode], handle: RunHandle
    ) -> tuple[EntryOutcome, ...]:
        from console.services.evidence.reconcile import Reconciliation

        environment = self.limits.environment
        return await Reconciliation(work.store, work.pool, self.actor, environment).settle(ids, modes, handle)

    def _memory(self, work: WorkTools) -> LedgerMemory:
        return LedgerMemory(work.store, self.heads, self.clock)

    async def evidence(self, work: WorkTools, attempt: Attempt) -> Settled:
        from console.services.evidence.reconcile import Reconciliation, decide

        return decide(await Reconciliation(work.store, work.pool, self.actor).ask(attempt))


async def record_refusals(triage: Triage, plan: SendPlan) -> None:
    """Entries that a replay was asked for and that stay are part of the record."""
    refused = tuple(one.entry_id for one in plan.held if one.outcome == "refused")
    if refused:
        await triage.refuse("replay", refused, "; ".join(one.detail or "" for one in plan.held)[:2000])

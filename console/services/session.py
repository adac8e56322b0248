"""One attached store and everything that is done there: the only plan, replay, reconcile, approve and dismiss flow.

The command line and the screens both call it. What reaches a venue is imported only when it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from backends.records import Actor, Approval, Attempt, Entry, Filter, Halt, Selection, State, StoreInfo, Version
from backends.store import ActRefused, Store
from console.clock import Clock
from console.services.browse.engine_intent import engine_send, intents_of
from console.services.browse.queue_order import QueueOrder
from console.services.layout_fields import LAYOUTS
from console.services.market.entry_value import worth_by
from console.services.policy import MarksInForce, check_readable, checked, refresh
from console.services.replay.outcome import EntryOutcome
from console.services.triage.triage import Done, Triage
from console.settings.config import Config, ConfigError, StoreConfig
from console.settings.limits import LimitsInForce
from console.settings.second_person import SecondPerson

if TYPE_CHECKING:
    from console.services.evidence.ask import VenueAnswer
    from console.services.evidence.settle import SettleReport, SettleRequest
    from console.services.index.status import IndexStatus
    from console.services.replay.background_run import RunHandle, Work
    from console.services.replay.flow_control import Breaker
    from console.services.replay.preflight import ReplayRequest
    from console.services.replay.target import Renewal, ReplayTarget, SendPlan, WorkTools
    from console.services.replay.venue_pool import CredentialSource, VenuePool
    from console.services.resend.plan import ResendTools
    from console.services.triage.approvals import Answered, Approvals, WaitingPlan
    from venues import OrderAction

Mode = Literal["paper", "live"]
T = TypeVar("T")
_HELD = ("in_flight", "in_doubt")
_IN_DOUBT = Filter(states=frozenset({"in_doubt"}))
WAITS_SECONDS = 300.0  # how long a plan waits for a second person
_DISMISS_HELD = "in doubt or in flight: dismissing would lose it; reconcile or settle it first"


class SessionSettings(NamedTuple):
    """What a session is made of; `credentials` is asked only when a venue is."""

    config: Config
    store: StoreConfig
    actor: Actor
    clock: Clock
    open: Callable[[], Awaitable[Store]]
    credentials: Callable[[], CredentialSource]
    tools: Callable[[], ResendTools] | None = None  # for entries that are no orders
    cache: Path | None = None  # where indexes lie; None: where the XDG specification says
    heads: Path | None = None  # where heads of audit chains are kept; None: where the XDG specification says
    own_loops: bool = True  # plans and batches get a loop and connections of their own: the caller's never waits


class ReadAction(NamedTuple):
    """An entry's action: why it cannot be sent as it stands, what else should be known of it, and what it means."""

    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    action: OrderAction | None = None  # None exactly where something was found


class Verified(NamedTuple):
    head: str
    events: int
    problem: str | None


class Resumption(NamedTuple):
    outcome: Literal["resumed", "needs-second", "not-halted"]
    halt: Halt | None = None  # the one in force when it was asked


class Chosen(NamedTuple):
    """An entry as it was seen when somebody chose it."""

    id: str
    version: Version
    state: State


class DismissReport(NamedTuple):
    done: Done
    held: tuple[str, ...]  # refused: in doubt or in flight
    settled: tuple[Chosen, ...]  # dismissed or replayed before


class StoreSession:
    def __init__(self, setting: SessionSettings, store: Store) -> None:
        self.setting = setting
        self.store = store
        self._limits = LimitsInForce(setting.config, setting.store.environment)
        self._marks = MarksInForce(self._limits, setting.config.limits)
        self.triage = self._triage_on(store)
        self.queue_order = QueueOrder(store)
        self._index_status: IndexStatus | None = None
        self._making = asyncio.Lock()
        self._breakers: dict[str, Breaker] = {}
        self._chosen_target: ReplayTarget | None = None
        self._pool: VenuePool | None = None

    @classmethod
    async def attach(cls, setting: SessionSettings) -> StoreSession:
        session = cls(setting, await setting.open())
        await refresh(session._limits, session.store)
        return session

    @property
    def info(self) -> StoreInfo:
        return self.store.info

    def carry_on(self, earlier: StoreSession) -> None:
        """Keep what the console has learned of providers at the store before: one that is down is down here too."""
        self._breakers = earlier._breakers

    async def aclose(self) -> None:
        if self._index_status is not None:
            await self._index_status.aclose()
        if self._pool is not None:
            await self._pool.aclose()
        await self.store.aclose()

    async def shift_report(self, since: datetime) -> str:
        """What `dlq report` prints, made on a thread of its own: it reads everything that came and every event."""
        from console.services.stats.report import as_markdown, gathered

        health = (await self.index_status()).health
        known = None if health is None else await health.tally()

        async def work() -> str:
            store = await self.setting.open()
            try:
                return as_markdown(await gathered(self._triage_on(store), since, self.setting, known))
            finally:
                await store.aclose()

        return await self._beside(work)

    async def index_status(self) -> IndexStatus:
        """What the index knows of this store; made when it is first asked for."""
        from console.services.index.status import IndexStatus

        async with self._making:
            if self._index_status is None:
                self._index_status = await IndexStatus.of(self)
        return self._index_status

    @property
    def target(self) -> ReplayTarget:
        """How entries of this store are planned, sent and reconciled. Chosen once."""
        if self._chosen_target is None:
            self._chosen_target = self._choose_target()
        return self._chosen_target

    def _choose_target(self) -> ReplayTarget:
        setting = self.setting
        if self.has_modes:
            from console.services.replay.target import OrderTarget
            from console.settings.kept_heads import KeptHeads

            return OrderTarget(setting.actor, setting.clock, self._limits, KeptHeads(folder=setting.heads))
        from console.services.resend.plan import ResendTools
        from console.services.resend.target import target_for

        tools = setting.tools() if setting.tools else ResendTools(setting.actor, setting.clock)
        return target_for(self.store, replace(tools, breakers=self._breakers, limits=self._limits.current))

    @property
    def has_modes(self) -> bool:
        """Whether entries go to a venue in paper or live; elsewhere every replay is real."""
        return LAYOUTS[self.info.layout].has_modes

    def read_action(self, entry: Entry) -> ReadAction:
        from venues.action import parse_action

        if not self.has_modes:
            return ReadAction()
        parsed = parse_action(entry.columns, entry.text("action_json") or None)
        findings = tuple(f"{finding.code}: {finding.text}" for finding in parsed.findings)
        return ReadAction(findings, parsed.notes, parsed.action)

    async def plan(self, selection: Selection, request: ReplayRequest) -> SendPlan:
        """What a replay would do. Asks store and venues; writes and sends nothing."""
        return await self._beside(lambda: self._plan(selection, request))

    async def _beside(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Work with a venue, on a loop of its own where the caller's must never wait."""
        if self.setting.own_loops:
            return await asyncio.to_thread(lambda: asyncio.run(work()))  # nothing is begun for a caller who left
        return await work()

    async def renewed(self, shown: SendPlan, selection: Selection, request: ReplayRequest) -> Renewal:
        """The plan that was shown while it is young; an older one is made again, of what it would have sent."""
        from console.services.replay.target import Renewal, renewal

        await refresh(self._limits, self.store)
        if not shown.is_old(self.setting.clock(), self.plan_seconds):
            return Renewal(shown, is_same=True)
        going = frozenset(shown.spoken_of)
        picks = Selection(tuple(pick for pick in selection.picks if pick[0] in going))
        return renewal(shown, await self.plan(picks, request))

    @property
    def plan_seconds(self) -> int:
        """How long a plan lives; none does while the limits cannot be read."""
        try:
            return self._limits.current().plan_seconds
        except ConfigError:
            return 0

    @property
    def max_batch(self) -> int:
        return self._marks.limits.max_batch

    async def _plan(self, selection: Selection, request: ReplayRequest) -> SendPlan:
        async with self._working() as work:
            await checked(self._limits, work.store)
            found, _ = await self._triage_on(work.store).chosen(selection.ids)
            plan = await self.target.plan(work, _unmoved(selection, found), request)
        return plan.without_moved(_moved(selection, found))

    @asynccontextmanager
    async def _working(self) -> AsyncIterator[WorkTools]:
        """Store and venues to work with: the session's own, or fresh ones for a loop of their own."""
        from console.services.replay.target import WorkTools
        from console.services.replay.venue_pool import VenuePool

        if not self.setting.own_loops:
            if self._pool is None:
                self._pool = VenuePool(self.setting.config.venues, self.setting.credentials())
            yield WorkTools(self.store, self._pool)
            return
        pool = VenuePool(self.setting.config.venues, self.setting.credentials())
        store = await self.setting.open()
        try:
            yield WorkTools(store, pool)
        finally:
            await pool.aclose()
            await store.aclose()

    def _triage_on(self, store: Store) -> Triage:
        setting = self.setting
        return Triage(store, setting.actor, setting.clock, self._marks, worth_by(setting.config.venue_types))

    async def is_approved(self, plan: SendPlan, request: str = "") -> bool:
        """Whether the second person has agreed; where not, the plan is put up for them.

        `request` is what was asked for, by which `approved_ids` finds the plan again.
        """
        if await self._approvals().may_replay(plan, request):
            return True
        await self.refuse_held(plan)
        return False

    async def approved_ids(self, request: str) -> tuple[str, ...]:
        """The entries of the plan that was approved for this very request; none where there is no such plan."""
        from console.services.replay.plan import entries_of

        return entries_of(await self._approvals().approved_for(request))

    async def settle(self, request: SettleRequest) -> SettleReport:
        """Settle an attempt in doubt by a person's evidence, after asking the venue."""
        return await self._beside(lambda: self._settle(request))

    async def _settle(self, request: SettleRequest) -> SettleReport:
        from console.services.evidence.settle import Settlement

        async with self._working() as work:
            await checked(self._limits, work.store)
            settlement = Settlement(
                work.store,
                self.setting.actor,
                self._approvals_on(work.store),
                word=lambda attempt: self.target.evidence(work, attempt),
                two_people=self._needs_two,
                environment=self._limits.environment,
            )
            return await settlement.run(request)

    def _needs_two(self, attempt: Attempt) -> bool:
        """Two people settle what is live; a store of other layouts counts as live unless the config calls it paper."""
        if attempt.rehearsal or attempt.mode != "live":
            return False
        return self.has_modes or self._limits.environment != "paper"

    async def ask(self, ids: Sequence[str], mode: Mode) -> tuple[VenueAnswer, ...]:
        """What the venues say of these entries' orders. Writes nothing; raises ActRefused where this is read-only."""
        if self.info.read_only:
            raise ActRefused("read-only: no venue is asked from here, as that takes its credentials")
        if not self.has_modes:
            raise ActRefused("this store's entries have no venue that could be asked")
        return await self._beside(lambda: self._ask(tuple(ids), mode))

    async def _ask(self, ids: tuple[str, ...], mode: Mode) -> tuple[VenueAnswer, ...]:
        from console.services.evidence.ask import Inquiry

        async with self._working() as work:
            found, _ = await self._triage_on(work.store).chosen(ids)
            inquiry = Inquiry(work.store, work.pool, self.setting.actor, self.setting.clock, self._environment())
            return await inquiry.run([found[one] for one in ids if one in found], mode)

    async def open_attempts(self, ids: Sequence[str], mode: Mode) -> tuple[Attempt, ...]:
        """The attempts of these entries that are in flight or in doubt, an engine's own sends among them.

        Those are taken to be of the store's environment; where it has none, of this mode.
        """
        chosen = frozenset(ids)
        found = [one for one in await self.store.open_attempts() if one.entry_id in chosen]
        sends = [one for one in await intents_of(self.store, _IN_DOUBT) if one.id in chosen]
        return (*found, *(engine_send(one, self._environment() or mode) for one in sends))

    def _environment(self) -> str | None:
        """Raises ActRefused where the policy, which may name one, cannot be read."""
        try:
            return self._limits.environment
        except ConfigError as problem:
            raise ActRefused(str(problem)) from None

    async def refuse_held(self, plan: SendPlan) -> None:
        """Record the entries that a replay was asked for and that stay."""
        from console.services.replay.target import record_refusals

        await record_refusals(self.triage, plan)

    async def waiting(self) -> tuple[WaitingPlan, ...]:
        """What waits for a second person."""
        check_readable(self.store)
        return await self._approvals().waiting()

    async def waits_for_me(self) -> tuple[Approval, ...]:
        """What this person may approve and nobody has approved yet; reads only."""
        asked = await self.store.approvals()
        fresh = [one for one in asked if one.asked_ago <= WAITS_SECONDS]
        return tuple(one for one in fresh if one.approved_by is None and self.may_sign(one))

    def may_sign(self, approval: Approval) -> bool:
        """Whether this person counts as the second one for it."""
        return self._approvals().may_sign(approval)

    async def asked(self, plan_hash: str) -> WaitingPlan | None:
        check_readable(self.store)
        return await self._approvals().asked(plan_hash)

    async def approve(self, plan_hash: str, *, typed: bool = False) -> Answered:
        """`typed`: a person typed the words; only then may they approve their own, where the policy lets them."""
        await checked(self._limits, self.store)
        return await self._approvals().approve(plan_hash, typed=typed)

    async def withdraw(self, plan_hash: str) -> bool:
        """Take back what this person asked a second one for; False where it is not theirs, or no longer waits."""
        return await self._approvals().withdraw(plan_hash)

    async def why_not_approved(self, answered: Answered, plan_hash: str) -> str:
        return await self._approvals().why_not(answered, plan_hash)

    @property
    def way_out(self) -> str:
        """How somebody who is alone goes on where a second person is wanted."""
        from console.services.triage.own_approval import way_out

        return way_out(self._second_person())

    def _second_person(self) -> SecondPerson:
        """Another person, also where the policy cannot be read."""
        try:
            return self._limits.second_person
        except ConfigError:
            return SecondPerson()

    def _approvals(self) -> Approvals:
        return self._approvals_on(self.store)

    def _approvals_on(self, store: Store) -> Approvals:
        from console.services.triage.approvals import Approvals

        return Approvals(store, self.setting.actor, self.setting.clock, self._second_person)

    async def resume(self, note: str) -> Resumption:
        """Lift the halt that is in force now; in a live store a second person must agree to that very halt."""
        check_readable(self.store)
        halt = await self.store.halted()
        if halt is None:
            return Resumption("not-halted")
        await checked(self._limits, self.store)
        if self._limits.environment == "live" and not await self._approvals().may_resume(halt):
            return Resumption("needs-second", halt)
        await self.triage.resume(note)
        return Resumption("resumed", halt)

    async def dismiss(
        self,
        chosen: Sequence[Chosen],
        *,
        reason: str,
        note: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> DismissReport:
        """Dismiss what is pending; refuse, on record, what is in doubt or in flight."""
        held = await self.refuse_dismissal(chosen)
        free = Selection(tuple((one.id, one.version) for one in chosen if one.state == "pending"))
        done = await self.triage.dismiss(free, reason=reason, note=note, progress=progress, stop=stop)
        return DismissReport(done, held, tuple(one for one in chosen if one.state in ("dismissed", "replayed")))

    async def refuse_dismissal(self, chosen: Sequence[Chosen]) -> tuple[str, ...]:
        """Record that entries in doubt or in flight were not dismissed; which they are."""
        held = tuple(one.id for one in chosen if one.state in _HELD)
        if held:
            await self.triage.refuse("dismiss", held, _DISMISS_HELD)
        return held

    def replay_work(self, plan: SendPlan, note: str | None) -> Work:
        async def work(handle: RunHandle) -> tuple[EntryOutcome, ...]:
            from console.services.replay.target import record_refusals

            async with self._working() as tools:
                await record_refusals(self._triage_on(tools.store), plan)
                handle.total = plan.size
                return await self.target.send(tools, plan, handle, note)

        return work

    def reconcile_work(self, ids: tuple[str, ...], modes: Sequence[Mode] = ("paper", "live")) -> Work:
        """Every open attempt of these entries (of all, where none is named) in these modes."""

        async def work(handle: RunHandle) -> tuple[EntryOutcome, ...]:
            async with self._working() as tools:
                check_readable(tools.store)
                return await self.target.reconcile(tools, ids, modes, handle)

        return work

    async def verify(self) -> Verified:
        """Verifies the chain, and compares with it what the ledger's tables say."""
        from backends.ledger.examination import examine

        seen = await examine(self.store)
        problem = seen.problem or ("; ".join(seen.differences) or None)
        return Verified(str(seen.head), seen.head.count, problem)


def _unmoved(selection: Selection, found: dict[str, Entry]) -> list[Entry]:
    there = [(found[entry_id], seen) for entry_id, seen in selection.picks if entry_id in found]
    return [entry for entry, seen in there if entry.version == seen]


def _moved(selection: Selection, found: dict[str, Entry]) -> list[tuple[str, str]]:
    """(id, what became of it since it was chosen)."""
    moved = []
    for entry_id, seen in selection.picks:
        entry = found.get(entry_id)
        if entry is None:
            moved.append((entry_id, "it is no longer there"))
        elif entry.version != seen:
            moved.append((entry_id, f"changed since it was marked: now {entry.state}"))
    return moved

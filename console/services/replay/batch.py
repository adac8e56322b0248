"""Runs a plan of orders in waves, with a breaker per venue and account. Every planned entry gets exactly one outcome.

Stopping takes effect between entries; an entry that has begun is finished and recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from backends.records import Actor, BreakerKey, BreakerRow, Selection
from backends.store import Store, StoreError
from console.clock import Clock
from console.services.replay.attempt import AttemptLedger, unsent
from console.services.replay.flow_control import (
    FAILED_IN_A_ROW,
    FAILURES,
    OPEN_SECONDS,
    Breaker,
    Pace,
    Wait,
    Waiting,
    breaker_text,
    wait_unless_stopped,
)
from console.services.replay.outcome import EntryOutcome, HoldReason, OutcomeKind, not_begun
from console.services.replay.plan import Blocked, ReplayPlan, Step, Superseded
from console.services.replay.sent_amounts import SendingRules
from console.services.replay.still_fit import latest_start
from console.services.replay.submit import (
    LEASE_SECONDS,
    At,
    OrderSubmitter,
    SubmitResult,
    SubmitTools,
    VenueLane,
)
from console.services.replay.venue_pool import VenueAccount, VenuePool
from console.settings.config import Limits
from venues import Mode, VenueError

Tell = Callable[[EntryOutcome], None]
_CLOSED = BreakerRow(0, 0, None)
_HALT_SECONDS = 0.4  # how often a running batch checks whether a halt is set


@dataclass(slots=True)
class _Traffic:
    """The requests under way at one account of one venue."""

    lane: VenueLane
    breaker: Breaker = field(default_factory=Breaker)
    is_kept: bool = False  # the ledger has something of it
    learning: int = 0  # ends of sends that are being kept
    under_way: int = 0
    tried_again: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class _Run:
    plan: ReplayPlan
    ended: Tell
    ledger: AttemptLedger
    sender: OrderSubmitter


class ReplayBatch:
    """`limits` gives those in force at the moment, `rules` what the store says then; `at` is called at every boundary
    between two steps; `lease` is the shortest time that a claim lasts."""

    def __init__(
        self,
        store: Store,
        pool: VenuePool,
        actor: Actor,
        clock: Clock,
        *,
        limits: Callable[[], Limits] = Limits,
        rules: SendingRules | None = None,
        waiting: Waiting = lambda _, __: None,
        intended: Callable[[], None] = lambda: None,
        at: At = lambda _: None,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self._limits = limits
        self._rules = rules
        self._waiting = waiting
        self._intended = intended
        self._store = store
        self._pool = pool
        self._actor = actor
        self._clock = clock
        self._point = at
        self._lease = lease
        self._stopped = asyncio.Event()
        self._halted = False
        self._traffic: dict[VenueAccount, _Traffic] = {}

    def breakers(self) -> dict[str, str]:
        """The state of each account's breaker. May be called from any thread."""
        now = time.monotonic()
        return {at.label: traffic.breaker.at(now).state for at, traffic in list(self._traffic.items())}

    def stop(self) -> None:
        """Begin no further entry. Call from this object's own loop."""
        self._stopped.set()
        for traffic in self._traffic.values():
            traffic.moved.set()

    async def run(
        self, plan: ReplayPlan, *, note: str | None = None, tell: Tell = lambda _: None
    ) -> tuple[EntryOutcome, ...]:
        results: list[EntryOutcome] = []

        def ended(result: EntryOutcome) -> None:
            results.append(result)
            tell(result)

        for blocked in plan.blocked:
            ended(EntryOutcome(blocked.entry_id, _stays_as(blocked, plan), plan.mode, detail=blocked.text))
        if not plan.steps:
            return tuple(results)
        ledger = AttemptLedger(self._store, self._actor, note=note, stopped=self._stopped, intended=self._intended)
        run = _Run(plan, ended, ledger, OrderSubmitter(ledger, self._tools(plan.mode)))
        async with self._watching_for_halt():
            for wave in sorted({step.wave for step in plan.steps}):
                await self._wave(run, [step for step in plan.steps if step.wave == wave])
        await ledger.settle_up()
        return tuple(results)

    def _tools(self, mode: Mode) -> SubmitTools:
        async def lane(at: VenueAccount) -> VenueLane:
            return (await self._at(at, mode)).lane

        return SubmitTools(self._clock, self._limits, lane, self._stopped, self._waiting, self._point, self._rules)

    @asynccontextmanager
    async def _watching_for_halt(self) -> AsyncIterator[None]:
        """Stop the batch when a halt is set. The store refuses claims by itself; this ends the waits before them."""
        watching = asyncio.create_task(self._watch_for_halt())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch_for_halt(self) -> None:
        while not self._stopped.is_set():
            await asyncio.sleep(_HALT_SECONDS)
            try:
                halted = await self._store.halted()
            except StoreError:
                continue  # a store that is away refuses claims too
            if halted is not None:
                self._halt()

    def _halt(self) -> None:
        self._halted = True
        self.stop()

    async def _wave(self, run: _Run, steps: Sequence[Step]) -> None:
        """Send to each account at its own pace: a slow one holds up only its own entries."""
        accounts: dict[VenueAccount, list[Step]] = {}
        for step in steps:
            accounts.setdefault(step.command.at, []).append(step)
        await asyncio.gather(*(self._at_account(run, at, its) for at, its in accounts.items()))

    async def _at_account(self, run: _Run, at: VenueAccount, steps: Sequence[Step]) -> None:
        try:
            traffic = await self._at(at, run.plan.mode)
        except VenueError as problem:
            for step in steps:
                command, text = step.command, f"{problem}: nothing was sent"
                ended = EntryOutcome(command.entry_id, "not_sent", run.plan.mode, None, command.client_order_id, text)
                self._unsent(run, ended)
            return
        running: list[asyncio.Task[None]] = []
        for step in steps:
            if (why := await self._room(traffic, step, single=run.plan.size == 1)) is None:
                running.append(asyncio.create_task(self._one(run, step, traffic)))
            else:
                self._unsent(run, why)
        if running:
            await asyncio.gather(*running)

    async def _at(self, at: VenueAccount, mode: Mode) -> _Traffic:
        if at not in self._traffic:
            client = await self._pool.client(at, mode)
            timeout, window = self._pool.settings(at.venue).timeout, self._pool.window(at.venue)
            lane = VenueLane(client, Pace(self._pool.rate(at.venue)), timeout, window, at, self._lease)
            row = await self._kept_breaker(at, mode)
            breaker = Breaker.kept(row, time.monotonic())
            self._traffic.setdefault(at, _Traffic(lane, breaker, is_kept=row is not None))
        return self._traffic[at]

    async def _kept_breaker(self, at: VenueAccount, mode: Mode) -> BreakerRow | None:
        try:
            return (await self._store.breakers()).get(_breaker_key(at, mode))
        except StoreError:
            return None  # without the ledger each console counts for itself

    async def _room(self, traffic: _Traffic, step: Step, *, single: bool) -> EntryOutcome | None:
        """Wait for room in this account's traffic; the outcome of a step that gets none.

        A cancel passes a breaker, and so does a single order whose guard was overridden; one alone waits for nothing.
        """
        forced = single and "not-ready" in step.overridden
        passes = forced or step.command.action.verb == "cancel"
        while not self._stopped.is_set():
            traffic.moved.clear()
            traffic.breaker = traffic.breaker.at(time.monotonic())
            if passes or traffic.under_way < traffic.breaker.room:
                traffic.under_way += 1
                return None
            if traffic.breaker.state != "open" or traffic.under_way or traffic.learning:
                await traffic.moved.wait()
                continue
            left = max(0.0, OPEN_SECONDS - (time.monotonic() - traffic.breaker.opened_at))
            if single:
                return self._not_now(step, traffic, left)
            if self._is_too_long(step, left):
                return self._late(step, traffic, left)
            if traffic.tried_again:
                break
            traffic.tried_again = True
            await self._wait_for_breaker(traffic, left)
        return self._held(step, traffic)

    async def _wait_for_breaker(self, traffic: _Traffic, seconds: float) -> None:
        label = traffic.lane.at.label
        self._waiting(label, Wait(seconds, FAILED_IN_A_ROW))
        await wait_unless_stopped(seconds + 0.01, self._stopped)
        self._waiting(label, None)

    def _is_too_long(self, step: Step, seconds: float) -> bool:
        ends = latest_start(step, self._limits)
        return ends is not None and self._clock() + timedelta(seconds=seconds) > ends

    def _late(self, step: Step, traffic: _Traffic, seconds: float) -> EntryOutcome:
        command, lane = step.command, traffic.lane
        waiting = f"{lane.at.label} makes it wait {seconds:.0f} s ({FAILED_IN_A_ROW})"
        text = f"stale: {waiting}, and its time is over by then: nothing was sent"
        return EntryOutcome(command.entry_id, "not_sent", lane.client.mode, None, command.client_order_id, text)

    def _not_now(self, step: Step, traffic: _Traffic, seconds: float) -> EntryOutcome:
        command, lane = step.command, traffic.lane
        text = f"not-ready: {breaker_text(lane.at.label, FAILURES, seconds)}: nothing was sent"
        return EntryOutcome(command.entry_id, "not_sent", lane.client.mode, None, command.client_order_id, text)

    def _held(self, step: Step, traffic: _Traffic) -> EntryOutcome:
        command, mode = step.command, traffic.lane.client.mode
        reason: HoldReason = "halt" if self._halted else "stopped" if self._stopped.is_set() else "breaker open"
        return not_begun(command.entry_id, reason, mode, command.client_order_id)

    def _unsent(self, run: _Run, head: EntryOutcome) -> None:
        """Tell the outcome of an entry that was not sent, and of the entries that it supersedes."""
        run.ended(head)
        for one in run.plan.beneath(head.entry_id):
            text = f"superseded by {one.by}, which was not sent"
            run.ended(EntryOutcome(one.entry_id, "skipped", run.plan.mode, detail=text))

    async def _one(self, run: _Run, step: Step, traffic: _Traffic) -> None:
        try:
            sent = await run.sender.send(run.plan, step, traffic.lane)
        except StoreError as problem:
            # Raised only before the intent is committed: nothing was sent, and the breaker learns nothing.
            sent = SubmitResult(unsent(step.command.entry_id, problem, run.plan.mode))
        finally:
            traffic.under_way -= 1
            traffic.moved.set()
        if run.ledger.halted:
            self._halt()
        await self._learn(traffic, sent)
        run.ended(self._because_of_halt(sent.ended))
        for one in run.plan.beneath(step.command.entry_id):
            run.ended(await self._supersede(run, one, sent.ended))

    def _because_of_halt(self, ended: EntryOutcome) -> EntryOutcome:
        """Name the halt in the outcome of an entry that was given up half-way because of it."""
        if self._halted and ended.outcome == "skipped" and (ended.detail or "").startswith("stopped"):
            return replace(ended, outcome="not_sent", detail="halt: nothing was sent")
        return ended

    async def _learn(self, traffic: _Traffic, sent: SubmitResult) -> None:
        """Keep how a send ended, here and in the ledger; a success after which nothing was kept needs no record."""
        if sent.signal == "none":
            return
        good = sent.signal == "good"
        traffic.breaker = traffic.breaker.succeeded() if good else traffic.breaker.failed(time.monotonic())
        if good and not traffic.is_kept:
            return
        traffic.learning += 1
        try:
            row = await self._store.breaker_learns(_breaker_key(traffic.lane.at, traffic.lane.client.mode), good=good)
        except StoreError:
            return  # without the ledger each console counts for itself
        finally:
            traffic.learning -= 1
            traffic.moved.set()
        traffic.is_kept = row != _CLOSED
        kept = Breaker.kept(row, time.monotonic())
        both_open = traffic.breaker.state == kept.state == "open"  # and somebody may wait for the moment it opened here
        if not traffic.learning and not both_open:  # else another send has ended meanwhile, and counts here already
            traffic.breaker = kept

    async def _supersede(self, run: _Run, one: Superseded, head: EntryOutcome) -> EntryOutcome:
        """Record an entry as superseded once the command that stands for it was accepted; until then it waits."""
        mode, detail = run.plan.mode, f"superseded by {one.by}"
        if head.outcome != "accepted":
            word = "is in doubt" if head.outcome == "unknown" else f"was {head.outcome.replace('_', ' ')}"
            return EntryOutcome(one.entry_id, "skipped", mode, detail=f"{detail}, which {word}")
        if run.plan.rehearsal:
            return EntryOutcome(one.entry_id, "superseded", mode, detail=detail)
        reason = replace(run.ledger.now(), reason="superseded", note=detail)
        try:
            result = await self._store.dismiss(Selection(((one.entry_id, one.version),)), self._actor, reason)
        except StoreError as problem:
            return EntryOutcome(one.entry_id, "skipped", mode, detail=f"{detail}, not recorded: {problem}")
        kind: OutcomeKind = "superseded" if result.done else "skipped"
        return EntryOutcome(one.entry_id, kind, mode, detail=detail if result.done else "changed meanwhile")


def _breaker_key(at: VenueAccount, mode: Mode) -> BreakerKey:
    return at.venue, at.account or "", mode


def _stays_as(blocked: Blocked, plan: ReplayPlan) -> OutcomeKind:
    if blocked.entry_id in plan.lost:
        return "not_sent"
    settled = any(guard.code in ("settled", "changed") for guard in blocked.guards)
    return "skipped" if settled else "refused"

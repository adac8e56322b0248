"""Runs a plan: waves, breakers and stopping around `send`. Every entry of the plan ends with a word.

Stopping takes effect between entries; what has begun is brought to its recorded end.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from backends.records import ActContext, Actor, Selection
from backends.store import Store, StoreError
from console.clock import Clock
from console.services.replay.attempt import LEASE_SECONDS, SubmitResult, VenueLane, anchored
from console.services.replay.flow_control import OPEN_SECONDS, Breaker, Pace
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.services.replay.plan import ReplayPlan, Step, Superseded
from console.services.replay.submit import At, OrderSubmitter
from console.services.replay.venue_pool import VenuePool
from venues import Mode, VenueError

Tell = Callable[[EntryOutcome], None]
_SENT = ("accepted", "rejected", "unknown")
_HALT_SECONDS = 0.4  # how often a running batch looks whether somebody has set the halt


@dataclass(slots=True)
class _Traffic:
    """What is under way at one venue."""

    lane: VenueLane
    breaker: Breaker = field(default_factory=Breaker)
    under_way: int = 0
    tried_again: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class _Run:
    plan: ReplayPlan
    why: ActContext
    ended: Tell
    sender: OrderSubmitter
    moment: Clock


class ReplayBatch:
    """`at` hears of every boundary between two steps; `lease` is the least time a claim lasts."""

    def __init__(
        self,
        store: Store,
        pool: VenuePool,
        actor: Actor,
        clock: Clock,
        *,
        at: At = lambda _: None,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self._store = store
        self._pool = pool
        self._actor = actor
        self._clock = clock
        self._point = at
        self._lease = lease
        self._stopped = asyncio.Event()
        self._halted = False
        self._traffic: dict[str, _Traffic] = {}

    def breakers(self) -> dict[str, str]:
        """From any thread."""
        now = time.monotonic()
        return {venue: traffic.breaker.at(now).state for venue, traffic in list(self._traffic.items())}

    def stop(self) -> None:
        """No further entry is begun. Call from this object's own loop."""
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
            settled = any(guard.code in ("settled", "superseded", "changed") for guard in blocked.guards)
            ended(EntryOutcome(blocked.entry_id, "skipped" if settled else "refused", plan.mode, detail=blocked.text))
        if not plan.steps:
            return tuple(results)
        run = await self._begin(plan, ended, note)
        async with self._watching_for_halt():
            for wave in sorted({step.wave for step in plan.steps}):
                await self._wave(run, [step for step in plan.steps if step.wave == wave])
        await run.sender.settle_up()
        return tuple(results)

    async def _begin(self, plan: ReplayPlan, ended: Tell, note: str | None) -> _Run:
        moment = await anchored(self._store)
        why = ActContext(at=moment(), operation=uuid.uuid4().hex, reason="replay", note=note)
        clocks = self._clock, moment
        sender = OrderSubmitter(self._store, self._actor, clocks=clocks, stopped=self._stopped, at=self._point)
        return _Run(plan, why, ended, sender, moment)

    @asynccontextmanager
    async def _watching_for_halt(self) -> AsyncIterator[None]:
        """The store itself refuses every claim and intent while halted; this ends the waiting for them, too."""
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
                continue  # nothing can be claimed meanwhile either
            if halted is not None:
                self._halt()

    def _halt(self) -> None:
        self._halted = True
        self.stop()

    async def _wave(self, run: _Run, steps: Sequence[Step]) -> None:
        """Each venue at its own pace: one that is slow or shut holds only its own entries."""
        venues: dict[str, list[Step]] = {}
        for step in steps:
            venues.setdefault(step.command.venue, []).append(step)
        await asyncio.gather(*(self._at_venue(run, name, its) for name, its in venues.items()))

    async def _at_venue(self, run: _Run, venue: str, steps: Sequence[Step]) -> None:
        try:
            traffic = await self._at(venue, run.plan.mode)
        except VenueError as problem:
            for step in steps:
                self._unsent(run, step, "not_sent", f"{problem}: nothing was sent")
            return
        running: list[asyncio.Task[None]] = []
        for step in steps:
            if await self._has_room(traffic, single=len(run.plan.steps) == 1):
                running.append(asyncio.create_task(self._one(run, step, traffic)))
            else:
                self._held(run, step)
        if running:
            await asyncio.gather(*running)

    async def _at(self, venue: str, mode: Mode) -> _Traffic:
        if venue not in self._traffic:
            client = await self._pool.client(venue, mode)
            timeout, window = self._pool.settings(venue).timeout, self._pool.window(venue)
            lane = VenueLane(client, Pace(self._pool.rate(venue)), timeout, window, self._lease)
            self._traffic.setdefault(venue, _Traffic(lane))
        return self._traffic[venue]

    async def _has_room(self, traffic: _Traffic, *, single: bool) -> bool:
        """Waits for a place in this venue's traffic; False once stopped, or when the breaker will not close."""
        while not self._stopped.is_set():
            traffic.moved.clear()
            traffic.breaker = traffic.breaker.at(time.monotonic())
            if single or traffic.under_way < traffic.breaker.room:
                traffic.under_way += 1
                return True
            if traffic.breaker.state != "open" or traffic.under_way:
                await traffic.moved.wait()
                continue
            if traffic.tried_again:
                return False
            traffic.tried_again = True
            left = OPEN_SECONDS - (time.monotonic() - traffic.breaker.opened_at)
            try:
                await asyncio.wait_for(traffic.moved.wait(), max(0.0, left) + 0.01)
            except TimeoutError:
                continue
        return False

    def _held(self, run: _Run, step: Step) -> None:
        reason = "halt" if self._halted else "stopped" if self._stopped.is_set() else "breaker open"
        self._unsent(run, step, "refused" if self._halted else "skipped", f"{reason}: nothing was sent")

    def _unsent(self, run: _Run, step: Step, word: OutcomeKind, detail: str) -> None:
        command = step.command
        run.ended(EntryOutcome(command.entry_id, word, run.plan.mode, None, command.client_order_id, detail))
        for one in run.plan.beneath(command.entry_id):
            text = f"superseded by {one.by}, which was not sent"
            run.ended(EntryOutcome(one.entry_id, "skipped", run.plan.mode, detail=text))

    async def _one(self, run: _Run, step: Step, traffic: _Traffic) -> None:
        try:
            sent = await run.sender.send(run.plan, step, traffic.lane, run.why)
        except StoreError as problem:
            # Only before the intent: nothing was sent, and it says nothing of the venue.
            text = f"{problem}: nothing was sent"
            sent = SubmitResult(EntryOutcome(step.command.entry_id, "skipped", run.plan.mode, detail=text))
        finally:
            traffic.under_way -= 1
            traffic.moved.set()
        self._learn(traffic, sent)
        run.ended(self._because_of_halt(sent.ended))
        for one in run.plan.beneath(step.command.entry_id):
            run.ended(await self._supersede(run, one, sent.ended))

    def _because_of_halt(self, ended: EntryOutcome) -> EntryOutcome:
        """What was given up half-way because of a halt says so."""
        if self._halted and ended.outcome == "skipped" and (ended.detail or "").startswith("stopped"):
            return replace(ended, outcome="refused", detail="halt: nothing was sent")
        return ended

    def _learn(self, traffic: _Traffic, sent: SubmitResult) -> None:
        if sent.halted:
            self._halt()
        if sent.signal == "good":
            traffic.breaker = traffic.breaker.succeeded()
        elif sent.signal == "bad":
            traffic.breaker = traffic.breaker.failed(time.monotonic())

    async def _supersede(self, run: _Run, one: Superseded, head: EntryOutcome) -> EntryOutcome:
        """Recorded as superseded once the command that stands for it has gone out."""
        mode, detail = run.plan.mode, f"superseded by {one.by}"
        if head.outcome not in _SENT:
            return EntryOutcome(one.entry_id, "skipped", mode, detail=f"{detail}, which was not sent")
        if run.plan.rehearsal:
            return EntryOutcome(one.entry_id, "superseded", mode, detail=detail)
        reason = replace(run.why, at=run.moment(), reason="superseded", note=detail)
        try:
            result = await self._store.dismiss(Selection(((one.entry_id, one.version),)), self._actor, reason)
        except StoreError as problem:
            return EntryOutcome(one.entry_id, "skipped", mode, detail=f"{detail}, not recorded: {problem}")
        word: OutcomeKind = "superseded" if result.done else "skipped"
        return EntryOutcome(one.entry_id, word, mode, detail=detail if result.done else "changed meanwhile")

"""Runs a plan: waves, breakers and stopping around `send`. Every entry of the plan ends with a word.

Stopping takes effect between entries; what has begun is brought to its recorded end.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from backends.records import Actor, Selection, Why
from backends.store import Store, StoreError
from console.clock import Clock
from console.services.breaker import OPEN_SECONDS, Breaker
from console.services.desk import Desk
from console.services.outcome import Ended, Word
from console.services.pace import Pace
from console.services.plan import ReplayPlan, Step, Superseded
from console.services.send import Road, Sender, Sent
from venues import Mode

Tell = Callable[[Ended], None]
_SENT = ("accepted", "rejected", "unknown")


@dataclass(slots=True)
class _Traffic:
    """What is under way at one venue."""

    road: Road
    breaker: Breaker = field(default_factory=Breaker)
    under_way: int = 0
    tried_again: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)


class Replay:
    def __init__(self, store: Store, desk: Desk, actor: Actor, clock: Clock) -> None:
        self._store = store
        self._desk = desk
        self._actor = actor
        self._clock = clock
        self._stopped = asyncio.Event()
        self._halted = False
        self._traffic: dict[str, _Traffic] = {}
        self._sender = Sender(store, actor, clock, self._stopped)

    def stop(self) -> None:
        """No further entry is begun. Call from this object's own loop."""
        self._stopped.set()
        for traffic in self._traffic.values():
            traffic.moved.set()

    async def run(self, plan: ReplayPlan, *, note: str | None = None, tell: Tell = lambda _: None) -> tuple[Ended, ...]:
        why = Why(at=self._clock(), operation=uuid.uuid4().hex, reason="replay", note=note)
        results: list[Ended] = []

        def ended(result: Ended) -> None:
            results.append(result)
            tell(result)

        for blocked in plan.blocked:
            settled = any(guard.code in ("settled", "superseded") for guard in blocked.guards)
            ended(Ended(blocked.entry_id, "skipped" if settled else "refused", plan.mode, detail=blocked.text))
        for wave in sorted({step.wave for step in plan.steps}):
            await self._wave(plan, [step for step in plan.steps if step.wave == wave], why, ended)
        return tuple(results)

    async def _wave(self, plan: ReplayPlan, steps: list[Step], why: Why, ended: Tell) -> None:
        running: list[asyncio.Task[None]] = []
        for step in steps:
            traffic = await self._at(step.command.venue, plan.mode)
            if await self._has_room(traffic, single=len(plan.steps) == 1):
                running.append(asyncio.create_task(self._one(plan, step, why, ended)))
            else:
                self._held(plan, step, ended)
        if running:
            await asyncio.gather(*running)

    async def _at(self, venue: str, mode: Mode) -> _Traffic:
        if venue not in self._traffic:
            client = await self._desk.client(venue, mode)
            pace = Pace(self._desk.rate(venue))
            road = Road(client, pace, self._desk.settings(venue).timeout, self._desk.window(venue))
            self._traffic[venue] = _Traffic(road)
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

    def _held(self, plan: ReplayPlan, step: Step, ended: Tell) -> None:
        if self._halted:
            word, reason = "refused", "halt"
        else:
            word, reason = "skipped", "stopped" if self._stopped.is_set() else "breaker open"
        command = step.command
        detail = f"{reason}: nothing was sent"
        ended(Ended(command.entry_id, word, plan.mode, None, command.client_order_id, detail))  # type: ignore[arg-type]  # one of two words
        for one in plan.superseded:
            if one.by == command.entry_id:
                ended(Ended(one.entry_id, "skipped", plan.mode, detail=f"superseded by {one.by}, which was not sent"))

    async def _one(self, plan: ReplayPlan, step: Step, why: Why, ended: Tell) -> None:
        traffic = self._traffic[step.command.venue]
        try:
            sent = await self._sender.send(plan, step, traffic.road, why)
        except StoreError as problem:
            # Before the intent: nothing was sent. (Afterwards `send` itself waits for the store.)
            text = f"{problem}: nothing was sent"
            sent = Sent(Ended(step.command.entry_id, "skipped", plan.mode, detail=text), "bad")
        finally:
            traffic.under_way -= 1
            traffic.moved.set()
        self._learn(traffic, sent)
        ended(sent.ended)
        for one in plan.superseded:
            if one.by == step.command.entry_id:
                ended(await self._supersede(plan, one, sent.ended, why))

    def _learn(self, traffic: _Traffic, sent: Sent) -> None:
        if sent.halted:
            self._halted = True
            self.stop()
        if sent.signal == "good":
            traffic.breaker = traffic.breaker.succeeded()
        elif sent.signal == "bad":
            traffic.breaker = traffic.breaker.failed(time.monotonic())

    async def _supersede(self, plan: ReplayPlan, one: Superseded, head: Ended, why: Why) -> Ended:
        """Recorded as superseded once the command that stands for it has gone out."""
        detail = f"superseded by {one.by}"
        if head.outcome not in _SENT:
            return Ended(one.entry_id, "skipped", plan.mode, detail=f"{detail}, which was not sent")
        if plan.rehearsal:
            return Ended(one.entry_id, "superseded", plan.mode, detail=detail)
        reason = replace(why, at=self._clock(), reason="superseded", note=detail)
        try:
            result = await self._store.dismiss(Selection(((one.entry_id, one.version),)), self._actor, reason)
        except StoreError as problem:
            return Ended(one.entry_id, "skipped", plan.mode, detail=f"{detail}, not recorded: {problem}")
        word: Word = "superseded" if result.done else "skipped"
        return Ended(one.entry_id, word, plan.mode, detail=detail if result.done else "changed meanwhile")

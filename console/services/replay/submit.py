"""One entry's way to its venue: claim → look up → intent → one submit → outcome. No step is skipped or repeated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal, assert_never

from backends.records import ActContext, Actor
from backends.store import Claim, ClaimRefused, Result, Store, Unreachable
from console.clock import Clock
from console.services.replay.attempt import AttemptContext, AttemptLedger, Signal, SubmitResult, VenueLane
from console.services.replay.command import Command
from console.services.replay.lookup_verdict import LookupVerdict, judge
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.services.replay.plan import ReplayPlan, Step
from venues import Accepted, Learner, Lookup, NotSent, Outcome, Prepared, RateLimited, Refused, Rejected, Unknown

_SLOW_DOWN_SECONDS = 1.0
_PATIENCE_SECONDS = 10.0
_AGAIN_SECONDS = 0.25
_STOPPED = "stopped: nothing was sent"
Point = Literal[
    "begun", "claimed", "looked-up", "adopted", "cleared", "intended", "answered", "confirmed", "concluded", "given-up"
]
At = Callable[[Point], None]


class OrderSubmitter:
    """`moment` is the store's time, `clock` this machine's. `at` hears of every boundary between two steps."""

    def __init__(
        self,
        store: Store,
        actor: Actor,
        *,
        clocks: tuple[Clock, Clock],
        stopped: asyncio.Event,
        at: At = lambda _: None,
    ) -> None:
        self._store = store
        self._actor = actor
        self._clock, self._moment = clocks
        self._recorder = AttemptLedger(store, actor, self._moment)
        self._stopped = stopped
        self._at = at
        self._away_since: float | None = None

    async def send(self, plan: ReplayPlan, step: Step, lane: VenueLane, why: ActContext) -> SubmitResult:
        command = step.command
        self._at("begun")
        # Waiting for a turn is done before the claim: others see it taken only while it is worked on.
        if not await self._turn(lane):
            ended = EntryOutcome(command.entry_id, "skipped", plan.mode, None, command.client_order_id, _STOPPED)
            return SubmitResult(ended)
        claim = await self._claim(command, lane)
        if isinstance(claim, ClaimRefused):
            return _taken(plan, step, claim)
        self._at("claimed")
        context = AttemptContext(plan, step, lane, claim, why)
        if isinstance(lane.client, Learner):
            await lane.client.learn((command.action.market_id,))
        asked = self._should_ask(command, lane)
        if asked and (found := await self._asked_before(context)) is not None:
            return found
        if asked and not await self._turn(lane):
            return await self._give_up(context, "skipped", _STOPPED)
        self._at("cleared")
        return await self._intend_and_submit(context)

    async def settle_up(self) -> None:
        await self._recorder.settle_up()

    async def _claim(self, command: Command, lane: VenueLane) -> Claim | ClaimRefused:
        """A store that is away for a moment holds the batch; once it was away too long, nobody waits for it again."""
        while True:
            try:
                claim = await self._store.claim(command.entry_id, command.version, self._actor, lane.lease)
            except Unreachable:
                self._away_since = self._away_since or time.monotonic()
                if self._stopped.is_set() or time.monotonic() - self._away_since > _PATIENCE_SECONDS:
                    raise
            else:
                self._away_since = None
                return claim
            await self._wait(_AGAIN_SECONDS)

    def _should_ask(self, command: Command, lane: VenueLane) -> bool:
        known = command.own_id or not command.fresh
        return known and lane.client.profile.lookup and command.action.verb == "new"

    async def _asked_before(self, context: AttemptContext) -> SubmitResult | None:
        """Look the entry's own id up; None when the way is clear."""
        prepared = _prepare(context)
        if isinstance(prepared, Refused):
            return await self._give_up(context, "refused", f"unparsable: {prepared.why}")
        looked_up = await self._look_up(context, prepared)
        self._at("looked-up")
        if looked_up is None:
            return await self._give_up(context, "skipped", _STOPPED)
        verdict = judge(context.command.action, looked_up)
        overridden = "may-have-arrived" in context.step.overridden
        match verdict.kind:
            case "ours":
                return await self._adopt(context, prepared, verdict, Result("accepted", verdict.order_id))
            case "refused":
                result = Result("rejected", verdict.order_id, verdict.text)
                return await self._adopt(context, prepared, verdict, result)
            case "ended" | "conflict" | "unclear":
                return await self._give_up(context, "refused", f"for a person: {verdict.text}")
            case "absent":
                if overridden or not self._is_young(context):
                    return None
                text = f"may-have-arrived: not shown yet, which proves nothing for {context.lane.window:.0f} s"
                return await self._give_up(context, "refused", text)
            case "no-answer":
                return None if overridden else await self._unanswered(context, verdict)
            case _:
                assert_never(verdict.kind)

    async def _look_up(self, context: AttemptContext, prepared: Prepared) -> Lookup | None:
        """The venue's answer; None when the batch was stopped first. Nothing is lost with a look-up."""
        asking = asyncio.ensure_future(context.lane.client.lookup(prepared))
        stopping = asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait((asking, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if asking.done():
            return asking.result()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return None

    def _is_young(self, context: AttemptContext) -> bool:
        """Could the engine's own send still be on its way? By whichever clock makes the entry younger."""
        captured = context.command.captured_at
        if not context.command.may_have_arrived:
            return False
        now = min(self._clock(), self._moment())
        return captured is None or (now - captured).total_seconds() < context.lane.window

    async def _unanswered(self, context: AttemptContext, verdict: LookupVerdict) -> SubmitResult:
        signal: Signal = "none" if verdict.retry_after else "bad"
        context.lane.pace.hold(verdict.retry_after or 0.0)
        text = f"look-up failed: {verdict.text}; nothing was sent"
        if context.command.may_have_arrived:
            return await self._give_up(context, "refused", f"may-have-arrived: {text}", signal)
        return await self._give_up(context, "not_sent", text, signal)

    async def _adopt(
        self, context: AttemptContext, prepared: Prepared, verdict: LookupVerdict, result: Result
    ) -> SubmitResult:
        """The venue has it already: recorded as an attempt, nothing is sent."""
        attempt = await self._recorder.intend(context, prepared, "found at the venue, not sent")
        if isinstance(attempt, ClaimRefused):
            return _taken(context.plan, context.step, attempt)
        self._at("adopted")
        evidence = f"looked up before sending: {verdict.text}"
        adopted = Result(result.outcome, result.venue_order_id, result.error, evidence)
        return await self._conclude(context, adopted, "good", f"{verdict.text}; nothing was sent")

    async def _intend_and_submit(self, context: AttemptContext) -> SubmitResult:
        prepared = _prepare(context)  # anew: a signature made before the wait may have run out
        if isinstance(prepared, Refused):
            return await self._give_up(context, "refused", f"unparsable: {prepared.why}")
        detail = f"to {context.lane.client.host}, plan {context.plan.hash}"
        attempt = await self._recorder.intend(context, prepared, detail)
        if isinstance(attempt, ClaimRefused):
            return _taken(context.plan, context.step, attempt)
        self._at("intended")
        if context.too_late:
            return await self._outcome(context, NotSent("the claim was about to run out: nothing was sent"))
        outcome = await self._submit(context.lane, prepared)
        self._at("answered")
        if isinstance(outcome, Unknown) and outcome.arrived and context.command.action.verb == "new":
            outcome = await self._arrived(context, prepared, outcome)
            self._at("confirmed")
        return await self._outcome(context, outcome)

    async def _submit(self, lane: VenueLane, prepared: Prepared) -> Outcome:
        sends: dict[str, Callable[[Prepared], Awaitable[Outcome]]] = {
            "new": lane.client.submit,
            "replace": lane.client.replace,
            "cancel": lane.client.cancel,
        }
        sending = asyncio.ensure_future(sends[prepared.verb](prepared))
        try:
            return await asyncio.wait_for(asyncio.shield(sending), lane.timeout + 2)
        except TimeoutError:
            sending.cancel()
            return Unknown(f"no answer in {lane.timeout:g} s")

    async def _arrived(self, context: AttemptContext, prepared: Prepared, outcome: Unknown) -> Outcome:
        """ "Duplicate id" is evidence of arrival: look it up, compare, adopt."""
        if not await self._turn(context.lane):
            return outcome
        looked_up = await self._look_up(context, prepared)
        if looked_up is None:
            return outcome
        verdict = judge(context.command.action, looked_up)
        match verdict.kind:
            case "ours":
                return Accepted(verdict.order_id or "")
            case "refused":
                return Rejected("refused", verdict.text)
            case "conflict":
                return Unknown(f"{verdict.text}; {outcome.why}")
            case _:
                return Unknown(f"{outcome.why}; {verdict.text}")

    async def _outcome(self, context: AttemptContext, outcome: Outcome) -> SubmitResult:
        match outcome:
            case Accepted(venue_order_id, status):
                return await self._conclude(context, Result("accepted", venue_order_id, evidence=status), "good")
            case Rejected(code, text):
                error = f"{code}: {text}" if code else text
                return await self._conclude(context, Result("rejected", error=error, evidence=error), "good")
            case RateLimited(retry_after):
                context.lane.pace.hold(retry_after or _SLOW_DOWN_SECONDS)
                told = f"HTTP 429, retry after {retry_after:g} s" if retry_after else "HTTP 429"
                return await self._conclude(context, Result("not_sent", error=told, evidence=told), "good")
            case NotSent(reason):
                return await self._conclude(context, Result("not_sent", error=reason, evidence=reason), "bad")
            case Unknown(reason):
                return await self._conclude(context, Result("unknown", error=reason, evidence=reason), "bad")
            case _:
                assert_never(outcome)

    async def _conclude(
        self, context: AttemptContext, result: Result, signal: Signal, detail: str | None = None
    ) -> SubmitResult:
        sent = await self._recorder.conclude(context, result, signal, detail)
        self._at("concluded")
        return sent

    async def _turn(self, lane: VenueLane) -> bool:
        """Wait for this request's turn; False when the batch was stopped meanwhile."""
        wait = lane.pace.book()
        return await self._wait(wait) if wait > 0 else not self._stopped.is_set()

    async def _wait(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stopped.wait(), seconds)
        except TimeoutError:
            return True
        return False

    async def _give_up(
        self, context: AttemptContext, word: OutcomeKind, text: str, signal: Signal = "none"
    ) -> SubmitResult:
        """Nothing was sent: the claim is given back."""
        await self._recorder.release(context)
        self._at("given-up")
        return SubmitResult(context.ended(word, None, text), signal)


def _prepare(context: AttemptContext) -> Prepared | Refused:
    command = context.command
    return context.lane.client.prepare(command.action, command.client_order_id)


def _taken(plan: ReplayPlan, step: Step, taken: ClaimRefused) -> SubmitResult:
    word: OutcomeKind = "refused" if taken.code in ("halt", "in-doubt", "claimed") else "skipped"
    detail = taken.why if taken.code in ("settled", "changed", "gone") else f"{taken.code}: {taken.why}"
    ended = EntryOutcome(taken.entry_id, word, plan.mode, client_order_id=step.command.client_order_id, detail=detail)
    return SubmitResult(ended, halted=taken.code == "halt")

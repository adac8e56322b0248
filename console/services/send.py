"""One entry's way to its venue: claim → look up → intent → one submit → outcome. No step is skipped or repeated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal, assert_never

from backends.records import Actor, Why
from backends.store import Claim, Result, Store, Taken, Unreachable
from console.clock import Clock
from console.services.command import Command
from console.services.journey import Journey, Road, Sent, Signal
from console.services.outcome import Ended, Word
from console.services.plan import ReplayPlan, Step
from console.services.record import Recorder
from console.services.verdict import Verdict, judge
from venues import Accepted, Learner, Lookup, NotSent, Outcome, Prepared, RateLimited, Refused, Rejected, Unknown

_SLOW_DOWN_SECONDS = 1.0
_PATIENCE_SECONDS = 10.0
_AGAIN_SECONDS = 0.25
_STOPPED = "stopped: nothing was sent"
Point = Literal[
    "begun", "claimed", "looked-up", "adopted", "cleared", "intended", "answered", "confirmed", "concluded", "given-up"
]
At = Callable[[Point], None]


class Sender:
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
        self._recorder = Recorder(store, actor, self._moment)
        self._stopped = stopped
        self._at = at
        self._away_since: float | None = None

    async def send(self, plan: ReplayPlan, step: Step, road: Road, why: Why) -> Sent:
        command = step.command
        self._at("begun")
        # Waiting for a turn is done before the claim: others see it taken only while it is worked on.
        if not await self._turn(road):
            ended = Ended(command.entry_id, "skipped", plan.mode, None, command.client_order_id, _STOPPED)
            return Sent(ended)
        claim = await self._claim(command, road)
        if isinstance(claim, Taken):
            return _taken(plan, step, claim)
        self._at("claimed")
        journey = Journey(plan, step, road, claim, why)
        if isinstance(road.client, Learner):
            await road.client.learn((command.action.market_id,))
        asked = self._should_ask(command, road)
        if asked and (found := await self._asked_before(journey)) is not None:
            return found
        if asked and not await self._turn(road):
            return await self._give_up(journey, "skipped", _STOPPED)
        self._at("cleared")
        return await self._intend_and_submit(journey)

    async def settle_up(self) -> None:
        await self._recorder.settle_up()

    async def _claim(self, command: Command, road: Road) -> Claim | Taken:
        """A store that is away for a moment holds the batch; once it was away too long, nobody waits for it again."""
        while True:
            try:
                claim = await self._store.claim(command.entry_id, command.version, self._actor, road.lease)
            except Unreachable:
                self._away_since = self._away_since or time.monotonic()
                if self._stopped.is_set() or time.monotonic() - self._away_since > _PATIENCE_SECONDS:
                    raise
            else:
                self._away_since = None
                return claim
            await self._wait(_AGAIN_SECONDS)

    def _should_ask(self, command: Command, road: Road) -> bool:
        known = command.own_id or not command.fresh
        return known and road.client.profile.lookup and command.action.verb == "new"

    async def _asked_before(self, journey: Journey) -> Sent | None:
        """Look the entry's own id up; None when the way is clear."""
        prepared = _prepare(journey)
        if isinstance(prepared, Refused):
            return await self._give_up(journey, "refused", f"unparsable: {prepared.why}")
        looked_up = await self._look_up(journey, prepared)
        self._at("looked-up")
        if looked_up is None:
            return await self._give_up(journey, "skipped", _STOPPED)
        verdict = judge(journey.command.action, looked_up)
        overridden = "may-have-arrived" in journey.step.overridden
        match verdict.kind:
            case "ours":
                return await self._adopt(journey, prepared, verdict, Result("accepted", verdict.order_id))
            case "refused":
                result = Result("rejected", verdict.order_id, verdict.text)
                return await self._adopt(journey, prepared, verdict, result)
            case "ended" | "conflict" | "unclear":
                return await self._give_up(journey, "refused", f"for a person: {verdict.text}")
            case "absent":
                if overridden or not self._is_young(journey):
                    return None
                text = f"may-have-arrived: not shown yet, which proves nothing for {journey.road.window:.0f} s"
                return await self._give_up(journey, "refused", text)
            case "no-answer":
                return None if overridden else await self._unanswered(journey, verdict)
            case _:
                assert_never(verdict.kind)

    async def _look_up(self, journey: Journey, prepared: Prepared) -> Lookup | None:
        """The venue's answer; None when the batch was stopped first. Nothing is lost with a look-up."""
        asking = asyncio.ensure_future(journey.road.client.lookup(prepared))
        stopping = asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait((asking, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if asking.done():
            return asking.result()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        return None

    def _is_young(self, journey: Journey) -> bool:
        """Could the engine's own send still be on its way? By whichever clock makes the entry younger."""
        captured = journey.command.captured_at
        if not journey.command.may_have_arrived:
            return False
        now = min(self._clock(), self._moment())
        return captured is None or (now - captured).total_seconds() < journey.road.window

    async def _unanswered(self, journey: Journey, verdict: Verdict) -> Sent:
        signal: Signal = "none" if verdict.retry_after else "bad"
        journey.road.pace.hold(verdict.retry_after or 0.0)
        text = f"look-up failed: {verdict.text}; nothing was sent"
        if journey.command.may_have_arrived:
            return await self._give_up(journey, "refused", f"may-have-arrived: {text}", signal)
        return await self._give_up(journey, "not_sent", text, signal)

    async def _adopt(self, journey: Journey, prepared: Prepared, verdict: Verdict, result: Result) -> Sent:
        """The venue has it already: recorded as an attempt, nothing is sent."""
        attempt = await self._recorder.intend(journey, prepared, "found at the venue, not sent")
        if isinstance(attempt, Taken):
            return _taken(journey.plan, journey.step, attempt)
        self._at("adopted")
        evidence = f"looked up before sending: {verdict.text}"
        adopted = Result(result.outcome, result.venue_order_id, result.error, evidence)
        return await self._conclude(journey, adopted, "good", f"{verdict.text}; nothing was sent")

    async def _intend_and_submit(self, journey: Journey) -> Sent:
        prepared = _prepare(journey)  # anew: a signature made before the wait may have run out
        if isinstance(prepared, Refused):
            return await self._give_up(journey, "refused", f"unparsable: {prepared.why}")
        detail = f"to {journey.road.client.host}, plan {journey.plan.hash}"
        attempt = await self._recorder.intend(journey, prepared, detail)
        if isinstance(attempt, Taken):
            return _taken(journey.plan, journey.step, attempt)
        self._at("intended")
        if journey.too_late:
            return await self._outcome(journey, NotSent("the claim was about to run out: nothing was sent"))
        outcome = await self._submit(journey.road, prepared)
        self._at("answered")
        if isinstance(outcome, Unknown) and outcome.arrived and journey.command.action.verb == "new":
            outcome = await self._arrived(journey, prepared, outcome)
            self._at("confirmed")
        return await self._outcome(journey, outcome)

    async def _submit(self, road: Road, prepared: Prepared) -> Outcome:
        sends: dict[str, Callable[[Prepared], Awaitable[Outcome]]] = {
            "new": road.client.submit,
            "replace": road.client.replace,
            "cancel": road.client.cancel,
        }
        sending = asyncio.ensure_future(sends[prepared.verb](prepared))
        try:
            return await asyncio.wait_for(asyncio.shield(sending), road.timeout + 2)
        except TimeoutError:
            sending.cancel()
            return Unknown(f"no answer in {road.timeout:g} s")

    async def _arrived(self, journey: Journey, prepared: Prepared, outcome: Unknown) -> Outcome:
        """ "Duplicate id" is evidence of arrival: look it up, compare, adopt."""
        if not await self._turn(journey.road):
            return outcome
        looked_up = await self._look_up(journey, prepared)
        if looked_up is None:
            return outcome
        verdict = judge(journey.command.action, looked_up)
        match verdict.kind:
            case "ours":
                return Accepted(verdict.order_id or "")
            case "refused":
                return Rejected("refused", verdict.text)
            case "conflict":
                return Unknown(f"{verdict.text}; {outcome.why}")
            case _:
                return Unknown(f"{outcome.why}; {verdict.text}")

    async def _outcome(self, journey: Journey, outcome: Outcome) -> Sent:
        match outcome:
            case Accepted(venue_order_id, status):
                return await self._conclude(journey, Result("accepted", venue_order_id, evidence=status), "good")
            case Rejected(code, text):
                error = f"{code}: {text}" if code else text
                return await self._conclude(journey, Result("rejected", error=error, evidence=error), "good")
            case RateLimited(retry_after):
                journey.road.pace.hold(retry_after or _SLOW_DOWN_SECONDS)
                told = f"HTTP 429, retry after {retry_after:g} s" if retry_after else "HTTP 429"
                return await self._conclude(journey, Result("not_sent", error=told, evidence=told), "good")
            case NotSent(reason):
                return await self._conclude(journey, Result("not_sent", error=reason, evidence=reason), "bad")
            case Unknown(reason):
                return await self._conclude(journey, Result("unknown", error=reason, evidence=reason), "bad")
            case _:
                assert_never(outcome)

    async def _conclude(self, journey: Journey, result: Result, signal: Signal, detail: str | None = None) -> Sent:
        sent = await self._recorder.conclude(journey, result, signal, detail)
        self._at("concluded")
        return sent

    async def _turn(self, road: Road) -> bool:
        """Wait for this request's turn; False when the batch was stopped meanwhile."""
        wait = road.pace.book()
        return await self._wait(wait) if wait > 0 else not self._stopped.is_set()

    async def _wait(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stopped.wait(), seconds)
        except TimeoutError:
            return True
        return False

    async def _give_up(self, journey: Journey, word: Word, text: str, signal: Signal = "none") -> Sent:
        """Nothing was sent: the claim is given back."""
        await self._recorder.release(journey)
        self._at("given-up")
        return Sent(journey.ended(word, None, text), signal)


def _prepare(journey: Journey) -> Prepared | Refused:
    command = journey.command
    return journey.road.client.prepare(command.action, command.client_order_id)


def _taken(plan: ReplayPlan, step: Step, taken: Taken) -> Sent:
    word: Word = "refused" if taken.code in ("halt", "in-doubt", "claimed") else "skipped"
    detail = taken.why if taken.code in ("settled", "changed", "gone") else f"{taken.code}: {taken.why}"
    ended = Ended(taken.entry_id, word, plan.mode, client_order_id=step.command.client_order_id, detail=detail)
    return Sent(ended, halted=taken.code == "halt")

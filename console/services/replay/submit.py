"""Sends one order to its venue: claim → look up → intent → one submit → outcome. Skips and repeats no step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, assert_never

from backends.records import Attempt
from backends.store import ClaimRefused, Intent, Result
from console.clock import Clock
from console.services.replay import payload
from console.services.replay.attempt import TOO_LATE, AttemptLedger, HeldClaim, Lease, refused
from console.services.replay.command import Command
from console.services.replay.flow_control import Pace, unless_stopped, wait_unless_stopped
from console.services.replay.lookup_verdict import LookupVerdict, judge
from console.services.replay.outcome import EntryOutcome, OutcomeKind, not_begun
from console.services.replay.plan import ReplayPlan, Step
from venues import (
    Accepted,
    Learner,
    Lookup,
    NotSent,
    Outcome,
    Prepared,
    RateLimited,
    Refused,
    Rejected,
    Unknown,
    VenueClient,
)

LEASE_SECONDS = 60.0
_SLOW_DOWN_SECONDS = 1.0
_SEND_SLACK_SECONDS = 2.0
_STOPPED = "stopped: nothing was sent"
Signal = Literal["good", "bad", "none"]  # what an outcome says about the venue's health
Point = Literal[
    "begun", "claimed", "looked-up", "adopted", "cleared", "intended", "answered", "confirmed", "concluded", "given-up"
]
At = Callable[[Point], None]


@dataclass(frozen=True, slots=True)
class VenueLane:
    """The client, pace and time limits with which a batch reaches one venue."""

    client: VenueClient
    pace: Pace
    timeout: float
    window: float  # seconds for which "not found" proves nothing
    grace: float = LEASE_SECONDS

    @property
    def lease(self) -> Lease:
        """Covers a look-up, the wait for the next turns, a send and its confirmation."""
        return Lease(self.grace + 3 * self.timeout + 12 * self.pace.gap, self.timeout + _SEND_SLACK_SECONDS)


@dataclass(frozen=True, slots=True)
class SubmitResult:
    ended: EntryOutcome
    signal: Signal = "none"


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """A claimed entry of a plan, and how to reach its venue."""

    plan: ReplayPlan
    step: Step
    lane: VenueLane
    held: HeldClaim

    @property
    def command(self) -> Command:
        return self.step.command

    def ended(self, kind: OutcomeKind, venue_order_id: str | None = None, detail: str | None = None) -> EntryOutcome:
        command = self.command
        return EntryOutcome(command.entry_id, kind, self.plan.mode, venue_order_id, command.client_order_id, detail)


class OrderSubmitter:
    """Sends the orders of one run. `clock` is this machine's; `at` is called at every boundary between two steps."""

    def __init__(self, ledger: AttemptLedger, clock: Clock, *, stopped: asyncio.Event, at: At = lambda _: None) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stopped = stopped
        self._at = at

    async def send(self, plan: ReplayPlan, step: Step, lane: VenueLane) -> SubmitResult:
        command = step.command
        self._at("begun")
        # The turn comes before the claim: other consoles see the entry as claimed only while it is worked on.
        if not await self._turn(lane):
            return SubmitResult(not_begun(command.entry_id, "stopped", plan.mode, command.client_order_id))
        held = await self._ledger.claim(command.entry_id, command.version, lane.lease)
        if isinstance(held, ClaimRefused):
            return _refused(plan, step, held)
        self._at("claimed")
        context = AttemptContext(plan, step, lane, held)
        if isinstance(lane.client, Learner):
            await lane.client.learn((command.action.market_id,))
        asked = self._should_ask(command, lane)
        if asked and (found := await self._asked_before(context)) is not None:
            return found
        if asked and not await self._turn(lane):
            return await self._give_up(context, "skipped", _STOPPED)
        self._at("cleared")
        return await self._intend_and_submit(context)

    def _should_ask(self, command: Command, lane: VenueLane) -> bool:
        known = command.own_id or not command.fresh
        return known and lane.client.profile.lookup and command.action.verb == "new"

    async def _asked_before(self, context: AttemptContext) -> SubmitResult | None:
        """Look up the entry's own id at the venue; None when the order may be sent."""
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
        """The venue's answer; None when the batch was stopped first. A look-up can be dropped at any time."""
        return await unless_stopped(context.lane.client.lookup(prepared), self._stopped)

    def _is_young(self, context: AttemptContext) -> bool:
        """Whether the engine's own send may still be on its way, by the clock that makes the entry younger."""
        captured = context.command.captured_at
        if not context.command.may_have_arrived:
            return False
        now = min(self._clock(), self._ledger.moment())
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
        """Record the order that the venue already has as an attempt, and send nothing."""
        attempt = await self._intend(context, prepared, "found at the venue, not sent")
        if isinstance(attempt, ClaimRefused):
            return _refused(context.plan, context.step, attempt)
        self._at("adopted")
        evidence = f"looked up before sending: {verdict.text}"
        adopted = Result(result.outcome, result.venue_order_id, result.error, evidence)
        return await self._conclude(context, adopted, "good", f"{verdict.text}; nothing was sent")

    async def _intend_and_submit(self, context: AttemptContext) -> SubmitResult:
        prepared = _prepare(context)  # again: a signature made before the wait may have expired
        if isinstance(prepared, Refused):
            return await self._give_up(context, "refused", f"unparsable: {prepared.why}")
        detail = f"to {context.lane.client.host}, plan {context.plan.hash}"
        attempt = await self._intend(context, prepared, detail)
        if isinstance(attempt, ClaimRefused):
            return _refused(context.plan, context.step, attempt)
        self._at("intended")
        if context.held.too_late:
            return await self._outcome(context, NotSent(TOO_LATE))
        outcome = await self._submit(context.lane, prepared)
        self._at("answered")
        if isinstance(outcome, Unknown) and outcome.arrived and context.command.action.verb == "new":
            outcome = await self._arrived(context, prepared, outcome)
            self._at("confirmed")
        return await self._outcome(context, outcome)

    async def _intend(self, context: AttemptContext, prepared: Prepared, detail: str) -> Attempt | ClaimRefused:
        overridden = ", ".join(context.step.overridden)
        intent = Intent(
            mode=context.plan.mode,
            venue=context.command.venue,
            client_order_id=prepared.client_order_id,
            payload=payload.encode(prepared),
            payload_hash=payload.fingerprint_of(prepared),
            rehearsal=context.plan.rehearsal,
            detail=f"{detail}; overridden: {overridden}" if overridden else detail,
        )
        return await self._ledger.intend(context.held, intent)

    async def _submit(self, lane: VenueLane, prepared: Prepared) -> Outcome:
        sends: dict[str, Callable[[Prepared], Awaitable[Outcome]]] = {
            "new": lane.client.submit,
            "replace": lane.client.replace,
            "cancel": lane.client.cancel,
        }
        sending = asyncio.ensure_future(sends[prepared.verb](prepared))
        try:
            return await asyncio.wait_for(asyncio.shield(sending), lane.timeout + _SEND_SLACK_SECONDS)
        except TimeoutError:
            sending.cancel()
            return Unknown(f"no answer in {lane.timeout:g} s")

    async def _arrived(self, context: AttemptContext, prepared: Prepared, outcome: Unknown) -> Outcome:
        """Look up an order that the venue calls a duplicate: it has arrived, and may be ours."""
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
        told = context.ended(result.outcome, result.venue_order_id, detail or result.error)
        ended = await self._ledger.conclude(context.held, result, told)
        self._at("concluded")
        return SubmitResult(ended, signal)

    async def _turn(self, lane: VenueLane) -> bool:
        """Wait for this request's turn; False when the batch was stopped meanwhile."""
        return await wait_unless_stopped(lane.pace.book(), self._stopped)

    async def _give_up(
        self, context: AttemptContext, kind: OutcomeKind, text: str, signal: Signal = "none"
    ) -> SubmitResult:
        """Give the claim back; nothing was sent under it."""
        await self._ledger.release(context.held)
        self._at("given-up")
        return SubmitResult(context.ended(kind, None, text), signal)


def _prepare(context: AttemptContext) -> Prepared | Refused:
    command = context.command
    return context.lane.client.prepare(command.action, command.client_order_id)


def _refused(plan: ReplayPlan, step: Step, taken: ClaimRefused) -> SubmitResult:
    return SubmitResult(refused(taken, plan.mode, step.command.client_order_id))

"""Sends one order to its venue: claim → look up → intent → one submit → outcome. Skips and repeats no step.

Each order is judged again by the wall clock just before its intent and just after it: whatever it waited for, it goes
only while it still makes sense, and only to the account that was planned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, assert_never

from backends.records import Attempt
from backends.store import ClaimRefused, Intent, Result
from console.clock import Clock
from console.services.evidence import payload
from console.services.evidence.absence import absence_gap, earliest
from console.services.evidence.ask_first import (
    Adopt,
    Decision,
    GiveUp,
    Send,
    decide_cancel,
    decide_new,
    decide_replace,
)
from console.services.evidence.lookup_verdict import LookupVerdict, judge
from console.services.replay.attempt import TOO_LATE, AttemptLedger, HeldClaim, Lease, refused
from console.services.replay.command import Command
from console.services.replay.flow_control import Pace, Wait, Waiting, unless_stopped, wait_unless_stopped
from console.services.replay.guards import Guard, refusal
from console.services.replay.outcome import EntryOutcome, OutcomeKind, not_begun
from console.services.replay.plan import ReplayPlan, Step
from console.services.replay.sent_amounts import SendingRules
from console.services.replay.still_fit import latest_start, unfit
from console.services.replay.venue_pool import VenueAccount
from console.settings.config import Limits
from venues import (
    Absent,
    Accepted,
    Found,
    Learner,
    Lookup,
    LookupFailed,
    NotSent,
    Outcome,
    Prepared,
    RateLimited,
    Refused,
    Rejected,
    Unknown,
    VenueClient,
    VenueError,
)

LEASE_SECONDS = 60.0
MOST_WAIT_SECONDS = 300.0  # a batch waits no longer than this for one turn at a venue
_SLOW_DOWN_SECONDS = 1.0
_SEND_SLACK_SECONDS = 2.0
_SAID_SECONDS = 1.0  # a shorter wait is not worth a word
_AT_ONCE_SECONDS = 1.0  # an intent that took longer to commit is judged by the halt again
_ENDED = ("filled", "cancelled", "expired", "rejected", "replaced")
_STOPPED = "stopped: nothing was sent"
_UNSURE_AIM = "it is not known by which client order id its order was sent"
Signal = Literal["good", "bad", "none"]  # what an outcome says about the venue's health
Point = Literal[
    "begun", "claimed", "looked-up", "adopted", "cleared", "intended", "answered", "confirmed", "concluded", "given-up"
]
At = Callable[[Point], None]


@dataclass(frozen=True, slots=True)
class VenueLane:
    """The client, pace and time limits with which a batch reaches one account at one venue."""

    client: VenueClient
    pace: Pace
    timeout: float
    window: float  # seconds for which "not found" proves nothing
    at: VenueAccount
    grace: float = LEASE_SECONDS

    @property
    def lease(self) -> Lease:
        """Covers a look-up, the wait for the next turns, a send and its confirmation."""
        return Lease(self.grace + 3 * self.timeout + 12 * self.pace.gap, self.timeout + _SEND_SLACK_SECONDS)


Lanes = Callable[[VenueAccount], Awaitable[VenueLane]]  # raises VenueError


@dataclass(frozen=True, slots=True)
class SubmitResult:
    ended: EntryOutcome
    signal: Signal = "none"


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """A claimed entry of a plan, how to reach a venue, and the id to use there."""

    plan: ReplayPlan
    step: Step
    lane: VenueLane
    held: HeldClaim
    client_order_id: str

    @property
    def command(self) -> Command:
        return self.step.command

    @property
    def account(self) -> str | None:
        """The venue's own name of the account that answers."""
        return self.lane.client.account_of(self.command.action)

    def ended(self, kind: OutcomeKind, venue_order_id: str | None = None, detail: str | None = None) -> EntryOutcome:
        return EntryOutcome(
            entry_id=self.command.entry_id,
            outcome=kind,
            mode=self.plan.mode,
            venue_order_id=venue_order_id,
            client_order_id=self.client_order_id,
            detail=detail,
            account=self.account,
            notes=self.command.notes,
        )


@dataclass(frozen=True, slots=True)
class SubmitTools:
    """What a submitter works with. `clock` is this machine's wall clock; `limits` are those in force at the moment."""

    clock: Clock
    limits: Callable[[], Limits]
    lanes: Lanes
    stopped: asyncio.Event
    waiting: Waiting = lambda _, __: None
    at: At = lambda _: None  # called at every boundary between two steps
    rules: SendingRules | None = None  # None: the store has no say


class OrderSubmitter:
    """Sends the orders of one run."""

    def __init__(self, ledger: AttemptLedger, tools: SubmitTools) -> None:
        self._ledger = ledger
        self._tools = tools
        self._at = tools.at

    async def send(self, plan: ReplayPlan, step: Step, lane: VenueLane) -> SubmitResult:
        command = step.command
        self._at("begun")
        # The turn comes before the claim: other consoles see the entry as claimed only while it is worked on.
        if (late := await self._turn(lane, step)) is not None:
            return SubmitResult(_not_begun(plan, step, late))
        held = await self._ledger.claim(
            command.entry_id, command.version, lane.lease, mode=plan.mode, rehearsal=plan.rehearsal
        )
        if isinstance(held, ClaimRefused):
            return _refused(plan, step, held)
        self._at("claimed")
        context = AttemptContext(plan, step, lane, held, command.client_order_id)
        if isinstance(lane.client, Learner):
            await lane.client.learn((command.action.market_id,))
        elsewhere = await self._asked_elsewhere(context)
        if elsewhere is not None:
            return elsewhere
        if lane.client.profile.lookup:
            asked = await self._asked_before(context)
            if isinstance(asked, SubmitResult):
                return asked
            context = asked
            if (late := await self._turn(lane, step, held)) is not None:
                return await self._give_up(context, *_unsent(late))
        self._at("cleared")
        return await self._intend_and_submit(context)

    async def _asked_elsewhere(self, context: AttemptContext) -> SubmitResult | None:
        """Ask the entry's own venue first, where it is sent to another one; None when the order may be sent."""
        command = context.command
        if command.elsewhere is None or command.action.verb != "new":
            return None
        overridden = "may-have-arrived" in context.step.overridden
        try:
            lane = await self._tools.lanes(command.elsewhere)
        except VenueError as problem:
            if overridden or not command.may_stand:
                return None
            return await self._give_up(context, "refused", f"may-have-arrived: {command.own_venue}: {problem}")
        if not lane.client.profile.lookup:
            return None
        if (late := await self._turn(lane, context.step, context.held)) is not None:
            return await self._give_up(context, *_unsent(late))
        asked = await self._asked_before(replace(context, lane=lane, client_order_id=command.elsewhere_id))
        return asked if isinstance(asked, SubmitResult) else None

    async def _asked_before(self, context: AttemptContext) -> SubmitResult | AttemptContext:
        """Ask the venue what it has of this order; when the order may be sent, as what."""
        prepared = _prepare(context, aim=context.command.action.verb == "replace")
        if isinstance(prepared, Refused):
            return await self._give_up(context, "refused", _refusal_text(prepared))
        # Read the clocks before asking: an answer from within the window must not count as one from after it.
        asked_at = min(self._tools.clock(), self._ledger.moment())
        verdict = await self._look_up(context, prepared)
        self._at("looked-up")
        if verdict is None:
            return await self._give_up(context, "skipped", _STOPPED)
        context.lane.pace.hold(verdict.retry_after or 0.0)
        match self._decision(context, verdict, asked_at):
            case Send():
                return await self._aimed(context, prepared, verdict)
            case Adopt(result, text):
                return await self._adopt(context, result, text)
            case GiveUp(kind, text, venue_failed):
                return await self._give_up(context, kind, text, "bad" if venue_failed else "none")
            case decision:
                assert_never(decision)

    async def _aimed(
        self, context: AttemptContext, prepared: Prepared, verdict: LookupVerdict
    ) -> SubmitResult | AttemptContext:
        """With the order that was found in place of the client order id that it aims at."""
        if not prepared.found_by:
            return context
        if verdict.order is None:
            told = f"its order was not found by client order id {prepared.found_by}: {verdict.text}"
            text = f"{told}; nothing was sent: try again later, or cancel it at the venue"
            return await self._give_up(context, "not_sent", text)
        action = replace(context.command.action, venue_order_id=verdict.order.venue_order_id)
        return replace(context, step=replace(context.step, command=replace(context.command, action=action)))

    def _decision(self, context: AttemptContext, verdict: LookupVerdict, asked_at: datetime) -> Decision:
        command = context.command
        match command.action.verb:
            case "new":
                return decide_new(
                    verdict,
                    gap=_absence_gap(context, asked_at) if command.may_stand else None,
                    may_have_arrived=command.may_stand,
                    overridden="may-have-arrived" in context.step.overridden,
                )
            case "replace":
                return decide_replace(command.action, verdict)
            case "cancel":
                held = "another command of this order is in doubt" if context.step.order_in_doubt else None
                unsure = _UNSURE_AIM if command.aims and not command.is_aim_sure else None
                return decide_cancel(verdict, gap=held or unsure or _absence_gap(context, asked_at))
            case verb:
                assert_never(verb)

    async def _look_up(self, context: AttemptContext, prepared: Prepared) -> LookupVerdict | None:
        """The venue's answer; None when the batch was stopped first. A look-up can be dropped at any time."""
        found = await unless_stopped(context.lane.client.lookup(prepared.by_aim), self._tools.stopped)
        for aim in context.command.aims[1:] if prepared.found_by else ():
            # Its order may have another of these ids: only when none is found is it absent, and one that has ended
            # is meant only when none is open.
            if found is None or not _has_gone(found):
                break
            if (late := await self._turn(context.lane, context.step, context.held)) is not None:
                found = LookupFailed(late)
                break
            named = replace(prepared.by_aim, client_order_id=aim)
            other = await unless_stopped(context.lane.client.lookup(named), self._tools.stopped)
            if other is None or isinstance(found, Absent) or not _has_gone(other):
                found = other
        if found is None:
            return None
        return judge(prepared.action, found, not_before=earliest(context.command.captured_at))

    async def _adopt(self, context: AttemptContext, result: Result, text: str) -> SubmitResult:
        """Record the order that the venue already has as an attempt, and send nothing."""
        prepared = _prepare(context)
        if isinstance(prepared, Refused):
            return await self._give_up(context, "refused", _refusal_text(prepared))
        attempt = await self._intend(context, prepared, "found at the venue, not sent", notional=Decimal(0))
        if isinstance(attempt, ClaimRefused):
            return _refused(context.plan, context.step, attempt)
        self._at("adopted")
        return await self._conclude(context, result, "none", f"{text}; nothing was sent")

    async def _intend_and_submit(self, context: AttemptContext) -> SubmitResult:
        judged_at = self._now()
        if self._tools.rules is not None:
            await self._tools.rules.refresh()
        if (guard := self._unfit(context) or await self._over(context)) is not None:
            return await self._give_up(context, "not_sent", f"{guard.code}: {guard.text}")
        prepared = _prepare(context)  # again: a signature made before the wait may have expired
        if isinstance(prepared, Refused):
            return await self._give_up(context, "refused", _refusal_text(prepared))
        detail = f"to {context.lane.client.host}, plan {context.plan.hash}"
        attempt = await self._intend(context, prepared, detail, notional=context.step.worth.amount)
        if isinstance(attempt, ClaimRefused):
            return _refused(context.plan, context.step, attempt)
        self._at("intended")
        if context.held.too_late:
            return await self._withdraw(context, TOO_LATE)
        guard = await self._unfit_since(context, judged_at) or await self._over(context, is_intended=True)
        if guard is not None:
            return await self._withdraw(context, f"{guard.code}: {guard.text}")
        outcome = await self._submit(context.lane, prepared)
        self._at("answered")
        if isinstance(outcome, Unknown) and outcome.arrived and context.command.action.verb == "new":
            outcome = await self._arrived(context, prepared, outcome)
            self._at("confirmed")
        return await self._outcome(context, outcome)

    async def _unfit_since(self, context: AttemptContext, judged_at: datetime) -> Guard | None:
        """Judge it once more: the machine may have been suspended over the commit, and a halt set meanwhile."""
        if (guard := self._unfit(context)) is not None:
            return guard
        if (self._now() - judged_at).total_seconds() < _AT_ONCE_SECONDS:
            return None
        halt = await self._ledger.why_halted()
        return None if halt is None else Guard("halt", halt)

    async def _over(self, context: AttemptContext, *, is_intended: bool = False) -> Guard | None:
        rules = self._tools.rules
        if rules is None or context.command.action.verb == "cancel":
            return None
        over = await rules.over(context.plan, context.step, self._now(), is_intended=is_intended)
        return None if over is None else Guard("four-eyes", over)

    def _unfit(self, context: AttemptContext) -> Guard | None:
        return unfit(
            context.step,
            self._now(),
            limits=self._tools.limits,
            account=context.account,
            key_digest=context.lane.client.key_digest,
        )

    async def _intend(
        self, context: AttemptContext, prepared: Prepared, detail: str, *, notional: Decimal | None
    ) -> Attempt | ClaimRefused:
        overridden = ", ".join(context.step.overridden)
        intent = Intent(
            mode=context.plan.mode,
            venue=context.lane.at.venue,
            client_order_id=prepared.client_order_id,
            payload=payload.encode(prepared),
            payload_hash=payload.fingerprint_of(prepared),
            rehearsal=context.plan.rehearsal,
            detail=f"{detail}; overridden: {overridden}" if overridden else detail,
            account=context.account,
            key_digest=context.lane.client.key_digest,
            policy=self._tools.rules.digest if self._tools.rules is not None else None,
            notional=notional,
            currency=context.step.worth.currency,
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
        if await self._turn(context.lane, None) is not None:
            return outcome
        verdict = await self._look_up(context, prepared)
        if verdict is None:
            return outcome
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

    async def _withdraw(self, context: AttemptContext, why: str) -> SubmitResult:
        """Record that nothing was sent under the intent; that says nothing of the venue."""
        return await self._conclude(context, Result("not_sent", error=why, evidence=why), "none")

    async def _conclude(
        self, context: AttemptContext, result: Result, signal: Signal, detail: str | None = None
    ) -> SubmitResult:
        told = context.ended(result.outcome, result.venue_order_id, detail or result.error)
        ended = await self._ledger.conclude(context.held, result, told)
        self._at("concluded")
        return SubmitResult(ended, signal)

    def _now(self) -> datetime:
        return self._ledger.latest(self._tools.clock())

    async def _turn(self, lane: VenueLane, step: Step | None, held: HeldClaim | None = None) -> str | None:
        """Wait for this request's turn; why it may not go, None when it may.

        Never waits past the order's time, nor longer than a claim that is held lasts.
        """
        while True:
            holds, wait = lane.pace.holds, lane.pace.wait()
            if (late := self._too_long(lane, step, wait, held)) is not None:
                return late
            lane.pace.book()
            if not await self._waited(lane, wait):
                return _STOPPED
            if lane.pace.holds == holds:  # else the venue asked to slow down meanwhile: the turn is no longer good
                return None

    def _too_long(self, lane: VenueLane, step: Step | None, wait: float, held: HeldClaim | None) -> str | None:
        waiting = f"{lane.at.label} makes it wait {wait:.0f} s ({lane.pace.why})"
        if wait > MOST_WAIT_SECONDS or (wait and held is not None and not held.lasts(wait)):
            return f"not-ready: {waiting}: nothing was sent"
        ends = latest_start(step, self._tools.limits) if step is not None else None
        if ends is None or self._now() + timedelta(seconds=wait) <= ends:
            return None
        return f"stale: {waiting}, and its time is over by then: nothing was sent"

    async def _waited(self, lane: VenueLane, wait: float) -> bool:
        if wait < _SAID_SECONDS:
            return await wait_unless_stopped(wait, self._tools.stopped)
        self._tools.waiting(lane.at.label, Wait(wait, lane.pace.why))
        try:
            return await wait_unless_stopped(wait, self._tools.stopped)
        finally:
            self._tools.waiting(lane.at.label, None)

    async def _give_up(
        self, context: AttemptContext, kind: OutcomeKind, text: str, signal: Signal = "none"
    ) -> SubmitResult:
        """Give the claim back; nothing was sent under it."""
        await self._ledger.release(context.held)
        self._at("given-up")
        return SubmitResult(context.ended(kind, None, text), signal)


def _prepare(context: AttemptContext, *, aim: bool = False) -> Prepared | Refused:
    """The request to send; with `aim` the cancel of the order that a replace aims at, by which it is looked up."""
    action = context.command.asked_by()
    return context.lane.client.prepare(replace(action, verb="cancel") if aim else action, context.client_order_id)


def _has_gone(found: Lookup) -> bool:
    return isinstance(found, Absent) or (isinstance(found, Found) and found.order.status in _ENDED)


def _absence_gap(context: AttemptContext, asked_at: datetime) -> str | None:
    """Why "not found" proves nothing yet, by the clock that makes the entry younger."""
    lane = context.lane
    return absence_gap(context.command.sent_at, asked_at, window=lane.window, reach=lane.client.profile.reach)


def _refusal_text(why: Refused) -> str:
    guard = refusal(why)
    return f"{guard.code}: {guard.text}"


def _unsent(late: str) -> tuple[OutcomeKind, str]:
    return ("skipped" if late == _STOPPED else "not_sent"), late


def _not_begun(plan: ReplayPlan, step: Step, late: str) -> EntryOutcome:
    command = step.command
    if late == _STOPPED:
        return not_begun(command.entry_id, "stopped", plan.mode, command.client_order_id)
    return EntryOutcome(command.entry_id, "not_sent", plan.mode, None, command.client_order_id, late)


def _refused(plan: ReplayPlan, step: Step, taken: ClaimRefused) -> SubmitResult:
    return SubmitResult(refused(taken, plan.mode, step.command.client_order_id))

"""What of an entry's way reaches the ledger: its intent, its outcome, the claim given back. Sends nothing.

What cannot be recorded is left as it stands there: in flight, for reconcile to settle.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

from backends.records import ActContext, Actor, Attempt
from backends.store import Claim, ClaimRefused, Intent, Result, Store, StoreError
from console.clock import Clock
from console.services.replay import payload
from console.services.replay.command import Command
from console.services.replay.flow_control import Pace
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.services.replay.plan import ReplayPlan, Step
from venues import Prepared, VenueClient

LEASE_SECONDS = 60.0
Signal = Literal["good", "bad", "none"]  # what an ending says of the venue


@dataclass(frozen=True, slots=True)
class VenueLane:
    """How one venue is reached in this batch."""

    client: VenueClient
    pace: Pace
    timeout: float
    window: float  # seconds for which "not found" proves nothing
    grace: float = LEASE_SECONDS

    @property
    def lease(self) -> float:
        """Long enough for a look-up, a wait for the next turns, a send and its confirmation."""
        return self.grace + 3 * self.timeout + 12 * self.pace.gap

    @property
    def last_call(self) -> float:
        """Seconds after the claim by which a send must have begun, so that it is over before the lease is."""
        return self.lease - self.timeout - 2


@dataclass(frozen=True, slots=True)
class SubmitResult:
    ended: EntryOutcome
    signal: Signal = "none"
    halted: bool = False


@dataclass(frozen=True, slots=True)
class AttemptContext:
    plan: ReplayPlan
    step: Step
    lane: VenueLane
    claim: Claim
    why: ActContext
    since: float = field(default_factory=time.monotonic)

    @property
    def command(self) -> Command:
        return self.step.command

    @property
    def too_late(self) -> bool:
        """Another console may soon take the claim for abandoned: nothing may be sent under it any more."""
        return time.monotonic() - self.since > self.lane.last_call

    def ended(self, word: OutcomeKind, venue_order_id: str | None = None, detail: str | None = None) -> EntryOutcome:
        command = self.command
        return EntryOutcome(command.entry_id, word, self.plan.mode, venue_order_id, command.client_order_id, detail)


_RECORD_TRIES = 20
_RECORD_SECONDS = 0.5


class AttemptLedger:
    def __init__(self, store: Store, actor: Actor, moment: Clock) -> None:
        self._store = store
        self._actor = actor
        self._moment = moment
        self._owed: list[
            tuple[AttemptContext, ActContext | None]
        ] = []  # claims, and where its moment is named an intent, to undo

    async def intend(self, context: AttemptContext, prepared: Prepared, detail: str) -> Attempt | ClaimRefused:
        """Committed when it returns; where it does not, nothing may be sent and the claim is free again."""
        why = self._now(context.why)
        intent = self._intent(context, prepared, detail)
        try:
            attempt = await self._store.intend(context.claim, intent, self._actor, why)
        except StoreError:
            await self._withdraw(context, why)
            raise
        if isinstance(attempt, ClaimRefused):
            await self.release(context)
        return attempt

    async def _withdraw(self, context: AttemptContext, why: ActContext) -> None:
        """The intent's commit is in doubt, but it is certain that nothing was sent."""
        try:
            attempts = await self._store.attempts(context.command.entry_id)
            if any(one.outcome is None and one.started_at == why.at.isoformat() for one in attempts):
                text = "the intent's commit was in doubt: nothing was sent"
                result = Result("not_sent", error=text, evidence=text)
                await self._store.conclude(context.claim, result, self._actor, self._now(context.why))
            await self._store.release(context.claim)
        except StoreError:
            self._owed.append((context, why))

    async def conclude(
        self, context: AttemptContext, result: Result, signal: Signal, detail: str | None = None
    ) -> SubmitResult:
        """The outcome must reach the ledger: a store that is away for a moment is waited for."""
        ended = context.ended(result.outcome, result.venue_order_id, detail or result.error)
        for remaining in reversed(range(_RECORD_TRIES)):
            try:
                mine = await self._store.conclude(context.claim, result, self._actor, self._now(context.why))
                return SubmitResult(ended if mine else await self._settled_elsewhere(context, ended), signal)
            except StoreError as problem:
                if not remaining:
                    order = f" {result.venue_order_id}" if result.venue_order_id else ""
                    text = f"the venue said {result.outcome}{order} but it could not be recorded: {problem}"
                    return SubmitResult(context.ended("unknown", result.venue_order_id, text), signal)
                await asyncio.sleep(_RECORD_SECONDS)
        raise AssertionError("the last try returns")

    async def _settled_elsewhere(self, context: AttemptContext, ended: EntryOutcome) -> EntryOutcome:
        """Somebody reconciled this attempt while we waited: theirs is the record, ours is in the audit."""
        attempts = await self._store.attempts(context.command.entry_id)
        last = next((one for one in reversed(attempts) if one.outcome), None)
        word = _word(last.outcome) if last else None
        if last is None or word is None:
            return replace(ended, outcome="unknown", detail="settled elsewhere meanwhile: look again")
        if (word, last.venue_order_id) == (ended.outcome, ended.venue_order_id):
            return ended  # our own commit, whose answer was lost
        return replace(ended, outcome=word, venue_order_id=last.venue_order_id, detail="reconciled elsewhere meanwhile")

    async def release(self, context: AttemptContext) -> None:
        try:
            await self._store.release(context.claim)
        except StoreError:
            self._owed.append((context, None))

    async def settle_up(self) -> None:
        """What could not be given back while the store was away; what cannot even now, runs out by itself."""
        for remaining in reversed(range(_RECORD_TRIES)):
            owed, self._owed = self._owed, []
            for context, why in owed:
                await (self.release(context) if why is None else self._withdraw(context, why))
            if not self._owed or not remaining:
                return
            await asyncio.sleep(_RECORD_SECONDS)

    def _intent(self, context: AttemptContext, prepared: Prepared, detail: str) -> Intent:
        overridden = ", ".join(context.step.overridden)
        return Intent(
            mode=context.plan.mode,
            venue=context.command.venue,
            client_order_id=prepared.client_order_id,
            payload=payload.encode(prepared),
            payload_hash=payload.fingerprint_of(prepared),
            rehearsal=context.plan.rehearsal,
            detail=f"{detail}; overridden: {overridden}" if overridden else detail,
        )

    def _now(self, why: ActContext) -> ActContext:
        return replace(why, at=self._moment())


def _word(outcome: str | None) -> OutcomeKind | None:
    match outcome:
        case "accepted" | "rejected" | "unknown" | "not_sent":
            return outcome
        case _:
            return None


_LOOKS = 3  # the first may open a connection, or meet a busy machine: the quickest answer is the truest


async def anchored(store: Store) -> Clock:
    quickest, since, start = float("inf"), 0.0, None
    for _ in range(_LOOKS):
        before = time.monotonic()
        told = await store.clock()
        took = time.monotonic() - before
        if start is None or took < quickest:
            quickest, since, start = took, before, told
    assert start is not None
    anchor = start
    # Counted from before the look: never earlier than the store's own time, and later by less than the look took.
    return lambda: anchor + timedelta(seconds=time.monotonic() - since)

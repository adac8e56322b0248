"""What one entry carries on its way to a venue: the road there, its step of the plan, the claim, and how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from backends.records import ActContext
from backends.store import Claim
from console.services.replay.command import Command
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.services.replay.pace import Pace
from console.services.replay.plan import ReplayPlan, Step
from venues import VenueClient

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

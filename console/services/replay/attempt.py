"""The lifecycle of an attempt to send an entry: claim → look up → intent → one send → outcome.

`AttemptLedger` alone calls the store's claim, intend, conclude and release. The senders of orders, provider calls, hub
retries and engine replays prepare the intent, send once and decide what the answer means. An outcome that cannot be
recorded leaves its attempt in flight, and reconcile settles it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from backends.records import ActContext, Actor, Attempt, Version
from backends.store import Claim, ClaimRefused, Intent, Result, Store, StoreError, Unreachable
from console.clock import Clock
from console.services.replay.flow_control import wait_unless_stopped
from console.services.replay.outcome import EntryOutcome, OutcomeKind

TOO_LATE = "the claim was about to run out: nothing was sent"
_WITHDRAWN = "the intent's commit was in doubt: nothing was sent"
_PATIENCE_SECONDS = 10.0  # how long claims wait for a store that does not answer
_AGAIN_SECONDS = 0.25
_RECORD_TRIES = 20
_RECORD_SECONDS = 0.5  # between two tries to record an outcome
_CLOCK_READS, _CLOCK_SECONDS = 3, 0.25  # at least so many, then for so long
_QUICK_READ = 0.005  # seconds; a moment that is ahead of the store's by less is as good as it
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lease:
    """How long a claim lasts, and how much of that one send may take."""

    seconds: float
    sending: float


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim of this process. A send that begins after `last_call` could outlast the lease."""

    claim: Claim
    last_call: float  # by time.monotonic()

    @property
    def entry_id(self) -> str:
        return self.claim.entry_id

    def lasts(self, seconds: float) -> bool:
        """Whether a send could still begin after a wait of so many seconds."""
        return time.monotonic() + seconds <= self.last_call

    @property
    def too_late(self) -> bool:
        """Another console may soon take the entry over: nothing may be sent under this claim any more."""
        return time.monotonic() > self.last_call


class AttemptLedger:
    """Records the attempts of one run under one operation id, by the store's clock.

    `stopped` ends the waiting for a store that is away. `record_tries` bounds how often an outcome is recorded again.
    `intended` is called when an intent is committed, before anything is sent.
    """

    def __init__(
        self,
        store: Store,
        actor: Actor,
        *,
        reason: str = "replay",
        note: str | None = None,
        stopped: asyncio.Event | None = None,
        record_tries: int | None = None,
        intended: Callable[[], None] = lambda: None,
    ) -> None:
        self.halted = False  # the store refused a claim or an intent because a halt is set
        self._store = store
        self._actor = actor
        self._act = uuid.uuid4().hex, reason, note
        self._stopped = stopped or asyncio.Event()
        self._record_tries = record_tries
        self._intended = intended
        self._moment: Clock | None = None
        self._away_since: float | None = None
        self._owed: list[tuple[HeldClaim, str | None]] = []  # claims to give back; started_at of an intent to withdraw

    @property
    def moment(self) -> Clock:
        """The store's time. Known from the first claim on."""
        assert self._moment is not None, "the first claim reads the store's clock"
        return self._moment

    def latest(self, here: datetime) -> datetime:
        """The later of this machine's wall clock and the store's: no suspended machine makes an order younger."""
        return here if self._moment is None else max(here, self._moment())

    def now(self) -> ActContext:
        """The audit context of this run, at this moment."""
        operation, reason, note = self._act
        return ActContext(at=self.moment(), operation=operation, reason=reason, note=note)

    async def claim(
        self, entry_id: str, version: Version, lease: Lease, *, mode: str = "live", rehearsal: bool = False
    ) -> HeldClaim | ClaimRefused:
        """Claim an entry. A store that is away is waited for; once it was away too long, later claims raise at once."""
        while True:
            try:
                if self._moment is None:
                    moment = await anchored(self._store)
                    self._moment = self._moment or moment  # another task may have read it meanwhile
                since = time.monotonic()
                claim = await self._store.claim(
                    entry_id, version, self._actor, lease.seconds, mode=mode, rehearsal=rehearsal
                )
            except Unreachable:
                self._away_since = self._away_since or time.monotonic()
                if self._stopped.is_set() or time.monotonic() - self._away_since > _PATIENCE_SECONDS:
                    raise
            else:
                self._away_since = None
                if isinstance(claim, ClaimRefused):
                    self.halted = self.halted or claim.code == "halt"
                    return claim
                return HeldClaim(claim, since + lease.seconds - lease.sending)
            await wait_unless_stopped(_AGAIN_SECONDS, self._stopped)

    async def intend(self, held: HeldClaim, intent: Intent) -> Attempt | ClaimRefused:
        """Commit the intent. When this refuses or raises, nothing may be sent and the claim is given back."""
        why = self.now()
        try:
            attempt = await self._store.intend(held.claim, intent, self._actor, why)
        except StoreError:
            await self._withdraw(held, why.at.isoformat())
            raise
        if isinstance(attempt, ClaimRefused):
            self.halted = self.halted or attempt.code == "halt"
            await self.release(held)
        else:
            self._intended()
        return attempt

    async def why_halted(self) -> str | None:
        """Who set the halt that is in force now, and why; None without one. A store that is away is no all-clear."""
        try:
            halt = await self._store.halted()
        except StoreError as problem:
            return f"whether one is set cannot be read: {problem}"
        self.halted = self.halted or halt is not None
        return None if halt is None else halt.text

    async def begin(
        self,
        entry_id: str,
        version: Version,
        lease: Lease,
        prepare: Callable[[], Awaitable[tuple[Intent, T] | EntryOutcome]],
    ) -> tuple[HeldClaim, T] | EntryOutcome:
        """Claim an entry, prepare what to send and commit its intent.

        Returns the claim and what `prepare` made, to be sent once and concluded; or the outcome of an entry of which
        nothing may be sent. Raises StoreError when the store is away; nothing may be sent then either.
        """
        held = await self.claim(entry_id, version, lease)
        if isinstance(held, ClaimRefused):
            return refused(held)
        try:
            prepared = await prepare()
        except StoreError:
            await self.release(held)
            raise
        if isinstance(prepared, EntryOutcome):
            await self.release(held)
            return prepared
        intent, request = prepared
        attempt = await self.intend(held, intent)
        if isinstance(attempt, ClaimRefused):
            return refused(attempt)
        if held.too_late:
            told = EntryOutcome(entry_id, "not_sent", None, None, intent.client_order_id or None, TOO_LATE)
            return await self.conclude(held, Result("not_sent", error=TOO_LATE, evidence=TOO_LATE), told)
        return held, request

    async def conclude(self, held: HeldClaim, result: Result, told: EntryOutcome) -> EntryOutcome:
        """Record how the attempt ended. Returns `told`, or what the record says instead.

        A store that is away is tried again; after the last try the attempt stays in flight and the outcome is unknown.
        """
        for remaining in reversed(range(self._record_tries or _RECORD_TRIES)):
            try:
                mine = await self._store.conclude(held.claim, result, self._actor, self.now())
                return told if mine else await self._settled_elsewhere(told)
            except StoreError as problem:
                if not remaining:
                    return replace(told, outcome="unknown", detail=_unrecorded(told, problem))
            await asyncio.sleep(_RECORD_SECONDS)
        raise AssertionError("the last try returns")

    async def release(self, held: HeldClaim) -> None:
        """Give a claim back under which nothing was sent. `settle_up` repeats what fails."""
        try:
            await self._store.release(held.claim)
        except StoreError:
            self._owed.append((held, None))

    async def settle_up(self) -> None:
        """Give back the claims and withdraw the intents that a store that was away did not take.

        Tries a bounded number of times; the lease ends what is left.
        """
        for remaining in reversed(range(_RECORD_TRIES)):
            owed, self._owed = self._owed, []
            for held, started_at in owed:
                await (self.release(held) if started_at is None else self._withdraw(held, started_at))
            if not self._owed or not remaining:
                return
            await asyncio.sleep(_RECORD_SECONDS)

    async def _withdraw(self, held: HeldClaim, started_at: str) -> None:
        """Conclude an intent as not sent, if it was committed after all, and give its claim back."""
        try:
            attempts = await self._store.attempts(held.entry_id)
            if any(one.outcome is None and one.started_at == started_at for one in attempts):
                result = Result("not_sent", error=_WITHDRAWN, evidence=_WITHDRAWN)
                await self._store.conclude(held.claim, result, self._actor, self.now())
            await self._store.release(held.claim)
        except StoreError:
            self._owed.append((held, started_at))

    async def _settled_elsewhere(self, told: EntryOutcome) -> EntryOutcome:
        """What the record says of an attempt that the store counts as settled already."""
        attempts = await self._store.attempts(told.entry_id)
        last = next((one for one in reversed(attempts) if one.outcome), None)
        kind = _kind(last.outcome) if last else None
        if last is None or kind is None:
            return replace(told, outcome="unknown", detail="settled elsewhere meanwhile: look again")
        if (kind, last.venue_order_id) == (told.outcome, told.venue_order_id):
            return told  # an earlier try was committed and only its answer was lost
        return replace(told, outcome=kind, venue_order_id=last.venue_order_id, detail="reconciled elsewhere meanwhile")


def refused(taken: ClaimRefused, mode: str | None = None, key: str | None = None) -> EntryOutcome:
    """The outcome of an entry whose claim, intent or requeue the store refused."""
    if taken.code in ("settled", "changed", "gone"):
        return EntryOutcome(taken.entry_id, "skipped", mode, None, key, taken.why)
    if taken.code in ("halt", "policy"):
        return EntryOutcome(taken.entry_id, "not_sent", mode, None, key, f"{taken.code}: {taken.why}")
    return EntryOutcome(taken.entry_id, "refused", mode, None, key, f"{taken.code}: {taken.why}")


def unsent(entry_id: str, problem: StoreError, mode: str | None = None) -> EntryOutcome:
    """The outcome of an entry of which nothing was sent because the store failed before its intent was committed."""
    return EntryOutcome(entry_id, "skipped", mode, detail=f"{problem}: nothing was sent")


def _unrecorded(told: EntryOutcome, problem: StoreError) -> str:
    order = f" {told.venue_order_id}" if told.venue_order_id else ""
    detail = f" ({told.detail})" if told.detail else ""
    return f"the outcome {told.outcome}{order}{detail} could not be recorded: {problem}"


def _kind(outcome: str | None) -> OutcomeKind | None:
    match outcome:
        case "accepted" | "rejected" | "unknown" | "not_sent":
            return outcome
        case _:
            return None


async def anchored(store: Store) -> Clock:
    """The store's time, counted on by this machine's monotonic clock.

    Reads the store's clock until an answer is quick, and keeps the quickest: a first read may open a connection, and on
    a busy machine any may wait for a processor. The count starts before that read, so the result is never earlier than
    the store's own time, and later by less than the read took.
    """

    async def look() -> tuple[float, float, datetime]:
        before = time.monotonic()
        told = await store.clock()
        return time.monotonic() - before, before, told

    began, reads = time.monotonic(), 1
    quickest = await look()
    while quickest[0] > _QUICK_READ and (reads < _CLOCK_READS or time.monotonic() - began < _CLOCK_SECONDS):
        quickest, reads = min(quickest, await look()), reads + 1
    _, since, anchor = quickest
    return lambda: anchor + timedelta(seconds=time.monotonic() - since)

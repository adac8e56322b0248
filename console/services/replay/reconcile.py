"""Settles attempts in doubt, or in flight without an owner, by what the venue shows. Never submits anything."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from backends.records import ActContext, Actor, Attempt, parse_time
from backends.store import Result, Store
from console.clock import Clock
from console.services.replay import payload
from console.services.replay.background_run import RunHandle
from console.services.replay.flow_control import Pace, wait_unless_stopped
from console.services.replay.lookup_verdict import LookupVerdict, judge
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.services.replay.venue_pool import VenuePool
from console.services.triage.approvals import Approvals, absence_hash
from venues import Mode, Prepared, VenueClient, VenueError

LOOK_UPS = 3  # successful look-ups that must all show nothing before an order counts as absent
_BETWEEN_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of one attempt; `result` is None when the ledger stays as it is."""

    word: OutcomeKind
    text: str
    result: Result | None = None
    needs_second: bool = False  # absent in live, and it could still arrive at any time: another person must agree


@dataclass(frozen=True, slots=True)
class Waited:
    """Whether the venue's window is over, so that "not found" proves that the order is absent."""

    over: bool
    text: str
    unbounded: bool
    owned: bool = False  # its sender may still be sending it


class Reconciliation:
    def __init__(self, store: Store, pool: VenuePool, actor: Actor, clock: Clock) -> None:
        self._store = store
        self._pool = pool
        self._actor = actor
        self._clock = clock
        self._paces: dict[str, Pace] = {}
        self._stopped = asyncio.Event()
        self.needing_second: list[Attempt] = []  # attempts that lack only another person's approval

    def stop(self) -> None:
        """Ask about no further attempt. Call from this object's own loop."""
        self._stopped.set()

    async def settle(self, ids: tuple[str, ...], modes: Sequence[Mode], handle: RunHandle) -> tuple[EntryOutcome, ...]:
        """Settle the open attempts of these entries, or of all when there are no ids.

        Uses the approvals that a second person gave, and asks for those that are missing: see `needing_second`.
        """
        handle.attend(self)
        attempts = tuple([one for mode in modes for one in await self.open(ids, mode)])
        skipped = await self._nothing_to_ask(ids, attempts, modes)
        handle.total = len(skipped) + len(attempts)
        for ended in skipped:
            handle.tell(ended)
        approvals = Approvals(self._store, self._actor, self._clock)
        agreed = {plan for plan in map(absence_hash, attempts) if await approvals.given(plan)}
        done = await self.run(attempts, approved=lambda one: absence_hash(one) in agreed, tell=handle.tell)
        for one in self.needing_second:
            await approvals.given_or_asked(absence_hash(one), f"declare {one.entry_id} absent at {one.venue}")
        return (*skipped, *done)

    async def _nothing_to_ask(
        self, ids: tuple[str, ...], attempts: Sequence[Attempt], modes: Sequence[Mode]
    ) -> list[EntryOutcome]:
        asked = {attempt.entry_id for attempt in attempts}
        if not set(ids) - asked:
            return []
        elsewhere = [one for one in await self._store.open_attempts() if one.mode not in modes]
        words = {one.entry_id: f"in doubt in {one.mode}: say --{one.mode}" for one in elsewhere}
        mode = modes[0] if len(modes) == 1 else None
        free = [entry_id for entry_id in ids if entry_id not in asked]
        return [EntryOutcome(one, "skipped", mode, detail=words.get(one, "not in doubt")) for one in free]

    async def open(self, ids: tuple[str, ...], mode: Mode) -> tuple[Attempt, ...]:
        """The open attempts in this mode: of these entries, or of all when there are no ids."""
        attempts = await self._store.open_attempts()
        return tuple(one for one in attempts if one.mode == mode and (not ids or one.entry_id in ids))

    async def run(
        self,
        attempts: tuple[Attempt, ...],
        *,
        approved: Callable[[Attempt], bool] = lambda _: False,
        tell: Callable[[EntryOutcome], None] = lambda _: None,
    ) -> tuple[EntryOutcome, ...]:
        results = []
        for attempt in attempts:
            ended = _ended(attempt, "skipped", "stopped: nothing was asked")
            if not self._stopped.is_set():
                ended = await self._one(attempt, approved=approved(attempt))
            results.append(ended)
            tell(ended)
        return tuple(results)

    async def _one(self, attempt: Attempt, *, approved: bool) -> EntryOutcome:
        # Read the clock before asking the venue: an answer from within the window must not count as one from after it.
        waited = await self._waited(attempt)
        settled = decide(attempt, await self._ask(attempt, sure=waited.over), waited, approved=approved)
        if settled.needs_second:
            self.needing_second.append(attempt)
        now = await self._store.clock()
        why = ActContext(at=now, operation=uuid.uuid4().hex, reason="reconcile")
        if settled.result is not None and not await self._store.settle(attempt, settled.result, self._actor, why):
            return _ended(attempt, "skipped", "settled elsewhere meanwhile")
        if settled.result is None:
            note = ActContext(at=now, operation=why.operation, reason="reconcile", note=settled.text)
            await self._store.record("lookup", (attempt.entry_id,), self._actor, note)
        order_id = settled.result.venue_order_id if settled.result else None
        return _ended(attempt, settled.word, settled.text, order_id)

    async def _ask(self, attempt: Attempt, *, sure: bool) -> LookupVerdict:
        """What the venue shows. When the window is over, only several look-ups in a row count as absent."""
        prepared = payload.decode(attempt.payload)
        if prepared is None:
            return LookupVerdict("no-answer", "the stored request cannot be read: look at the venue yourself")
        mode: Mode = "live" if attempt.mode == "live" else "paper"
        try:
            client = await self._pool.client(attempt.venue, mode)
            pace = self._paces.setdefault(attempt.venue, Pace(self._pool.rate(attempt.venue)))
        except VenueError as problem:
            return LookupVerdict("no-answer", str(problem))
        verdict = LookupVerdict("no-answer", "stopped before the venue was asked")
        for turn in range(LOOK_UPS if sure else 1):
            if not await wait_unless_stopped(max(pace.book(), _BETWEEN_SECONDS if turn else 0.0), self._stopped):
                return LookupVerdict("no-answer", "stopped before the venue was asked")
            verdict = await _looked_up(client, prepared)
            if verdict.kind == "absent" and not client.profile.lookup:
                # This venue may find an order, but "not found" proves nothing.
                return LookupVerdict(
                    "no-answer", f"{attempt.venue} cannot be asked by client order id: look there yourself"
                )
            pace.hold(verdict.retry_after or 0.0)
            if verdict.kind != "absent":
                return verdict
        return verdict

    async def _waited(self, attempt: Attempt) -> Waited:
        now = await self._store.clock()
        try:
            window, bound = self._pool.window(attempt.venue), self._pool.profile(attempt.venue).arrival_bound
        except VenueError:
            return Waited(False, "the venue is not known here", unbounded=True)
        owned = attempt.outcome is None and attempt.lease_until > now.timestamp()
        if owned:
            return Waited(False, "its owner may still be sending it", unbounded=bound is None, owned=True)
        # The request may have been under way until its outcome was recorded.
        last = max(filter(None, (parse_time(attempt.started_at), parse_time(attempt.finished_at))), default=None)
        over = last is not None and now >= last + timedelta(seconds=window)
        ends = "" if last is None else (last + timedelta(seconds=window)).strftime("%H:%M:%SZ")
        return Waited(over, f"not found proves nothing before {ends}", unbounded=bound is None)


async def _looked_up(client: VenueClient, prepared: Prepared) -> LookupVerdict:
    return judge(prepared.action, await client.lookup(prepared))


def decide(attempt: Attempt, verdict: LookupVerdict, waited: Waited, *, approved: bool) -> Settled:
    """The outcome of an attempt by what the venue shows. Pure."""
    order_id, text = verdict.order_id, verdict.text
    match verdict.kind:
        case "ours":
            return Settled("accepted", text, Result("accepted", order_id, evidence=text))
        case "refused" | "ended":
            return Settled("rejected", text, Result("rejected", order_id, text, text))
        case "conflict":
            return Settled("unknown", text, Result("unknown", order_id, text, text))
        case "unclear":
            # While its sender may still be sending it, the answer to that send will say more.
            return Settled("unknown", text, None if waited.owned else Result("unknown", order_id, text, text))
        case "no-answer":
            return Settled("unknown", f"look-up failed: {text}")
        case "absent":
            return _absent(attempt, text, waited, approved=approved)
        case _:
            assert_never(verdict.kind)


def _absent(attempt: Attempt, shown: str, waited: Waited, *, approved: bool) -> Settled:
    if not waited.over:
        return Settled("unknown", f"not found yet: {shown}; {waited.text}")
    if attempt.mode == "live" and waited.unbounded and not approved:
        text = "not found, but nothing bounds how late it could arrive: a second person must agree"
        text = f"{text}: dlq approve {absence_hash(attempt)}"
        return Settled("unknown", text, needs_second=True)
    evidence = f"{shown}, after its window"
    return Settled("not_sent", f"absent: {evidence}", Result("not_sent", error=evidence, evidence=evidence))


def _ended(attempt: Attempt, word: OutcomeKind, text: str, order_id: str | None = None) -> EntryOutcome:
    return EntryOutcome(attempt.entry_id, word, attempt.mode, order_id, attempt.client_order_id, text)

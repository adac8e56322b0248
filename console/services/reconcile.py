"""Attempts in doubt, and in flight with their owner gone, against what the venue says. Never submits anything."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from backends.records import Actor, Attempt, Why, parse_time
from backends.store import Result, Store
from console.clock import Clock
from console.services import payload
from console.services.desk import Desk
from console.services.outcome import Ended
from console.services.pace import Pace
from console.services.send import verdict_id
from console.services.verdict import Verdict, judge
from venues import Mode, VenueError


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one attempt; `result` is None where nothing changes."""

    word: str
    text: str
    result: Result | None = None
    needs_second: bool = False  # absence that nothing bounds, in live: another person must agree


class Reconcile:
    def __init__(self, store: Store, desk: Desk, actor: Actor, clock: Clock) -> None:
        self._store = store
        self._desk = desk
        self._actor = actor
        self._clock = clock
        self._paces: dict[str, Pace] = {}
        self.needing_second: list[Attempt] = []  # where only another person's word is missing

    async def open(self, ids: tuple[str, ...], mode: Mode) -> tuple[Attempt, ...]:
        """Open attempts of this mode, of these entries or of all."""
        attempts = await self._store.open_attempts()
        return tuple(one for one in attempts if one.mode == mode and (not ids or one.entry_id in ids))

    async def run(
        self,
        attempts: tuple[Attempt, ...],
        *,
        approved: Callable[[Attempt], bool] = lambda _: False,
        tell: Callable[[Ended], None] = lambda _: None,
    ) -> tuple[Ended, ...]:
        results = []
        for attempt in attempts:
            ended = await self._one(attempt, approved=approved(attempt))
            results.append(ended)
            tell(ended)
        return tuple(results)

    async def _one(self, attempt: Attempt, *, approved: bool) -> Ended:
        why = Why(at=self._clock(), operation=uuid.uuid4().hex, reason="reconcile")
        settled = decide(attempt, await self._ask(attempt), await self._waited(attempt), approved=approved)
        if settled.needs_second:
            self.needing_second.append(attempt)
        if settled.result is not None and not await self._store.settle(attempt, settled.result, self._actor, why):
            return self._now(attempt, "skipped", "settled elsewhere meanwhile")
        if settled.result is None:
            note = Why(at=why.at, operation=why.operation, reason="reconcile", note=settled.text)
            await self._store.record("lookup", (attempt.entry_id,), self._actor, note)
        order_id = settled.result.venue_order_id if settled.result else None
        return self._now(attempt, settled.word, settled.text, order_id)

    async def _ask(self, attempt: Attempt) -> Verdict:
        prepared = payload.decode(attempt.payload)
        if prepared is None:
            return Verdict("no-answer", "the stored request cannot be read: look at the venue yourself")
        mode: Mode = "live" if attempt.mode == "live" else "paper"
        try:
            client = await self._desk.client(attempt.venue, mode)
            pace = self._paces.setdefault(attempt.venue, Pace(self._desk.rate(attempt.venue)))
        except VenueError as problem:
            return Verdict("no-answer", str(problem))
        if not client.profile.lookup:
            return Verdict("no-answer", f"{attempt.venue} cannot be asked by client order id: look there yourself")
        await pace.turn()
        return judge(prepared.action, await client.lookup(prepared))

    async def _waited(self, attempt: Attempt) -> Waited:
        now = await self._store.clock()
        sent = parse_time(attempt.started_at)
        try:
            window, bound = self._desk.window(attempt.venue), self._desk.profile(attempt.venue).arrival_bound
        except VenueError:
            return Waited(False, "the venue is not known here", unbounded=True)
        if attempt.outcome is None and attempt.lease_until > now.timestamp():
            return Waited(False, "its owner may still be sending it", unbounded=bound is None)
        over = sent is not None and now >= sent + timedelta(seconds=window)
        ends = "" if sent is None else (sent + timedelta(seconds=window)).strftime("%H:%M:%SZ")
        return Waited(over, f"not found proves nothing before {ends}", unbounded=bound is None)

    def _now(self, attempt: Attempt, word: str, text: str, order_id: str | None = None) -> Ended:
        return Ended(attempt.entry_id, word, attempt.mode, order_id, attempt.client_order_id, text)  # type: ignore[arg-type]  # words of `decide`


@dataclass(frozen=True, slots=True)
class Waited:
    """Is the venue's window over, and may absence be said at all?"""

    over: bool
    text: str
    unbounded: bool


def decide(attempt: Attempt, verdict: Verdict, waited: Waited, *, approved: bool) -> Settled:
    """Evidence → what the attempt becomes. Pure."""
    order_id = verdict_id(verdict)
    match verdict.kind:
        case "ours":
            return Settled("accepted", verdict.text, Result("accepted", order_id, evidence=verdict.text))
        case "refused" | "ended":
            result = Result("rejected", order_id, verdict.text, verdict.text)
            return Settled("rejected", verdict.text, result)
        case "conflict" | "unclear":
            return Settled("unknown", verdict.text, Result("unknown", order_id, verdict.text, verdict.text))
        case "no-answer":
            return Settled("unknown", f"look-up failed: {verdict.text}")
        case "absent":
            return _absent(attempt, waited, approved=approved)


def _absent(attempt: Attempt, waited: Waited, *, approved: bool) -> Settled:
    if not waited.over:
        return Settled("unknown", f"not found yet; {waited.text}")
    if attempt.mode == "live" and waited.unbounded and not approved:
        text = "not found, but nothing bounds how late it could arrive: a second person must agree"
        return Settled("unknown", text, needs_second=True)
    evidence = "the venue does not show it after its window"
    return Settled("not_sent", f"absent: {evidence}", Result("not_sent", error=evidence, evidence=evidence))

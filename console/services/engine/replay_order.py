"""Lets an engine send an entry again through its own venue. Synchronous; works beside a running event loop.

Has the console's guards and its attempt lifecycle: claim → look up → intent → one submit → outcome. The engine's venue
is called on the engine's own thread, the store on another one. A sink without a ledger has its attempts in memory.
"""

from __future__ import annotations

import hashlib
import inspect
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never, cast

from dlq_sink.capture.answer import order_id_of
from dlq_sink.capture.report import AuditLog, quietly
from dlq_sink.capture.submit import EngineVenue

from backends import DLQSink, open_store
from backends.records import ERROR_LIMIT, ActContext, Attempt, parse_time
from backends.store import ClaimRefused, Intent, Result, Store, StoreError
from console import clock
from console.services.engine.found_order import judge_found
from console.services.engine.memory_store import MemoryStore
from console.services.engine.own_loop import OwnLoop
from console.services.engine.own_venue import VISIBILITY_SECONDS, OwnVenue, OwnVenuePool, can_be_asked, mode_of
from console.services.errors.category import classify
from console.services.evidence import payload
from console.services.evidence.absence import absence_gap, earliest
from console.services.evidence.ask_first import Adopt, Decision, GiveUp, Send, decide_new, unanswered
from console.services.evidence.lookup_verdict import LookupVerdict
from console.services.evidence.reconcile import VenueWord, decide
from console.services.replay.attempt import TOO_LATE, AttemptLedger, HeldClaim, Lease, refused
from console.services.replay.guards import OVERRIDABLE, Guard
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.services.replay.plan import Step, plan
from console.services.replay.preflight import Preflight, ReplayRequest
from console.services.replay.still_fit import unfit
from console.settings.config import Limits
from console.settings.identity import current_actor
from venues import Mode, Prepared

_LEASE = Lease(300.0, sending=120.0)
_ASYNC_FIND = "find is async: replay_order needs a plain function"
_ASYNC_SUBMIT = "submit is async: replay_order needs a plain function; nothing was sent"
_NOT_OURS_TO_SAY = "which account answered is not on record"
_NEVER_TAKEN = frozenset({"rate-limit", "not-connected", "tls", "breaker", "held-back"})  # rules of `category_rules`
_LOOK_THERE = "; this sink cannot be reconciled: look at the venue, then mark it dismissed"


def replay_order(
    dlq: DLQSink,
    dlq_id: str,
    venue: EngineVenue,
    audit_log: AuditLog | None = None,
    *,
    override: Iterable[str] = (),
    note: str | None = None,
) -> tuple[bool, str]:
    """Send one entry again through the engine's own venue: (ok, the venue's order id or why not).

    A refusal begins with its guard's code; `override` names the guards that `note` answers for. If the venue has
    `find(client_order_id)` (an order, None, or raises), it is asked before a new order is sent. When the submit fails
    but may have reached the venue, the entry stays in doubt and the detail begins with "unknown:"; it stays so until
    `find` shows the order, or `dlq reconcile` or `dlq settle` ends it. What was never taken begins with "not sent:".
    """
    overrides = tuple(code.strip() for code in (override.split(",") if isinstance(override, str) else override))
    if (refusal := _refused_override(overrides, note)) is not None:
        return False, refusal
    entry = dlq.get(dlq_id)
    if entry is None:
        return False, f"no such entry: {dlq_id}"
    if entry.dismissed:
        return False, "already dismissed"
    with OwnLoop() as own:
        try:
            store = own.run(_opened(dlq))
        except StoreError as problem:
            return False, f"not sent: {problem}"
        try:
            ended = _Replay(own, store, venue, note).run(dlq_id, frozenset(overrides))
        finally:
            own.run(store.aclose())
    return _told(ended, audit_log)


def _refused_override(codes: tuple[str, ...], note: str | None) -> str | None:
    wrong = next((code for code in codes if code not in OVERRIDABLE), None)
    if wrong is not None:
        return f"{wrong}: cannot be overridden, only {', '.join(OVERRIDABLE)}: nothing was sent"
    if codes and not (note or "").strip():
        return f"{codes[0]}: an override needs a note: nothing was sent"
    return None


async def _opened(dlq: DLQSink) -> Store:
    target = getattr(dlq, "_dsn", None)
    if target is None:
        return cast("Store", MemoryStore(dlq))  # it has all that planning and sending one entry call
    return await open_store(target(), table=getattr(dlq, "table", None))


def _told(ended: EntryOutcome, audit_log: AuditLog | None) -> tuple[bool, str]:
    if ended.outcome != "accepted":
        return False, ended.detail or ended.outcome
    order_id = ended.venue_order_id
    if audit_log is not None:
        text = f"replayed {ended.entry_id} -> venue order {order_id or 'whose id it does not give'}"
        event = {"dlq_id": ended.entry_id, "venue_order_id": order_id, "text": text}
        quietly(lambda: audit_log.append("Annotation", event))
    return True, order_id or ended.detail or ""


@dataclass(frozen=True, slots=True)
class _Claimed:
    step: Step
    held: HeldClaim
    request: Prepared

    def ended(self, kind: OutcomeKind, detail: str | None, order_id: str | None = None) -> EntryOutcome:
        return EntryOutcome(self.held.entry_id, kind, None, order_id, self.request.client_order_id, detail)


class _Replay:
    """Sends one entry of a store through the engine's venue, once at most."""

    def __init__(self, own: OwnLoop, store: Store, venue: EngineVenue, note: str | None) -> None:
        self._own = own
        self._store = store
        self._venue = venue
        self._mode: Mode = mode_of(venue)
        self._actor = current_actor(None)
        self._ledger = AttemptLedger(store, self._actor, reason="replay_order", note=note)

    def run(self, entry_id: str, overrides: frozenset[str]) -> EntryOutcome:
        try:
            if (found := self._found_since(entry_id)) is not None:
                return found
            claimed = self._own.run(self._claimed(entry_id, overrides))
            if isinstance(claimed, EntryOutcome):
                return claimed
            ready = self._own.run(self._intended(claimed, self._asked(claimed)))
        except StoreError as problem:
            return EntryOutcome(entry_id, "not_sent", None, detail=f"not sent: {problem}")
        finally:
            self._own.run(self._ledger.settle_up())
        if isinstance(ready, EntryOutcome):
            return ready
        return self._own.run(self._concluded(claimed, self._submitted(claimed.request)))

    def _found_since(self, entry_id: str) -> EntryOutcome | None:
        """How an earlier submit without an answer ended, if the venue shows its order by now. Sends nothing."""
        if not can_be_asked(self._venue) or (attempt := self._own.run(self._doubted(entry_id))) is None:
            return None
        entry, request = self._own.run(self._store.get(entry_id)), payload.decode(attempt.payload)
        if entry is None or request is None or request.verb != "new":
            return None
        verdict = self._looked_up(request, parse_time(entry.get("captured_at")))
        settled = None if verdict is None else decide(VenueWord(verdict, absence_gap=_NOT_OURS_TO_SAY))
        if settled is None or settled.result is None or settled.word not in ("accepted", "rejected"):
            return None
        why = ActContext(self._own.run(self._store.clock()), uuid.uuid4().hex, "replay_order")
        if not self._own.run(self._store.settle(attempt, settled.result, self._actor, why)):
            return None
        order_id = settled.result.venue_order_id or None
        return EntryOutcome(entry_id, settled.word, None, order_id, attempt.client_order_id, settled.text)

    async def _doubted(self, entry_id: str) -> Attempt | None:
        """The open attempt of an engine. A console's may have gone to another account than this venue's."""
        tried = [one for one in await self._store.attempts(entry_id) if one.outcome in (None, "unknown")]
        engines = [one for one in tried if one.mode == self._mode and not one.key_digest and one.account is None]
        return engines[-1] if engines else None

    async def _claimed(self, entry_id: str, overrides: frozenset[str]) -> _Claimed | EntryOutcome:
        """Judged by every guard, and claimed; or why it stays."""
        entry = await self._store.get(entry_id)
        if entry is None:
            return EntryOutcome(entry_id, "skipped", None, detail=f"no such entry: {entry_id}")
        preflight = Preflight(self._store, OwnVenuePool(self._venue), Limits(), clock.now)
        facts = await preflight.facts([entry], ReplayRequest(self._mode, overrides=overrides, single=True, probe=False))
        planned = plan([entry], facts)
        if not planned.steps:
            return self._stays(entry_id, "; ".join(one.text for one in planned.blocked))
        (step,) = planned.steps
        held = await self._ledger.claim(entry_id, step.command.version, _LEASE, mode=self._mode)
        if isinstance(held, ClaimRefused):
            return self._stays(entry_id, refused(held).detail or held.code)
        client = OwnVenue(step.command.venue, self._mode, has_lookup=can_be_asked(self._venue))
        return _Claimed(step, held, client.named(step.command.action, step.command.client_order_id))

    def _stays(self, entry_id: str, text: str) -> EntryOutcome:
        remedy = _LOOK_THERE if isinstance(self._store, MemoryStore) and text.startswith("in-doubt:") else ""
        return EntryOutcome(entry_id, "refused", None, detail=text + remedy)

    def _asked(self, claimed: _Claimed) -> Decision:
        """What is done after the engine's venue was asked, where it can be. On the engine's own thread."""
        try:
            return self._decision(claimed)
        except BaseException:  # an interrupt; nothing was sent
            self._own.run(self._ledger.release(claimed.held))
            raise

    def _decision(self, claimed: _Claimed) -> Decision:
        command = claimed.step.command
        if command.action.verb != "new" or not can_be_asked(self._venue):
            return Send()  # what may have arrived without a look-up was judged by its guard
        # Read the clocks before asking: an answer from within the window must not count as one from after it.
        now = min(clock.now(), self._ledger.moment())
        verdict = self._looked_up(claimed.request, command.captured_at)
        if verdict is None:
            return unanswered(LookupVerdict("no-answer", _ASYNC_FIND), may_have_arrived=command.may_have_arrived)
        gap = absence_gap(command.sent_at, now, window=VISIBILITY_SECONDS, reach="all")
        return decide_new(
            verdict,
            gap=gap if command.may_have_arrived else None,
            may_have_arrived=command.may_have_arrived,
            overridden="may-have-arrived" in claimed.step.overridden,
        )

    def _looked_up(self, request: Prepared, captured_at: datetime | None) -> LookupVerdict | None:
        """The venue's answer; None where it is only the promise of one. On the engine's own thread."""
        client_order_id = request.client_order_id
        try:
            found = self._venue.find(client_order_id)  # type: ignore[attr-defined]  # `can_be_asked` has seen it
            if inspect.isawaitable(found):
                _drop(found)
                return None
            if found is None:
                return LookupVerdict("absent", "the venue does not show it")
            return judge_found(request.action, client_order_id, found, not_before=earliest(captured_at))
        except Exception as problem:  # noqa: BLE001 - whatever the engine's own code raises is no answer
            return LookupVerdict("no-answer", f"{type(problem).__name__}: {problem}"[:ERROR_LIMIT])

    async def _intended(self, claimed: _Claimed, decision: Decision) -> EntryOutcome | None:
        """None when the order is to be submitted now; else how it ended without that."""
        match decision:
            case Send():
                return await self._ready(claimed)
            case Adopt(result, text):
                return await self._adopted(claimed, result, text)
            case GiveUp(kind, text):
                return await self._given_up(claimed, kind, f"not sent: {text}" if kind == "not_sent" else text)
            case _:
                assert_never(decision)

    async def _ready(self, claimed: _Claimed) -> EntryOutcome | None:
        if (guard := self._unfit(claimed)) is not None:
            return await self._given_up(claimed, "not_sent", f"{guard.code}: {guard.text}")
        if (stays := await self._intend(claimed, "by the engine's own venue")) is not None:
            return stays
        late = f"not sent: {TOO_LATE}" if claimed.held.too_late else None
        if (guard := self._unfit(claimed)) is not None:  # the machine may have been suspended over the commit
            late = f"{guard.code}: {guard.text}"
        return None if late is None else await self._concluded(claimed, Result("not_sent", error=late, evidence=late))

    def _unfit(self, claimed: _Claimed) -> Guard | None:
        now = self._ledger.latest(clock.now())
        return unfit(claimed.step, now, limits=Limits, account=None, key_digest="")

    async def _adopted(self, claimed: _Claimed, result: Result, text: str) -> EntryOutcome:
        """Record the order that the venue already has, and send nothing."""
        if (stays := await self._intend(claimed, "found at the venue, not sent")) is not None:
            return stays
        result = replace(result, venue_order_id=result.venue_order_id or None)
        return await self._concluded(claimed, result, f"{text}; nothing was sent")

    async def _intend(self, claimed: _Claimed, detail: str) -> EntryOutcome | None:
        """Commit the intent; the outcome where the store refuses it."""
        request, overridden = claimed.request, ", ".join(claimed.step.overridden)
        kept = payload.encode(request)  # the engine's venue makes the bytes itself; this is what a look-up needs
        intent = Intent(
            mode=self._mode,
            venue=claimed.step.command.venue,
            client_order_id=request.client_order_id,
            payload=kept,
            payload_hash=hashlib.sha256(kept).hexdigest(),
            detail=f"{detail}; overridden: {overridden}" if overridden else detail,
        )
        attempt = await self._ledger.intend(claimed.held, intent)
        if isinstance(attempt, ClaimRefused):
            return self._stays(claimed.held.entry_id, refused(attempt).detail or attempt.code)
        return None

    async def _given_up(self, claimed: _Claimed, kind: OutcomeKind, text: str) -> EntryOutcome:
        await self._ledger.release(claimed.held)
        return claimed.ended(kind, text)

    def _submitted(self, request: Prepared) -> Result:
        """What the engine's venue made of it. On the engine's own thread."""
        try:
            answer = self._venue.submit(request.action)
            if inspect.iscoroutine(answer):
                answer.close()
                return Result("not_sent", error=f"not sent: {_ASYNC_SUBMIT}", evidence=_ASYNC_SUBMIT)
            if inspect.isawaitable(answer):
                raise RuntimeError("unknown outcome: submit returned the promise of an answer")
            order_id = order_id_of(answer)
        except Exception as problem:  # noqa: BLE001 - any failure of a venue is an outcome here
            return _failure(problem)
        return Result("accepted", order_id, evidence="the engine's venue answered")

    async def _concluded(self, claimed: _Claimed, result: Result, detail: str | None = None) -> EntryOutcome:
        told = claimed.ended(result.outcome, detail or result.error, result.venue_order_id)
        ended = await self._ledger.conclude(claimed.held, result, told)
        if ended.outcome == "unknown" and ended != told:
            return replace(ended, detail=f"unknown: {ended.detail}")
        return ended


def _failure(problem: Exception) -> Result:
    """Unknown when the order may have reached the venue; not sent when the venue never took it; else rejected."""
    error = f"{type(problem).__name__}: {problem}"[:ERROR_LIMIT]
    known = classify(error)
    if known.reach == "maybe":
        return Result("unknown", error=f"unknown: {error}", evidence=error)
    if known.rule in _NEVER_TAKEN:
        return Result("not_sent", error=f"not sent: {error}", evidence=error)
    return Result("rejected", error=error, evidence=error)


def _drop(promise: object) -> None:
    """So that Python does not warn of a coroutine that nobody awaited."""
    if inspect.iscoroutine(promise):
        promise.close()

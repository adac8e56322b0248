"""Settles an attempt in doubt by a person's evidence, after the venue was asked. In live a second person must agree."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from backends.records import ActContext, Actor, Attempt, Entry
from backends.store import BadTarget, Result, Store
from console.services.evidence.reconcile import Settled, send_of, settled_elsewhere
from console.services.replay.outcome import NOTHING_PLANNED, EntryOutcome, OutcomeKind, row_of
from console.services.triage.approvals import Approvals, settle_hash

Claimed = Literal["accepted", "absent"]
_OUTCOMES: dict[Claimed, OutcomeKind] = {"accepted": "accepted", "absent": "not_sent"}


@dataclass(frozen=True, slots=True)
class SettleRequest:
    """What a person says became of an entry's order."""

    entry_id: str
    claimed: Claimed
    note: str
    order: str | None = None  # the venue's order id, where the order is there
    mode: str | None = None  # None: the attempt's own


class SettleReport(NamedTuple):
    ended: EntryOutcome
    plan: str | None = None  # waits for a second person under this hash

    @property
    def is_done(self) -> bool:
        """Whether it is settled as it was asked."""
        return self.plan is None and self.ended.outcome in ("accepted", "not_sent")


class Settlement:
    """`word` asks the venue about an attempt, and writes nothing; `two_people`: whether one needs a second person."""

    def __init__(
        self,
        store: Store,
        actor: Actor,
        approvals: Approvals,
        *,
        word: Callable[[Attempt], Awaitable[Settled]],
        two_people: Callable[[Attempt], bool],
        environment: str | None = None,
    ) -> None:
        self._store = store
        self._actor = actor
        self._approvals = approvals
        self._word = word
        self._two_people = two_people
        self._environment = environment

    async def run(self, request: SettleRequest) -> SettleReport:
        attempt = await self._attempt(request)
        if isinstance(attempt, EntryOutcome):
            return SettleReport(attempt)
        told = await self._word(attempt)
        if told.result is not None and told.word in ("accepted", "rejected", "not_sent"):
            return SettleReport(await self._by_the_venue(request, attempt, told))
        if self._two_people(attempt):
            plan_hash = settle_hash(attempt, request.claimed, request.order, request.note)
            summary = f"settle {attempt.entry_id} at {attempt.venue} as {request.claimed}: {request.note}"
            document = json.dumps({"mode": attempt.mode, "orders": [_document(request, attempt)]})
            if not await self._approvals.given_or_asked(plan_hash, summary, kind="settle", document=document):
                text = f"needs a second person; the venue: {told.text}"
                return SettleReport(_ended(attempt, "refused", text), plan_hash)
        return SettleReport(await self._by_a_person(request, attempt))

    async def _attempt(self, request: SettleRequest) -> Attempt | EntryOutcome:
        """The open attempt that is meant, the live one first; or why there is none to settle."""
        now = (await self._store.clock()).timestamp()
        opened = [one for one in await self._store.open_attempts() if one.entry_id == request.entry_id]
        meant = [one for one in opened if request.mode in (None, one.mode)]
        meant.sort(key=lambda one: (one.mode != "live", one.rehearsal, -one.attempt_no))
        if not opened and (intent := await self._open_intent(request.entry_id)) is not None:
            return self._of_intent(intent, request.mode)
        if not meant:
            why = f"not in doubt in {request.mode}" if opened else "not in doubt: there is nothing to settle"
            return EntryOutcome(request.entry_id, "refused", request.mode, detail=why)
        attempt = meant[0]
        if attempt.outcome is None and attempt.lease_until > now:
            return _ended(attempt, "refused", "in flight: its owner may still be sending it")
        return attempt

    async def _open_intent(self, entry_id: str) -> Entry | None:
        found = await self._store.get(entry_id)
        return found if found is not None and found.origin == "intent" and found.state == "in_doubt" else None

    def _of_intent(self, intent: Entry, said: str | None) -> Attempt | EntryOutcome:
        mode = said or self._environment
        if mode is None:
            raise BadTarget("an engine's open intent does not say in which mode it was sent: say --paper or --live")
        return send_of(intent, ("live" if mode == "live" else "paper",), self._environment)

    async def _by_the_venue(self, request: SettleRequest, attempt: Attempt, told: Settled) -> EntryOutcome:
        """The venue's clear answer settles it where it says the same; where it says otherwise, nothing is changed."""
        result = told.result
        assert result is not None
        other_order = request.order is not None and result.venue_order_id not in (None, request.order)
        if told.word != _OUTCOMES[request.claimed] or other_order:
            at = f", order {result.venue_order_id}" if result.venue_order_id else ""
            told_so = f"the venue says otherwise: {told.text}{at}"
            text = f"{told_so}: nothing was settled; reconcile it (C, or dlq reconcile)"
            return _ended(attempt, "refused", text)
        return await self._recorded(attempt, result, request.note, told.text)

    async def _by_a_person(self, request: SettleRequest, attempt: Attempt) -> EntryOutcome:
        text = f"settled by {self._actor.operator}: {request.note}"
        if request.claimed == "accepted":
            return await self._recorded(attempt, Result("accepted", request.order, evidence=text), request.note, text)
        result = Result("not_sent", error=text, evidence=text)
        return await self._recorded(attempt, result, request.note, text)

    async def _recorded(self, attempt: Attempt, result: Result, note: str, text: str) -> EntryOutcome:
        now = await self._store.clock()
        why = ActContext(at=now, operation=uuid.uuid4().hex, reason="settle", note=note)
        if not await self._store.settle(attempt, result, self._actor, why):
            return _ended(attempt, "refused", settled_elsewhere(attempt))
        return _ended(attempt, _OUTCOMES["accepted" if result.outcome == "accepted" else "absent"], text, result)


def _ended(attempt: Attempt, kind: OutcomeKind, text: str, result: Result | None = None) -> EntryOutcome:
    order = result.venue_order_id if result else None
    return EntryOutcome(
        attempt.entry_id, kind, attempt.mode, order, attempt.client_order_id, text, account=attempt.account
    )


def _document(request: SettleRequest, attempt: Attempt) -> dict[str, object]:
    """What a second person is shown: by the names of a dry run's row, as nothing would go on the wire, and its own."""
    planned = EntryOutcome(
        attempt.entry_id,
        "planned",
        attempt.mode,
        request.order,
        attempt.client_order_id,
        f"settle as {request.claimed}: {request.note}",
        attempt.account,
        planned=NOTHING_PLANNED,
    )
    return row_of(planned) | {
        "attempt_no": attempt.attempt_no,
        "venue": attempt.venue,
        "as": request.claimed,
        "note": request.note,
    }

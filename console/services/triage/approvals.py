"""Approvals by a second person: one asks, another approves, by the chain's events. Knows no venue and no screen."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from backends.records import ActContext, Actor, Approval, ApprovalVerdict, Attempt, Halt, Person, number
from backends.store import Store
from console.clock import Clock
from console.services.triage.own_approval import NAMES_KEY, OwnAnswer, own_answer, own_counts
from console.services.triage.second_person import is_another_person
from console.settings.second_person import SecondPerson

if TYPE_CHECKING:
    from console.services.replay.target import SendPlan

APPROVAL_SECONDS = 300.0  # how long an approval may be used
ASK_SECONDS = 300.0  # how long a plan waits for one: asking again begins anew
_NEVER = datetime.fromtimestamp(0, UTC)
_LAST_SECOND = 250_000_000_000  # of the times that Python can hold
Answered = Literal["approved", "unknown", "expired", "unseen", "own", "untyped", "early"]
NOT_APPROVED: Mapping[str, str] = {
    "unknown": "no such plan was put up for approval on this store",
    "expired": "it was asked for more than five minutes ago: the one who asked must ask again",
    "unseen": "its orders cannot be shown: the one who asked must ask again",
    "own": f"the one who asked cannot approve: another database role must (on SQLite another OS user); {NAMES_KEY}",
    "untyped": "you asked for this yourself: approve it by typing on a terminal; --yes is not enough (second_person)",
    "early": "you asked for it yourself: wait for the policy's second_person delay",
}
ApprovalKind = Literal["replay", "settle", "resume"]


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    """What somebody asked a second person to agree to, as the asker saw it."""

    plan: str
    kind: str
    asked_by: str
    asked_at: datetime
    expires_at: datetime
    mode: str | None
    gross: Mapping[str, Decimal]
    orders: tuple[Mapping[str, object], ...]
    summary: str
    places: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # venue, account and host of each entry
    role: str = ""  # the database's role of who asked, where it has one

    @property
    def asker(self) -> str:
        """`ann, as role ops`: people who share an OS user are told apart by it."""
        return f"{self.asked_by}, as role {self.role}" if self.role else self.asked_by

    @property
    def row(self) -> dict[str, object]:
        return {
            "plan": self.plan,
            "kind": self.kind,
            "asked_by": self.asked_by,
            "asked_at": self.asked_at,
            "expires_at": self.expires_at,
            "mode": self.mode,
            "gross": dict(self.gross),
            "orders": list(self.orders),
        }

    @property
    def word(self) -> str:
        """What the second person types."""
        return "approve resume" if self.kind == "resume" else f"approve {len(self.orders)}"


def waiting_plan(asked: Approval) -> WaitingPlan:
    """The plan of a row of the ledger. What cannot be read in it is left out: others may have written there."""
    try:
        told = json.loads(asked.document, parse_float=Decimal)
    except (ValueError, RecursionError):
        told = {}
    told = told if isinstance(told, dict) else {}
    asked_by, _, role = asked.asked_by.partition("|")
    rows, gross = told.get("rows", told.get("orders")), told.get("gross")
    asked_at = datetime.fromtimestamp(asked.asked_at, UTC) if 0 <= asked.asked_at < _LAST_SECOND else _NEVER
    return WaitingPlan(
        plan=asked.plan_hash,
        kind=asked.kind,
        asked_by=asked_by,
        asked_at=asked_at,
        expires_at=asked_at + timedelta(seconds=ASK_SECONDS),
        mode=told["mode"] if isinstance(told.get("mode"), str) else None,
        gross={name: amount for name, text in _pairs(gross) if (amount := number(text)) is not None},
        orders=tuple(row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else (),
        summary=asked.summary,
        places={name: held for name, held in _pairs(told.get("places")) if isinstance(held, dict)},
        role=role,
    )


def _pairs(held: object) -> list[tuple[str, object]]:
    return list(held.items()) if isinstance(held, dict) else []


class Approvals:
    def __init__(
        self, store: Store, actor: Actor, clock: Clock, second: Callable[[], SecondPerson] = SecondPerson
    ) -> None:
        self._store = store
        self._actor = actor
        self._clock = clock
        self._second = second  # as the policy in force says it

    async def given(self, plan_hash: str) -> bool:
        """True if another person, or where the policy lets them the asker, approved this a short while ago."""
        approval = await self._store.approval(plan_hash)
        return approval is not None and self._is_given(approval)

    def _is_given(self, approval: Approval) -> bool:
        if approval.approved is None or approval.approved_ago is None:
            return False
        if not 0 <= approval.approved_ago <= APPROVAL_SECONDS:
            return False
        if approval.is_own:
            return own_counts(self._second(), approval.asked_ago, approval.approved_ago)
        return self._is_another(approval, approval.approved)

    def _is_another(self, approval: Approval, person: Person) -> bool:
        allowed = self._second().allow_userns
        return is_another_person(approval.asked, person, advisory=approval.advisory, allow_userns=allowed)

    async def given_or_asked(
        self, plan_hash: str, summary: str, *, kind: ApprovalKind, document: str = "{}", request: str = ""
    ) -> bool:
        if await self.given(plan_hash):
            return True
        await self._store.ask(
            plan_hash, summary, self._actor, self._why(), kind=kind, document=document, request=request
        )
        return False

    async def may_replay(self, plan: SendPlan, request: str = "") -> bool:
        """True if the plan needs no approval, has one, or does only what an approved plan showed; else asks for it."""
        if plan.needs_second is None:
            return True
        if await self.approved(plan.is_covered_by) is not None:
            return True
        return await self.given_or_asked(
            plan.hash, plan.summary, kind="replay", document=plan.document, request=request
        )

    async def approved(self, fits: Callable[[str], bool]) -> Approval | None:
        """A replay that was approved a short while ago, whose document fits."""
        for one in await self._store.approvals():
            if one.kind == "replay" and self._is_given(one) and fits(one.document):
                return one
        return None

    async def approved_for(self, request: str) -> str | None:
        """The document of the replay that this person asked for with this request and that was approved."""
        for one in await self._store.approvals():
            if request and one.request == request and one.kind == "replay" and self._is_given(one):
                return one.document
        return None

    async def may_resume(self, halt: Halt) -> bool:
        summary = f"resume after the halt by {halt.operator}: {halt.note}"
        return await self.given_or_asked(resume_hash(halt), summary, kind="resume")

    async def waiting(self) -> tuple[WaitingPlan, ...]:
        """What waits for a second person, the latest first."""
        asked = [one for one in await self._store.approvals() if one.approved_by is None]
        return tuple(waiting_plan(one) for one in asked if one.asked_ago <= ASK_SECONDS)

    def may_sign(self, approval: Approval) -> bool:
        """Whether this person counts as the second one: another person, or the asker where the policy lets them."""
        return self._second().delay is not None or self._is_another(approval, self._me(approval))

    async def asked(self, plan_hash: str) -> WaitingPlan | None:
        """What was put up under this hash; None where nobody did."""
        approval = await self._store.approval(plan_hash)
        return None if approval is None else waiting_plan(approval)

    async def approve(self, plan_hash: str, *, typed: bool = False) -> Answered:
        """Agree to what somebody else asked for a short while ago; or, `typed`, to one's own where the policy allows.

        `typed`: a person typed the words on a terminal or a screen.
        """
        approval = await self._store.approval(plan_hash)
        if approval is None:
            return "unknown"
        if approval.asked_ago > ASK_SECONDS:
            return "expired"
        if approval.kind != "resume" and not waiting_plan(approval).orders:
            return "unseen"  # nobody approves what they cannot see
        wanted: ApprovalVerdict = "approve"
        own: OwnAnswer = "own"
        if not self._is_another(approval, self._me(approval)):
            own = own_answer(self._second(), approval.asked_ago, typed=typed)
            wanted = "self-approved" if own == "may" else "refused-approval"
        if await self._store.approve(plan_hash, self._actor, self._why(), wanted=wanted):
            return "approved"
        return "own" if own == "may" else own

    async def withdraw(self, plan_hash: str) -> bool:
        """Take back what this person asked for; False where they did not, or it no longer waits."""
        return await self._store.approve(plan_hash, self._actor, self._why(), wanted="withdrawn")

    async def why_not(self, answered: Answered, plan_hash: str) -> str:
        """What to say of an answer that is no approval."""
        approval, delay = await self._store.approval(plan_hash), self._second().delay
        if answered == "early" and approval is not None and delay is not None:
            left = math.ceil(max(1.0, delay - approval.asked_ago))
            return f"{NOT_APPROVED[answered]}, {left} s more"
        return NOT_APPROVED[answered]

    def _me(self, approval: Approval) -> Person:
        actor = self._actor
        return Person(actor.os_user, approval.reader_role, actor.host, actor.uid, actor.foreign_namespace)

    def _why(self) -> ActContext:
        return ActContext(at=self._clock(), operation=uuid.uuid4().hex, reason="four-eyes")


def settle_hash(attempt: Attempt, claimed: str, order: str | None, note: str) -> str:
    """Identifies what somebody says became of this attempt's order."""
    return _short(["settle", attempt.entry_id, attempt.attempt_no, attempt.client_order_id, claimed, order, note])


def resume_hash(halt: Halt) -> str:
    return _short(["resume", halt.since, halt.operator, halt.note])


def _short(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

"""Approvals by a second person: one OS user asks, another approves. Knows the store, no venue and no screen."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from backends.records import ActContext, Actor, Approval, Attempt, Halt
from backends.store import Store
from console.clock import Clock

if TYPE_CHECKING:
    from console.services.replay.target import SendPlan

APPROVAL_SECONDS = 300.0
ApprovalKind = Literal["replay", "settle", "resume"]


class Approvals:
    def __init__(self, store: Store, actor: Actor, clock: Clock) -> None:
        self._store = store
        self._actor = actor
        self._clock = clock

    async def given(self, plan_hash: str) -> bool:
        """True if another person approved this, and the approval has not expired."""
        approval = await self._store.approval(plan_hash)
        return approval is not None and self._is_given(approval)

    @staticmethod
    def _is_given(approval: Approval) -> bool:
        if approval.approved_by is None or approval.approved_ago is None:
            return False
        return approval.approved_by != approval.asked_by and approval.approved_ago <= APPROVAL_SECONDS

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

    async def approve(self, plan_hash: str) -> str | None:
        """What was approved; None if this person may not approve it. Raises KeyError for an unknown plan."""
        approval = await self._store.approval(plan_hash)
        if approval is None:
            raise KeyError(plan_hash)
        return approval.summary if await self._store.approve(plan_hash, self._actor, self._why()) else None

    def _why(self) -> ActContext:
        return ActContext(at=self._clock(), operation=uuid.uuid4().hex, reason="four-eyes")


def settle_hash(attempt: Attempt, claimed: str, order: str | None, note: str) -> str:
    """Identifies what somebody says became of this attempt's order."""
    return _short(["settle", attempt.entry_id, attempt.attempt_no, attempt.client_order_id, claimed, order, note])


def resume_hash(halt: Halt) -> str:
    return _short(["resume", halt.since, halt.operator, halt.note])


def _short(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

"""Approvals by a second person: one OS user asks, another approves. Knows the store, no venue and no screen."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import TYPE_CHECKING

from backends.records import ActContext, Actor, Attempt, Halt
from backends.store import Store
from console.clock import Clock

if TYPE_CHECKING:
    from console.services.replay.target import SendPlan

APPROVAL_SECONDS = 300.0


class Approvals:
    def __init__(self, store: Store, actor: Actor, clock: Clock) -> None:
        self._store = store
        self._actor = actor
        self._clock = clock

    async def given(self, plan_hash: str) -> bool:
        """True if another person approved this, and the approval has not expired."""
        approval = await self._store.approval(plan_hash)
        if approval is None or approval.approved_by is None or approval.approved_ago is None:
            return False
        return approval.approved_by != approval.asked_by and approval.approved_ago <= APPROVAL_SECONDS

    async def given_or_asked(self, plan_hash: str, summary: str) -> bool:
        if await self.given(plan_hash):
            return True
        await self._store.ask(plan_hash, summary, self._actor, self._why())
        return False

    async def may_replay(self, plan: SendPlan) -> bool:
        """True if the plan needs no approval or has one; otherwise asks for it and returns False."""
        if plan.needs_second is None:
            return True
        return await self.given_or_asked(plan.hash, plan.summary)

    async def may_resume(self, halt: Halt) -> bool:
        return await self.given_or_asked(resume_hash(halt), f"resume after the halt by {halt.operator}: {halt.note}")

    async def approve(self, plan_hash: str) -> str | None:
        """What was approved; None if this person may not approve it. Raises KeyError for an unknown plan."""
        approval = await self._store.approval(plan_hash)
        if approval is None:
            raise KeyError(plan_hash)
        return approval.summary if await self._store.approve(plan_hash, self._actor, self._why()) else None

    def _why(self) -> ActContext:
        return ActContext(at=self._clock(), operation=uuid.uuid4().hex, reason="four-eyes")


def absence_hash(attempt: Attempt) -> str:
    """Identifies the question "is this attempt's order really absent at the venue?"."""
    return _short(["absent", attempt.entry_id, attempt.attempt_no, attempt.client_order_id])


def resume_hash(halt: Halt) -> str:
    return _short(["resume", halt.since, halt.operator, halt.note])


def _short(parts: list[object]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

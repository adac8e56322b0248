"""The bugs themselves: each makes a console wrong in one way, in the process that is to run it.

A bug may also be done to the store behind the console's back, where no console could be wrong enough.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

from backends.records import Attempt
from backends.sql import claims
from backends.sql.plan_reads import SQLPlanReads
from backends.sql.writer import Transaction
from console.services.evidence import lookup_verdict as verdict
from console.services.evidence import payload, reconcile
from console.services.evidence.reconcile import Waited
from console.services.replay import attempt as record
from console.services.replay import submit as send
from console.services.replay.submit import AttemptContext, SubmitResult
from tests.faults.ground import Ground
from venues import Outcome, Prepared, Rejected, Unknown

Patch = Callable[[Ground], None]


def plant(where: object, name: str, wrong: object) -> None:
    """A bug is only planted where something right was."""
    assert hasattr(where, name), f"{where} has no {name} any more"
    setattr(where, name, wrong)


def nothing(_: Ground) -> None:
    return


def submit_before_intent(_: Ground) -> None:
    async def wrong(self: send.OrderSubmitter, context: AttemptContext) -> SubmitResult:
        prepared = send._prepare(context)
        assert isinstance(prepared, Prepared)
        outcome = await self._submit(context.lane, prepared)
        self._at("answered")
        attempt = await self._intend(context, prepared, "late")
        assert isinstance(attempt, Attempt)
        return await self._outcome(context, outcome)

    plant(send.OrderSubmitter, "_intend_and_submit", wrong)


def submit_again(change: Callable[[Prepared], Prepared]) -> Patch:
    def patch(_: Ground) -> None:
        submit = send.OrderSubmitter._submit

        async def wrong(self: send.OrderSubmitter, lane: Any, prepared: Prepared) -> Outcome:
            outcome = await submit(self, lane, prepared)
            return await submit(self, lane, change(prepared)) if isinstance(outcome, Unknown) else outcome

        plant(send.OrderSubmitter, "_submit", wrong)

    return patch


def renamed(prepared: Prepared) -> Prepared:
    fresh = uuid.uuid4().hex
    body = prepared.body.replace(prepared.client_order_id.encode(), fresh.encode())
    return replace(prepared, client_order_id=fresh, body=body)


def outcome_as(wrong_one: type[Unknown] | type[Rejected], outcome: Callable[[Any], Outcome]) -> Patch:
    def patch(_: Ground) -> None:
        right = send.OrderSubmitter._outcome

        async def wrong(self: send.OrderSubmitter, context: AttemptContext, seen: Outcome) -> SubmitResult:
            return await right(self, context, outcome(seen) if isinstance(seen, wrong_one) else seen)

        plant(send.OrderSubmitter, "_outcome", wrong)

    return patch


def no_claim(ground: Ground) -> None:
    """Neither claim nor unique index: whoever comes sends."""
    right = claims.SQLClaims.claim

    async def free(*_: object, **__: object) -> None:
        return None

    async def taken_anyway(*given: Any) -> object:
        _sql(ground, "UPDATE console_claim SET source = 'elsewhere'")
        return await right(*given)

    async def nobody(*_: object) -> dict[str, str]:
        return {}

    plant(SQLPlanReads, "live_claims", nobody)
    plant(claims.SQLClaims, "_obstacle", free)
    plant(claims.SQLClaims, "claim", taken_anyway)
    plant(claims, "_HOLDS", ())
    _sql(ground, "DROP TRIGGER IF EXISTS console_attempt_ins")
    _sql(
        ground,
        "CREATE TRIGGER IF NOT EXISTS unheld AFTER INSERT ON console_attempt "
        "BEGIN UPDATE console_attempt SET holds = NULL WHERE id = NEW.id; END",
    )


def outcome_outside_the_transaction(_: Ground) -> None:
    """The attempt's end is committed; the entry's own columns were to follow, and the process dies in between."""

    async def later(*_: object, **__: object) -> dict[str, object]:
        return {}

    plant(claims.SQLClaims, "_mark", later)


def no_audit(_: Ground) -> None:
    async def silent(*_: object, **__: object) -> None:
        return None

    plant(Transaction, "audit", silent)


def dismiss_in_doubt(ground: Ground) -> None:
    _sql(ground, "UPDATE order_dlq SET dismissed = 1")


def lose_an_entry(ground: Ground) -> None:
    with closing(sqlite3.connect(ground.target)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("DELETE FROM order_dlq")


def rewrite_the_audit(ground: Ground) -> None:
    with closing(sqlite3.connect(ground.target)) as connection, connection:
        connection.execute("DROP TRIGGER console_audit_upd")
        connection.execute("UPDATE console_audit SET body = CAST(replace(body, 'ann', 'bob') AS BLOB) WHERE seq = 1")


def retry_count_on_429(ground: Ground) -> None:
    _sql(ground, "UPDATE order_dlq SET retry_count = retry_count + 1")


def _sql(ground: Ground, statement: str) -> None:
    with closing(sqlite3.connect(ground.target)) as connection, connection:
        connection.execute(statement)


def reconcile_submits(_: Ground) -> None:
    ask = reconcile.Reconciliation._ask

    async def wrong(self: reconcile.Reconciliation, attempt: Attempt, *, sure: bool) -> verdict.LookupVerdict:
        seen = await ask(self, attempt, sure=sure)
        if seen.kind == "absent":
            prepared = payload.decode(attempt.payload)
            assert prepared is not None
            await (await self._pool.client(attempt.venue, "paper")).submit(prepared)
            return await ask(self, attempt, sure=sure)
        return seen

    plant(reconcile.Reconciliation, "_ask", wrong)


def absent_too_early(_: Ground) -> None:
    async def at_once(*_: object) -> Waited:
        return Waited(True, "", unbounded=False)

    plant(reconcile.Reconciliation, "_waited", at_once)
    plant(reconcile, "LOOK_UPS", 1)


def failed_look_up_as_absent(ground: Ground) -> None:
    absent_too_early(ground)
    judge = verdict.judge

    def wrong(action: Any, lookup: Any) -> verdict.LookupVerdict:
        seen = judge(action, lookup)
        return verdict.LookupVerdict("absent", "not found") if seen.kind == "no-answer" else seen

    plant(reconcile, "judge", wrong)


def adopts_a_different_order(_: Ground) -> None:
    def wrong(action: Any, lookup: Any) -> verdict.LookupVerdict:
        seen = verdict.judge(action, lookup)
        return replace(seen, kind="ours") if seen.kind == "conflict" else seen

    plant(send, "judge", wrong)


def never_gives_back(_: Ground) -> None:
    async def keep(*_: object) -> None:
        return None

    plant(record.AttemptLedger, "release", keep)


def other_bytes(_: Ground) -> None:
    submit = send.OrderSubmitter._submit

    async def wrong(self: send.OrderSubmitter, lane: Any, prepared: Prepared) -> Outcome:
        body = prepared.body.replace(b'"limit_price":"1"', b'"limit_price":"2"')
        return await submit(self, lane, replace(prepared, body=body))

    plant(send.OrderSubmitter, "_submit", wrong)

"""The bugs themselves: each makes a console wrong in one way, in the process that is to run it.

A bug may also be done to the store behind the console's back, where no console could be wrong enough.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any

from backends.records import Attempt
from backends.sql import claims
from backends.sql.plan_reads import SQLPlanReads
from backends.sql.writer import Transaction
from backends.store import Intent
from console.services.evidence import lookup_verdict as verdict
from console.services.evidence import payload, reconcile
from console.services.evidence.reconcile import VenueWord
from console.services.replay import attempt as record
from console.services.replay import submit as send
from console.services.replay.submit import AttemptContext, SubmitResult
from console.services.replay.venue_pool import VenueAccount
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
        attempt = await self._intend(context, prepared, "late", notional=None)
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

    async def taken_anyway(*given: Any, **how: Any) -> object:
        _sql(ground, "UPDATE console_claim SET source = 'elsewhere'")
        return await right(*given, **how)

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
    ask = reconcile.Reconciliation.ask

    async def wrong(self: reconcile.Reconciliation, attempt: Attempt) -> VenueWord:
        word = await ask(self, attempt)
        prepared = payload.decode(attempt.payload)
        if word.verdict.kind != "absent" or prepared is None:
            return word
        at = VenueAccount(attempt.venue, prepared.action.account_id or None)
        await (await self._pool.client(at, "paper")).submit(prepared)
        return await ask(self, attempt)

    plant(reconcile.Reconciliation, "ask", wrong)


def absent_too_early(_: Ground) -> None:
    def at_once(*_: object, **__: object) -> None:
        return None

    plant(reconcile, "absence_gap", at_once)
    plant(reconcile, "LOOK_UPS", 1)


def failed_look_up_as_absent(ground: Ground) -> None:
    absent_too_early(ground)

    def wrong(action: Any, lookup: Any, *, not_before: datetime | None = None) -> verdict.LookupVerdict:
        seen = verdict.judge(action, lookup, not_before=not_before)
        return verdict.LookupVerdict("absent", "not found") if seen.kind == "no-answer" else seen

    plant(reconcile, "judge", wrong)


def another_account_as_the_same(ground: Ground) -> None:
    """Whoever's account answers is believed, and at once."""
    absent_too_early(ground)

    def same(*_: object) -> str:
        return "same"

    plant(reconcile, "account_match", same)


def forgets_the_account(_: Ground) -> None:
    """Neither whose account it was nor with which key."""
    right = record.AttemptLedger.intend

    async def wrong(self: record.AttemptLedger, held: Any, intent: Intent) -> Any:
        return await right(self, held, replace(intent, account=None, key_digest=""))

    plant(record.AttemptLedger, "intend", wrong)


def never_asks_first(_: Ground) -> None:
    """Trusts its own ledger: after a restore from a backup that knows nothing."""

    async def nothing_there(_: object, context: object) -> object:
        return context

    plant(send.OrderSubmitter, "_asked_before", nothing_there)


def adopts_a_different_order(_: Ground) -> None:
    def wrong(action: Any, lookup: Any, *, not_before: datetime | None = None) -> verdict.LookupVerdict:
        seen = verdict.judge(action, lookup, not_before=not_before)
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

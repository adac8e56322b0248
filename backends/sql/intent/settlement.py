"""Settles an engine's intent by evidence: resolves it, keeps the attempt, and makes an entry of what never arrived.

Everything is one transaction with its audit event. Of an intent only `resolved_at` and `venue_order_id` are written.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import sqlalchemy as sa

from backends.layouts import intents, orders
from backends.records import ENGINE_SEND, ActContext, Actor, Attempt, storable
from backends.sql.acts import verbatim
from backends.sql.claims import SQLClaims
from backends.sql.intent.select import IntentSelect
from backends.sql.postgres_columns import EQ
from backends.sql.writer import Transaction
from backends.store import Result

_STATES = {"accepted": "accepted", "rejected": "rejected", "not_sent": "absent"}
_SQLITE_MOMENT = "strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"


class IntentClaims(SQLClaims):
    """Claims of an order store; it settles the engine's own sends too."""

    async def settle(self, attempt: Attempt, result: Result, actor: Actor, why: ActContext) -> bool:
        if attempt.attempt_no != ENGINE_SEND:
            return await super().settle(attempt, result, actor, why)
        assert result.outcome != "unknown", "what is not known changes nothing"

        async def work(tx: Transaction) -> bool:
            if not await self._resolved(tx, attempt, result):
                return False
            await self._keep(tx, attempt, result, actor, why)
            return True

        return await self._acts.writing.run(work)

    async def _resolved(self, tx: Transaction, attempt: Attempt, result: Result) -> bool:
        """Only where it is as it was when the venue was asked: an engine that came back, or another console, wins."""
        order = None if result.venue_order_id is None else storable(result.venue_order_id)
        this = {"given_entry_id": attempt.entry_id}
        async with tx.as_owners_do():
            seen = this | {"given_order": order, "given_lease": attempt.lease_seen}
            if not (await tx.execute(self._resolve, seen)).fetchall():
                return False
            if result.outcome != "accepted":
                await tx.execute(self._insert, this)
        return True

    @cached_property
    def _select(self) -> IntentSelect:
        return IntentSelect(self._attached)

    @property
    def _this(self) -> str:
        if self._select.on_postgres:
            return f"{verbatim(self._select.identity)} {EQ} CAST(:given_entry_id AS pg_catalog.text)"
        return f"{verbatim(self._select.identity)} = :given_entry_id"

    @cached_property
    def _resolve(self) -> sa.TextClause:
        select, found = self._select, self._attached.found
        if select.on_postgres:
            lease = "CAST(CAST(:given_lease AS pg_catalog.text) AS pg_catalog.timestamptz)"
            moment, text = "pg_catalog.clock_timestamp()", "CAST(:given_order AS pg_catalog.text)"
            same, equal = f"lease_until {EQ} {lease} AND lease_until OPERATOR(pg_catalog.<) {moment}", EQ
        else:
            moment, text, equal = _SQLITE_MOMENT.replace(":", "\\:"), ":given_order", "="
            same = f"CAST(lease_until AS TEXT) = :given_lease AND {verbatim(select.gone)}"
        queue = f"SELECT 1 FROM {verbatim(found.quoted)} q WHERE q.dlq_id {equal} {verbatim(select.table)}.dlq_id"
        return sa.text(
            f"UPDATE {verbatim(select.table)} SET resolved_at = {moment}, venue_order_id = {text} WHERE {self._this} "
            f"AND resolved_at IS NULL AND {same} AND NOT EXISTS ({queue}) RETURNING 1"
        )

    @cached_property
    def _insert(self) -> sa.TextClause:
        """The columns as the engine wrote them, copied within the database."""
        there, found = self._attached.intents, self._attached.found
        assert there is not None, "there is an intent to settle"
        dismissed = found.column("dismissed")
        is_bool = dismissed is not None and dismissed.type.startswith("bool")
        fixed = {"error": f"'{intents.ERROR}'", "retry_count": "0", "dismissed": "false" if is_bool else "0"}
        given = {name: fixed.get(name, orders.quoted(name)) for name in orders.COLUMNS if found.column(name)}
        told = {name: value for name, value in given.items() if name in fixed or there.column(name)}
        return sa.text(
            f"INSERT INTO {verbatim(found.quoted)} ({', '.join(map(orders.quoted, told))}) "
            f"SELECT {', '.join(told.values())} FROM {verbatim(self._select.table)} WHERE {self._this}"
        )

    async def _keep(self, tx: Transaction, attempt: Attempt, result: Result, actor: Actor, why: ActContext) -> None:
        """The engine's send as an attempt of the ledger, with its event. It had no claim: its token is 0."""
        ((last,),) = await tx.ask(self._sending.last_attempt, source=tx.source, entry_id=attempt.entry_id)
        state = _STATES[result.outcome]
        told = {
            "attempt_no": int(last) + 1,
            "mode": attempt.mode,
            "venue": storable(attempt.venue),
            "client_order_id": storable(attempt.client_order_id),
            "payload_hash": "",
            "account": None if attempt.account is None else storable(attempt.account),
            "key_digest": "",
        }
        ended: dict[str, Any] = {
            "venue_order_id": None if result.venue_order_id is None else storable(result.venue_order_id),
            "error": None if result.error is None else storable(result.error),
        }
        row = {**told, **ended, "source": tx.source, "entry_id": attempt.entry_id, "state": state, "rehearsal": 0}
        row |= {"holds": 1 if state == "accepted" else None, "payload": b"", "token": 0}
        row |= {"operator": storable(actor.operator), "os_user": storable(actor.os_user)}
        row |= {"started_at": attempt.started_at, "finished_at": why.at.isoformat()}
        if tx.on_postgres:
            row["role"] = sa.literal_column("SESSION_USER")
        await tx.execute(self._book.attempt.insert().values(**row))
        after = {"resolved": True} | ({"inserted": True} if state != "accepted" else {})
        detail = {"entries": [attempt.entry_id], "origin": "intent", **told, "rehearsal": False, **ended}
        detail |= {"outcome": result.outcome, "evidence": result.evidence, "after": after}
        await tx.audit("reconcile", (attempt.entry_id,), actor, why, detail=detail)

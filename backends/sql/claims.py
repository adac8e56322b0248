"""Claims, intents and outcomes: who may send an entry, what was sent, how it ended. Fenced, one transaction each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, assert_never

import sqlalchemy as sa

from backends.detect import Attached
from backends.ledger.schema import Ledger
from backends.records import Actor, Attempt, Version, Why, storable
from backends.sql.flip import POSTGRES_NOW, SQLITE_NOW, is_plain
from backends.sql.log import SQLLog
from backends.sql.shape import Shape
from backends.sql.transaction import Transaction
from backends.store import Claim, Intent, Result, Taken

_HOLDS = ("submitting", "in_doubt", "accepted")


class SQLClaims:
    def __init__(self, attached: Attached, book: Ledger, acts: SQLLog) -> None:
        self._attached = attached
        self._book = book
        self._acts = acts
        self._bare = Shape(attached, with_ledger=True)
        now = POSTGRES_NOW if attached.info.dialect == "postgresql" else SQLITE_NOW
        self._moment: Any = sa.literal_column(now, sa.Float)

    async def claim(self, entry_id: str, version: Version, actor: Actor, lease: float) -> Claim | Taken:
        claim = self._book.claim

        async def work(tx: Transaction) -> Claim | Taken:
            if why := await self._obstacle(tx, entry_id, version):
                return why
            mine = (claim.c.source == tx.source, claim.c.entry_id == entry_id, claim.c.released.is_(None))
            await tx.execute(sa.update(claim).where(*mine, claim.c.expires_at <= self._moment).values(released=1))
            held = (await tx.execute(sa.select(claim.c.owner).where(*mine))).first()
            if held is not None:
                return Taken(entry_id, f"claimed by {held[0]}", "claimed")
            inserted = await tx.execute(
                claim.insert()
                .values(
                    source=tx.source,
                    entry_id=entry_id,
                    owner=storable(f"{actor.operator} ({actor.os_user}@{actor.host})"),
                    claimed_at=self._moment,
                    expires_at=self._moment + lease,
                )
                .returning(claim.c.token)
            )
            return Claim(entry_id, int(inserted.scalar_one()), version)

        return await self._acts.writing.run(work)

    async def intend(self, claim: Claim, intent: Intent, actor: Actor, why: Why) -> Attempt | Taken:
        table = self._book.claim
        held = sa.select(table.c.expires_at).where(
            table.c.token == claim.token, table.c.released.is_(None), table.c.expires_at > self._moment
        )

        async def work(tx: Transaction) -> Attempt | Taken:
            if obstacle := await self._obstacle(tx, claim.entry_id, claim.version, lock=True):
                return obstacle
            lease = (await tx.execute(held)).first()
            if lease is None:
                return Taken(claim.entry_id, "the claim ran out before anything was sent", "claimed")
            attempt = await self._next_attempt(tx, claim, intent, actor, why)
            told = {"attempt_no": attempt.attempt_no, "mode": attempt.mode, "venue": attempt.venue}
            told |= {"client_order_id": attempt.client_order_id, "payload_hash": attempt.payload_hash}
            detail = {"entries": [claim.entry_id], **told, "rehearsal": intent.rehearsal, "detail": intent.detail}
            await tx.audit("intent", (claim.entry_id,), actor, why, detail=detail)
            return replace(attempt, lease_until=float(lease[0]))

        return await self._acts.writing.run(work)

    async def _next_attempt(self, tx: Transaction, claim: Claim, intent: Intent, actor: Actor, why: Why) -> Attempt:
        table = self._book.attempt
        last = sa.select(sa.func.coalesce(sa.func.max(table.c.attempt_no), 0)).where(
            table.c.source == tx.source, table.c.entry_id == claim.entry_id
        )
        attempt = Attempt(
            entry_id=claim.entry_id,
            attempt_no=int((await tx.execute(last)).scalar_one()) + 1,
            mode=storable(intent.mode),
            venue=storable(intent.venue),
            client_order_id=storable(intent.client_order_id),
            payload_hash=storable(intent.payload_hash),
            outcome=None,
            venue_order_id=None,
            error=None,
            started_at=why.at.isoformat(),
            finished_at=None,
            operator=storable(actor.operator),
            os_user=storable(actor.os_user),
            rehearsal=intent.rehearsal,
            payload=intent.payload,
        )
        same = ("entry_id", "attempt_no", "mode", "venue", "client_order_id", "payload_hash", "payload", "started_at")
        row = {name: getattr(attempt, name) for name in (*same, "operator", "os_user")}
        row |= {"source": tx.source, "token": claim.token, "state": "submitting", "rehearsal": int(intent.rehearsal)}
        await tx.execute(table.insert(), {**row, "holds": None if intent.rehearsal else 1})
        return attempt

    async def conclude(self, claim: Claim, result: Result, actor: Actor, why: Why) -> bool:
        attempt = self._book.attempt

        async def work(tx: Transaction) -> bool:
            mine = sa.select(attempt).where(
                attempt.c.token == claim.token,
                attempt.c.source == tx.source,
                attempt.c.entry_id == claim.entry_id,
                attempt.c.state == "submitting",
            )
            row = (await tx.execute(mine)).mappings().first()
            await self._release(tx, claim.token)
            if row is None:
                detail: dict[str, object] = {"outcome": result.outcome, "evidence": result.evidence}
                detail |= {"venue_order_id": result.venue_order_id, "error": result.error}
                await tx.audit(
                    "late-outcome", (claim.entry_id,), actor, why, detail={"entries": [claim.entry_id], **detail}
                )
                return False
            await self._finish(tx, dict(row), result, actor, why)
            return True

        return await self._acts.writing.run(work)

    async def settle(self, attempt: Attempt, result: Result, actor: Actor, why: Why) -> bool:
        table = self._book.attempt

        async def work(tx: Transaction) -> bool:
            this = sa.select(table).where(
                table.c.source == tx.source,
                table.c.entry_id == attempt.entry_id,
                table.c.attempt_no == attempt.attempt_no,
                table.c.state.in_(("submitting", "in_doubt")),
            )
            row = (await tx.execute(this)).mappings().first()
            if row is None:
                return False
            await self._release(tx, int(row["token"]))
            await self._finish(tx, dict(row), result, actor, why)
            return True

        return await self._acts.writing.run(work)

    async def release(self, claim: Claim) -> None:
        async def work(tx: Transaction) -> None:
            await self._release(tx, claim.token)

        await self._acts.writing.run(work)

    async def _release(self, tx: Transaction, token: int) -> None:
        table = self._book.claim
        await tx.execute(sa.update(table).where(table.c.token == token, table.c.released.is_(None)).values(released=1))

    async def _finish(self, tx: Transaction, row: Mapping[str, Any], result: Result, actor: Actor, why: Why) -> None:
        """The attempt's end, its audit, and what it does to the entry's own columns."""
        attempt, entry_id, was_doubted = self._book.attempt, str(row["entry_id"]), row["state"] == "in_doubt"
        state = _state(result, was_doubted=was_doubted)
        values = {
            "state": state,
            "holds": 1 if state in _HOLDS and not row["rehearsal"] else None,
            "venue_order_id": None if result.venue_order_id is None else storable(result.venue_order_id),
            "error": None if result.error is None else storable(result.error),
            "finished_at": why.at.isoformat(),
        }
        await tx.execute(sa.update(attempt).where(attempt.c.id == row["id"]).values(**values))
        after: dict[str, object] = {}
        if not row["rehearsal"]:
            bump = result.outcome in ("rejected", "unknown") if result.counts is None else result.counts
            after = await self._mark(tx, entry_id, settled=result.outcome == "accepted", bump=bump and not was_doubted)
        detail = {
            "entries": [entry_id],
            "attempt_no": row["attempt_no"],
            "outcome": result.outcome,
            "venue_order_id": result.venue_order_id,
            "error": result.error,
            "evidence": result.evidence,
            "rehearsal": bool(row["rehearsal"]),
            "after": after,
        }
        await tx.audit("reconcile" if was_doubted else "outcome", (entry_id,), actor, why, detail=detail)

    async def _mark(self, tx: Transaction, entry_id: str, *, settled: bool, bump: bool) -> dict[str, object]:
        table = self._bare.table
        here = self._is(entry_id)
        if settled:
            boolean = self._bare.on_postgres and self._attached.column("dismissed").type.startswith("bool")
            yes = sa.true() if boolean else sa.literal_column("1")
            await tx.execute(sa.update(table).where(here, self._bare.pending()).values(dismissed=yes))
            return {"dismissed": True}
        if bump and self._attached.counts_retries:
            more = sa.func.coalesce(table.c.retry_count, sa.literal_column("0")) + sa.literal_column("1")
            counts = [] if self._bare.on_postgres else [sa.func.typeof(table.c.retry_count) != "text"]
            bumped = sa.update(table).where(here, *counts).values(retry_count=more).returning(table.c.retry_count)
            return {"retry_count": (await tx.execute(bumped)).scalar()}
        return {}

    def _is(self, entry_id: str) -> Any:
        column = self._bare.table.c.dlq_id
        plain = self._attached.column("dlq_id").type.startswith(("text", "character varying"))
        here = sa.cast(column, sa.Text) if self._bare.on_postgres and not plain else column
        return here == sa.bindparam("entry_id", entry_id, sa.Text)

    async def _obstacle(self, tx: Transaction, entry_id: str, version: Version, *, lock: bool = False) -> Taken | None:
        """Why this entry may not be sent now, by what the store itself says at this moment."""
        if (await tx.execute(sa.select(self._book.halt.c.id))).first() is not None:
            return Taken(entry_id, "halt is set on this store", "halt")
        table, attempt = self._bare.table, self._book.attempt
        names = [name for name in ("retry_count", "dismissed") if name in self._attached.info.columns]
        wanted = sa.select(self._bare.pending(), *(table.c[name] for name in names)).where(self._is(entry_id))
        if not is_plain(entry_id):
            return Taken(entry_id, "its id is not plain text: cannot be acted on", "gone")
        rows = (await tx.execute(wanted.with_for_update() if lock and self._bare.on_postgres else wanted)).fetchall()
        if not rows:
            return Taken(entry_id, "no such entry", "gone")
        if len(rows) > 1:
            return Taken(entry_id, "several rows have this id: cannot tell which is meant", "changed")
        held = sa.select(attempt.c.state).where(
            attempt.c.source == tx.source, attempt.c.entry_id == entry_id, attempt.c.holds == 1
        )
        holding = (await tx.execute(held)).scalar()
        if holding == "accepted":
            return Taken(entry_id, "already replayed", "settled")
        if holding is not None:
            return Taken(entry_id, "in doubt: reconcile first", "in-doubt")
        if not rows[0][0]:
            return Taken(entry_id, "dismissed meanwhile", "settled")
        if tuple(rows[0])[1:] != tuple(version):
            return Taken(entry_id, "changed since it was looked at", "changed")
        return None


def _state(result: Result, *, was_doubted: bool) -> str:
    match result.outcome:
        case "accepted" | "rejected":
            return result.outcome
        case "unknown":
            return "in_doubt"
        case "not_sent":
            return "absent" if was_doubted else "not_sent"
        case _:
            assert_never(result.outcome)

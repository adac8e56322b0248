"""Claims, intents and outcomes: who may send an entry, what was sent, how it ended. Fenced, one transaction each."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from backends.detect import Attached
from backends.ledger.schema import Ledger
from backends.records import Actor, Attempt, Version, Why
from backends.sql.acts import POSTGRES_NOW, SQLITE_NOW, SQLActs
from backends.sql.session import Transaction
from backends.sql.shape import Shape, is_true
from backends.store import Claim, Intent, Result, Taken

_STATE = {"accepted": "accepted", "rejected": "rejected", "unknown": "in_doubt", "not_sent": "not_sent"}
_HOLDS = ("submitting", "in_doubt", "accepted")


class SQLClaims:
    def __init__(self, attached: Attached, book: Ledger, acts: SQLActs) -> None:
        self._attached = attached
        self._book = book
        self._acts = acts
        self._bare = Shape.of(attached, with_ledger=True)
        self._moment = sa.literal_column(
            POSTGRES_NOW if attached.info.dialect == "postgresql" else SQLITE_NOW, sa.Float
        )

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
                    owner=f"{actor.operator} ({actor.os_user}@{actor.host})",
                    claimed_at=self._moment,
                    expires_at=self._moment + lease,
                )
                .returning(claim.c.token)
            )
            return Claim(entry_id, int(str(inserted.scalar_one())), version)

        return await self._acts.writing.run(work)

    async def intend(self, claim: Claim, intent: Intent, actor: Actor, why: Why) -> Attempt | Taken:
        attempt, table = self._book.attempt, self._book.claim

        async def work(tx: Transaction) -> Attempt | Taken:
            if obstacle := await self._obstacle(tx, claim.entry_id, claim.version, lock=True):
                return obstacle
            held = sa.select(table.c.expires_at).where(
                table.c.token == claim.token, table.c.released.is_(None), table.c.expires_at > self._moment
            )
            lease = (await tx.execute(held)).first()
            if lease is None:
                return Taken(claim.entry_id, "the claim ran out before anything was sent", "claimed")
            last = sa.select(sa.func.coalesce(sa.func.max(attempt.c.attempt_no), 0)).where(
                attempt.c.source == tx.source, attempt.c.entry_id == claim.entry_id
            )
            number = int(str((await tx.execute(last)).scalar_one())) + 1
            row = {
                "source": tx.source,
                "entry_id": claim.entry_id,
                "attempt_no": number,
                "mode": intent.mode,
                "rehearsal": int(intent.rehearsal),
                "venue": intent.venue,
                "client_order_id": intent.client_order_id,
                "payload": intent.payload,
                "payload_hash": intent.payload_hash,
                "started_at": why.at.isoformat(),
                "operator": actor.operator,
                "os_user": actor.os_user,
                "token": claim.token,
                "state": "submitting",
                "holds": None if intent.rehearsal else 1,
            }
            await tx.execute(attempt.insert(), row)
            told = {name: row[name] for name in ("attempt_no", "mode", "venue", "client_order_id", "payload_hash")}
            detail = {
                "entries": [claim.entry_id],
                **told,
                "rehearsal": intent.rehearsal,
                "detail": intent.detail,
            }
            await tx.audit("intent", (claim.entry_id,), actor, why, detail=detail)
            return Attempt(
                entry_id=claim.entry_id,
                attempt_no=number,
                mode=intent.mode,
                venue=intent.venue,
                client_order_id=intent.client_order_id,
                payload_hash=intent.payload_hash,
                outcome=None,
                venue_order_id=None,
                error=None,
                started_at=why.at.isoformat(),
                finished_at=None,
                operator=actor.operator,
                os_user=actor.os_user,
                rehearsal=intent.rehearsal,
                payload=intent.payload,
                lease_until=float(str(lease[0])),
            )

        return await self._acts.writing.run(work)

    async def conclude(self, claim: Claim, result: Result, actor: Actor, why: Why) -> bool:
        attempt = self._book.attempt

        async def work(tx: Transaction) -> bool:
            mine = (
                attempt.c.token == claim.token,
                attempt.c.source == tx.source,
                attempt.c.entry_id == claim.entry_id,
            )
            row = (
                (await tx.execute(sa.select(attempt).where(*mine, attempt.c.state == "submitting"))).mappings().first()
            )
            await self._release(tx, claim.token)
            if row is None:
                detail = {"entries": [claim.entry_id], "outcome": result.outcome, "evidence": result.evidence}
                detail["venue_order_id"] = result.venue_order_id
                await tx.audit("late-outcome", (claim.entry_id,), actor, why, detail=detail)
                return False
            await self._finish(tx, row, result, actor, why)
            return True

        return await self._acts.writing.run(work)

    async def settle(self, attempt: Attempt, result: Result, actor: Actor, why: Why) -> bool:
        table = self._book.attempt

        async def work(tx: Transaction) -> bool:
            this = (
                table.c.source == tx.source,
                table.c.entry_id == attempt.entry_id,
                table.c.attempt_no == attempt.attempt_no,
                table.c.state.in_(("submitting", "in_doubt")),
            )
            row = (await tx.execute(sa.select(table).where(*this))).mappings().first()
            if row is None:
                return False
            await self._release(tx, int(row["token"]))
            await self._finish(tx, row, result, actor, why)
            return True

        return await self._acts.writing.run(work)

    async def release(self, claim: Claim) -> None:
        async def work(tx: Transaction) -> None:
            await self._release(tx, claim.token)

        await self._acts.writing.run(work)

    async def _release(self, tx: Transaction, token: int) -> None:
        table = self._book.claim
        await tx.execute(sa.update(table).where(table.c.token == token, table.c.released.is_(None)).values(released=1))

    async def _finish(self, tx: Transaction, row: Mapping[str, object], result: Result, actor: Actor, why: Why) -> None:
        """The attempt's end, its audit, and what it does to the entry's own columns."""
        attempt = self._book.attempt
        entry_id = str(row["entry_id"])
        was_doubted = row["state"] == "in_doubt"
        state = "absent" if result.outcome == "not_sent" and was_doubted else _STATE[result.outcome]
        values = {
            "state": state,
            "holds": 1 if state in _HOLDS and not row["rehearsal"] else None,
            "venue_order_id": result.venue_order_id,
            "error": result.error,
            "finished_at": why.at.isoformat(),
        }
        await tx.execute(sa.update(attempt).where(attempt.c.id == row["id"]).values(**values))
        after: dict[str, object] = {}
        if not row["rehearsal"]:
            bump = result.outcome in ("rejected", "unknown") and not was_doubted
            after = await self._mark(tx, entry_id, settled=result.outcome == "accepted", bump=bump)
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
        here = table.c.dlq_id == entry_id
        if settled:
            column = self._attached.found.column("dismissed")
            boolean = column is not None and column.type.startswith("bool") and self._bare.on_postgres
            yes = sa.true() if boolean else sa.literal(1)
            await tx.execute(sa.update(table).where(here, self._bare.pending()).values(dismissed=yes))
            return {"dismissed": True}
        if bump and "retry_count" in self._attached.info.columns:
            more = sa.func.coalesce(table.c.retry_count, 0) + sa.literal_column("1")
            bumped = await tx.execute(
                sa.update(table).where(here).values(retry_count=more).returning(table.c.retry_count)
            )
            return {"retry_count": bumped.scalar()}
        return {}

    async def _obstacle(self, tx: Transaction, entry_id: str, version: Version, *, lock: bool = False) -> Taken | None:
        """Why this entry may not be sent now, by what the store itself says at this moment."""
        if (await tx.execute(sa.select(self._book.halt.c.id))).first() is not None:
            return Taken(entry_id, "halt is set on this store", "halt")
        table, attempt = self._bare.table, self._book.attempt
        names = [name for name in ("retry_count", "dismissed") if name in self._attached.info.columns]
        wanted = sa.select(*(table.c[name] for name in names)).where(table.c.dlq_id == entry_id)
        row = (await tx.execute(wanted.with_for_update() if lock and self._bare.on_postgres else wanted)).first()
        if row is None:
            return Taken(entry_id, "no such entry", "gone")
        held = sa.select(attempt.c.state).where(
            attempt.c.source == tx.source, attempt.c.entry_id == entry_id, attempt.c.holds == 1
        )
        holding = (await tx.execute(held)).scalar()
        if holding == "accepted":
            return Taken(entry_id, "already replayed", "settled")
        if holding is not None:
            return Taken(entry_id, "in doubt: reconcile first", "in-doubt")
        if is_true(row[-1]):
            return Taken(entry_id, "dismissed meanwhile", "settled")
        if tuple(row) != tuple(version):
            return Taken(entry_id, "changed since it was looked at", "changed")
        return None

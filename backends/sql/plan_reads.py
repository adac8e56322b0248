"""Reads what a plan needs before anything is sent (claims, attempts, recent replays) and keeps its approvals."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from backends.records import ActContext, Actor, Approval, Attempt, Entry
from backends.sql.acts import POSTGRES_NOW, SQLITE_NOW, SQLActs, SQLLog
from backends.sql.connection import Connection
from backends.sql.history import SQLHistory
from backends.sql.reads import SQLReads
from backends.sql.writer import Transaction

_CHUNK = 500


class SQLPlanReads(SQLHistory, SQLLog):
    """For every layout: claims, attempts and approvals."""

    @property
    def _clock_now(self) -> Any:
        return sa.literal_column(POSTGRES_NOW if self._attached.info.dialect == "postgresql" else SQLITE_NOW, sa.Float)

    async def live_claims(self, ids: tuple[str, ...]) -> dict[str, str]:
        """Who holds each entry now, by entry id."""
        claim = self._book.claim
        where = (claim.c.released.is_(None), claim.c.expires_at > self._clock_now)
        rows = await self._each(ids, sa.select(claim.c.entry_id, claim.c.owner).where(*where), claim)
        return {row[0]: row[1] for row in rows}

    async def attempts_of(self, ids: tuple[str, ...]) -> dict[str, tuple[Attempt, ...]]:
        attempt = self._book.attempt
        found: dict[str, list[Attempt]] = {}
        for start in range(0, len(ids), _CHUNK):
            among = attempt.c.entry_id.in_(ids[start : start + _CHUNK])
            for one in await self._attempts((among,), attempt.c.id):
                found.setdefault(one.entry_id, []).append(one)
        return {entry_id: tuple(attempts) for entry_id, attempts in found.items()}

    async def ask(self, plan_hash: str, summary: str, actor: Actor, why: ActContext) -> None:
        """Ask a second person to approve a plan; asking again keeps an approval."""
        approval = self._book.approval

        async def work(tx: Transaction) -> None:
            there = (await tx.execute(sa.select(approval.c.plan_hash).where(approval.c.plan_hash == plan_hash))).first()
            if there is None:
                row = {"plan_hash": plan_hash, "asked_by": _identity(actor, tx.role), "summary": summary}
                await tx.execute(approval.insert().values(asked_at=self._clock_now, **row))
            else:
                again = sa.update(approval).where(approval.c.plan_hash == plan_hash, approval.c.approved_at.is_(None))
                await tx.execute(again.values(asked_by=_identity(actor, tx.role), asked_at=self._clock_now))
            detail = {"entries": [], "plan": plan_hash, "summary": summary}
            await tx.audit("ask-approval", (), actor, why, detail=detail)

        await self.writing.run(work)

    async def approve(self, plan_hash: str, actor: Actor, why: ActContext) -> bool:
        """False if the asker would approve their own plan, or if nobody asked."""
        approval = self._book.approval

        async def work(tx: Transaction) -> bool:
            this = approval.c.plan_hash == plan_hash
            asked_by = (await tx.execute(sa.select(approval.c.asked_by).where(this))).scalar()
            mine = _identity(actor, tx.role)
            same = asked_by is None or asked_by == mine
            if not same:
                values = {"approved_by": mine, "approved_at": self._clock_now}
                await tx.execute(sa.update(approval).where(this).values(**values))
            kind = "refused-approval" if same else "approve"
            await tx.audit(kind, (), actor, why, detail={"entries": [], "plan": plan_hash, "asked_by": asked_by})
            return not same

        return await self.writing.run(work)

    async def approval(self, plan_hash: str) -> Approval | None:
        approval = self._book.approval
        columns = (approval.c.plan_hash, approval.c.asked_by, approval.c.summary, approval.c.approved_by)
        age = self._clock_now - approval.c.approved_at
        rows = await self._ledger_rows(sa.select(*columns, age).where(approval.c.plan_hash == plan_hash))
        return Approval(*rows[0]) if rows else None

    async def _each(self, ids: tuple[str, ...], select: Any, table: Any) -> list[Any]:
        rows: list[Any] = []
        mine = table.c.source == self._attached.found.shown
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK]
            rows += await self._ledger_rows(select.where(mine, table.c.entry_id.in_(chunk)))
        return rows


class OrderPlanReads(SQLReads, SQLActs, SQLPlanReads):
    """Reads and acts of the order layout, and its recent replays."""

    async def replayed_since(self, moment: datetime) -> tuple[Entry, ...]:
        """Entries that a venue accepted since then, as this store's ledger says."""
        attempt = self._book.attempt
        recent = (attempt.c.state == "accepted", attempt.c.finished_at >= moment.isoformat())

        async def work(link: Connection, as_text: bool) -> tuple[Entry, ...]:
            shape = await self._shape(link, as_text=as_text, look=True)
            if not shape.with_ledger:
                return ()
            rows = (await link.execute(shape.select(whole=False).where(*recent).limit(10_000))).fetchall()
            return tuple(map(shape.reader(), rows))

        return await self._read(self._quick, work)


def _identity(actor: Actor, role: str) -> str:
    return f"{actor.os_user}|{role}"

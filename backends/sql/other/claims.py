"""Claims and attempts on rows that somebody else owns, and what a retry leaves in the row itself.

An outcome is recorded in the ledger alone. What happens to the row of an accepted call is a step of its own: until it
is done, the attempt's `error` says what is left to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from backends.detect.other_layouts import OtherAttached
from backends.driver_errors import driver_errors, is_lost, translate
from backends.ledger.schema import LedgerTables
from backends.records import ActContext, Actor, Attempt, Version, storable
from backends.sql.acts import SQLLog, verbatim
from backends.sql.claims import SendMode, SQLClaims
from backends.sql.other.owner_row import IMPATIENT, LEFT, REMOVED, OwnerRow, Removal
from backends.sql.other.select import Select
from backends.sql.writer import Transaction
from backends.store import ActRefused, Claim, ClaimRefused, Result, StoreError


class OtherClaims(SQLClaims):
    def __init__(self, attached: OtherAttached, book: LedgerTables, acts: SQLLog) -> None:
        SQLClaims.__init__(self, attached, book, acts)
        self._table = attached
        self._owner_row = OwnerRow(attached)

    async def _obstacle(
        self,
        tx: Transaction,
        entry_id: str,
        version: Version,
        asked: SendMode | None = None,  # noqa: ARG002 - these layouts have no modes
        *,
        lock: bool = False,
    ) -> ClaimRefused | None:
        if await tx.is_halted():
            return ClaimRefused(entry_id, "halt is set on this store", "halt")
        select = Select(self._table, with_ledger=True)
        if not select.is_id(entry_id):
            return ClaimRefused(entry_id, "no such entry", "gone")
        columns = ", ".join((select.stamp, select.held(), select.settled(), select.is_open))
        looking = self._owner_row.this(f"SELECT {verbatim(columns)} FROM", tail=" FOR UPDATE OF t" if lock else "")
        rows = (await tx.execute(looking, {"id": entry_id})).fetchall()
        if not rows:
            return ClaimRefused(entry_id, "no such entry", "gone")
        if len(rows) > 1:
            return ClaimRefused(entry_id, "several rows have this id: cannot tell which is meant", "changed")
        stamp, held, settled, is_open = tuple(rows[0])
        if held == "accepted":
            return ClaimRefused(entry_id, "already replayed", "settled")
        if held is not None:
            return ClaimRefused(entry_id, "in doubt: reconcile first", "in-doubt")
        if settled is not None or not is_open:
            return ClaimRefused(entry_id, "dismissed meanwhile", "settled")
        if (stamp,) != tuple(version):
            return ClaimRefused(entry_id, "changed since it was looked at", "changed")
        return None

    @property
    def _removal(self) -> Removal | None:
        """What an accepted call does to its row; None: it stays."""
        wanted = self._table.options.on_success
        return None if wanted == "keep" else wanted

    async def conclude(self, claim: Claim, result: Result, actor: Actor, why: ActContext) -> bool:
        mine = await super().conclude(claim, result, actor, why)
        if result.outcome == "accepted":
            await self.finish_row(claim.entry_id, actor, why)
        return mine

    async def settle(self, attempt: Attempt, result: Result, actor: Actor, why: ActContext) -> bool:
        mine = await super().settle(attempt, result, actor, why)
        if result.outcome == "accepted":
            await self.finish_row(attempt.entry_id, actor, why)
        return mine

    async def _finish(
        self, tx: Transaction, row: Mapping[str, Any], result: Result, actor: Actor, why: ActContext
    ) -> None:
        if result.outcome == "accepted" and self._removal is not None:
            result = replace(result, error=LEFT[self._removal])
        await super()._finish(tx, row, result, actor, why)

    async def _mark(self, tx: Transaction, entry_id: str, *, settled: bool, bump: bool) -> dict[str, object]:
        """Counts a failed retry in the row. A row that cannot be written does not hold the outcome up."""
        if settled:
            return {"handled": True}
        if not bump:
            return {}
        try:
            async with tx.connection.begin_nested():
                await tx.execute(IMPATIENT)
                async with tx.as_owners_do():
                    row = (await tx.execute(self._owner_row.counted(), {"id": entry_id})).first()
                    await tx.execute(sa.text("SET CONSTRAINTS ALL IMMEDIATE"))
        except driver_errors() as problem:
            if is_lost(problem):
                raise
            return {"row": f"not counted: {translate(problem, self._table.info.label)}"}
        return {"attempts": row[0]} if row else {"row": "gone"}

    async def finish_row(self, entry_id: str, actor: Actor, why: ActContext) -> str | None:
        """Do with the row of an accepted call what the config asks. Returns what is left to do; never raises."""

        async def work(tx: Transaction) -> None:
            attempt = await self._unfinished(tx, entry_id)
            if attempt is None:
                return
            after = await self._removed(tx, entry_id)
            await tx.execute(self._attempt(attempt).values(error=None))
            await tx.audit("row", (entry_id,), actor, why, detail={"entries": [entry_id], "after": after})

        try:
            await self._acts.writing.run(work)
        except StoreError as problem:
            text = f"{LEFT.get(self._removal or '', 'the row is as it was')}: {str(problem).partition('; an owner')[0]}"
            return await self._left(entry_id, text, actor, why)
        return None

    async def _removed(self, tx: Transaction, entry_id: str) -> dict[str, object]:
        how = self._removal
        if how is None:
            return {"kept": True}
        await tx.execute(IMPATIENT)
        this = {"ids": [entry_id], "stamps": [None]}
        async with tx.as_owners_do():
            removed = (await tx.execute(self._owner_row.removal(how), this)).fetchall()
        if not removed:
            if (await tx.execute(self._owner_row.remains(how), {"id": entry_id})).first() is not None:
                raise ActRefused("a trigger or a rule of the table keeps it")
            return {"row": "gone"}
        return dict(REMOVED[how])

    async def _left(self, entry_id: str, text: str, actor: Actor, why: ActContext) -> str:
        async def work(tx: Transaction) -> None:
            attempt = await self._unfinished(tx, entry_id)
            if attempt is not None:
                await tx.execute(self._attempt(attempt).values(error=storable(text)))
                await tx.audit("row", (entry_id,), actor, why, detail={"entries": [entry_id], "left": text})

        with suppress(StoreError):  # the attempt says already that something is left; only the reason is not kept
            await self._acts.writing.run(work)
        return text

    async def _unfinished(self, tx: Transaction, entry_id: str) -> int | None:
        """The accepted attempt of this entry whose row is not done with."""
        table = self._book.attempt
        this = (table.c.source == tx.source, table.c.entry_id == entry_id, table.c.holds == 1)
        owed = sa.select(table.c.id).where(*this, table.c.state == "accepted", table.c.error.is_not(None))
        found = (await tx.execute(owed)).scalar()
        return None if found is None else int(found)

    def _attempt(self, number: int) -> sa.Update:
        table = self._book.attempt
        return sa.update(table).where(table.c.id == number)

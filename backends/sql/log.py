"""What is written beside the entries: notes, the halt flag, events without an act. Each with its audit."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from backends.detect import Attached
from backends.ledger.schema import LedgerTables
from backends.records import ActContext, Actor, storable
from backends.sql.transaction import Transaction
from backends.sql.writer import StoreWriter
from backends.store import ActRefused


class SQLLog:
    """What acting on a store of any layout begins with."""

    def __init__(self, attached: Attached, book: LedgerTables, writer: StoreWriter | None) -> None:
        self._attached = attached
        self._book = book
        self._writer = writer

    @property
    def writing(self) -> StoreWriter:
        if self._writer is None:
            raise ActRefused(f"{self._attached.info.label} is attached read-only")
        if self._attached.found.kind != "table":
            raise ActRefused(f"{self._attached.found.shown} is a view: attach the table behind it to act")
        return self._writer

    async def note(self, entry_id: str, actor: Actor, why: ActContext) -> None:
        async def work(tx: Transaction) -> None:
            row = {"source": tx.source, "entry_id": storable(entry_id), "at": why.at.isoformat()}
            told = {"operator": storable(actor.operator), "text": storable(why.note or "")}
            await tx.execute(self._book.note.insert(), row | told)
            await tx.audit("note", (entry_id,), actor, why)

        await self.writing.run(work)

    async def halt(self, actor: Actor, why: ActContext) -> None:
        async def work(tx: Transaction) -> None:
            await tx.execute(sa.delete(self._book.halt))
            row = {"id": 1, "since": why.at.isoformat(), "operator": storable(actor.operator)}
            await tx.execute(self._book.halt.insert(), {**row, "note": storable(why.note or "")})
            await tx.audit("halt", (), actor, why)

        await self.writing.run(work)

    async def resume(self, actor: Actor, why: ActContext) -> None:
        async def work(tx: Transaction) -> None:
            await tx.execute(sa.delete(self._book.halt))
            await tx.audit("resume", (), actor, why)

        await self.writing.run(work)

    async def record(self, kind: str, ids: Sequence[str], actor: Actor, why: ActContext) -> None:
        async def work(tx: Transaction) -> None:
            await tx.audit(kind, ids, actor, why)

        await self.writing.run(work)

"""Claims and outcomes of an integration's failed calls: what stands against a retry, what its end does to the row."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from backends.detect.other_layouts import OtherAttached
from backends.layouts.orders import quoted
from backends.ledger.schema import LedgerTables
from backends.records import Version
from backends.sql.claims import SQLClaims
from backends.sql.log import SQLLog
from backends.sql.other.acts import statement, verbatim
from backends.sql.other.select import Select
from backends.sql.transaction import Transaction
from backends.store import ClaimRefused


class OtherClaims(SQLClaims):
    def __init__(self, attached: OtherAttached, book: LedgerTables, acts: SQLLog) -> None:
        SQLClaims.__init__(self, attached, book, acts)
        self._table = attached

    async def _obstacle(
        self, tx: Transaction, entry_id: str, version: Version, *, lock: bool = False
    ) -> ClaimRefused | None:
        if (await tx.execute(sa.select(self._book.halt.c.id))).first() is not None:
            return ClaimRefused(entry_id, "halt is set on this store", "halt")
        select = Select(self._table, with_ledger=True)
        if not select.is_id(entry_id):
            return ClaimRefused(entry_id, "no such entry", "gone")
        columns = ", ".join((select.stamp, select.held(), select.settled(), select.is_open))
        looking = self._this(f"SELECT {verbatim(columns)} FROM", tail=" FOR UPDATE OF t" if lock else "")
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

    async def _mark(self, tx: Transaction, entry_id: str, *, settled: bool, bump: bool) -> dict[str, object]:
        """What the layout's file lists, and no more."""
        if settled:
            return await self._succeed(tx, entry_id)
        if not bump:
            return {}
        counted = {"attempts": f"coalesce({quoted(self._table.actual('attempts') or '')}, 0) + 1"}
        if self._table.actual("lastRetryAt"):
            counted["lastRetryAt"] = self._this_moment("lastRetryAt")
        returned = f"CAST({self._table.sql('attempts')} AS text)"
        row = (await self._update(tx, entry_id, counted, returned)).first()
        return {"attempts": row[0]} if row else {"row": "gone"}

    async def _succeed(self, tx: Transaction, entry_id: str) -> dict[str, object]:
        match self._table.options.on_success:
            case "delete":
                await tx.execute(self._this("DELETE FROM"), {"id": entry_id})
                return {"deleted": True}
            case "soft-delete" if (marked := self._table.soft_delete) is not None:
                name, _ = marked
                await self._update(tx, entry_id, {name: self._this_moment(name)}, self._table.sql(name))
                return {"soft_deleted": True}
            case _:
                return {"handled": True}

    async def _update(self, tx: Transaction, entry_id: str, values: dict[str, str], returned: str) -> Any:
        sets = ", ".join(f"{quoted(self._table.actual(name) or '')} = {value}" for name, value in values.items())
        table = verbatim(self._table.found.quoted)
        kind = self._table.part("id").type
        where = f"{verbatim(self._table.sql('id'))} = CAST(:id AS {kind})"
        update = f"UPDATE {table} t SET {verbatim(sets)} WHERE {where} RETURNING {verbatim(returned)}"
        return await tx.execute(statement(update, id=sa.Text), {"id": entry_id})

    def _this_moment(self, name: str) -> str:
        """This moment, as the column holds moments."""
        declared = self._table.part(name).type
        if declared.startswith("boolean"):
            return "true"
        if declared.startswith("timestamp with time zone"):
            return "now()"
        utc = "timezone('UTC', now())"
        if declared.startswith(("timestamp", "date")):
            return utc
        return f"""to_char({utc}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""

    def _this(self, verb: str, *, tail: str = "") -> sa.TextClause:
        kind = self._table.part("id").type
        here = f"{verbatim(self._table.sql('id'))} = CAST(:id AS {kind})"
        return statement(f"{verb} {verbatim(self._table.found.quoted)} t WHERE {here}{tail}", id=sa.Text)

"""Dismiss and restore where the row is not ours to mark: our ledger says so, conditional on what was seen."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from backends.detect.other_layouts import OtherAttached
from backends.ledger.schema import SCHEMA, LedgerTables
from backends.records import ActContext, Actor, ActResult, Entry, Selection
from backends.sql.acts import describe
from backends.sql.flip import POSTGRES_NOW
from backends.sql.log import SQLLog
from backends.sql.other.reads import OtherReads
from backends.sql.other.select import Select
from backends.sql.transaction import Transaction
from backends.sql.writer import StoreWriter

_TEXTS = sa.ARRAY(sa.Text)


def verbatim(sql: str) -> str:
    """A colon in a table's name is no parameter."""
    return sql.replace(":", "\\:")


def statement(sql: str, **types: Any) -> sa.TextClause:
    return sa.text(sql).bindparams(*(sa.bindparam(name, type_=kind) for name, kind in types.items()))


class OtherActs(SQLLog):
    def __init__(
        self, attached: OtherAttached, book: LedgerTables, reads: OtherReads, writer: StoreWriter | None
    ) -> None:
        SQLLog.__init__(self, attached, book, writer)
        self._table = attached
        self._reads = reads

    async def dismiss(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        return await self._act("dismiss", self._dismissal(), selection, actor, why)

    async def restore(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        return await self._act("restore", self._return(), selection, actor, why)

    async def _act(
        self, kind: str, moving: sa.TextClause, selection: Selection, actor: Actor, why: ActContext
    ) -> ActResult:
        select = Select(self._table, with_ledger=True)
        picks = [(entry_id, str(version[0])) for entry_id, version in selection.picks if select.is_id(entry_id)]
        asked = {"ids": [entry_id for entry_id, _ in picks], "stamps": [stamp for _, stamp in picks]}
        asked_at = {"at": why.at.isoformat(), "operation": why.operation} if kind == "dismiss" else {}

        async def work(tx: Transaction) -> list[str]:
            done = [str(row[0]) for row in await tx.execute(moving, {**asked, **asked_at, "source": tx.source})]
            if done:
                seen = dict(picks)
                detail = {"entries": [[one, seen[one]] for one in done], "before": ["id", "seen"]}
                await tx.audit(kind, done, actor, why, detail={**detail, "after": {"dismissed": kind == "dismiss"}})
            return done

        done = await self.writing.run(work)
        missed = tuple(entry_id for entry_id in selection.ids if entry_id not in set(done))
        return ActResult(tuple(done), tuple(await self._now(missed, kind)))

    async def _now(self, missed: tuple[str, ...], kind: str) -> list[tuple[str, str]]:
        found = await self._reads.states(missed)
        return [(entry_id, _described(found.get(entry_id), kind)) for entry_id in missed]

    def _dismissal(self) -> sa.TextClause:
        select = Select(self._table, with_ledger=True)
        claim = f"{SCHEMA}.claim h WHERE h.source = :source AND h.entry_id = p.id AND h.released IS NULL"
        return statement(
            f"INSERT INTO {SCHEMA}.settled (source, entry_id, born, state, at, operation) "
            f"SELECT :source, {verbatim(select.identity)}, {verbatim(select.born)}, 'dismissed', :at, :operation "
            f"{self._picked(select)} AND {verbatim(select.is_open)} AND {verbatim(select.held())} IS NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {claim} AND h.expires_at > {POSTGRES_NOW}) "
            "ON CONFLICT DO NOTHING RETURNING entry_id",
            ids=_TEXTS,
            stamps=_TEXTS,
            source=sa.Text,
            at=sa.Text,
            operation=sa.Text,
        )

    def _return(self) -> sa.TextClause:
        select = Select(self._table, with_ledger=True)
        return statement(
            f"DELETE FROM {SCHEMA}.settled g USING (SELECT {verbatim(select.identity)} AS id, "
            f"{verbatim(select.born)} AS born {self._picked(select)}) r "
            "WHERE g.source = :source AND g.entry_id = r.id AND g.born = r.born AND g.state = 'dismissed' "
            "RETURNING g.entry_id",
            ids=_TEXTS,
            stamps=_TEXTS,
            source=sa.Text,
        )

    def _picked(self, select: Select) -> str:
        """The rows that are as they were seen."""
        kind = self._table.part("id").type
        return (
            f"FROM unnest(CAST(:ids AS text[]), CAST(:stamps AS text[])) AS p(id, stamp) "
            f"JOIN {verbatim(self._table.found.quoted)} t ON {verbatim(self._table.sql('id'))} = CAST(p.id AS {kind}) "
            f"WHERE {verbatim(select.stamp)} = p.stamp"
        )


def _described(entry: Entry | None, kind: str) -> str:
    if kind == "restore" and entry is not None and entry.state == "dismissed":
        return "its owner has deleted it: not ours to restore"
    return describe(entry)

"""Acts on rows of other owners that send nothing: dismisses and restores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from backends.detect.other_layouts import OtherAttached
from backends.ledger.names import SCHEMA
from backends.ledger.schema import LedgerTables
from backends.records import ActContext, Actor, ActResult, Entry, Selection
from backends.sql.acts import POSTGRES_NOW, SQLLog, describe, verbatim
from backends.sql.other import naming
from backends.sql.other.owner_row import IMPATIENT, PICKS, REMOVED, TEXTS, OwnerRow, Removal, statement
from backends.sql.other.reads import OtherReads
from backends.sql.other.select import Select
from backends.sql.writer import StoreWriter, Transaction
from backends.store import ActRefused, Unreachable


class _Pick(NamedTuple):
    entry_id: str
    own: str  # the row's own id
    stamp: str  # its version as it was seen


class OtherActs(SQLLog):
    def __init__(
        self, attached: OtherAttached, book: LedgerTables, reads: OtherReads, writer: StoreWriter | None
    ) -> None:
        SQLLog.__init__(self, attached, book, writer)
        self._table = attached
        self._reads = reads

    async def dismiss(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        wanted = self._table.options.on_dismiss
        if wanted == "keep":
            return await self._act("dismiss", self._dismissal(), selection, actor, why)
        await self._reads.check_row("on_dismiss", wanted, counts=False)
        try:
            return await self._act("dismiss", self._dismissal(), selection, actor, why, removal=wanted)
        except (ActRefused, Unreachable):
            return await self._one_by_one(selection, actor, why, wanted)

    async def _one_by_one(self, selection: Selection, actor: Actor, why: ActContext, removal: Removal) -> ActResult:
        """After a row that stayed took the others back with it: each alone, the stubborn ones with their reason."""
        done: list[str] = []
        changed: list[tuple[str, str]] = []
        for pick in selection.picks:
            try:
                one = await self._act("dismiss", self._dismissal(), Selection((pick,)), actor, why, removal=removal)
                done += one.done
                changed += one.changed
            except (ActRefused, Unreachable) as problem:
                changed.append((pick[0], f"not dismissed, its row stays: {str(problem).partition('; an owner')[0]}"))
        return ActResult(tuple(done), tuple(changed))

    async def restore(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        return await self._act("restore", self._return(), selection, actor, why)

    async def _act(
        self,
        kind: str,
        moving: sa.TextClause,
        selection: Selection,
        actor: Actor,
        why: ActContext,
        *,
        removal: Removal | None = None,
    ) -> ActResult:
        """Dismiss or restore in the ledger and, with `removal`, remove the rows in the same transaction."""
        picks = self._picks(selection)
        asked = {"ids": [pick.own for pick in picks], "stamps": [pick.stamp for pick in picks]}
        asked_at = {"at": why.at.isoformat(), "operation": why.operation} if kind == "dismiss" else {}

        async def work(tx: Transaction) -> list[str]:
            rows = await tx.execute(moving, {**asked, **asked_at, "source": tx.source})
            moved = {(str(row[0]), str(row[1])) for row in rows}
            ids = {own for own, _ in moved}
            apart = self._table.ids_repeat
            done = [one for one in picks if ((one.own, one.stamp) in moved if apart else one.own in ids)]
            if done:
                after: dict[str, object] = {"dismissed": kind == "dismiss"}
                if removal is not None:
                    after |= await self._remove(tx, removal, done)
                detail = {"entries": [[one.entry_id, one.stamp] for one in done], "before": ["id", "seen"]}
                await tx.audit(kind, [one.entry_id for one in done], actor, why, detail={**detail, "after": after})
            return [one.entry_id for one in done]

        done = await self.writing.run(work)
        missed = tuple(entry_id for entry_id in selection.ids if entry_id not in set(done))
        return ActResult(tuple(done), tuple(await self._now(missed, kind)))

    def _picks(self, selection: Selection) -> list[_Pick]:
        select, apart = Select(self._table, with_ledger=True), self._table.ids_repeat
        stamped = [(entry_id, str(version[0])) for entry_id, version in selection.picks]
        picks = [_Pick(one, naming.plain(one, stamp) if apart else one, stamp) for one, stamp in stamped]
        return [pick for pick in picks if select.is_plain_id(pick.own)]

    async def _remove(self, tx: Transaction, how: Removal, done: Sequence[_Pick]) -> dict[str, object]:
        """Raises, and so undoes the dismissal, unless every row goes."""
        await tx.execute(IMPATIENT)
        these = {"ids": [one.own for one in done], "stamps": [one.stamp for one in done]}
        async with tx.as_owners_do():
            gone = (await tx.execute(OwnerRow(self._table).removal(how), these)).fetchall()
        if sorted(str(row[0]) for row in gone) != sorted(these["ids"]):
            raise ActRefused("a trigger or a rule of the table keeps it, or somebody changed it meanwhile")
        return dict(REMOVED[how])

    async def _now(self, missed: tuple[str, ...], kind: str) -> list[tuple[str, str]]:
        found = await self._reads.states(missed)
        twins = self._table.ids_repeat
        return [(entry_id, _described(found.get(entry_id), kind, twins=twins)) for entry_id in missed]

    def _dismissal(self) -> sa.TextClause:
        select = Select(self._table, with_ledger=True)
        claim = f"{SCHEMA}.claim h WHERE h.source = :source AND h.entry_id = p.id AND h.released IS NULL"
        return statement(
            f"INSERT INTO {SCHEMA}.settled (source, entry_id, born, state, at, operation) "
            f"SELECT :source, {verbatim(select.identity)}, {verbatim(select.born)}, 'dismissed', :at, :operation "
            f"{self._picked(select)} AND {verbatim(select.is_open)} AND {verbatim(select.held())} IS NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {claim} AND h.expires_at > {POSTGRES_NOW}) "
            "ON CONFLICT DO NOTHING RETURNING entry_id, born",
            ids=TEXTS,
            stamps=TEXTS,
            source=sa.Text,
            at=sa.Text,
            operation=sa.Text,
        )

    def _return(self) -> sa.TextClause:
        select = Select(self._table, with_ledger=True)
        return statement(
            f"DELETE FROM {SCHEMA}.settled g USING (SELECT {verbatim(select.identity)} AS id, "
            f"{verbatim(select.born)} AS born {self._picked(select)} AND {verbatim(select.is_open)}) r "
            "WHERE g.source = :source AND g.entry_id = r.id AND g.born = r.born AND g.state = 'dismissed' "
            "RETURNING g.entry_id, g.born",
            ids=TEXTS,
            stamps=TEXTS,
            source=sa.Text,
        )

    def _picked(self, select: Select) -> str:
        """Selects the rows that are still as they were seen."""
        this = f"{verbatim(self._table.sql('id'))} = CAST(p.id AS {self._table.id_type})"
        return (
            f"FROM {PICKS} JOIN {verbatim(self._table.found.quoted)} t ON {this} "
            f"WHERE ({verbatim(select.stamp)}) = p.stamp AND {verbatim(select.alone)}"
        )


def _described(entry: Entry | None, kind: str, *, twins: bool) -> str:
    if twins and kind == "dismiss" and entry is not None and entry.state == "pending":
        return "another row has its id and time: cannot tell which is meant"
    if kind == "restore" and entry is not None and entry.state == "dismissed":
        return "its owner has deleted it: not ours to restore"
    return describe(entry)

"""Acting on an attached store: each method is one short transaction, conditional on what was seen, with its audit."""

from __future__ import annotations

from backends.detect import Attached
from backends.ledger.schema import LedgerTables
from backends.records import ActContext, Actor, ActResult, Entry, Selection, readable
from backends.sql import flip
from backends.sql.flip import POSTGRES_NOW as POSTGRES_NOW
from backends.sql.flip import SQLITE_NOW as SQLITE_NOW
from backends.sql.log import SQLLog
from backends.sql.move import Move, SomeMoved
from backends.sql.reads import SQLReads
from backends.sql.writer import StoreWriter

_MANY = 100  # entries from which on SQLite is asked for their number before their names


class SQLActs(SQLLog):
    def __init__(self, attached: Attached, book: LedgerTables, reads: SQLReads, writer: StoreWriter | None) -> None:
        SQLLog.__init__(self, attached, book, writer)
        self._reads = reads
        self._on_postgres = attached.info.dialect == "postgresql"
        self._flip = {dismiss: flip.statement(attached, dismiss=dismiss) for dismiss in (True, False)}
        self._has_unique_id = all(finding.code != "no-unique-id" for finding in attached.info.findings)

    async def dismiss(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        return await self._flip_all(selection, actor, why, dismiss=True)

    async def restore(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        return await self._flip_all(selection, actor, why, dismiss=False)

    async def _flip_all(self, selection: Selection, actor: Actor, why: ActContext, *, dismiss: bool) -> ActResult:
        kind = "dismiss" if dismiss else "restore"
        move = Move(self._attached, selection, self._flip[dismiss], kind, actor, why)
        done, contended = await self._moved(move)
        left = set(move.ids) - set(done) if len(done) < len(move.ids) else set()
        missed = Selection(tuple(pick for pick in selection.picks if pick[0] in left)) if left else Selection(())
        return ActResult(tuple(done), tuple(await self._now(missed)), contended)

    async def _moved(self, move: Move) -> tuple[list[str], bool]:
        if self._on_postgres or not self._has_unique_id or len(move.ids) < _MANY:
            return await self.writing.run(move.part)
        try:
            return await self.writing.run(move.whole)
        except SomeMoved:
            return await self.writing.run(move.part)

    async def _now(self, missed: Selection) -> list[tuple[str, str]]:
        """What the entries that could not be changed are by now."""
        found = await self._reads.states(missed.ids)
        now = []
        for entry_id, version in missed.picks:
            if not flip.is_plain(entry_id):
                why = "its id is not plain text: cannot be acted on"
            elif not flip.is_comparable(version, self._attached):
                why = "its retry_count is no number: cannot be acted on"
            else:
                why = describe(found.get(entry_id))
            now.append((entry_id, why))
        return now


def describe(entry: Entry | None) -> str:
    if entry is None:
        return "gone"
    if entry.state == "pending":
        retries = entry.get("retry_count")
        return "pending again" if retries is None else f"pending, retries={readable(retries)}"
    return entry.state.replace("_", " ")

"""Acting on an attached store: each method is one short transaction, conditional on what was seen, with its audit."""

from __future__ import annotations

from backends.detect import Attached
from backends.ledger.schema import Ledger
from backends.records import Actor, ActResult, Entry, Selection, Why, readable
from backends.sql import flip
from backends.sql.flip import POSTGRES_NOW as POSTGRES_NOW
from backends.sql.flip import SQLITE_NOW as SQLITE_NOW
from backends.sql.log import SQLLog
from backends.sql.reads import SQLReads
from backends.sql.transaction import Transaction
from backends.sql.writer import Writer
from backends.store import ActRefused


class SQLActs(SQLLog):
    def __init__(self, attached: Attached, book: Ledger, reads: SQLReads, writer: Writer | None) -> None:
        SQLLog.__init__(self, attached, book, writer)
        self._reads = reads
        self._on_postgres = attached.info.dialect == "postgresql"
        self._flip = {dismiss: flip.statement(attached, dismiss=dismiss) for dismiss in (True, False)}
        self._seen_version: int | None = None

    async def dismiss(self, selection: Selection, actor: Actor, why: Why) -> ActResult:
        return await self._flip_all(selection, actor, why, dismiss=True)

    async def restore(self, selection: Selection, actor: Actor, why: Why) -> ActResult:
        return await self._flip_all(selection, actor, why, dismiss=False)

    async def _flip_all(self, selection: Selection, actor: Actor, why: Why, *, dismiss: bool) -> ActResult:
        # Versions repeat, entries do not: each version is spelled once.
        versions = {version for _, version in selection.picks}
        spelled = {version: [_plain(value) for value in version] for version in versions}
        seen = dict(selection.picks)
        asked = flip.arguments(selection, self._attached)

        async def work(tx: Transaction) -> tuple[list[str], bool]:
            contended = await self._contended(tx)
            done = [str(row[0]) for row in await tx.execute(self._flip[dismiss], asked)]
            if len(done) != len(set(done)):
                raise ActRefused("the store holds several rows of one dlq_id: nothing was changed")
            if done:
                columns = ["dlq_id", *(["retry_count"] if self._has_retry else []), "dismissed"]
                entries = [[entry_id, *spelled[seen[entry_id]]] for entry_id in done]
                detail = {"entries": entries, "before": columns, "after": {"dismissed": dismiss}}
                await tx.audit("dismiss" if dismiss else "restore", done, actor, why, detail=detail)
            return done, contended

        done, contended = await self.writing.run(work)
        moved = set(done) if len(done) < len(selection) else set(selection.ids)
        missed = Selection(tuple(pick for pick in selection.picks if pick[0] not in moved))
        return ActResult(tuple(done), tuple(await self._now(missed)), contended)

    @property
    def _has_retry(self) -> bool:
        return "retry_count" in self._attached.info.columns

    async def _contended(self, tx: Transaction) -> bool:
        """Has another connection written to this SQLite file since our last act?"""
        if self._on_postgres:
            return False
        version = int((await tx.connection.exec_driver_sql("PRAGMA data_version")).scalar_one())
        before, self._seen_version = self._seen_version, version
        return before is not None and before != version

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


def _plain(value: object) -> object:
    """As the audit names it: what JSON has no word for, as text."""
    if isinstance(value, bool):
        return int(value)
    return value if value is None or isinstance(value, (int, str)) else readable(value)

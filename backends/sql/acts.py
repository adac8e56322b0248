"""Acting on an attached store: each method is one short transaction, conditional on what was seen, with its audit."""

from __future__ import annotations

import json
from collections.abc import Sequence

import sqlalchemy as sa

from backends.detect import Attached
from backends.ledger.schema import SCHEMA, Ledger
from backends.records import Actor, ActResult, Entry, Selection, Version, Why
from backends.sql.reads import SQLReads
from backends.sql.session import Transaction, Writer
from backends.store import ActRefused, StoreError

SQLITE_NOW = "((julianday('now') - 2440587.5) * 86400.0)"
POSTGRES_NOW = "extract(epoch FROM clock_timestamp())"


class SQLActs:
    def __init__(self, attached: Attached, book: Ledger, reads: SQLReads, writer: Writer | None) -> None:
        self._attached = attached
        self._book = book
        self._reads = reads
        self._writer = writer
        self._on_postgres = attached.info.dialect == "postgresql"
        self._flip = {dismiss: _flip_statement(attached, dismiss=dismiss) for dismiss in (True, False)}
        self._seen_version: int | None = None

    @property
    def writing(self) -> Writer:
        if self._writer is None:
            raise ActRefused(f"{self._attached.info.label} is attached read-only")
        if self._attached.found.kind != "table":
            raise ActRefused(f"{self._attached.found.shown} is a view: attach the table behind it to act")
        return self._writer

    async def dismiss(self, selection: Selection, actor: Actor, why: Why) -> ActResult:
        return await self._flip_all(selection, actor, why, dismiss=True)

    async def restore(self, selection: Selection, actor: Actor, why: Why) -> ActResult:
        return await self._flip_all(selection, actor, why, dismiss=False)

    async def _flip_all(self, selection: Selection, actor: Actor, why: Why, *, dismiss: bool) -> ActResult:
        kind = "dismiss" if dismiss else "restore"

        async def work(tx: Transaction) -> tuple[list[str], bool]:
            contended = await self._contended(tx)
            rows = await tx.execute(self._flip[dismiss], self._picks(selection))
            done = [row[0] for row in rows]
            if len(done) != len(set(done)):
                raise StoreError("the store holds several rows of one dlq_id: nothing was changed")
            if done:
                befores = dict(selection.picks)
                entries = [[entry_id, *_plain(befores[entry_id])] for entry_id in done]
                columns = ["dlq_id", *(["retry_count"] if self._has_retry else []), "dismissed"]
                detail = {"entries": entries, "before": columns, "after": {"dismissed": dismiss}}
                await tx.audit(kind, done, actor, why, detail=detail)
            return done, contended

        done, contended = await self.writing.run(work)
        missed = (
            [entry_id for entry_id in selection.ids if entry_id not in set(done)] if len(done) < len(selection) else []
        )
        changed = await self._now(missed)
        return ActResult(tuple(done), tuple(changed), contended)

    @property
    def _has_retry(self) -> bool:
        return "retry_count" in self._attached.info.columns

    def _picks(self, selection: Selection) -> dict[str, object]:
        source = self._attached.found.shown
        if self._on_postgres:
            args: dict[str, object] = {"ids": list(selection.ids), "source": source}
            if self._has_retry:
                args["retries"] = [version[0] for _, version in selection.picks]
            return args
        picks = json.dumps([[entry_id, *_plain(version)] for entry_id, version in selection.picks])
        return {"picks": picks, "source": source}

    async def _contended(self, tx: Transaction) -> bool:
        """Has another connection written to this SQLite file since our last act?"""
        if self._on_postgres:
            return False
        version = int((await tx.connection.exec_driver_sql("PRAGMA data_version")).scalar_one())
        before, self._seen_version = self._seen_version, version
        return before is not None and before != version

    async def _now(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        """What the entries that could not be changed are by now."""
        now: list[tuple[str, str]] = []
        for start in range(0, len(ids), 1000):
            chunk = tuple(ids[start : start + 1000])
            found = await self._reads.many(chunk)
            now += [(entry_id, describe(found.get(entry_id))) for entry_id in chunk]
        return now

    async def note(self, entry_id: str, actor: Actor, why: Why) -> None:
        async def work(tx: Transaction) -> None:
            row = {"source": tx.source, "entry_id": entry_id, "at": why.at.isoformat()}
            await tx.execute(self._book.note.insert(), {**row, "operator": actor.operator, "text": why.note or ""})
            await tx.audit("note", (entry_id,), actor, why)

        await self.writing.run(work)

    async def halt(self, actor: Actor, why: Why) -> None:
        async def work(tx: Transaction) -> None:
            await tx.execute(sa.delete(self._book.halt))
            row = {"id": 1, "since": why.at.isoformat(), "operator": actor.operator, "note": why.note or ""}
            await tx.execute(self._book.halt.insert(), row)
            await tx.audit("halt", (), actor, why)

        await self.writing.run(work)

    async def resume(self, actor: Actor, why: Why) -> None:
        async def work(tx: Transaction) -> None:
            await tx.execute(sa.delete(self._book.halt))
            await tx.audit("resume", (), actor, why)

        await self.writing.run(work)

    async def record(self, kind: str, ids: tuple[str, ...], actor: Actor, why: Why) -> None:
        async def work(tx: Transaction) -> None:
            await tx.audit(kind, ids, actor, why)

        await self.writing.run(work)


def describe(entry: Entry | None) -> str:
    if entry is None:
        return "gone"
    if entry.state == "pending":
        retries = entry.get("retry_count")
        return "pending again" if retries is None else f"pending, retries={retries}"
    return entry.state.replace("_", " ")


def _plain(version: Version) -> list[object]:
    return [int(value) if isinstance(value, bool) else value for value in version]


def _flip_statement(attached: Attached, *, dismiss: bool) -> sa.TextClause:
    """UPDATE … FROM what was seen: only rows that still are as seen, that nobody holds, move."""
    table = attached.found.quoted
    has_retry = "retry_count" in attached.info.columns
    column = attached.found.column("dismissed")
    boolean = attached.info.dialect == "postgresql" and column is not None and column.type.startswith("bool")
    no, yes = ("false", "true") if boolean else ("0", "1")
    target, present = (yes, no) if dismiss else (no, yes)
    seen = f"t.dismissed = {present}"
    if column is not None and not column.not_null and dismiss:
        seen = f"(t.dismissed IS NULL OR t.dismissed = {no})"
    if attached.info.dialect == "postgresql":
        same = " AND t.retry_count IS NOT DISTINCT FROM p.retry" if has_retry else ""
        arrays = "CAST(:ids AS text[]), CAST(:retries AS bigint[])" if has_retry else "CAST(:ids AS text[])"
        names = "p(id, retry)" if has_retry else "p(id)"
        attempt, claim, now = f"{SCHEMA}.attempt", f"{SCHEMA}.claim", POSTGRES_NOW
        picks = f"unnest({arrays}) AS {names}"
    else:
        same = " AND t.retry_count IS json_extract(p.value, '$[1]')" if has_retry else ""
        attempt, claim, now = "console_attempt", "console_claim", SQLITE_NOW
        picks = "json_each(:picks) AS p"
    identity = "p.id" if attached.info.dialect == "postgresql" else "json_extract(p.value, '$[0]')"
    text = (
        f"UPDATE {table} AS t SET dismissed = {target} FROM {picks} "
        f"WHERE t.dlq_id = {identity} AND {seen}{same} "
        f"AND NOT EXISTS (SELECT 1 FROM {attempt} a WHERE a.source = :source AND a.entry_id = t.dlq_id AND a.holds = 1) "
        f"AND NOT EXISTS (SELECT 1 FROM {claim} c WHERE c.source = :source AND c.entry_id = t.dlq_id "
        f"AND c.released IS NULL AND c.expires_at > {now}) RETURNING t.dlq_id"
    )
    if attached.info.dialect == "sqlite":
        # SQLite's RETURNING knows the updated table by no alias.
        text = text.replace("RETURNING t.dlq_id", "RETURNING dlq_id")
        return sa.text(text)
    binds = [sa.bindparam("ids", type_=sa.ARRAY(sa.Text)), sa.bindparam("source", type_=sa.Text)]
    if has_retry:
        binds.append(sa.bindparam("retries", type_=sa.ARRAY(sa.BigInteger)))
    return sa.text(text).bindparams(*binds)

"""Dismisses and restores orders, and writes notes and the halt flag: one audited transaction each.

An entry is changed only if it is still as it was seen.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import sqlalchemy as sa
from dlq_sink.values import is_plain

from backends.detect import Attached
from backends.layouts import orders
from backends.ledger import audit_chain as chain
from backends.ledger.names import SCHEMA, SWITCH_MARK
from backends.ledger.schema import LedgerTables
from backends.records import ActContext, Actor, ActResult, Entry, Selection, Version, readable, storable
from backends.sql.order_select import OrderSelect, RowOrder
from backends.sql.postgres_columns import EQ
from backends.sql.reads import SQLReads
from backends.sql.writer import StoreWriter, Transaction
from backends.store import ActRefused, StoreError

SQLITE_NOW = "((julianday('now') - 2440587.5) * 86400.0)"
POSTGRES_NOW = "extract(epoch FROM pg_catalog.clock_timestamp())"
_RETRIES = {"numeric": "numeric", "real": "double precision", "double precision": "double precision"}


def is_comparable(version: Version, attached: Attached) -> bool:
    """Whether the database can compare the seen retry count with the stored one."""
    retries = version[0] if attached.counts_retries else None
    if type(retries) is int:
        return True
    match retries:
        case bytes():
            return False
        case str():
            return is_plain(retries)
        case float():
            return math.isfinite(retries)
        case _:
            return True


def arguments(selection: Selection, attached: Attached) -> dict[str, object]:
    counted = attached.counts_retries
    known = {version for version in {version for _, version in selection.picks} if is_comparable(version, attached)}
    picks = [(entry_id, version[0] if counted else None) for entry_id, version in selection.picks if version in known]
    if not is_plain("".join(entry_id for entry_id, _ in picks)):
        picks = [(entry_id, retries) for entry_id, retries in picks if is_plain(entry_id)]
    if attached.info.dialect == "postgresql":
        args: dict[str, object] = {"ids": [entry_id for entry_id, _ in picks], "source": attached.info.table}
        return args | (
            {"retries": [None if one is None else str(one) for _, one in picks]} if attached.counts_retries else {}
        )
    return {"picks": json.dumps(dict(picks), ensure_ascii=False), "source": attached.info.table}


def statement(attached: Attached, *, dismiss: bool) -> sa.TextClause:
    is_open = verbatim(OrderSelect(attached, with_ledger=False).pending_sql)
    seen = f"({is_open})" if dismiss else f"NOT ({is_open})"
    if attached.info.dialect == "postgresql":
        return _postgres(attached, seen, dismiss=dismiss)
    return _sqlite(attached, seen, dismiss=dismiss)


def _postgres(attached: Attached, seen: str, *, dismiss: bool) -> sa.TextClause:
    table, counted = verbatim(attached.found.quoted), attached.counts_retries
    value = ("true" if dismiss else "false") if attached.column("dismissed").type.startswith("bool") else int(dismiss)
    identity = verbatim(RowOrder(attached).identity)  # always of a type that the driver knows
    arrays, same = "pg_catalog.unnest(CAST(:ids AS pg_catalog.text[]))", ""
    if counted:
        declared = attached.column("retry_count").type.partition("(")[0]
        arrays += (
            f", pg_catalog.unnest(CAST(CAST(:retries AS pg_catalog.text[]) AS {_RETRIES.get(declared, 'bigint')}[]))"
        )
        count = f"{table}.retry_count"
        same = f" AND ({count} {EQ} p.retries OR ({count} IS NULL AND p.retries IS NULL))"
    return sa.text(
        f"UPDATE {table} SET dismissed = {value} "
        f"FROM ROWS FROM ({arrays}) AS p(id{', retries' if counted else ''}) "
        f"WHERE {identity} {EQ} p.id AND {seen}{same} "
        f"AND {_nobody_or_free_on_postgres('p.id')} RETURNING {identity}"
    )


def _sqlite(attached: Attached, seen: str, *, dismiss: bool) -> sa.TextClause:
    table = verbatim(attached.found.quoted)
    same = f" AND {table}.retry_count IS p.value" if attached.counts_retries else ""
    row = "_rowid_" if attached.by_rowid else "dlq_id"
    picks, listed = "json_each(:picks) AS p", ""
    led = f"{picks} CROSS JOIN {table}"  # reads the picks first, then each row by the index on the id
    if any(finding.code == "no-unique-id" for finding in attached.info.findings):
        # Without an index on the id, walks the table once and finds each row's pick by a temporary index.
        led, listed = f"{table} CROSS JOIN p", f"WITH p AS MATERIALIZED (SELECT key, value FROM {picks}) "
    still = seen
    if orders.sqlite_affinity(attached.column("dismissed").type) != "text":  # a text never equals 0
        # The + keeps SQLite from walking every open row for each pick.
        still = seen.replace(f"{table}.dismissed", f"+{table}.dismissed")
    chosen = (
        f"SELECT {table}.{row} FROM {led} WHERE {table}.dlq_id = p.key AND {still}{same} AND {_nobody_or_free('p.key')}"
    )
    return sa.text(f"{listed}UPDATE {table} SET dismissed = {int(dismiss)} WHERE {row} IN ({chosen}) RETURNING dlq_id")


def _free(identity: str) -> str:
    """The entry is free: no attempt that may have become an order, save one accepted in paper, and no running claim."""
    held = f"h WHERE h.source = :source AND h.entry_id = {identity}"
    binding = "h.holds = 1 AND NOT (h.mode = 'paper' AND h.state = 'accepted')"
    return (
        f"NOT EXISTS (SELECT 1 FROM console_attempt {held} AND {binding}) AND NOT EXISTS "
        f"(SELECT 1 FROM console_claim {held} AND h.released IS NULL AND h.expires_at > {SQLITE_NOW})"
    )


def _free_on_postgres(identity: str) -> str:
    """The same, with the server's own operators whatever the search_path is."""
    held = f"h WHERE h.source {EQ} CAST(:source AS pg_catalog.text) AND h.entry_id {EQ} {identity}"
    binding = f"h.holds {EQ} 1 AND NOT (h.mode {EQ} 'paper' AND h.state {EQ} 'accepted')"
    running = f"h.released IS NULL AND h.expires_at OPERATOR(pg_catalog.>) {POSTGRES_NOW}"
    return (
        f"NOT EXISTS (SELECT 1 FROM {SCHEMA}.attempt {held} AND {binding}) AND NOT EXISTS "
        f"(SELECT 1 FROM {SCHEMA}.claim {held} AND {running})"
    )


def _nobody_or_free_on_postgres(identity: str) -> str:
    """Looks once whether anything is held, and only then at each entry."""
    source = f"x.source {EQ} CAST(:source AS pg_catalog.text)"
    held = f"SELECT 1 FROM {SCHEMA}.attempt x WHERE {source} AND x.holds {EQ} 1"
    claimed = f"SELECT 1 FROM {SCHEMA}.claim x WHERE {source} AND x.released IS NULL"
    return f"(NOT (EXISTS ({held}) OR EXISTS ({claimed})) OR ({_free_on_postgres(identity)}))"


def _nobody_or_free(identity: str) -> str:
    """The same for SQLite."""
    held = "SELECT 1 FROM console_attempt x WHERE x.source = :source AND x.holds = 1"
    claimed = "SELECT 1 FROM console_claim x WHERE x.source = :source AND x.released IS NULL"
    return f"(NOT (EXISTS ({held}) OR EXISTS ({claimed})) OR ({_free(identity)}))"


def counting(flips: sa.TextClause) -> str:
    """The same statement for the driver itself, without returning the changed ids."""
    return flips.text.rpartition(" RETURNING ")[0].replace("\\:", ":")


def verbatim(sql: str) -> str:
    """Escape colons, which SQLAlchemy would take for parameters, in a table's name."""
    return sql.replace(":", "\\:")


class SomeMoved(StoreError):
    """Fewer rows changed than were selected, and the statement did not say which."""


@dataclass(frozen=True)
class Move:
    """One selection to dismiss or restore, prepared once so that a second try only needs a new transaction."""

    attached: Attached
    selection: Selection
    statement: sa.TextClause
    kind: str
    actor: Actor
    why: ActContext

    async def whole(self, tx: Transaction) -> tuple[list[str], Transaction]:
        """For SQLite: change the rows while composing an event that names all of them, as mostly all change."""
        before = tx.driver.total_changes
        moving = asyncio.ensure_future(tx.rows(counting(self.statement), self._asked))
        try:
            await asyncio.sleep(0.001)  # the driver's thread cannot begin while this one computes
            event = await tx.compose(self.kind, self.ids, self.actor, self.why, detail=self._detail(self.ids))
        finally:
            await moving
        if tx.driver.total_changes - before != len(self.ids):
            raise SomeMoved
        await tx.append(event)
        return self.ids, tx

    async def part(self, tx: Transaction) -> tuple[list[str], Transaction]:
        """Change what can be changed, and return the ids."""
        async with tx.as_owners_do():
            done = [str(row[0]) for row in await tx.execute(self.statement, self._asked)]
        _check_single(done)
        if done:
            await tx.audit(self.kind, done, self.actor, self.why, detail=self._detail(done))
        return done, tx

    async def beside(self, tx: Transaction) -> tuple[list[str], Transaction]:
        """The same for Postgres: while the server changes the rows, composes an event that names all of them."""
        async with tx.as_owners_do():
            moving = asyncio.ensure_future(tx.execute(self.statement, self._asked))
            try:
                await asyncio.sleep(0)  # sends the statement
                evidence = tx.evidence(self.ids, self.why, self._detail(self.ids))
            finally:
                found = await moving
        done = [str(row[0]) for row in found]
        _check_single(done)
        if len(done) < len(self.ids):
            evidence = tx.evidence(done, self.why, self._detail(done))
        if done:
            await tx.tell(self.kind, self.actor, evidence)
        return done, tx

    def prepare(self) -> None:
        """What takes time and needs no transaction."""
        _ = self.ids, self._asked

    @cached_property
    def ids(self) -> list[str]:
        return list(dict(self.selection.picks))

    @cached_property
    def _asked(self) -> dict[str, object]:
        return arguments(self.selection, self.attached)

    def _detail(self, done: Sequence[str]) -> dict[str, object]:
        seen = dict(self.selection.picks)
        # Many entries share a version, so each version is spelled once.
        spelled = {version: [_plain(value) for value in version] for version in set(seen.values())}
        columns = [name for name in ("dlq_id", "retry_count", "dismissed") if name in self.attached.info.columns]
        entries = [[entry_id, *spelled[seen[entry_id]]] for entry_id in done]
        return {"entries": entries, "before": columns, "after": {"dismissed": self.kind == "dismiss"}}


def _check_single(done: Sequence[str]) -> None:
    if len(done) != len(set(done)):
        raise ActRefused("the store holds several rows of one dlq_id: nothing was changed")


def _plain(value: object) -> object:
    """The value as the audit writes it: as text if JSON cannot hold it."""
    if isinstance(value, bool):
        return int(value)
    return value if value is None or isinstance(value, (int, str)) else readable(value)


class SQLLog:
    """Acts that are the same for every layout: notes, the halt flag, bare audit events."""

    def __init__(self, attached: Attached, book: LedgerTables, writer: StoreWriter | None) -> None:
        self._attached = attached
        self._book = book
        self._writer = writer

    @property
    def writing(self) -> StoreWriter:
        if (why := self._attached.info.why_read_only) is not None:
            raise ActRefused(f"{self._attached.info.label}: {why}")
        if self._writer is None:
            raise ActRefused(f"{self._attached.info.label} is attached read-only")
        if self._attached.found.kind != "table":
            raise ActRefused(f"{self._attached.found.shown} is a view: attach the table behind it to act")
        return self._writer

    @property
    def head(self) -> tuple[int, bytes] | None:
        return None if self._writer is None else self._writer.head

    async def note(self, entry_id: str, actor: Actor, why: ActContext) -> None:
        told = {"operator": storable(actor.operator), "entry": storable(entry_id), "note": storable(why.note or "")}

        async def work(tx: Transaction) -> None:
            if tx.on_postgres:
                mark = chain.mark(tx.source, entry_id)
                await tx.call("add_note", actor, tx.about((entry_id,), why), source=tx.source, mark=mark, **told)
                return
            row = {"source": tx.source, "entry_id": told["entry"], "at": why.at.isoformat()}
            await tx.execute(self._book.note.insert(), row | {"operator": told["operator"], "text": told["note"]})
            await tx.audit("note", (entry_id,), actor, why)

        await self.writing.run(work)

    async def clear(self, ids: tuple[str, ...], actor: Actor, why: ActContext) -> None:
        attempt, cleared = self._book.attempt, self._book.cleared

        async def work(tx: Transaction) -> None:
            for entry_id in map(storable, ids):
                mine = (attempt.c.source == tx.source, attempt.c.entry_id == entry_id)
                last = sa.select(sa.func.coalesce(sa.func.max(attempt.c.attempt_no), 0)).where(*mine)
                row = {"source": tx.source, "entry_id": entry_id, "at": why.at.isoformat()}
                told = {"operator": storable(actor.operator), "upto": last.scalar_subquery()}
                await tx.execute(cleared.insert().values(**row, **told))
            await tx.audit("clear-poison", ids, actor, why)

        await self.writing.run(work)

    async def halt(self, actor: Actor, why: ActContext) -> None:
        told = {"operator": storable(actor.operator), "note": storable(why.note or "")}

        async def work(tx: Transaction) -> None:
            if tx.on_postgres:
                await tx.call("set_halt", actor, tx.about((), why), **told)
                return
            await tx.audit("halt", (), actor, why, also=(SWITCH_MARK,))
            await tx.execute(sa.delete(self._book.halt))
            await tx.execute(self._book.halt.insert(), {"id": 1, "since": why.at.isoformat(), **told})

        await self.writing.run(work)

    async def resume(self, actor: Actor, why: ActContext) -> None:
        async def work(tx: Transaction) -> None:
            if tx.on_postgres:
                await tx.call("lift_halt", actor, tx.about((), why))
                return
            await tx.audit("resume", (), actor, why, also=(SWITCH_MARK,))
            await tx.execute(sa.delete(self._book.halt))

        await self.writing.run(work)

    async def record(self, kind: str, ids: Sequence[str], actor: Actor, why: ActContext) -> None:
        async def work(tx: Transaction) -> None:
            await tx.audit(kind, ids, actor, why)

        await self.writing.run(work)


_IN_LOG = 2000  # entries in SQLite's log after which it is written back; SQLite itself waits for 1000 pages
_MANY = 100  # from this many entries on, SQLite returns their number instead of their ids


class SQLActs(SQLLog):
    def __init__(self, attached: Attached, book: LedgerTables, reads: SQLReads, writer: StoreWriter | None) -> None:
        SQLLog.__init__(self, attached, book, writer)
        self._reads = reads
        self._in_log = 0
        self._on_postgres = attached.info.dialect == "postgresql"
        self._flip = {dismiss: statement(attached, dismiss=dismiss) for dismiss in (True, False)}
        self._has_unique_id = all(finding.code != "no-unique-id" for finding in attached.info.findings)

    async def dismiss(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        return await self._flip_all(selection, actor, why, dismiss=True)

    async def restore(self, selection: Selection, actor: Actor, why: ActContext) -> ActResult:
        return await self._flip_all(selection, actor, why, dismiss=False)

    async def _flip_all(self, selection: Selection, actor: Actor, why: ActContext, *, dismiss: bool) -> ActResult:
        kind = "dismiss" if dismiss else "restore"
        move = Move(self._attached, selection, self._flip[dismiss], kind, actor, why)
        done, tx = await self._moved(move)
        left = set(move.ids) - set(done) if len(done) < len(move.ids) else set()
        missed = Selection(tuple(pick for pick in selection.picks if pick[0] in left)) if left else Selection(())
        return ActResult(tuple(done), tuple(await self._now(missed)), tx.contended, tx.held)

    async def _moved(self, move: Move) -> tuple[list[str], Transaction]:
        move.prepare()
        if self._on_postgres:
            return await self.writing.run(move.beside)
        if not self._has_unique_id or len(move.ids) < _MANY:
            return await self.writing.run(move.part)
        try:
            done, tx = await self.writing.run(move.whole)
        except SomeMoved:
            return await self.writing.run(move.part)
        self._in_log += len(done)
        if self._in_log >= _IN_LOG and not tx.contended:
            self._in_log = 0
            self.writing.write_back()
        return done, tx

    async def _now(self, missed: Selection) -> list[tuple[str, str]]:
        """The state of each entry that could not be changed."""
        found = await self._reads.states(missed.ids)
        now = []
        for entry_id, version in missed.picks:
            if not is_plain(entry_id):
                why = "its id is not plain text: cannot be acted on"
            elif not is_comparable(version, self._attached):
                why = "its retry_count is not a number: cannot be acted on"
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

"""Reads the ledger: attempts, audit events, notes, the halt flag and the store's id. Never writes; knows no layout."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa

from backends.detect import Attached
from backends.ledger import audit_chain as chain
from backends.ledger.evidence import halt_of, switch_sql
from backends.ledger.names import SWITCH_MARK
from backends.ledger.presence import Presence, look
from backends.ledger.schema import LedgerTables
from backends.ledger.shape import LedgerShape, is_older
from backends.ledger.stored_type import required
from backends.records import Attempt, AuditEvent, Chained, Halt, Note, parse_time, readable, storable
from backends.sql.connection import Connection, ReadConnection
from backends.sql.text.query import CompiledQuery
from backends.store import NotADLQ

T = TypeVar("T")
_BLOCK_BYTES = 4_000_000  # of audit events in memory at a time
_MOST_EVENTS = 2000  # a block that fits the processor's cache is verified faster
_SAMPLE = 20
_LAST = 2**62  # no event has a number as large as this
_UNDER_WAY = 4  # turns of the event loop until a query has been sent
_event: Callable[[Sequence[Any]], AuditEvent] = partial(tuple.__new__, AuditEvent)  # several times as fast as _make


def _events(rows: Sequence[Sequence[Any]]) -> list[AuditEvent]:
    """Raises Unreachable where a damaged file holds something else in their place."""
    for _, body, digest in rows:
        if type(body) is not bytes or type(digest) is not bytes:
            required(None)
    return list(map(_event, rows))


_OUTCOME = {"submitting": None, "in_doubt": "unknown", "absent": "not_sent"}


class SQLHistory:
    """The connection `quick` reads by key, `slow` walks the chain, `tolerant` reads rows with odd values."""

    def __init__(
        self, attached: Attached, book: LedgerTables, lanes: tuple[ReadConnection, ReadConnection, ReadConnection]
    ) -> None:
        self._attached = attached
        self._book = book
        self._quick, self._slow, self._tolerant = lanes
        self._ledger: Presence = "absent"
        self._found = LedgerShape(attached.info.dialect)  # as of the last look

    @property
    def ledger(self) -> Presence:
        """As of the last look."""
        return self._ledger

    async def attempts(self, entry_id: str) -> tuple[Attempt, ...]:
        attempt = self._book.attempt
        return await self._attempts((attempt.c.entry_id == storable(entry_id),), attempt.c.attempt_no)

    async def open_attempts(self) -> tuple[Attempt, ...]:
        attempt = self._book.attempt
        return await self._attempts((attempt.c.state.in_(("submitting", "in_doubt")),), attempt.c.id)

    async def _attempts(self, conditions: tuple[Any, ...], order: Any) -> tuple[Attempt, ...]:
        attempt, claim = self._book.attempt, self._book.claim

        async def work(link: Connection) -> tuple[Attempt, ...]:
            if not await self._has_ledger(link):
                return ()
            statement = (
                sa.select(*_columns(attempt, self._found), claim.c.expires_at)
                .select_from(attempt.outerjoin(claim, claim.c.token == attempt.c.token))
                .where(attempt.c.source == self._attached.found.shown, *conditions)
                .order_by(order)
            )
            return tuple(_attempt(row) for row in (await link.execute(statement)).mappings())

        return await self._of_ledger(work)

    async def events(self, entry_id: str) -> tuple[AuditEvent, ...]:
        source = self._attached.found.shown
        rows = await self._ledger_rows(lambda: self._events_of(source, entry_id))
        found = [AuditEvent(row[0], bytes(required(row[1])), bytes(required(row[2]))) for row in rows]
        return tuple(event for event in found if chain.is_about(event, source, entry_id))

    def _events_of(self, source: str, entry_id: str) -> sa.Executable:
        """Finds events with few entries by the index, and looks into each bulk event, skipping from one to the next."""
        book, found = self._book, self._found
        audit, few, bulk = book.audit.fullname, book.audit_entry.fullname, book.audit_bulk.fullname
        if not found.has("audit_entry", "mark"):
            named = f"SELECT seq FROM {few} WHERE source = :source AND entry_id = :entry_id"
            rows = sa.text(f"SELECT seq, body, hash FROM {audit} WHERE seq IN ({named}) ORDER BY seq")
            return rows.bindparams(sa.bindparam("source", source, sa.Text), sa.bindparam("entry_id", entry_id, sa.Text))
        named = f"SELECT seq FROM {few} WHERE mark = :mark"
        walk = ""
        if found.has("audit_bulk"):
            walk = (
                f"WITH RECURSIVE b(seq) AS (SELECT min(seq) FROM {bulk} UNION ALL "
                f"SELECT (SELECT min(n.seq) FROM {bulk} n WHERE n.seq > b.seq) FROM b WHERE b.seq IS NOT NULL) "
            )
            named += f" UNION ALL SELECT b.seq FROM b JOIN {bulk} e ON e.seq = b.seq AND e.mark = :mark"
        rows = sa.text(f"{walk}SELECT a.seq, a.body, a.hash FROM {audit} a WHERE a.seq IN ({named}) ORDER BY a.seq")
        return rows.bindparams(sa.bindparam("mark", chain.mark(source, entry_id), sa.BigInteger))

    async def event_hash(self, seq: int) -> bytes | None:
        """The hash of that event; None if the chain is shorter."""
        audit = self._book.audit
        rows = await self._ledger_rows(sa.select(audit.c.hash).where(audit.c.seq == seq))
        return bytes(required(rows[0][0])) if rows else None

    async def notes(self, entry_id: str) -> tuple[Note, ...]:
        note = self._book.note
        rows = await self._ledger_rows(
            sa.select(note.c.at, note.c.operator, note.c.text)
            .where(note.c.source == self._attached.found.shown, note.c.entry_id == storable(entry_id))
            .order_by(note.c.id)
        )
        return tuple(Note(*row) for row in rows)

    async def note_counts(self, begins: str) -> dict[str, int]:
        note = self._book.note
        rows = await self._ledger_rows(
            sa.select(note.c.entry_id, sa.func.count())
            .where(note.c.source == self._attached.found.shown, note.c.entry_id.startswith(begins, autoescape=True))
            .group_by(note.c.entry_id)
        )
        return {str(row[0]): int(required(row[1])) for row in rows}

    async def halted(self) -> Halt | None:
        """By the events; an earlier version's are not indexed before somebody acts."""
        halt, book = self._book.halt, self._book
        switches = switch_sql(book.audit.fullname, book.audit_entry.fullname, SWITCH_MARK)
        last = sa.text(
            f"SELECT m.value, s.body FROM {book.meta.fullname} m LEFT JOIN ({switches}) s ON 1 = 1 "
            "WHERE m.key = 'schema_version' ORDER BY s.seq DESC"
        )
        if not await self._quick.run(self._has_ledger):
            return None
        if self._found.has("approval", "asked_event"):
            rows = await self._ledger_rows(last)
            if not rows or not is_older(rows[0][0], self._found):
                return halt_of([row[1] for row in rows])
            self._found = LedgerShape(self._attached.info.dialect)  # a backup brought an older ledger back
        rows = await self._ledger_rows(sa.select(halt.c.since, halt.c.operator, halt.c.note))
        return Halt(*rows[0]) if rows else None

    async def audit(self, after: int = 0) -> AsyncIterator[list[AuditEvent]]:
        async for block in self.chain(after):
            yield _events(block)

    async def latest(self, before: int | None, limit: int) -> tuple[AuditEvent, ...]:
        if not await self._slow.run(self._has_ledger):
            return ()
        query = _backwards(self._book, on_postgres=self._attached.info.dialect == "postgresql")
        given = {"before": _LAST if before is None else before, "count": limit}
        return tuple(_events(await self._slow.run(lambda link: link.fetch(query, given))))

    async def chain(self, after: int = 0) -> AsyncIterator[Sequence[Chained]]:
        if not await self._slow.run(self._has_ledger):
            return
        on_postgres = self._attached.info.dialect == "postgresql"
        query = _blocks(self._book, on_postgres=on_postgres)

        def fetch(after: int, count: int) -> asyncio.Future[Sequence[Any]]:
            return asyncio.ensure_future(
                self._slow.run(lambda link: link.fetch(query, {"after": after, "count": count}))
            )

        coming = fetch(after, 100)
        try:
            while block := await coming:
                sample = block[-1 : -len(block) - 1 : -(len(block) // _SAMPLE + 1)]
                size = sum(len(body or b"") for _, body, _ in sample) // len(sample)
                coming = fetch(block[-1][0], max(1, min(_MOST_EVENTS, _BLOCK_BYTES // (size + 100))))
                # Sends the next query before this block is used, so that the server works meanwhile. For SQLite it
                # would only compete with the driver's thread for the interpreter's lock.
                for _ in range(_UNDER_WAY if on_postgres else 0):
                    await asyncio.sleep(0)
                yield block
        finally:
            coming.cancel()

    def keeps(self, table: str, column: str | None = None) -> bool:
        """Whether the ledger has this table, as of the last look: earlier versions have fewer."""
        return self._found.has(table, column)

    async def kept(
        self, table: str, columns: Sequence[str], *, mark: int | None = None
    ) -> AsyncIterator[Sequence[Any]]:
        """The rows of one of the ledger's tables, in blocks; null where its version has no such column."""
        if not await self._slow.run(self._has_ledger) or not self._found.has(table):
            return
        book: sa.Table = getattr(self._book, table)
        key = book.c.seq if mark is not None else next(iter(book.primary_key.columns))
        there = [book.c[name] if self._found.has(table, name) else sa.null().label(name) for name in columns]
        rows = sa.select(key.label("key"), *there).order_by(key).limit(_MOST_EVENTS)
        if mark is not None:
            rows = rows.where(book.c.mark == mark)
        last: list[Any] = []
        while True:
            query = rows.where(key > last[0]) if last else rows

            async def work(link: Connection, query: Any = query) -> Sequence[Any]:
                return (await link.execute(query)).fetchall()

            block = await self._slow.run(work)
            if not block:
                return
            last = [block[-1][0]]
            yield [tuple(row)[1:] for row in block]

    async def store_id(self) -> str:
        meta = self._book.meta
        kept = await self._ledger_rows(sa.select(meta.c.value).where(meta.c.key == "store_id"))
        if kept:
            return str(kept[0][0])
        seed = json.dumps([self._attached.found.name, *map(readable, await self._first_row())])
        return hashlib.sha256(seed.encode()).hexdigest()[:32]

    async def _first_row(self) -> Sequence[Any]:
        """What tells this store from others before its first act; each layout reads its own."""
        raise NotImplementedError

    async def clock(self) -> datetime:
        on_postgres = self._attached.info.dialect == "postgresql"
        query = "SELECT clock_timestamp()" if on_postgres else "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"

        async def work(link: Connection) -> datetime:
            return parse_time(await link.scalar(query)) or datetime.now(UTC)

        return await self._quick.run(work)

    async def _has_ledger(self, link: Connection) -> bool:
        """Looks again until the ledger is there and of this version."""
        if self._ledger != "ready" or not self._found.is_current:
            seen = await look(await link.core(), self._attached.info)
            self._ledger, self._found = seen.presence, seen.shape
        return self._ledger == "ready"

    async def _ledger_rows(self, statement: sa.Executable | Callable[[], sa.Executable | None]) -> Sequence[Any]:
        """A function is asked for its statement once the ledger's shape is known; None: no such rows there."""

        async def work(link: Connection) -> Sequence[Any]:
            if not await self._has_ledger(link):
                return ()
            asked = statement if isinstance(statement, sa.Executable) else statement()
            return () if asked is None else (await link.execute(asked)).fetchall()

        return await self._of_ledger(work)

    async def _of_ledger(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Asks again after another look if the ledger is not as it was: somebody migrated it or brought one back."""
        try:
            return await self._quick.run(work)
        except NotADLQ:
            self._found = LedgerShape(self._attached.info.dialect)
            return await self._quick.run(work)


def _blocks(book: LedgerTables, *, on_postgres: bool) -> CompiledQuery:
    """Reads body and hash as bytes, whatever is stored there; the verifier judges them."""
    body, digest = ("body", "hash") if on_postgres else ("CAST(body AS BLOB)", "CAST(hash AS BLOB)")
    after, count = ("$1", "$2") if on_postgres else ("?", "?")
    text = f"SELECT seq, {body}, {digest} FROM {book.audit.fullname} WHERE seq > {after} ORDER BY seq LIMIT {count}"
    return CompiledQuery(text, ("after", "count"), {})


def _backwards(book: LedgerTables, *, on_postgres: bool) -> CompiledQuery:
    body, digest = ("body", "hash") if on_postgres else ("CAST(body AS BLOB)", "CAST(hash AS BLOB)")
    before, count = ("$1", "$2") if on_postgres else ("?", "?")
    table = book.audit.fullname
    text = f"SELECT seq, {body}, {digest} FROM {table} WHERE seq < {before} ORDER BY seq DESC LIMIT {count}"
    return CompiledQuery(text, ("before", "count"), {})


def _columns(attempt: sa.Table, found: LedgerShape) -> list[sa.ColumnElement[Any]]:
    return [column if found.has("attempt", column.name) else sa.null().label(column.name) for column in attempt.columns]


def _attempt(row: Any) -> Attempt:
    state = required(row["state"])
    return Attempt(
        entry_id=required(row["entry_id"]),
        attempt_no=required(row["attempt_no"]),
        mode=required(row["mode"]),
        venue=required(row["venue"]),
        client_order_id=required(row["client_order_id"]),
        payload_hash=required(row["payload_hash"]),
        outcome=_OUTCOME.get(state, state),
        venue_order_id=row["venue_order_id"],
        error=row["error"],
        started_at=required(row["started_at"]),
        finished_at=row["finished_at"],
        operator=required(row["operator"]),
        os_user=required(row["os_user"]),
        rehearsal=bool(row["rehearsal"]),
        payload=bytes(required(row["payload"])),
        lease_until=row["expires_at"] or 0.0,
        account=row["account"],
        key_digest=row["key_digest"],
    )

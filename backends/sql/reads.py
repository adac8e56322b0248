"""Reading an attached store: pages, entries, counts, history, the audit chain. Never writes, holds no transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.detect import Attached
from backends.ledger.schema import Ledger
from backends.records import (
    STATES,
    Attempt,
    AuditEvent,
    Counts,
    Entry,
    Filter,
    Halt,
    Note,
    Page,
    Place,
    State,
    StoreInfo,
    parse_time,
)
from backends.sql.session import Lane, UndecodableText, ledger_state
from backends.sql.shape import Shape

T = TypeVar("T")
_AUDIT_BLOCK = 5000
_OUTCOME = {"submitting": None, "in_doubt": "unknown", "absent": "not_sent"}


class SQLReads:
    """`quick` answers keys, `slow` counts and scans, `tolerant` reads rows whose text is not UTF-8."""

    def __init__(self, attached: Attached, book: Ledger, lanes: tuple[Lane, Lane, Lane]) -> None:
        self._attached = attached
        self._book = book
        self._quick, self._slow, self._tolerant = lanes
        self._ledger = "absent"
        self._shapes: dict[tuple[bool, bool], Shape] = {}

    @property
    def info(self) -> StoreInfo:
        return self._attached.info

    @property
    def ledger(self) -> str:
        """ "ready", "absent" or "unreadable", as of the last look."""
        return self._ledger

    async def page(
        self,
        where: Filter,
        *,
        limit: int,
        after: Place | None = None,
        before: Place | None = None,
        newest_first: bool = False,
    ) -> Page:
        backwards = before is not None
        place = before if backwards else after

        async def work(connection: AsyncConnection) -> tuple[Shape, Sequence[Any]]:
            shape = await self._shape(connection)
            statement = shape.select(whole=False).where(*shape.where(where)).limit(limit + 1)
            statement = shape.ordered(statement, after=place, descending=newest_first != backwards)
            return shape, (await connection.execute(statement)).fetchall()

        lane = self._slow if where.terms or where.without else self._quick
        shape, rows = await self._read(lane, work)
        entries = [shape.entry(row) for row in rows[:limit]]
        if backwards:
            entries.reverse()
        return Page(tuple(entries), len(rows) > limit)

    async def get(self, entry_id: str) -> Entry | None:
        return (await self.many((entry_id,))).get(entry_id)

    async def many(self, ids: tuple[str, ...]) -> dict[str, Entry]:
        async def work(connection: AsyncConnection) -> tuple[Shape, Sequence[Any]]:
            shape = await self._shape(connection)
            statement = shape.select(whole=True).where(_among(shape, ids))
            return shape, (await connection.execute(statement)).fetchall()

        shape, rows = await self._read(self._quick, work)
        entries = [shape.entry(row) for row in rows]
        return {entry.id: entry for entry in entries}

    async def counts(self, where: Filter) -> Counts:
        async def work(connection: AsyncConnection) -> Counts:
            shape = await self._shape(connection)
            if where == Filter(states=frozenset(STATES)):
                return await self._count_all(connection, shape)
            held = self._book.attempt.c.state if shape.with_ledger else sa.null()
            open_ = sa.case((shape.pending(), 1), else_=0)
            statement = (
                shape.select(whole=True).where(*shape.where(where)).with_only_columns(held, open_, sa.func.count())
            )
            rows = await connection.execute(
                statement.group_by(held, open_) if shape.with_ledger else statement.group_by(open_)
            )
            return Counts(_by_state(rows), await self._oldest(connection, shape))

        return await self._slow.run(work)

    async def _count_all(self, connection: AsyncConnection, shape: Shape) -> Counts:
        """Without a filter the indexes answer: everything, what is open, and the few that are held."""
        table = sa.select(sa.func.count()).select_from(shape.table)
        total = (await connection.execute(table)).scalar_one()
        open_rows = (await connection.execute(table.where(shape.pending()))).scalar_one()
        tally: dict[State, int] = {"pending": open_rows, "dismissed": total - open_rows}
        if shape.with_ledger:
            attempt = self._book.attempt
            pending = sa.case((shape.pending(), 1), else_=0)
            held = sa.select(attempt.c.state, pending, sa.func.count()).select_from(
                attempt.join(shape.table, attempt.c.entry_id == shape.table.c.dlq_id)
            )
            mine = (attempt.c.source == self._attached.found.shown) & (attempt.c.holds == 1)
            for state, is_open, count in await connection.execute(held.where(mine).group_by(attempt.c.state, pending)):
                tally["pending" if is_open else "dismissed"] -= count
                shown = _by_state([(state, is_open, count)])
                for name, more in shown.items():
                    tally[name] = tally.get(name, 0) + more
        return Counts(tally, await self._oldest(connection, shape))

    async def _oldest(self, connection: AsyncConnection, shape: Shape) -> datetime | None:
        statement = sa.select(shape.table.c.captured_at).where(shape.pending())
        first = await connection.execute(shape.ordered(statement, after=None, descending=False).limit(1))
        return parse_time(first.scalar())

    async def attempts(self, entry_id: str) -> tuple[Attempt, ...]:
        attempt = self._book.attempt
        return await self._attempts((attempt.c.entry_id == entry_id,), attempt.c.attempt_no)

    async def open_attempts(self) -> tuple[Attempt, ...]:
        attempt = self._book.attempt
        return await self._attempts((attempt.c.state.in_(("submitting", "in_doubt")),), attempt.c.id)

    async def _attempts(self, conditions: tuple[Any, ...], order: Any) -> tuple[Attempt, ...]:
        attempt, claim = self._book.attempt, self._book.claim
        statement = (
            sa.select(attempt, claim.c.expires_at)
            .select_from(attempt.outerjoin(claim, claim.c.token == attempt.c.token))
            .where(attempt.c.source == self._attached.found.shown, *conditions)
            .order_by(order)
        )

        async def work(connection: AsyncConnection) -> tuple[Attempt, ...]:
            if not await self._has_ledger(connection):
                return ()
            return tuple(_attempt(row) for row in (await connection.execute(statement)).mappings())

        return await self._quick.run(work)

    async def events(self, entry_id: str) -> tuple[AuditEvent, ...]:
        audit, index = self._book.audit, self._book.audit_entry
        statement = (
            sa.select(audit.c.seq, audit.c.body, audit.c.hash)
            .join(index, index.c.seq == audit.c.seq)
            .where(index.c.entry_id == entry_id, index.c.source == self._attached.found.shown)
            .order_by(audit.c.seq)
        )

        async def work(connection: AsyncConnection) -> tuple[AuditEvent, ...]:
            if not await self._has_ledger(connection):
                return ()
            rows = await connection.execute(statement)
            return tuple(AuditEvent(row[0], bytes(row[1]), bytes(row[2])) for row in rows)

        return await self._quick.run(work)

    async def notes(self, entry_id: str) -> tuple[Note, ...]:
        note = self._book.note
        statement = (
            sa.select(note.c.at, note.c.operator, note.c.text)
            .where(note.c.source == self._attached.found.shown, note.c.entry_id == entry_id)
            .order_by(note.c.id)
        )

        async def work(connection: AsyncConnection) -> tuple[Note, ...]:
            if not await self._has_ledger(connection):
                return ()
            return tuple(Note(*row) for row in await connection.execute(statement))

        return await self._quick.run(work)

    async def halted(self) -> Halt | None:
        halt = self._book.halt

        async def work(connection: AsyncConnection) -> Halt | None:
            if not await self._has_ledger(connection):
                return None
            row = (await connection.execute(sa.select(halt.c.since, halt.c.operator, halt.c.note))).first()
            return Halt(*row) if row else None

        return await self._quick.run(work)

    async def audit(self, after: int = 0) -> AsyncIterator[list[AuditEvent]]:
        audit = self._book.audit
        if not await self._slow.run(self._has_ledger):
            return
        while True:
            statement = (
                sa.select(audit.c.seq, audit.c.body, audit.c.hash)
                .where(audit.c.seq > after)
                .order_by(audit.c.seq)
                .limit(_AUDIT_BLOCK)
            )

            async def work(connection: AsyncConnection, statement: sa.Executable = statement) -> list[AuditEvent]:
                rows = (await connection.execute(statement)).fetchall()
                return [AuditEvent(seq, body, digest) for seq, body, digest in rows]

            block = await self._slow.run(work)
            if not block:
                return
            yield block
            after = block[-1].seq

    async def store_id(self) -> str:
        meta = self._book.meta

        async def work(connection: AsyncConnection) -> str:
            if await self._has_ledger(connection):
                kept = await connection.execute(sa.select(meta.c.value).where(meta.c.key == "store_id"))
                if (value := kept.scalar()) is not None:
                    return str(value)
            shape = Shape.of(self._attached, with_ledger=False)
            first = sa.select(shape.table.c.dlq_id, sa.cast(shape.table.c.captured_at, sa.Text))
            row = (await connection.execute(shape.ordered(first, after=None, descending=False).limit(1))).first()
            seed = json.dumps([self._attached.found.name, *(str(value) for value in row or ())])
            return hashlib.sha256(seed.encode()).hexdigest()[:32]

        return await self._quick.run(work)

    async def clock(self) -> datetime:
        query = (
            "SELECT clock_timestamp()"
            if self.info.dialect == "postgresql"
            else "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"
        )

        async def work(connection: AsyncConnection) -> datetime:
            value = (await connection.exec_driver_sql(query)).scalar()
            return parse_time(value) or datetime.now(UTC)

        return await self._quick.run(work)

    async def _read(self, lane: Lane, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        try:
            return await lane.run(work)
        except UndecodableText:
            return await self._tolerant.run(work)

    async def _has_ledger(self, connection: AsyncConnection) -> bool:
        if self._ledger != "ready":
            self._ledger = await ledger_state(connection, on_postgres=self.info.dialect == "postgresql")
        return self._ledger == "ready"

    async def _shape(self, connection: AsyncConnection) -> Shape:
        with_ledger = await self._has_ledger(connection)
        stray = with_ledger and await self._has_stray(connection)
        key = (with_ledger, stray)
        if key not in self._shapes:
            self._shapes[key] = Shape.of(self._attached, with_ledger=with_ledger, stray=stray)
        return self._shapes[key]

    async def _has_stray(self, connection: AsyncConnection) -> bool:
        attempt = self._book.attempt
        shape = self._shapes.setdefault((True, False), Shape.of(self._attached, with_ledger=True))
        statement = (
            sa.select(sa.literal_column("1"))
            .select_from(attempt.join(shape.table, attempt.c.entry_id == shape.table.c.dlq_id))
            .where(attempt.c.state.in_(("submitting", "in_doubt")), attempt.c.holds == 1)
            .where(attempt.c.source == self._attached.found.shown, sa.not_(shape.pending()))
            .limit(1)
        )
        return (await connection.execute(statement)).first() is not None


def _among(shape: Shape, ids: tuple[str, ...]) -> Any:
    column = shape.table.c.dlq_id
    if shape.on_postgres:
        return column == sa.func.any(sa.bindparam("ids", list(ids), sa.ARRAY(sa.Text)))
    listed = sa.func.json_each(json.dumps(ids)).table_valued("value")
    return column.in_(sa.select(listed.c.value))


def _by_state(rows: Any) -> dict[State, int]:
    tally: dict[State, int] = {}
    held: dict[str, State] = {"submitting": "in_flight", "in_doubt": "in_doubt", "accepted": "replayed"}
    for state, is_open, count in rows:
        shown: State = held[state] if state is not None else "pending" if is_open else "dismissed"
        tally[shown] = tally.get(shown, 0) + count
    return tally


def _attempt(row: Any) -> Attempt:
    state = row["state"]
    return Attempt(
        entry_id=row["entry_id"],
        attempt_no=row["attempt_no"],
        mode=row["mode"],
        venue=row["venue"],
        client_order_id=row["client_order_id"],
        payload_hash=row["payload_hash"],
        outcome=_OUTCOME.get(state, state),
        venue_order_id=row["venue_order_id"],
        error=row["error"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        operator=row["operator"],
        os_user=row["os_user"],
        rehearsal=bool(row["rehearsal"]),
        payload=bytes(row["payload"]),
        lease_until=row["expires_at"] or 0.0,
    )

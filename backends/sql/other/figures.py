"""Counts what only an outbox has: open messages by reason, rows and leases of the outbox itself. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.detect.outboxes import Outbox, chosen
from backends.layouts.outbox import LEASE_SECONDS
from backends.records import Filter
from backends.sql.connection import Connection
from backends.sql.other.reads import OtherReads
from backends.sql.other.select import FilterQuestion
from backends.sql.postgres_columns import spelled
from backends.store import ActRefused, OutboxFigures, QueueLoad

_READ = ("queue", "acquired_token", "acquired_at")


class FigureReads(OtherReads):
    async def figures(self) -> OutboxFigures:
        async def work(link: Connection, as_text: bool) -> Sequence[Any]:
            select, ask = await self._look(link, as_text=as_text), FilterQuestion()
            queue, reason = (f"coalesce({self._table.text(one)}, '')" for one in ("queue", "failure_reason"))
            conditions = select.conditions(Filter(), ask)
            rows = f"{select.rows(each=False)} {'WHERE ' if conditions else ''}{' AND '.join(conditions)}"
            return await link.fetch(
                ask.query(f"SELECT {queue}, {reason}, count(*) {rows} GROUP BY 1, 2 ORDER BY 1, 2"), {}
            )

        reasons = {(row[0], row[1]): int(row[2]) for row in await self._read(self._slow, work)}
        return OutboxFigures(reasons, await self._loads())

    async def _loads(self) -> tuple[QueueLoad, ...] | None:
        """None where no outbox is chosen, or this role may not read it or would run another's code by it."""
        if not self._table.reads_outboxes:
            return None
        try:
            into = chosen(self._table.outboxes, self._table.options.outbox_table)
        except ActRefused:
            return None

        async def work(link: Connection) -> tuple[QueueLoad, ...] | None:
            if not await (await link.driver()).fetchval(_readable(into)):
                return None
            rows = await (await link.driver()).fetch(_counted(into))
            return tuple(_load(row) for row in rows)

        return await self._slow.run(work)


def _load(row: Sequence[Any]) -> QueueLoad:
    queue, rows, leased, expired, oldest = row
    return QueueLoad(queue or "", int(rows), int(leased), int(expired), float(oldest))


def _columns(into: Outbox) -> list[str]:
    return [name for name in _READ if name in into.columns]


def _readable(into: Outbox) -> str:
    schema, table = ("'" + name.replace("'", "''") + "'" for name in (into.schema, into.quoted))
    # CatalogConnection for one by one: without the schema, Postgres could not look the table up.
    may = " AND ".join(f"has_column_privilege(CAST({table} AS text), '{name}', 'SELECT')" for name in _columns(into))
    return f"SELECT CASE WHEN has_schema_privilege({schema}, 'USAGE') THEN {may} ELSE false END"


def _counted(into: Outbox) -> str:
    expired, oldest = "0", "0"
    if "acquired_at" in into.columns:
        age = "extract(epoch FROM now() - acquired_at)"
        expired = f"count(*) FILTER (WHERE acquired_token IS NOT NULL AND {age} > {LEASE_SECONDS})"
        oldest = f"greatest(0, coalesce(max({age}) FILTER (WHERE acquired_token IS NOT NULL), 0))"
    counts = f"count(*), count(acquired_token), {expired}, {oldest}"
    return f"SELECT {spelled('queue', dict(into.types)['queue'])}, {counts} FROM {into.quoted} GROUP BY 1 ORDER BY 1"

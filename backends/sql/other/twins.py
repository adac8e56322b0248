"""Entries that share an id: what they are called, and which of the ledger's records are whose. Never writes.

An act on an entry that was alone with its id is recorded under the bare id. It belongs to the row that had failed by
then: nobody can act on a bare id once a second row has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from backends.records import Attempt, AuditEvent, Note, parse_time
from backends.sql.connection import Connection
from backends.sql.other import naming
from backends.sql.other.reads import OtherReads
from backends.sql.other.row import entries
from backends.sql.plan_reads import SQLPlanReads

_UNKNOWN = datetime.max.replace(tzinfo=UTC)


class TwinReads(OtherReads, SQLPlanReads):
    async def named(self, entry_id: str) -> tuple[str, ...]:
        """The entries whose rows have this id, where there are several."""
        if not self._table.ids_repeat or not self._is_id(entry_id):
            return ()

        async def work(link: Connection, as_text: bool) -> tuple[str, ...]:
            select = await self._look(link, as_text=as_text)
            if not select.is_plain_id(entry_id):
                return ()
            rows = await link.fetch(select.by_ids([entry_id], whole=False), {})
            repeated = naming.repeated([row[1] for row in rows])
            return tuple(sorted(one.id for one in entries(select, rows, repeated=repeated))) if repeated else ()

        return await self._read(self._quick, work)

    async def attempts(self, entry_id: str) -> tuple[Attempt, ...]:
        own = await super().attempts(entry_id)
        owner = await self._owner(entry_id)
        alone = () if owner is None else await super().attempts(_bare(entry_id))
        return (*(one for one in alone if owner is not None and owner(one.started_at) == entry_id), *own)

    async def attempts_of(self, ids: tuple[str, ...]) -> dict[str, tuple[Attempt, ...]]:
        found = await super().attempts_of(ids)
        for entry_id in ids if self._table.ids_repeat else ():
            if both := await self.attempts(entry_id):
                found[entry_id] = both
        return found

    async def events(self, entry_id: str) -> tuple[AuditEvent, ...]:
        own = await super().events(entry_id)
        owner = await self._owner(entry_id)
        alone = () if owner is None else await super().events(_bare(entry_id))
        return (*(one for one in alone if owner is not None and owner(_told_at(one)) == entry_id), *own)

    async def notes(self, entry_id: str) -> tuple[Note, ...]:
        own = await super().notes(entry_id)
        owner = await self._owner(entry_id)
        alone = () if owner is None else await super().notes(_bare(entry_id))
        return (*(one for one in alone if owner is not None and owner(one.at) == entry_id), *own)

    async def _owner(self, entry_id: str) -> Callable[[str], str] | None:
        """Whose a record of the bare id is, by the time of the record; None for an entry that is alone with its id."""
        if not self._table.ids_repeat or "@" not in entry_id:
            return None
        names = await self.named(_bare(entry_id))
        return partial(had_failed, names) if names else None


def _bare(entry_id: str) -> str:
    return entry_id.rpartition("@")[0]


def had_failed(names: Sequence[str], told: str) -> str:
    """Of entries of one id the last to fail before that moment; the first of all where the clocks differ."""
    at = parse_time(told)
    born = sorted((parse_time(name.rpartition("@")[2]) or _UNKNOWN, name) for name in names)
    earlier = [name for failed, name in born if at is not None and failed <= at]
    return earlier[-1] if earlier else born[0][1]


def _told_at(event: AuditEvent) -> str:
    try:
        return str(json.loads(event.body).get("at"))
    except (ValueError, AttributeError):
        return ""  # `dlq audit verify` reports a damaged body

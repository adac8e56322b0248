"""Reads an engine's intents: those whose owner is gone as entries in doubt, those found at their venue as replayed.

Reads only. Where there is no intent table, nothing is asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from backends.filter_match import fits_row
from backends.records import Entry, Filter
from backends.sql.connection import Connection
from backends.sql.intent.select import IntentSelect
from backends.sql.plan_reads import OrderPlanReads
from backends.sql.text.query import CompiledQuery

_MANY = 1000  # ids in one query


class IntentReads(OrderPlanReads):
    """The reads of an order store; entries by id are its intents too."""

    async def intents(self, where: Filter, *, owned: bool = False) -> tuple[Entry, ...]:
        """Oldest first. With `owned` also, as in flight, what an engine may still be sending."""
        opened = owned or "in_doubt" in where.states
        if self._attached.intents is None or not (opened or "replayed" in where.states):
            return ()

        async def work(link: Connection, as_text: bool) -> list[Entry]:
            select = IntentSelect(self._attached, as_text=as_text)
            rows: list[Any] = []
            if opened:
                rows += await _fetch(link, select.open(owned=owned, whole=False), {})
            if "replayed" in where.states and await self._has_ledger(link):
                rows += await _fetch(link, select.replayed(whole=False), {"source": self._attached.found.shown})
            return list(map(select.reader(), rows))

        found = await self._read(self._quick, work)
        cut = tuple(entry.id for entry in found if entry.clipped)
        whole = {} if where.is_open or not cut else await self._intents_of(cut)
        states = where.states | ({"in_flight"} if owned else frozenset())
        return tuple(one for one in found if one.state in states and fits_row(whole.get(one.id, one), where))

    async def _by_ids(self, ids: tuple[str, ...], *, whole: bool) -> dict[str, Entry]:
        found = await super()._by_ids(ids, whole=whole)
        if self._attached.intents is not None and (missing := tuple(one for one in ids if one not in found)):
            found |= await self._intents_of(missing)
        return found

    async def _intents_of(self, ids: tuple[str, ...]) -> dict[str, Entry]:
        """Whole; what its owner may still be sending is the engine's business."""
        possible = list(filter(self._is_id, ids))
        on_postgres = self.info.dialect == "postgresql"
        found: dict[str, Entry] = {}
        for start in range(0, len(possible), _MANY):
            chunk = possible[start : start + _MANY]
            given = {"source": self._attached.found.shown, "ids": chunk if on_postgres else json.dumps(chunk)}

            async def work(link: Connection, as_text: bool, given: Mapping[str, object] = given) -> list[Entry]:
                select = IntentSelect(self._attached, as_text=as_text)
                named = {"ids": given["ids"]}
                rows = [*await _fetch(link, select.open(owned=False, whole=True, ids=True), named)]
                if await self._has_ledger(link):
                    rows += await _fetch(link, select.replayed(whole=True, ids=True), given)
                return list(map(select.reader(), rows))

            found |= {entry.id: entry for entry in await self._read(self._quick, work)}
        return found


async def _fetch(link: Connection, text: str, given: Mapping[str, object]) -> Sequence[Any]:
    return await link.fetch(CompiledQuery(text, tuple(given), {}), given)

"""Reads a layout that others own: the queries of its counts, and masked entries from rows. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from backends.detect.other_layouts import OtherAttached
from backends.ledger.names import SCHEMA
from backends.ledger.schema import LedgerTables
from backends.records import STATES, Entry, Filter, utc_time
from backends.sql.connection import Connection, ReadConnection
from backends.sql.entry_reads import EntryReads, FoundRows, PageWindow
from backends.sql.filter_sql import FilterSQL
from backends.sql.other import naming
from backends.sql.other.owner_row import OwnerRow, Removal
from backends.sql.other.row import entries
from backends.sql.other.select import FilterQuestion, Select, placed_in, row_filter
from backends.sql.text.query import CompiledQuery


def state_tally(select: Select, where: Filter) -> CompiledQuery:
    """Selects (state, count) of the entries that surely fit a filter."""
    ask, made = FilterQuestion(), row_filter(select.attached, where)
    conditions = " AND ".join(placed_in(ask, made, made.surely))
    rows = f"{select.rows(each=False)} {f'WHERE {conditions}' if conditions else ''}"
    return ask.query(f"SELECT {select.joined_state}, count(*) {rows} GROUP BY 1")


def totals(select: Select) -> CompiledQuery:
    """Selects how many entries their owner left open, and how many not."""
    counts = f"count(*) FILTER (WHERE {select.is_open}), count(*) FILTER (WHERE NOT ({select.is_open}))"
    return FilterQuestion().query(f"SELECT {counts} FROM {select.attached.found.quoted} t")


def marked(select: Select) -> CompiledQuery:
    """Selects (state, open by its owner, count) of the entries that the ledger knows and the table still holds."""
    held = f"{SCHEMA}.attempt a ON a.source = {select.source} AND a.holds = 1"
    table = f"{select.attached.found.quoted} t ON {select.attached.sql('id')}"
    settled = f"{SCHEMA}.settled s JOIN {table} = {select.as_id('s.entry_id')} AND {select.born} = s.born"
    mine = f"WHERE s.source = {select.source}"
    if not select.attached.layout.sends:
        return FilterQuestion().query(f"SELECT s.state, true, count(*) FROM {settled} {mine} GROUP BY 1")
    unsettled = (
        f"NOT EXISTS (SELECT 1 FROM {SCHEMA}.settled s {mine} AND s.entry_id = a.entry_id AND s.born = {select.born})"
    )
    return FilterQuestion().query(
        f"SELECT state, open, count(*) FROM ("
        f"SELECT coalesce(a.state, s.state) AS state, {select.is_open} AS open FROM {settled} "
        f"LEFT JOIN {held} AND a.entry_id = s.entry_id {mine} "
        f"UNION ALL SELECT a.state, {select.is_open} FROM {SCHEMA}.attempt a "
        f"JOIN {table} = {select.as_id('a.entry_id')} "
        f"WHERE a.source = {select.source} AND a.holds = 1 AND {unsettled}) known GROUP BY 1, 2"
    )


_EVERYTHING = Filter(states=frozenset(STATES))


class OtherReads(EntryReads[Select]):
    def __init__(
        self, attached: OtherAttached, book: LedgerTables, lanes: tuple[ReadConnection, ReadConnection, ReadConnection]
    ) -> None:
        EntryReads.__init__(self, attached, book, lanes)
        self._table = attached

    def _is_id(self, text: str) -> bool:
        return Select(self._table, with_ledger=False).is_id(text)

    async def _look(self, link: Connection, *, as_text: bool = False) -> Select:
        return Select(self._table, await self._has_ledger(link), as_text)

    async def _ask_page(self, link: Connection, where: Filter, window: PageWindow, *, as_text: bool) -> FoundRows:
        select = await self._look(link, as_text=as_text)
        query = select.page(where, window.place, descending=window.descending, most=window.most, unsure=window.unsure)
        rows = await link.fetch(query, {})
        return FoundRows(entries(select, rows, repeated=await self._repeated(link, select, rows)))

    async def _repeated(self, link: Connection, select: Select, rows: Sequence[Any]) -> frozenset[str]:
        """One query for a whole page, and none where the table keeps its ids unique."""
        if not rows or not self._table.ids_repeat:
            return frozenset()
        found = await link.fetch(select.repeats([row[1] for row in rows]), {})
        return frozenset(str(row[0]) for row in found)

    async def _ask_ids(self, link: Connection, ids: list[str], *, whole: bool, as_text: bool) -> list[Entry]:
        select = await self._look(link, as_text=as_text)
        if not self._table.ids_repeat:
            return entries(select, await link.fetch(select.by_ids(ids, whole=whole), {}), whole=whole)
        own = [key for one in ids for key in naming.possible(one) if select.is_plain_id(key)]
        rows = await link.fetch(select.by_ids(list(dict.fromkeys(own)), whole=whole), {})
        repeated = naming.repeated([row[1] for row in rows])
        asked = frozenset(ids)
        return [one for one in entries(select, rows, whole=whole, repeated=repeated) if one.id in asked]

    def _filter_sql(self, where: Filter) -> FilterSQL:
        return row_filter(self._table, where)

    async def _ask_tally(self, link: Connection, select: Select, where: Filter) -> Sequence[Any]:
        return await link.fetch(state_tally(select, where), {})

    async def _ask_totals(self, link: Connection, select: Select) -> tuple[int, int]:
        [(pending, dismissed)] = await link.fetch(totals(select), {})
        return pending, dismissed

    async def _ask_known(self, link: Connection, select: Select) -> Sequence[Any]:
        return await link.fetch(marked(select), {})

    async def _ask_oldest(self, link: Connection, select: Select, where: Filter) -> datetime | None:
        rows = await link.fetch(select.page(where, None, descending=False, most=1), {})
        moment = self._table.actual(self._table.layout.moment) or ""
        return utc_time(entries(select, rows)[0].get(moment)) if rows else None

    async def check_row(self, key: str, how: Removal | None, *, counts: bool) -> None:
        """Raises ActRefused with the grants where this role may not do to a row what `key` of the config asks."""
        row = OwnerRow(self._table)
        if how is not None:
            row.possible(key, how)
        if not (needed := row.rights(how, counts=counts)):
            return

        async def work(link: Connection) -> Sequence[Any]:
            held: Sequence[Any] = await (await link.driver()).fetchrow(f"SELECT {', '.join(needed.values())}")
            return held

        held = await self._quick.run(work)
        if missing := [grant for grant, there in zip(needed, held, strict=True) if not there]:
            raise row.refusal(missing)

    async def _first_row(self) -> Sequence[Any]:
        async def work(link: Connection, as_text: bool) -> Sequence[Any]:
            select = Select(self._table, with_ledger=False, as_text=as_text)
            rows = await link.fetch(select.page(_EVERYTHING, None, descending=False, most=1), {})
            if not rows:
                return ()
            own = rows[0][1]
            return (own, own) if self._table.by_number else (own, rows[0][3], own)

        return await self._read(self._quick, work)

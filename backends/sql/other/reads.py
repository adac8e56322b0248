"""Reading a store of somebody else's layout: pages, entries, counts. Never writes, holds no transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from backends.detect.other_layouts import OtherAttached
from backends.layouts.mask import hints_in, masked_document, masked_text
from backends.ledger.schema import SCHEMA, LedgerTables
from backends.records import STATES, Counts, Entry, Filter, Page, RowKey, State, StoreInfo, utc_time
from backends.sql import filter_sql as condition
from backends.sql.connection import CompiledQuery, Connection, ReadConnection, UndecodableValue
from backends.sql.history import SQLHistory
from backends.sql.other.select import CLIP, SHOWN, TIMES, FilterQuestion, Select, matching


def state_tally(select: Select, where: Filter) -> CompiledQuery:
    """(state, count) of what a filter means."""
    ask = FilterQuestion()
    conditions = " AND ".join(matching(select.attached, where, ask))
    rows = f"{select.rows(each=False)} {f'WHERE {conditions}' if conditions else ''}"
    return ask.query(f"SELECT {select.joined_state}, count(*) {rows} GROUP BY 1")


def totals(select: Select) -> CompiledQuery:
    """(all that are open by their owner's word, all the others)."""
    counts = f"count(*) FILTER (WHERE {select.is_open}), count(*) FILTER (WHERE NOT ({select.is_open}))"
    return FilterQuestion().query(f"SELECT {counts} FROM {select.attached.found.quoted} t")


def marked(select: Select) -> CompiledQuery:
    """(state, open by its owner's word, count) of the few that our ledger knows of; only where they still are there."""
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


_ENDS = {datetime.max: "infinity", datetime.min: "-infinity"}  # noqa: DTZ901 - asyncpg makes them naive


def entries(select: Select, rows: Sequence[Sequence[Any]], *, whole: bool = False) -> list[Entry]:
    if not rows:
        return []
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    state, identity, stamp, *rest = columns
    places: Sequence[tuple[str, ...]] = [(entry_id,) for entry_id in identity]
    if not select.attached.by_number:
        places = list(zip(rest.pop(0), identity, strict=True))
    cut = set() if whole else _clip(select, rest)
    _mask(select, rest)
    _name_the_ends(select, rest)
    layout, names, shown = select.attached.layout.name, select.attached.info.columns, SHOWN.get
    return [
        # A state of a newer ledger is not ours to call safe.
        Entry(layout, entry_id, shown(held, "in_doubt"), (version,), place, names, values, at in cut)
        for at, (held, entry_id, version, place, values) in enumerate(
            zip(state, identity, stamp, places, zip(*rest, strict=True), strict=True)
        )
    ]


def _clip(select: Select, columns: list[Sequence[Any]]) -> set[int]:
    """Cuts what is too long; which rows it was."""
    cut: set[int] = set()
    for number, (name, _) in enumerate(select.attached.spelt):
        if not select.may_be_long(name):
            continue
        held = columns[number]
        if long := {at for at, value in enumerate(held) if value is not None and len(value) > CLIP}:
            columns[number] = [value[:CLIP] if at in long else value for at, value in enumerate(held)]
            cut |= long
    return cut


def _mask(select: Select, columns: list[Sequence[Any]]) -> None:
    layout = select.attached.layout
    maskers = {
        number: masked_document if name in layout.documents else masked_text
        for number, (name, _) in enumerate(select.attached.spelt)
        if name in layout.documents or name == layout.error
    }
    if hints := hints_in([value for number in maskers for value in columns[number] if type(value) is str]):
        for number, masked in maskers.items():
            columns[number] = [masked(value, hints) if type(value) is str else value for value in columns[number]]


def _name_the_ends(select: Select, columns: list[Sequence[Any]]) -> None:
    """Postgres' two ends of time, as it spells them."""
    for number, (name, _) in enumerate(select.attached.spelt):
        if not select.attached.part(name).type.startswith(TIMES):
            continue
        held = columns[number]
        if [value for value in held if type(value) is datetime and value.tzinfo is None]:
            columns[number] = [_ENDS.get(value, value) if type(value) is datetime else value for value in held]


T = TypeVar("T")
_MANY = 1000  # entries of one question by id
_EVERYTHING = Filter(states=frozenset(STATES))


class OtherReads(SQLHistory):
    def __init__(
        self, attached: OtherAttached, book: LedgerTables, lanes: tuple[ReadConnection, ReadConnection, ReadConnection]
    ) -> None:
        SQLHistory.__init__(self, attached, book, lanes)
        self._table = attached

    @property
    def info(self) -> StoreInfo:
        return self._attached.info

    async def page(
        self,
        where: Filter,
        *,
        limit: int,
        after: RowKey | None = None,
        before: RowKey | None = None,
        newest_first: bool = False,
    ) -> Page:
        asked = condition.answerable(where, self._attached)
        if asked is None:
            return Page((), more=False)
        backwards = before is not None
        place, descending = before if backwards else after, newest_first != backwards

        async def work(link: Connection, as_text: bool) -> list[Entry]:
            select = await self._select(link, as_text=as_text)
            query = select.page(asked, place, descending=descending, most=limit + 1)
            return entries(select, await link.fetch(query, {}))

        found = await self._read(self._slow if where.terms or where.without else self._quick, work)
        shown = found[:limit]
        return Page(tuple(reversed(shown) if backwards else shown), len(found) > limit)

    async def get(self, entry_id: str) -> Entry | None:
        return (await self.many((entry_id,))).get(entry_id)

    async def many(self, ids: tuple[str, ...]) -> dict[str, Entry]:
        return await self._by_ids(ids, whole=True)

    async def states(self, ids: tuple[str, ...]) -> dict[str, Entry]:
        """Like `many`, with long values cut."""
        return await self._by_ids(ids, whole=False)

    async def _by_ids(self, ids: tuple[str, ...], *, whole: bool) -> dict[str, Entry]:
        bare = Select(self._table, with_ledger=False)
        possible = [entry_id for entry_id in ids if bare.is_id(entry_id)]
        found: dict[str, Entry] = {}
        for start in range(0, len(possible), _MANY):
            chunk = possible[start : start + _MANY]

            async def work(link: Connection, as_text: bool, chunk: list[str] = chunk) -> list[Entry]:
                select = await self._select(link, as_text=as_text)
                return entries(select, await link.fetch(select.by_ids(chunk, whole=whole), {}), whole=whole)

            for entry in await self._read(self._quick, work):
                # A table without a unique id may hold one twice; then the open one is what must be seen.
                held = found.get(entry.id)
                found[entry.id] = entry if held is None or held.state != "pending" else held
        return found

    async def counts(self, where: Filter) -> Counts:
        asked = condition.answerable(where, self._attached)
        if asked is None:
            return Counts({}, None)

        async def work(link: Connection, as_text: bool) -> tuple[dict[State, int], object]:
            select = await self._select(link, as_text=as_text)
            unfiltered = asked == replace(_EVERYTHING, states=asked.states)
            tally = await (_tally_all(link, select) if unfiltered else _tally(link, select, asked))
            return tally, await self._oldest(link, select, asked)

        tally, oldest = await self._read(self._slow, work)
        return Counts({state: count for state, count in tally.items() if state in where.states}, utc_time(oldest))

    async def _oldest(self, link: Connection, select: Select, where: Filter) -> object:
        if "pending" not in where.states:
            return None
        only = replace(where, states=frozenset({"pending"}))
        rows = await link.fetch(select.page(only, None, descending=False, most=1), {})
        moment = self._table.actual(self._table.layout.moment) or ""
        return entries(select, rows)[0].get(moment) if rows else None

    async def _first_row(self) -> Sequence[Any]:
        async def work(link: Connection, as_text: bool) -> Sequence[Any]:
            select = Select(self._table, with_ledger=False, as_text=as_text)
            rows = await link.fetch(select.page(_EVERYTHING, None, descending=False, most=1), {})
            return (rows[0][1], *select.places(rows[0])) if rows else ()

        return await self._read(self._quick, work)

    async def _read(self, lane: ReadConnection, work: Callable[[Connection, bool], Awaitable[T]]) -> T:
        try:
            return await lane.run(lambda link: work(link, False))
        except UndecodableValue:
            return await self._tolerant.run(lambda link: work(link, True))

    async def _select(self, link: Connection, *, as_text: bool = False) -> Select:
        return Select(self._table, await self._has_ledger(link), as_text)


async def _tally(link: Connection, select: Select, where: Filter) -> dict[State, int]:
    tally: dict[State, int] = {}
    for name, count in await link.fetch(state_tally(select, where), {}):
        shown = SHOWN.get(name, "in_doubt")
        tally[shown] = tally.get(shown, 0) + count
    return tally


async def _tally_all(link: Connection, select: Select) -> dict[State, int]:
    """Without a filter: everything, less the few that our ledger knows of."""
    [(pending, dismissed)] = await link.fetch(totals(select), {})
    tally: dict[State, int] = {"pending": pending, "dismissed": dismissed}
    if not select.with_ledger:
        return tally
    for name, was_open, count in await link.fetch(marked(select), {}):
        tally["pending" if was_open else "dismissed"] -= count
        shown = SHOWN.get(name, "in_doubt")
        tally[shown] = tally.get(shown, 0) + count
    return tally

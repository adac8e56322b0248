"""Reads the index: summaries, trends, members of groups, search candidates. Never waits for the index's writer."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

from backends.index.file import Cache, IndexThread, faults
from backends.index.rows import (
    DIMENSIONS,
    MINUTE,
    Candidates,
    Cross,
    Dimension,
    IndexQuestion,
    Progress,
    Snapshot,
    SummaryLine,
    VenueAge,
    VenueLine,
    micros,
    moment,
    read_kind,
    read_worth,
)
from backends.index.schema import KINDS
from backends.records import OPEN_STATES, STATES, State
from backends.records import STATES as ALL_STATES

_OPS = 2000  # instructions of SQLite's virtual machine between two looks at the clock

STATE_COUNTS = "SELECT state, sum(count) FROM summary GROUP BY state"
LINES = """SELECT shape.fingerprint, shape.title, name.text, state, count, retries, notional, unpriced, first, last
    FROM summary JOIN shape ON shape.n = summary.shape JOIN name ON name.n = summary.category"""
NAMES = "SELECT n, text FROM name"
SHAPES = "SELECT n, fingerprint FROM shape"
# Grouped by shape first, so that the venues of every group are found without reading its markets.
PARTS = """SELECT part.shape, part.kind, part.name, sum(count)
    FROM shape CROSS JOIN json_each(?) AS asked CROSS JOIN part ON part.shape = shape.n AND part.kind = asked.value
    WHERE open >= ? GROUP BY part.shape, part.kind, part.name"""
HOURS = """SELECT shape.fingerprint, name.text, hour, count
    FROM hour JOIN shape ON shape.n = hour.shape JOIN name ON name.n = hour.category WHERE hour >= ? ORDER BY hour"""
# The build and later arrivals number entries by their age, so that the newest stand at one end.
LATELY = """SELECT shape.fingerprint, captured / ?, count(*)
    FROM (SELECT shape, captured FROM entry ORDER BY n DESC LIMIT ?) AS late JOIN shape ON shape.n = late.shape
    WHERE captured >= ? GROUP BY 1, 2"""
MINUTES = "SELECT minute, count FROM minute WHERE minute >= ?"
SNAPSHOTS = "SELECT at, open, in_doubt, total FROM snapshot WHERE at >= ? ORDER BY at"
DEPTHS = """SELECT snapshot.at, name.text, venue_depth.open FROM snapshot LEFT JOIN venue_depth USING (at)
    LEFT JOIN name ON name.n = venue_depth.venue WHERE snapshot.at >= ?"""
VENUES = """SELECT place.text, kind.text, state, step, count, retries, timed, captured
    FROM venue JOIN name place ON place.n = venue.venue JOIN name kind ON kind.n = venue.category"""
# Reads one end of an index: the oldest entry, and only the entries that came after the moment asked for.
AGES = """SELECT name.text, min((SELECT min(captured) FROM entry WHERE venue = name.n AND state = number.value)),
        sum((SELECT count(*) FROM entry WHERE venue = name.n AND state = number.value AND captured > ?))
    FROM (SELECT DISTINCT venue AS n FROM venue) AS seen CROSS JOIN json_each(?) AS number
    JOIN name ON name.n = seen.n GROUP BY name.n"""
LOOKED = """INSERT OR REPLACE INTO looked
    SELECT ?, CAST(value AS INTEGER) FROM meta WHERE key = 'next_high'"""
ARRIVED = """SELECT looked.fingerprint, count(entry.n) FROM looked JOIN shape ON shape.fingerprint = looked.fingerprint
    LEFT JOIN entry NOT INDEXED ON entry.n >= looked.at AND entry.shape = shape.n GROUP BY looked.fingerprint"""
GRAMS = "SELECT term FROM temp.vocabulary WHERE term >= ? AND term < ? LIMIT ?"


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def members(states: int) -> str:
    return f"""SELECT entry.id FROM entry JOIN shape ON shape.n = entry.shape
        WHERE shape.fingerprint = ? AND state IN ({_marks(states)}) ORDER BY entry.n"""


def newest(states: int) -> str:
    return f"""SELECT entry.n, entry.id FROM entry JOIN shape ON shape.n = entry.shape
        WHERE shape.fingerprint = ? AND state IN ({_marks(states)}) AND entry.n < ? ORDER BY entry.n DESC LIMIT ?"""


def cross(states: int) -> str:
    return f"""SELECT venue.text, account.text, market.text, count(*) AS entries
        FROM entry JOIN shape ON shape.n = entry.shape JOIN name venue ON venue.n = entry.venue
        JOIN name account ON account.n = entry.account JOIN name market ON market.n = entry.market
        WHERE shape.fingerprint = ? AND state IN ({_marks(states)})
        GROUP BY entry.venue, entry.account, entry.market ORDER BY entries DESC, 1, 2, 3 LIMIT ?"""


def known(connection: sqlite3.Connection, ids: Sequence[str]) -> set[str]:
    rows = connection.execute("SELECT id FROM entry WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids),))
    return {row[0] for row in rows}


def search_window(
    connection: sqlite3.Connection, ask: IndexQuestion, bounds: tuple[int, int, int]
) -> list[tuple[int, str]] | None:
    """Matches with floor <= n < ceiling, newest first; None if time ran out within this window."""
    floor, ceiling, limit = bounds
    conditions, given = _conditions(ask)
    if ask.expression:
        statement = (
            "SELECT entry.n, entry.id FROM text CROSS JOIN entry ON entry.n = text.rowid "
            f"WHERE text MATCH ? AND text.rowid >= ? AND text.rowid < ?{conditions} ORDER BY text.rowid DESC LIMIT ?"
        )
        given = [ask.expression, floor, ceiling, *given, limit]
    else:
        statement = f"SELECT n, id FROM entry WHERE n >= ? AND n < ?{conditions} ORDER BY n DESC LIMIT ?"
        given = [floor, ceiling, *given, limit]
    with until(connection, ask.deadline):
        return [(row[0], row[1]) for row in connection.execute(statement, given)]
    return None


def _conditions(ask: IndexQuestion) -> tuple[str, list[object]]:
    text, given = "", list[object]()
    if len(ask.states) < len(ALL_STATES):
        text += f" AND entry.state IN ({_marks(len(ask.states))})"
        given += [number for number, state in enumerate(ALL_STATES) if state in ask.states]
    return text, given


@contextmanager
def until(connection: sqlite3.Connection, deadline: float) -> Iterator[None]:
    """Ends the block early, without an error, once time is up."""
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _OPS)
    try:
        yield
    except sqlite3.OperationalError as problem:
        if "interrupted" not in str(problem):
            raise
    finally:
        connection.set_progress_handler(None, 0)


T = TypeVar("T")
_WINDOW = 50_000  # entries searched in one step: FTS5 cannot be interrupted within a step
_LARGEST_WINDOW = 400_000


class NoIndex(Exception):
    """There is no index of this store and version yet."""


class Reader:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._thread = IndexThread("index-reader")
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    async def aclose(self) -> None:
        await self._thread.run(self._drop)
        self._thread.close()

    @property
    def is_kept(self) -> bool:
        return self._cache.is_kept

    async def progress(self) -> Progress | None:
        """None if there is no index."""
        try:
            return await self._run(_progress)
        except NoIndex:
            return None

    async def lines(self) -> list[SummaryLine]:
        """The summary: every group by category and state."""
        return await self._run(_lines)

    async def parts(
        self, dimensions: tuple[Dimension, ...] = DIMENSIONS, *, everything: bool = False
    ) -> dict[str, dict[str, dict[str, int]]]:
        """fingerprint → venue | account | market → name → entries."""
        return await self._run(lambda connection: _parts(connection, dimensions, everything=everything))

    async def cross(self, fingerprint: str, *, states: frozenset[State], limit: int) -> list[Cross]:
        """One group, split by venue, account and market, largest first."""
        return await self._run(lambda connection: _cross(connection, fingerprint, states, limit))

    async def hours(self, first: int) -> dict[tuple[str, str], dict[int, int]]:
        """(fingerprint, category) → hour since the epoch → arrivals, from hour `first` on."""
        return await self._run(lambda connection: _hours(connection, first))

    async def lately(self, since: int, step: int, *, most: int) -> dict[str, dict[int, int]]:
        """fingerprint → step since the epoch → arrivals since a moment, among the newest `most` entries."""
        return await self._run(lambda connection: _lately(connection, since, step, most))

    async def minutes(self, first: int) -> dict[int, int]:
        return await self._run(lambda connection: dict(connection.execute(MINUTES, (first,))))

    async def snapshots(self, since: datetime) -> list[Snapshot]:
        return await self._run(lambda connection: _snapshots(connection, since))

    async def depths(self, first: int) -> dict[int, dict[str, int]]:
        """Open entries by venue, for each minute from `first` on of which there is a snapshot."""
        return await self._run(lambda connection: _depths(connection, first))

    async def venues(self) -> list[VenueLine]:
        """Every venue by category, state and number of retries."""
        rows = await self._run(lambda connection: connection.execute(VENUES).fetchall())
        return [
            VenueLine(venue, read_kind(kind)[0], STATES[state], step, count, retries, timed, int(captured))
            for venue, kind, state, step, count, retries, timed, captured in rows
        ]

    async def ages(self, after: datetime) -> list[VenueAge]:
        """Of every venue's open entries: the oldest, and how many came after a moment."""
        asked = (micros(after), json.dumps(_numbers(OPEN_STATES)))
        rows = await self._run(lambda connection: connection.execute(AGES, asked).fetchall())
        return [VenueAge(*row) for row in rows]

    async def members(self, fingerprint: str, states: frozenset[State]) -> list[str]:
        """The ids of a group's entries, oldest first."""
        asked = (fingerprint, *_numbers(states))
        return await self._run(lambda connection: [row[0] for row in connection.execute(members(len(states)), asked)])

    async def newest(
        self, fingerprint: str, states: frozenset[State], *, below: int, limit: int
    ) -> list[tuple[int, str]]:
        """A page of a group's entries, newest first: (number, id); the last number is where the next page begins."""
        asked = (fingerprint, *_numbers(states), below, limit)
        return await self._run(lambda connection: list(connection.execute(newest(len(states)), asked)))

    async def known(self, ids: Sequence[str]) -> set[str]:
        return await self._run(lambda connection: known(connection, ids))

    async def grams(self, start: str, *, limit: int, deadline: float) -> list[str] | None:
        """The indexed trigrams with this beginning; None if there are too many to read in time."""
        return await self._run(lambda connection: _grams(connection, start, limit, deadline))

    async def find(self, ask: IndexQuestion) -> Candidates:
        return await self._run(lambda connection: _find(connection, ask))

    async def arrived(self) -> dict[str, int]:
        """New entries of each group since somebody looked at it; leaves out groups nobody looked at."""
        return await self._run(_arrived)

    async def looked(self, fingerprints: Sequence[str]) -> None:
        """Remember that somebody looked at these groups now."""
        await self._thread.run(lambda: self._looked(fingerprints))

    def _looked(self, fingerprints: Sequence[str]) -> None:
        with faults(self._cache.path):
            connection = sqlite3.connect(f"file:{self._cache.path}?mode=rw", uri=True, timeout=5.0)
            try:
                with connection:
                    connection.executemany(LOOKED, [(one,) for one in fingerprints])
            finally:
                connection.close()

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def on_thread() -> T:
            with faults(self._cache.path):
                return work(self._open())

        return await self._thread.run(on_thread)

    def _open(self) -> sqlite3.Connection:
        """The current connection; opens the file again if the writer has replaced it."""
        try:
            inode = self._cache.path.stat().st_ino
        except FileNotFoundError:
            self._drop()
            raise NoIndex from None
        if self._connection is None or inode != self._inode:
            self._drop()
            self._connection = self._cache.reading()
            self._inode = inode
        if self._connection is None:
            raise NoIndex
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _progress(connection: sqlite3.Connection) -> Progress:
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    counted = {STATES[state]: count for state, count in connection.execute(STATE_COUNTS)}
    next_high, next_low, text_low = (int(meta[name]) for name in ("next_high", "next_low", "text_low"))
    return Progress(
        filed=next_high - next_low,
        searchable=next_high - text_low,
        expected=int(meta.get("expected", "0")),
        built="built" in meta,
        texts_built="texts_built" in meta,
        states={state: counted.get(state, 0) for state in STATES},
        high=meta.get("high"),
        audit_seq=int(meta.get("audit_seq", "0")),
        next_high=next_high,
        text_low=text_low,
    )


def _lines(connection: sqlite3.Connection) -> list[SummaryLine]:
    found = []
    for fingerprint, title, kind, state, count, retries, notional, unpriced, first, last in connection.execute(LINES):
        (category, may_arrive), worth = read_kind(kind), read_worth(notional)
        sums = (count, retries, worth, unpriced, first, last, may_arrive)
        found.append(SummaryLine(fingerprint, title, category, STATES[state], *sums))
    return found


def _parts(
    connection: sqlite3.Connection, dimensions: tuple[Dimension, ...], *, everything: bool
) -> dict[str, dict[str, dict[str, int]]]:
    # Joined in Python: the few names are looked up once instead of once per row.
    names, shapes = dict(connection.execute(NAMES)), dict(connection.execute(SHAPES))
    found: dict[str, dict[str, dict[str, int]]] = {
        fingerprint: {kind: {} for kind in dimensions} for fingerprint in shapes.values()
    }
    into = {(shape, KINDS[kind]): found[shapes[shape]][kind] for shape in shapes for kind in dimensions}
    asked = (json.dumps([KINDS[kind] for kind in dimensions]), 0 if everything else 1)
    for shape, kind, name, count in connection.execute(PARTS, asked):
        into[shape, kind][names[name]] = count
    return found


def _cross(connection: sqlite3.Connection, fingerprint: str, states: frozenset[State], limit: int) -> list[Cross]:
    rows = connection.execute(cross(len(states)), (fingerprint, *_numbers(states), limit))
    return [Cross(*row) for row in rows]


def _hours(connection: sqlite3.Connection, first: int) -> dict[tuple[str, str], dict[int, int]]:
    found: dict[tuple[str, str], dict[int, int]] = {}
    for fingerprint, kind, hour, count in connection.execute(HOURS, (first,)):
        hours = found.setdefault((fingerprint, read_kind(kind)[0]), {})
        hours[hour] = hours.get(hour, 0) + count
    return found


def _lately(connection: sqlite3.Connection, since: int, step: int, most: int) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for fingerprint, at, count in connection.execute(LATELY, (step, most, since)):
        found.setdefault(fingerprint, {})[at] = count
    return found


def _snapshots(connection: sqlite3.Connection, since: datetime) -> list[Snapshot]:
    first = int(since.timestamp()) // 60
    found = []
    for minute, is_open, in_doubt, total in connection.execute(SNAPSHOTS, (first,)):
        at = moment(minute * MINUTE)
        assert at is not None
        found.append(Snapshot(at, is_open, in_doubt, total))
    return found


def _depths(connection: sqlite3.Connection, first: int) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for minute, venue, is_open in connection.execute(DEPTHS, (first,)):
        at = found.setdefault(minute, {})
        if venue is not None:
            at[venue] = is_open
    return found


def _arrived(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute(ARRIVED))


def _numbers(states: frozenset[State]) -> list[int]:
    return [number for number, state in enumerate(STATES) if state in states]


def _grams(connection: sqlite3.Connection, start: str, limit: int, deadline: float) -> list[str] | None:
    with until(connection, deadline):
        rows = connection.execute(GRAMS, (start, start + "\U0010ffff", limit + 1)).fetchall()
        return [row[0] for row in rows] if len(rows) <= limit else None
    return None


def _find(connection: sqlite3.Connection, ask: IndexQuestion) -> Candidates:
    """Searches window by window from the newest down, so that running out of time still gives a partial answer."""
    low = int(connection.execute("SELECT value FROM meta WHERE key = 'text_low'").fetchone()[0])
    found: list[tuple[int, str]] = []
    reached, window = ask.below, _WINDOW
    while reached > low and len(found) < ask.limit and time.monotonic() < ask.deadline:
        floor = max(low, reached - window)
        rows = search_window(connection, ask, (floor, reached, ask.limit - len(found)))
        if rows is None:
            break
        found += rows
        reached = rows[-1][0] if len(found) == ask.limit else floor
        window = min(_LARGEST_WINDOW, window * 2)
    return Candidates(tuple(found), reached, reached <= low)

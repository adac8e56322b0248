"""Writes the index: entries, summaries and search text, and turns a store's entries into such batches.

Each batch is one transaction that also records where to go on, so a kill at any moment leaves it consistent.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeVar

from backends.index.delta import Delta, Filed, Key, Sum, VenueKey, VenueSum
from backends.index.file import IndexThread, IndexUnavailable
from backends.index.rows import IndexedEntry, Labeller, file_entry, merged, read_worth, retries_of, write_worth
from backends.index.schema import ENTRY_ID, ORIGIN
from backends.index.search_text import searchable
from backends.records import OPEN_STATES, STATES, Entry, Filter, State
from backends.store import Reads, Watch

_STATE_NUMBER = {state: number for number, state in enumerate(STATES)}
_OPEN = frozenset(_STATE_NUMBER[state] for state in OPEN_STATES)
_DEPTHS = """INSERT INTO venue_depth SELECT ?, venue, sum(count) FROM venue
    WHERE state IN (SELECT value FROM json_each(?)) GROUP BY venue"""
_COLUMNS = ", ".join(Filed._fields)
_TEXT = "INSERT INTO text (rowid, t) VALUES (?, ?)"
_HAS_IDS = "SELECT 1 FROM sqlite_master WHERE name = 'entry_id'"
_STEP = 500  # texts; batches of a multiple of it are written in one statement


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """What one transaction does. `above`, in the order given, also becomes searchable; `below` is newest first."""

    above: Sequence[tuple[IndexedEntry, str]] = ()
    below: Sequence[IndexedEntry] = ()
    states: Sequence[tuple[Filed, State, int]] = ()  # (the filed row, its new state and retries)
    gone: Sequence[Filed] = ()
    texts: Sequence[tuple[int, str]] = ()  # number and text, in the order of the numbers
    meta: Mapping[str, str] | None = None


class IndexWriter:
    """Synchronous; for one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._names: dict[str, int] = {}
        self._shapes: dict[str, int] = {}
        self._has_ids = bool(connection.execute(_HAS_IDS).fetchone())

    def meta(self) -> dict[str, str]:
        return dict(self._connection.execute("SELECT key, value FROM meta"))

    def states(self) -> dict[State, int]:
        rows = self._connection.execute("SELECT state, sum(count) FROM summary GROUP BY state")
        counted = {STATES[state]: int(count) for state, count in rows}
        return {state: counted.get(state, 0) for state in STATES}

    def known(self, ids: Sequence[str]) -> dict[str, Filed]:
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM entry WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids),)
        )
        return {row[1]: Filed(*row) for row in rows}

    def known_among_later(self, ids: Sequence[str]) -> dict[str, Filed]:
        """For entries that a build files: each once, so that only what came since it began may be among them."""
        if self._has_ids:
            return self.known(ids)
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM entry WHERE n >= ? AND id IN (SELECT value FROM json_each(?))",
            (ORIGIN, json.dumps(ids)),
        )
        return {row[1]: Filed(*row) for row in rows}

    def index_ids(self) -> None:
        """From the beginning, where the store itself may hold an id twice."""
        if not self._has_ids:
            with self._transaction():
                self._connection.execute(ENTRY_ID)
            self._has_ids = True

    def block(self, below: int, limit: int) -> list[tuple[int, str]]:
        """The next numbers and ids below a number."""
        rows = self._connection.execute("SELECT n, id FROM entry WHERE n < ? ORDER BY n DESC LIMIT ?", (below, limit))
        return [(row[0], row[1]) for row in rows]

    def snapshot(self, minute: int, *, keep: int, keep_venues: int) -> None:
        """Record how many entries there are in this minute: all for `keep` minutes, by venue for `keep_venues`."""
        states = self.states()
        row = (minute, sum(states[s] for s in OPEN_STATES), states["in_doubt"], sum(states.values()))
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?)", row)
            self._connection.execute("DELETE FROM snapshot WHERE at < ?", (minute - keep,))
            gone = (minute, minute - keep_venues)
            self._connection.execute("DELETE FROM venue_depth WHERE at = ? OR at < ?", gone)
            self._connection.execute(_DEPTHS, (minute, json.dumps(sorted(_OPEN))))

    def apply(self, batch: IndexBatch) -> dict[State, int]:
        """Apply a batch; returns by how much the number of entries in each state changed."""
        delta = Delta(_OPEN)
        with self._transaction():
            self._change(batch.states, delta)
            self._drop(batch.gone, delta)
            self._add(batch, delta)
            if batch.meta and "built" in batch.meta:
                self._finish(delta)
            self._write(delta)
            self._write_texts(batch.texts)
            if batch.meta:
                self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", batch.meta.items())
        return {STATES[state]: change for state, change in delta.states.items() if change}

    def _finish(self, delta: Delta) -> None:
        """All that stood in the store is filed."""
        if self._has_ids:
            return
        try:
            self._connection.execute(ENTRY_ID)
        except sqlite3.IntegrityError:  # one moved while the build read it; a later check says what has become of it
            latest = "SELECT max(n) FROM entry GROUP BY id"
            rows = self._connection.execute(f"SELECT {_COLUMNS} FROM entry WHERE n NOT IN ({latest})").fetchall()
            self._drop([Filed(*row) for row in rows], delta)
            self._connection.execute(ENTRY_ID)
        self._has_ids = True

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            self._names.clear()
            self._shapes.clear()
            self._has_ids = bool(self._connection.execute(_HAS_IDS).fetchone())
            raise
        self._connection.execute("COMMIT")

    def _add(self, batch: IndexBatch, delta: Delta) -> None:
        meta = self.meta()
        low, high = int(meta["next_low"]), int(meta["next_high"])
        marks = [*reversed(batch.below), *(mark for mark, _ in batch.above)]
        if not marks:
            return
        low -= len(batch.below)
        numbers = (*range(low, low + len(batch.below)), *range(high, high + len(batch.above)))
        rows = list(map(self._filed, marks, numbers))
        places = ", ".join("?" * len(Filed._fields))
        self._connection.executemany(f"INSERT INTO entry ({_COLUMNS}) VALUES ({places})", rows)
        if batch.above:
            self._write_texts(list(zip(numbers[len(batch.below) :], [text for _, text in batch.above], strict=True)))
        delta.arrived(rows, marks)
        moved = {"next_low": str(low), "next_high": str(high + len(batch.above))}
        self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", moved.items())

    def _write_texts(self, texts: Sequence[tuple[int, str]]) -> None:
        """A build's in one call of the database, which then lets the other threads run: a thread that comes back for
        each row would wait for them each time. Other numbers of rows would each leave a statement in memory."""
        if texts and len(texts) % _STEP == 0:
            self._connection.execute(_TEXT + ", (?, ?)" * (len(texts) - 1), list(chain.from_iterable(texts)))
        else:
            self._connection.executemany(_TEXT, texts)

    def _filed(self, mark: IndexedEntry, n: int) -> Filed:
        entry_id, state, label, venue, account, market, retries, captured, notional, purse = mark
        names = self._names
        return Filed(
            n,
            entry_id,
            self._shapes.get(label.fingerprint) or self._shape(label.fingerprint, label.title),
            names.get(label.kind) or self._name(label.kind),
            names.get(venue) or self._name(venue),
            names.get(account) or self._name(account),
            names.get(market) or self._name(market),
            _STATE_NUMBER[state],
            retries,
            captured,
            None if notional is None else f"{notional} {purse}",
        )

    def _name(self, text: str) -> int:
        number = self._names.get(text)
        if number is None:
            self._connection.execute("INSERT OR IGNORE INTO name (text) VALUES (?)", (text,))
            number = int(self._connection.execute("SELECT n FROM name WHERE text = ?", (text,)).fetchone()[0])
            self._names[text] = number
        return number

    def _shape(self, fingerprint: str, title: str) -> int:
        number = self._shapes.get(fingerprint)
        if number is None:
            row = (fingerprint, title)
            self._connection.execute("INSERT OR IGNORE INTO shape (fingerprint, title) VALUES (?, ?)", row)
            found = self._connection.execute("SELECT n FROM shape WHERE fingerprint = ?", (fingerprint,)).fetchone()
            number = self._shapes[fingerprint] = int(found[0])
        return number

    def _change(self, changes: Iterable[tuple[Filed, State, int]], delta: Delta) -> None:
        before, after = [], []
        for row, state, retries in changes:
            before.append(row)
            after.append(row._replace(state=_STATE_NUMBER[state], retries=retries))
        delta.moved(before, after)
        rows = [(row.state, row.retries, row.n) for row in after]
        self._connection.executemany("UPDATE entry SET state = ?, retries = ? WHERE n = ?", rows)

    def _drop(self, gone: Sequence[Filed], delta: Delta) -> None:
        delta.gone(gone)
        self._connection.executemany("DELETE FROM entry WHERE n = ?", [(row.n,) for row in gone])

    def _write(self, delta: Delta) -> None:
        for key, change in delta.sums.items():
            self._write_sum(key, change)
        for venue, added in delta.venues.items():
            self._write_venue(venue, added)
        self._upsert("part", ("shape", "kind", "name", "open"), delta.parts.items())
        self._upsert("hour", ("hour", "shape", "category"), delta.hours.items())
        self._upsert("minute", ("minute",), (((minute,), count) for minute, count in delta.minutes.items()))

    def _write_sum(self, key: Key, change: Sum) -> None:
        here = "shape = ? AND category = ? AND state = ?"
        row = self._connection.execute(
            f"SELECT count, retries, notional, unpriced, first, last FROM summary WHERE {here}", key
        ).fetchone()
        old = Sum(row[0], row[1], read_worth(row[2]), row[3], row[4], row[5]) if row else Sum()
        count = old.count + change.count
        if count == 0:
            self._connection.execute(f"DELETE FROM summary WHERE {here}", key)
            return
        if change.lost:
            ends = (
                f"SELECT (SELECT min(captured) FROM entry WHERE {here}), (SELECT max(captured) FROM entry WHERE {here})"
            )
            first, last = self._connection.execute(ends, (*key, *key)).fetchone()
        else:
            first = min((end for end in (old.first, change.first) if end is not None), default=None)
            last = max((end for end in (old.last, change.last) if end is not None), default=None)
        notional = write_worth(merged(old.notional, change.notional))
        values = (count, old.retries + change.retries, notional, old.unpriced + change.unpriced, first, last)
        self._connection.execute("INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*key, *values))

    def _write_venue(self, key: VenueKey, added: VenueSum) -> None:
        """In Python, because the sum of the times may exceed the database's integers."""
        here = "venue = ? AND category = ? AND state = ? AND step = ?"
        row = self._connection.execute(
            f"SELECT count, retries, timed, captured FROM venue WHERE {here}", key
        ).fetchone()
        count, retries, timed, captured = row or (0, 0, 0, 0)
        if count + added.count == 0:
            self._connection.execute(f"DELETE FROM venue WHERE {here}", key)
            return
        sums = (count + added.count, retries + added.retries, timed + added.timed, str(int(captured) + added.captured))
        self._connection.execute("INSERT OR REPLACE INTO venue VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*key, *sums))

    def _upsert(self, table: str, names: tuple[str, ...], counts: Iterable[tuple[tuple[int, ...], int]]) -> None:
        changes = [(*key, change) for key, change in counts if change]
        listed, marks = ", ".join(names), ", ".join("?" * (len(names) + 1))
        self._connection.executemany(
            f"INSERT INTO {table} ({listed}, count) VALUES ({marks}) "
            f"ON CONFLICT ({listed}) DO UPDATE SET count = count + excluded.count",
            changes,
        )
        here = " AND ".join(f"{name} = ?" for name in names)
        lessened = [row[:-1] for row in changes if row[-1] < 0]
        self._connection.executemany(f"DELETE FROM {table} WHERE {here} AND count = 0", lessened)


T = TypeVar("T")
EVERYTHING = Filter(states=frozenset(STATES))


class IndexSource(Reads, Watch, Protocol):
    """What the index needs of a store; it never acts on it."""


@dataclass(frozen=True, slots=True)
class BuildPace:
    """How much to do at a time, and what share of a core the checks may take."""

    page: int = 500
    batch: int = 2000  # entries that a build files in one transaction: sums and texts then take less
    overlap: int = 200  # rows read again, as later ones may sort before earlier ones
    tick: float = 2.0  # seconds between two looks at a store that changes all the time
    check_share: float = 0.01
    patrol_share: float = 0.005
    least_check: float = 2.0  # seconds


class Filing:
    def __init__(self, store: IndexSource, writer: IndexWriter, label: Labeller, pace: BuildPace) -> None:
        self.store = store
        self.pace = pace
        self._writer = writer
        self._label = label
        self._thread = IndexThread("index")

    def close(self) -> None:
        self._thread.close()

    async def meta(self) -> dict[str, str]:
        return await self._run(self._writer.meta)

    async def states(self) -> dict[State, int]:
        return await self._run(self._writer.states)

    async def known(self, ids: Sequence[str]) -> dict[str, Filed]:
        return await self._run(lambda: self._writer.known(ids))

    async def index_ids(self) -> None:
        await self._run(self._writer.index_ids)

    async def block(self, below: int, limit: int) -> list[tuple[int, str]]:
        return await self._run(lambda: self._writer.block(below, limit))

    async def apply(self, batch: IndexBatch) -> dict[State, int]:
        return await self._run(lambda: self._writer.apply(batch))

    async def snapshot(self, minute: int, *, keep: int, keep_venues: int) -> None:
        await self._run(lambda: self._writer.snapshot(minute, keep=keep, keep_venues=keep_venues))

    async def prepared(self, entries: Sequence[Entry]) -> list[tuple[IndexedEntry, str]]:
        """Labelled on the caller's thread: the index's own may be busy with texts meanwhile."""
        whole = [(await self.store.get(one.id) or one) if one.clipped else one for one in entries]
        return [(file_entry(entry, self._label(entry)), searchable(entry)) for entry in whole]

    async def put(self, entries: Sequence[Entry], *, meta: Mapping[str, str] | None = None) -> dict[State, int]:
        """File entries above everything filed, in the order they came."""
        known = await self.known([entry.id for entry in entries])
        above = await self.prepared(list({one.id: one for one in entries if one.id not in known}.values()))
        changed = _changed(entries, known)
        return await self.apply(IndexBatch(above, states=changed, meta=meta)) if above or changed or meta else {}

    async def put_older(
        self, prepared: Sequence[tuple[IndexedEntry, str]], meta: Mapping[str, str]
    ) -> tuple[range, list[tuple[int, str]]]:
        """File entries below everything filed, newest first. Returns their numbers, and their texts by number."""

        def write() -> tuple[range, list[tuple[int, str]]]:
            known = self._writer.known_among_later([mark.id for mark, _ in prepared])
            low = int(self._writer.meta()["next_low"])
            fresh = {mark.id: (mark, text) for mark, text in prepared if mark.id not in known}
            seen = {mark.id: (mark.state, mark.retries) for mark, _ in prepared if mark.id in known}
            below = [mark for mark, _ in fresh.values()]
            self._writer.apply(IndexBatch(below=below, states=_differing(seen, known), meta=meta))
            numbers = range(low - len(fresh), low)
            return numbers, list(zip(numbers, [text for _, text in reversed(fresh.values())], strict=True))

        return await self._run(write)

    async def compare(self, ids: Sequence[str]) -> dict[State, int]:
        """File these as they are now; drop those that are gone, and ignore those that were never filed."""
        found = await self.store.many(tuple(ids))
        known = await self.known(ids)
        missing = [one for one in known if one not in found and await self.store.get(one) is None]
        changed = _changed(tuple(found.values()), known)
        if not changed and not missing:
            return {}
        return await self.apply(IndexBatch(states=changed, gone=[known[one] for one in missing]))

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await self._thread.run(work)
        except sqlite3.Error as problem:
            raise IndexUnavailable(f"the index cannot be written: {problem}") from problem


def _changed(entries: Sequence[Entry], known: Mapping[str, Filed]) -> list[tuple[Filed, State, int]]:
    return _differing({one.id: (one.state, retries_of(one)) for one in entries if one.id in known}, known)


def _differing(seen: Mapping[str, tuple[State, int]], known: Mapping[str, Filed]) -> list[tuple[Filed, State, int]]:
    return [
        (known[one], state, retries)
        for one, (state, retries) in seen.items()
        if (STATES[known[one].state], known[one].retries) != (state, retries)
    ]

"""Writing the index: entries, summaries, search text and how far it got, each batch in one transaction.

Killed at any moment it is consistent: what a batch says and where to go on are committed together.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from operator import attrgetter

from backends.index.rows import MONEY, IndexedEntry
from backends.index.summary import Delta, Filed, Key, Sum
from backends.records import OPEN_STATES, STATES, State

_STATE_NUMBER = {state: number for number, state in enumerate(STATES)}
_OPEN = frozenset(_STATE_NUMBER[state] for state in OPEN_STATES)
_NAMES = tuple(field.name for field in fields(Filed))
_COLUMNS = ", ".join(_NAMES)
_values = attrgetter(*_NAMES)


@dataclass(frozen=True, slots=True)
class IndexBatch:
    """What one transaction does. `above` also becomes searchable, in the order given; `below` newest first."""

    above: Sequence[tuple[IndexedEntry, str]] = ()
    below: Sequence[IndexedEntry] = ()
    states: Sequence[tuple[Filed, State, int]] = ()  # (row as it is filed, its state and retries now)
    gone: Sequence[Filed] = ()
    texts: Sequence[tuple[int, str]] = ()
    meta: Mapping[str, str] | None = None


class IndexWriter:
    """Synchronous; one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._names: dict[str, int] = {}
        self._shapes: dict[str, int] = {}

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

    def block(self, below: int, limit: int) -> list[tuple[int, str]]:
        """The next numbers and ids downwards."""
        rows = self._connection.execute("SELECT n, id FROM entry WHERE n < ? ORDER BY n DESC LIMIT ?", (below, limit))
        return [(row[0], row[1]) for row in rows]

    def snapshot(self, minute: int, *, keep: int) -> None:
        states = self.states()
        row = (minute, sum(states[s] for s in OPEN_STATES), states["in_doubt"], sum(states.values()))
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?)", row)
            self._connection.execute("DELETE FROM snapshot WHERE at < ?", (minute - keep,))

    def apply(self, batch: IndexBatch) -> dict[State, int]:
        """Returns by how much the number of entries in each state changed."""
        delta = Delta(_OPEN)
        with self._transaction():
            self._change(batch.states, delta)
            self._drop(batch.gone, delta)
            self._add(batch, delta)
            self._write(delta)
            if batch.texts:
                self._connection.executemany("INSERT INTO text (rowid, t) VALUES (?, ?)", batch.texts)
            if batch.meta:
                self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", batch.meta.items())
        return {STATES[state]: change for state, change in delta.states.items() if change}

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            self._names.clear()
            self._shapes.clear()
            raise
        self._connection.execute("COMMIT")

    def _add(self, batch: IndexBatch, delta: Delta) -> None:
        meta = self.meta()
        low, high = int(meta["next_low"]), int(meta["next_high"])
        rows = [self._filed(mark, low - 1 - offset) for offset, mark in enumerate(batch.below)]
        above = [self._filed(mark, high + offset) for offset, (mark, _) in enumerate(batch.above)]
        if not rows and not above:
            return
        marks = ", ".join("?" * len(_NAMES))
        self._connection.executemany(
            f"INSERT INTO entry ({_COLUMNS}) VALUES ({marks})", map(_values, (*reversed(rows), *above))
        )
        texts = [(row.n, text) for row, (_, text) in zip(above, batch.above, strict=True)]
        self._connection.executemany("INSERT INTO text (rowid, t) VALUES (?, ?)", texts)
        for row in (*rows, *above):
            delta.arrived(row)
        moved = {"next_low": str(low - len(rows)), "next_high": str(high + len(above))}
        self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", moved.items())

    def _filed(self, mark: IndexedEntry, n: int) -> Filed:
        return Filed(
            n=n,
            id=mark.id,
            shape=self._shape(mark.label.fingerprint, mark.label.title),
            category=self._name(mark.label.category),
            venue=self._name(mark.venue),
            account=self._name(mark.account),
            market=self._name(mark.market),
            state=_STATE_NUMBER[mark.state],
            retries=mark.retries,
            captured=mark.captured,
            notional=None if mark.notional is None else str(mark.notional),
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
        rows = []
        for before, state, retries in changes:
            after = replace(before, state=_STATE_NUMBER[state], retries=retries)
            delta.moved(before, after)
            rows.append((after.state, after.retries, after.n))
        self._connection.executemany("UPDATE entry SET state = ?, retries = ? WHERE n = ?", rows)

    def _drop(self, gone: Iterable[Filed], delta: Delta) -> None:
        for row in gone:
            delta.gone(row)
            self._connection.execute("DELETE FROM entry WHERE n = ?", (row.n,))

    def _write(self, delta: Delta) -> None:
        for key, change in delta.sums.items():
            self._write_sum(key, change)
        self._upsert("part", ("shape", "kind", "name", "open"), delta.parts.items())
        self._upsert("hour", ("hour", "shape", "category"), delta.hours.items())
        self._upsert("minute", ("minute",), (((minute,), count) for minute, count in delta.minutes.items()))

    def _write_sum(self, key: Key, change: Sum) -> None:
        here = "shape = ? AND category = ? AND state = ?"
        row = self._connection.execute(
            f"SELECT count, retries, notional, unpriced, first, last FROM summary WHERE {here}", key
        ).fetchone()
        old = Sum(row[0], row[1], Decimal(row[2]), row[3], row[4], row[5]) if row else Sum()
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
        notional = MONEY.add(old.notional, change.notional)
        values = (count, old.retries + change.retries, str(notional), old.unpriced + change.unpriced, first, last)
        self._connection.execute("INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*key, *values))

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

"""The SELECTs of the index. Each answers from an index or a summary; a search stops when its time is up."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from backends.index.rows import IndexQuestion
from backends.records import STATES as ALL_STATES

_OPS = 2000  # of SQLite's virtual machine between two looks at the clock

STATES = "SELECT state, sum(count) FROM summary GROUP BY state"
LINES = """SELECT shape.fingerprint, shape.title, name.text, state, count, retries, notional, unpriced, first, last
    FROM summary JOIN shape ON shape.n = summary.shape JOIN name ON name.n = summary.category"""
NAMES = "SELECT n, text FROM name"
SHAPES = "SELECT n, fingerprint FROM shape"
# Group by group, so that the venues of all of them are found without passing by their markets.
PARTS = """SELECT part.shape, part.kind, part.name, sum(count)
    FROM shape CROSS JOIN json_each(?) AS asked CROSS JOIN part ON part.shape = shape.n AND part.kind = asked.value
    WHERE open >= ? GROUP BY part.shape, part.kind, part.name"""
HOURS = """SELECT shape.fingerprint, name.text, hour, count
    FROM hour JOIN shape ON shape.n = hour.shape JOIN name ON name.n = hour.category WHERE hour >= ? ORDER BY hour"""
MINUTES = "SELECT minute, count FROM minute WHERE minute >= ?"
SNAPSHOTS = "SELECT at, open, in_doubt, total FROM snapshot WHERE at >= ? ORDER BY at"
# Counts from the summary, the oldest from the ends of an index: nothing here walks the entries.
VENUES = """SELECT name.text, sum(count * open), sum(count),
        (SELECT min(captured) FROM (
            SELECT (SELECT min(captured) FROM entry WHERE venue = part.name AND state = number.value) AS captured
            FROM json_each(?) AS number)),
        (SELECT count(*) FROM entry WHERE venue = part.name AND state = ?)
    FROM part JOIN name ON name.n = part.name WHERE kind = 0 GROUP BY part.name"""
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


def window(
    connection: sqlite3.Connection, ask: IndexQuestion, bounds: tuple[int, int, int]
) -> list[tuple[int, str]] | None:
    """Matches with floor <= n < ceiling, newest first; None where the time was up before this window was done."""
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
    for column, name in (("venue", ask.venue), ("account", ask.account), ("market", ask.market)):
        if name is not None:
            text += f" AND entry.{column} = (SELECT n FROM name WHERE text = ?)"
            given.append(name)
    return text, given


@contextmanager
def until(connection: sqlite3.Connection, deadline: float) -> Iterator[None]:
    """Leaves the block early, without an error, once the time is up."""
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _OPS)
    try:
        yield
    except sqlite3.OperationalError as problem:
        if "interrupted" not in str(problem):
            raise
    finally:
        connection.set_progress_handler(None, 0)

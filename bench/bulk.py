"""A bulk dismiss with its evidence beside one raw UPDATE, when nobody else writes, and where its time goes.

`python -m bench.bulk [--rows 200000] [--short]`: half the rows are dismissed. On SQLite the parts overlap: rows change
while evidence is composed. Then the same beside an engine that writes.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg

from backends import open_store
from backends.records import Filter, RowKey, Selection
from backends.sql.writer import StoreWriter, Transaction
from bench.data import sqlite_copy
from bench.figure import Figure, finish, limit, options, show
from bench.stores import ACTOR, TABLE, fresh_postgres, make_ledger
from console import clock
from console.services.triage.triage import Triage
from tests.support.postgres import Postgres

ROWS, SHORT = 200_000, 40_000
TURNS = 2
# Writes 50 times a second until a line comes; tells how many failed, and the p99 of its waits.
ENGINE = """
import sqlite3, sys, time
path, out = sys.argv[1:]
connection = sqlite3.connect(path)
waits, failed, number = [], 0, 0
print("ready", flush=True)
began = time.monotonic()
import select
while not select.select([sys.stdin], [], [], 0)[0]:
    number += 1
    due = began + number / 50
    time.sleep(max(0, due - time.monotonic()))
    at = time.monotonic()
    try:
        connection.execute("INSERT INTO order_dlq (dlq_id, captured_at, venue_name, market_id, side, quantity, "
            "order_type, error) VALUES (?, '2026-04-01T00:00:00+00:00', 'alpaca', 'AAPL', 'buy', 1.0, 'market', 'x')",
            (f"engine_{number}",))
        connection.commit()
    except sqlite3.OperationalError:
        failed += 1
        connection.rollback()
    waits.append(time.monotonic() - at)
waits.sort()
print(failed, waits[int(len(waits) * 0.99)] * 1000, len(waits), flush=True)
"""


async def dismiss_all(target: str, count: int) -> float:
    """Seconds to dismiss this many pending entries through the service, selection not counted."""
    store = await open_store(target)
    triage = Triage(store, ACTOR, clock.now)
    await make_ledger(store)
    picks: list[Any] = []
    place: RowKey | None = None
    while len(picks) < count:
        page = await store.page(Filter(), limit=5000, after=place)
        picks += [(entry.id, entry.version) for entry in page.entries]
        place = page.entries[-1].row_key
    began = time.perf_counter()
    done = await triage.dismiss(Selection(tuple(picks[:count])), reason="test")
    took = time.perf_counter() - began
    assert len(done.done) == count, (len(done.done), done.changed[:3])
    await store.aclose()
    return took


def raw_sqlite(path: Path, count: int) -> float:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        ids = [row[0] for row in connection.execute(f"SELECT rowid FROM {TABLE} WHERE dismissed = 0 LIMIT {count}")]
        began = time.perf_counter()
        connection.execute(f"UPDATE {TABLE} SET dismissed = 1 WHERE dismissed = 0 AND rowid <= {ids[-1]}")
        connection.commit()
        return time.perf_counter() - began


async def raw_postgres(dsn: str, count: int) -> float:
    connection = await asyncpg.connect(dsn)
    ids = await connection.fetch(
        f"SELECT captured_at, dlq_id FROM {TABLE} WHERE NOT dismissed ORDER BY 1, 2 LIMIT {count}"
    )
    last = ids[-1]
    began = time.perf_counter()
    await connection.execute(
        f"UPDATE {TABLE} SET dismissed = true WHERE NOT dismissed AND (captured_at, dlq_id) <= ($1, $2)",
        last[0],
        last[1],
    )
    took = time.perf_counter() - began
    await connection.close()
    return took


class Parts:
    """Seconds and calls of each step of the writer, added up by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()

    def timing(self, name: Callable[..., str], work: Callable[..., Any]) -> Callable[..., Any]:
        async def timed(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return await work(*args, **named)
            finally:
                self.seconds[name(*args)] += time.perf_counter() - began
                self.calls[name(*args)] += 1

        return timed

    def tell(self, whole: float) -> None:
        for name, seconds in sorted(self.seconds.items(), key=lambda one: -one[1])[:8]:
            print(f"       {name:<40} {seconds:6.2f} s of {whole:.2f} s in {self.calls[name]} calls", flush=True)


def _statement(_: object, sql: object, *__: object) -> str:
    words = str(getattr(sql, "text", sql)).split()
    return " ".join(words[: 3 if words[:1] == ["INSERT"] else 1])


@contextmanager
def watched() -> Iterator[Parts]:
    """Takes the time of the writer's own steps, for as long as it lasts."""
    parts = Parts()
    wrapped: list[tuple[Any, str, Callable[..., str]]] = [
        (Transaction, "rows", _statement),
        (Transaction, "execute", _statement),
        (Transaction, "compose", lambda *_: "compose evidence (JSON, hash, marks)"),
        (aiosqlite.Connection, "commit", lambda *_: "COMMIT, synced"),
        (StoreWriter, "_take_lock", lambda *_: "begin, take the chain's lock"),
    ]
    before = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in wrapped]
    for owner, attribute, name in wrapped:
        setattr(owner, attribute, parts.timing(name, getattr(owner, attribute)))
    try:
        yield parts
    finally:
        for owner, attribute, work in before:
            setattr(owner, attribute, work)


def beside(name: str, ours: Callable[[], float], peer: Callable[[], float]) -> bool:
    """The smallest of some turns each, in turn; then once more with its parts."""
    turns = [(ours(), peer()) for _ in range(TURNS)]
    mine, raw = min(one for one, _ in turns), min(one for _, one in turns)
    good = show(Figure("bulk.dismiss", mine, raw, "s", name)).good
    with watched() as parts:
        whole = ours()
    parts.tell(whole)
    return good


def sqlite(folder: Path, rows: int, count: int) -> bool:
    def fresh() -> Path:
        return sqlite_copy(rows, folder / "store.db")

    return beside(
        f"SQLite, {count:,}",
        lambda: asyncio.run(dismiss_all(str(fresh()), count)),
        lambda: raw_sqlite(fresh(), count),
    )


def beside_engine(folder: Path, rows: int, count: int) -> list[bool]:
    raw = raw_sqlite(sqlite_copy(rows, folder / "raw.db"), count)
    path = sqlite_copy(rows, folder / "engine.db")
    words = [sys.executable, "-c", ENGINE, str(path), "x"]
    engine = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert engine.stdout is not None
    engine.stdout.readline()
    ours = asyncio.run(dismiss_all(str(path), count))
    failed, p99, written = engine.communicate("stop\n")[0].split()
    told = f"{ours:.2f} s beside an engine, {ours / raw:.1f} × one raw UPDATE alone: it leaves the file to others"
    print(f"     {told}", flush=True)
    return [
        limit("bulk.engine-failures", float(failed), f"of {written}"),
        limit("bulk.engine-wait", float(p99)),
    ]


def postgres(rows: int, count: int) -> bool:
    server = Postgres(durable=True).start()

    def fresh() -> str:
        return asyncio.run(fresh_postgres(server, "bulk", rows))

    try:
        return beside(
            f"Postgres, {count:,}",
            lambda: asyncio.run(dismiss_all(fresh(), count)),
            lambda: asyncio.run(raw_postgres(fresh(), count)),
        )
    finally:
        server.stop()


def main() -> None:
    rows = options(argparse.ArgumentParser(description=__doc__), ROWS, SHORT).rows
    with tempfile.TemporaryDirectory() as folder:
        results = [sqlite(Path(folder), rows, rows // 2), *beside_engine(Path(folder), rows, rows // 2)]
    finish("bulk", [*results, postgres(rows, rows // 2)])


if __name__ == "__main__":
    main()

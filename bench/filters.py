"""Measures filters on a large SQLite store: what the store answers itself against the bare SQL, and the rest in steps.

python -m bench.filters [ROWS]
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backends import open_store
from backends.layouts import orders
from backends.records import Filter
from backends.store import Store
from bench.figure import Figure, finish, limit, show
from console.services.browse.filter_syntax import parse_expression
from console.services.browse.search import Search

ROWS = 1_000_000
VENUES = ("alpaca", "kalshi", "ccxt:binance", "ibkr", "hyperliquid")
START = datetime(2026, 4, 18, tzinfo=UTC)
NOW = START + timedelta(days=30)
# A filter, and the bare SQL that answers it.
ANSWERED = {
    "state:dismissed": "dismissed = 1",
    "venue:kalshi": "dismissed = 0 AND venue_name = 'kalshi'",
    "venue:kalshi side:sell": "dismissed = 0 AND venue_name = 'kalshi' AND side = 'sell'",
    "venue:nowhere": "dismissed = 0 AND venue_name = 'nowhere'",
}
STEPPED = ("error:needle", "price>99999", "action.tif:never", "!timeout venue:nowhere", "error:ЖЖ")


def fill(path: Path, rows: int) -> None:
    with sqlite3.connect(path) as connection:
        for statement in orders.sqlite_ddl(orders.DEFAULT_TABLE)[:2]:
            connection.execute(statement)
        marks = ", ".join("?" * len(orders.COLUMNS))
        connection.executemany(f"INSERT INTO {orders.DEFAULT_TABLE} VALUES ({marks})", map(_row, range(rows)))


def _row(n: int) -> tuple[object, ...]:
    at = (START + timedelta(seconds=n)).isoformat()
    venue, side = VENUES[n % 5], ("buy", "sell")[n % 2]
    error = f"RuntimeError: HTTP {(429, 503, 502)[n % 3]} after 3 attempts, request {n}: timeout while reading"
    action = f'{{"action": "new", "market_id": "M{n % 300}", "side": "{side}", "tif": "gtc"}}'
    order = (f"M{n % 300}", side, 100.0, "limit", float(n % 500), f"c-{n}")
    return (f"dlq_{n:016x}", at, venue, f"a{n % 12}", *order, error, 0, int(n % 10 == 0), action)


async def in_turn(*works: Callable[[], Awaitable[object]]) -> list[list[float]]:
    """How long each took, one after the other and again, so that a busy machine slows all alike."""
    found: list[list[float]] = [[] for _ in works]
    began = time.perf_counter()
    while len(found[0]) < 5 or (len(found[0]) < 41 and time.perf_counter() - began < 3):
        for work, times in zip(works, found, strict=True):
            start = time.perf_counter()
            await work()
            times.append(time.perf_counter() - start)
    return found


async def answered(store: Store, path: Path) -> list[bool]:
    good = []
    for line, condition in ANSWERED.items():
        where = parse_expression(line, NOW).where
        sql = f"SELECT * FROM {orders.DEFAULT_TABLE} WHERE {condition} ORDER BY rowid DESC LIMIT 200"

        async def ours(where: Filter = where) -> None:
            await store.page(where, limit=200, newest_first=True)

        async def plain(sql: str = sql) -> None:
            await asyncio.to_thread(lambda: sqlite3.connect(path).execute(sql).fetchall())

        mine, theirs = await in_turn(ours, plain)
        ms, bare = statistics.median(mine) * 1000, statistics.median(theirs) * 1000
        good.append(show(Figure(f"{line}: a page", ms, bare, 1.5, peer_name="bare SQL")).good)
    return good


async def stepped(store: Store) -> list[bool]:
    good = []
    for line in STEPPED:
        where, search = parse_expression(line, NOW).where, Search(store, None)
        began = time.perf_counter()
        got = await search.find(where, limit=200)
        first, looked, newest = time.perf_counter() - began, got.covered, None
        told = got.covered
        while got.next is not None:
            if newest is None and looked >= 10_000:
                newest = time.perf_counter() - began
            got = await search.find(where, limit=200, cursor=got.next)
            looked += got.covered
        whole, newest = time.perf_counter() - began, newest or time.perf_counter() - began
        print(f"     {line}: the first word covers {told:,} rows, all {looked:,} take {whole:.1f} s", flush=True)
        good.append(limit(f"{line}: how far it looked is told", first * 1000, 300))
        good.append(limit(f"{line}: matches among the newest 10,000", newest * 1000, 1000))
    return good


async def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders.db"
        fill(path, rows)
        store = await open_store(str(path), read_only=True)
        try:
            results = [*await answered(store, path), *await stepped(store)]
        finally:
            await store.aclose()
    finish(results)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS))

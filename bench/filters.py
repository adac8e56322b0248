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
from backends.store import Store
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


async def took(work: Callable[[], Awaitable[object]], times: int = 5) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        await work()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


async def answered(store: Store, path: Path) -> None:
    bare = sqlite3.connect(path)
    for line, condition in ANSWERED.items():
        where = parse_expression(line, NOW).where
        sql = f"SELECT * FROM {orders.DEFAULT_TABLE} WHERE {condition} ORDER BY rowid DESC LIMIT 200"

        async def ours(where: object = where) -> None:
            await store.page(where, limit=200, newest_first=True)  # type: ignore[arg-type]

        async def plain(sql: str = sql) -> None:
            await asyncio.to_thread(lambda: sqlite3.connect(path).execute(sql).fetchall())

        mine, theirs = await took(ours), await took(plain)
        print(f"{line:28} page {mine * 1000:8.1f} ms   bare SQL {theirs * 1000:8.1f} ms   x {mine / theirs:.2f}")
    bare.close()


async def stepped(store: Store) -> None:
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
        print(
            f"{line:28} first word {first * 1000:6.0f} ms ({told:,} rows)   newest 10,000 {newest * 1000:6.0f} ms   "
            f"all {looked:,} {whole:6.1f} s"
        )


async def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders.db"
        fill(path, rows)
        store = await open_store(str(path), read_only=True)
        try:
            await answered(store, path)
            await stepped(store)
        finally:
            await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS))

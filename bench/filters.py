"""Measures filters on a large store of either engine: what an index can answer against the bare SQL, the rest in steps.

`python -m bench.filters [--rows 1000000] [--short]`
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import asyncpg

from backends import open_store
from backends.layouts import orders
from backends.store import Store
from bench.figure import Figure, finish, limit, options, show
from console.cli.context import end_of_loading
from console.services.browse.filter_syntax import parse_expression
from console.services.browse.search import Search
from tests.support.postgres import Postgres

ROWS, SHORT = 1_000_000, 50_000
VENUES = ("alpaca", "kalshi", "ccxt:binance", "ibkr", "hyperliquid")
START = datetime(2026, 4, 18, tzinfo=UTC)
NOW = START + timedelta(days=30)
TABLE = orders.DEFAULT_TABLE
# A filter, and the bare SQL that answers it; `{open}` and `{done}` are the engine's words for it.
ANSWERED = {
    "state:dismissed": "{done}",
    "venue:kalshi": "{open} AND venue_name = 'kalshi'",
    "VENUE:Kalshi side:SELL": "{open} AND venue_name = 'kalshi' AND side = 'sell'",
}
BY_OWNERS_INDEX = ANSWERED | {"venue:nowhere": "{open} AND venue_name = 'nowhere'"}  # without one, all rows are read
STEPPED = ("error:needle", "price>99999", "action.tif:never", "verb:cancel", "!timeout venue:nowhere", "error:ЖЖ")
TURNS, MOST_TURNS, SECONDS = 15, 1001, 3.0

Bare = Callable[[str], Awaitable[object]]


def row(n: int) -> tuple[object, ...]:
    at = START + timedelta(seconds=n)
    venue, side = VENUES[n % 5], ("buy", "sell")[n % 2]
    error = f"RuntimeError: HTTP {(429, 503, 502)[n % 3]} after 3 attempts, request {n}: timeout while reading"
    action = f'{{"action": "new", "market_id": "M{n % 300}", "side": "{side}", "tif": "gtc"}}'
    order = (f"M{n % 300}", side, 100.0, "limit", float(n % 500), f"c-{n}")
    return (f"dlq_{n:016x}", at, venue, f"a{n % 12}", *order, error, 0, n % 10 == 0, action)


def fill_sqlite(path: Path, rows: int) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        for statement in orders.sqlite_ddl(TABLE)[:2]:
            connection.execute(statement)
        marks = ", ".join("?" * len(orders.COLUMNS))
        made = ((one[0], str(one[1]).replace(" ", "T"), *one[2:]) for one in map(row, range(rows)))
        connection.executemany(f"INSERT INTO {TABLE} VALUES ({marks})", made)


async def fill_postgres(dsn: str, rows: int) -> None:
    connection = await asyncpg.connect(dsn)
    table, *rest = orders.postgres_ddl(TABLE)
    await connection.execute(table)
    columns = list(orders.COLUMNS)
    await connection.copy_records_to_table(TABLE, records=map(row, range(rows)), columns=columns, timeout=600)
    for statement in (*rest, f"VACUUM ANALYZE {TABLE}"):
        await connection.execute(statement, timeout=600)
    await connection.close()


async def in_turn(*works: Callable[[], Awaitable[object]]) -> list[float]:
    """How many milliseconds each took, one after the other and again, so that a busy machine slows all alike."""
    found: list[list[float]] = [[] for _ in works]
    began = time.perf_counter()
    while len(found[0]) < TURNS or (len(found[0]) < MOST_TURNS and time.perf_counter() - began < SECONDS):
        for work, times in zip(works, found, strict=True):
            start = time.perf_counter()
            await work()
            times.append((time.perf_counter() - start) * 1000)
    return [statistics.median(times) for times in found]


async def answered(engine: str, store: Store, bare: Bare, asked: Mapping[str, str]) -> list[bool]:
    on_postgres = store.info.dialect == "postgresql"
    words = (
        {"open": "NOT dismissed", "done": "dismissed"}
        if on_postgres
        else {"open": "dismissed=0", "done": "dismissed=1"}
    )
    order = "captured_at DESC, dlq_id DESC" if on_postgres else "rowid DESC"
    good = []
    for line, condition in asked.items():
        where = parse_expression(line, NOW).where
        sql = f"SELECT * FROM {TABLE} WHERE {condition.format(**words)} ORDER BY {order} LIMIT 200"
        ours, plain = partial(store.page, where, limit=200, newest_first=True), partial(bare, sql)
        mine, theirs = await in_turn(ours, plain)
        good.append(show(Figure("filters.page", mine, theirs, "ms", f"{engine}, {line}")).good)
    return good


async def stepped(engine: str, store: Store) -> list[bool]:
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
        good.append(limit("filters.told", first * 1000, f"{engine}, {line}"))
        good.append(limit("filters.newest", newest * 1000, f"{engine}, {line}"))
    return good


async def on_sqlite(rows: int) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders.db"
        fill_sqlite(path, rows)

        def read(sql: str) -> None:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute(sql).fetchall()

        return await measured("SQLite", str(path), lambda sql: asyncio.to_thread(read, sql), read)


async def on_postgres(rows: int) -> list[bool]:
    server = Postgres().start()
    try:
        dsn = server.dsn("postgres")
        await fill_postgres(dsn, rows)
        peer = await asyncpg.connect(dsn)
        good = await measured("Postgres", dsn, peer.fetch, peer.execute)
        await peer.close()
        return good
    finally:
        server.stop()


async def measured(engine: str, target: str, bare: Bare, execute: Callable[[str], object]) -> list[bool]:
    store = await open_store(target, read_only=True)
    end_of_loading()
    try:
        good = [*await answered(engine, store, bare, ANSWERED), *await stepped(engine, store)]
    finally:
        await store.aclose()
    order = ", captured_at, dlq_id" if engine == "Postgres" else ""
    made = execute(f"CREATE INDEX by_venue ON {TABLE} (venue_name{order})")
    if isinstance(made, Awaitable):
        await made
    store = await open_store(target, read_only=True)
    try:
        return [*good, *await answered(f"{engine}, indexed", store, bare, BY_OWNERS_INDEX)]
    finally:
        await store.aclose()


def main() -> None:
    gc.disable()  # until a store is open, as `dlq` does
    rows = options(argparse.ArgumentParser(), ROWS, SHORT).rows
    finish("filters", [*asyncio.run(on_sqlite(rows)), *asyncio.run(on_postgres(rows))])


if __name__ == "__main__":
    main()

"""A large Postgres store, partitioned by month: how long the first row, pages, filters, groups and verbs take.

`python -m bench.scale --rows 10000000` fills a server of its own (about 700 bytes a row; TMPDIR says where) and takes
some minutes. It has no bounds: docs/scale.md tells the figures, and what an owner should index.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg

from backends import open_store
from backends.records import Actor, Filter, RowKey
from backends.store import Store, StoreError
from bench.terminal import Timed
from console import clock
from console.services.browse.filter_syntax import parse_expression
from console.services.stats.groups import Groups
from console.services.triage.triage import Triage
from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[1]
TURNS = 3
VERBS = ("check", "groups")
MOST_SECONDS = 3600  # of one command
ACTOR = Actor("bench", "bench", "here", "bench")
TABLE = """
CREATE TABLE order_dlq (
  dlq_id text NOT NULL, captured_at timestamptz NOT NULL, venue_name text NOT NULL, account_id text,
  market_id text NOT NULL, side text NOT NULL, quantity double precision NOT NULL, order_type text NOT NULL,
  price double precision, client_order_id text, error text NOT NULL, retry_count integer NOT NULL DEFAULT 0,
  dismissed boolean NOT NULL DEFAULT false, action_json text NOT NULL DEFAULT '',
  PRIMARY KEY (dlq_id, captured_at)
) PARTITION BY RANGE (captured_at)"""
# One in ten is open; every part of a row varies by itself; one of 100,000 is at the venue `rare`.
FILL = """
INSERT INTO order_dlq SELECT
  'dlq_' || lpad(to_hex(n), 16, '0'), timestamptz '2026-01-01' + make_interval(secs => n * 25920000.0 / $1::float8),
  CASE WHEN n % 100000 = 77770 THEN 'rare' ELSE (ARRAY['alpaca','kalshi','ccxt:binance','hyperliquid'])[1 + h % 4] END,
  'account-' || (h >> 3) % 12,
  (ARRAY['AAPL','MSFT','SPY','NVDA','BTC/USDT'])[1 + (h >> 7) % 5], (ARRAY['buy','sell'])[1 + (h >> 10) % 2],
  1 + (h >> 11) % 500, 'limit', 10 + (h >> 13) % 900, 'cid-' || n,
  (ARRAY['RuntimeError: HTTP 429 after 3 attempts','ReadTimeout: no answer in 10 s','HTTP 403: no buying power',
         'ConnectionResetError: [Errno 104] Connection reset by peer'])[1 + (h >> 5) % 4] || ' (request ' || n || ') '
    || repeat('x', 200),
  (h >> 15) % 3, n % 10 <> 0, '{"action":"new","time_in_force":"day"}'
FROM (SELECT n, hashint8(n)::bigint & 2147483647 AS h FROM generate_series($2::bigint, $3::bigint) n) AS numbered"""
INDEXES = (
    "CREATE INDEX ON order_dlq (captured_at, dlq_id)",
    "CREATE INDEX ON order_dlq (captured_at, dlq_id) WHERE NOT dismissed",
)

BY_VENUE = "CREATE INDEX ON order_dlq (venue_name, captured_at, dlq_id)"  # what docs/scale.md tells an owner to make


async def fill(dsn: str, rows: int) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("SET maintenance_work_mem = '512MB'")
    await connection.execute(TABLE)
    for month in range(1, 12):
        await connection.execute(
            f"CREATE TABLE order_dlq_{month:02} PARTITION OF order_dlq "
            f"FOR VALUES FROM ('2026-{month:02}-01') TO ('2026-{month + 1:02}-01')"
        )
    step = 500_000
    for first in range(0, rows, step):
        await connection.execute(FILL, float(rows), first, min(first + step, rows) - 1)
    for sql in (*INDEXES, "VACUUM ANALYZE order_dlq"):
        await connection.execute(sql)
    size = await connection.fetchval("SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('order_dlq')")
    print(f"{float(size) / 1e9:.1f} GB", flush=True)
    await connection.close()


def told(title: str, seconds: float, note: str = "") -> None:
    print(f"{title:<64} {seconds * 1000:10.1f} ms  {note}", flush=True)


async def took(title: str, work: Callable[[], Awaitable[object]], note: Callable[[object], str] = lambda _: "") -> None:
    """The median of a few turns, or what the store said against it."""
    times, last = [], None
    for _ in range(TURNS):
        began = time.perf_counter()
        try:
            last = await work()
        except StoreError as problem:
            told(title, time.perf_counter() - began, f"refused: {problem}"[:100])
            return
        times.append(time.perf_counter() - began)
    told(title, statistics.median(times), note(last))


def _count(page: object) -> str:
    return f"{len(getattr(page, 'entries', ()))} rows"


FILTERS = (
    "venue:kalshi",
    "venue:kalshi market:AAPL account:account-3",
    "venue:rare",
    "venue:nowhere",
    "venue:rare since:2026-09-01T00:00:00Z",
    "venue:nowhere since:2026-10-20T00:00:00Z",
    "since:2026-06-01T00:00:00Z until:2026-06-02T00:00:00Z",
    "error:429",
    "quokka",
)


async def pages(dsn: str, rows: int) -> None:
    """What the console's list asks of an attached store."""

    async def attach() -> Store:
        return await open_store(dsn, read_only=True)

    async def attached_once() -> None:
        await (await attach()).aclose()

    await took("attach", attached_once)
    store = await attach()
    await took(
        "first page of 200 open, newest first", lambda: store.page(Filter(), limit=200, newest_first=True), _count
    )
    for name, share in (("middle", 0.5), ("end", 0.001)):
        entry = await store.get(f"dlq_{int(rows * share) // 10 * 10:016x}")
        place: RowKey | None = None if entry is None else entry.row_key
        await took(
            f"page of 200 open from the {name}",
            lambda place=place: store.page(Filter(), limit=200, after=place, newest_first=True),  # type: ignore[misc]
            _count,
        )
    await took("one entry by its id", lambda: store.get(f"dlq_{rows // 2:016x}"))
    await took("counts by state", lambda: store.counts(Filter()), lambda found: str(getattr(found, "by_state", "")))
    for text in (*FILTERS, f"cid:cid-{rows // 20 * 10}"):
        where = parse_expression(text, clock.now()).where
        await took(f"page of 50: {text}", lambda where=where: store.page(where, limit=50, newest_first=True), _count)  # type: ignore[misc]
    groups = Groups(Triage(store, ACTOR, clock.now), None, clock.now)
    await took(
        "groups without an index, 100 ms a look", groups.view, lambda seen: f"covers {getattr(seen, 'covered', 0):,}"
    )
    await store.aclose()


async def with_venue_index(dsn: str) -> None:
    """The same filters once the owner has an index that begins with the venue."""
    connection = await asyncpg.connect(dsn)
    began = time.perf_counter()
    for sql in (BY_VENUE, "ANALYZE order_dlq"):
        await connection.execute(sql, timeout=600)
    told("CREATE INDEX (venue_name, captured_at, dlq_id)", time.perf_counter() - began)
    await connection.close()
    store = await open_store(dsn, read_only=True)
    for text in FILTERS[:6]:
        where = parse_expression(text, clock.now()).where
        await took(f"page of 50: {text}", lambda where=where: store.page(where, limit=50, newest_first=True), _count)  # type: ignore[misc]
    await store.aclose()


def command(dsn: str, *words: str, cache: str = "") -> tuple[float, str]:
    """Wall-clock seconds of a command, its start included, and what it said against it."""
    environ = {**os.environ, "DLQ_DB": dsn, **({"XDG_CACHE_HOME": cache} if cache else {})}
    whole = [sys.executable, "-P", "-m", "console", *words]
    began = time.monotonic()
    try:
        done = subprocess.run(
            whole, env=environ, cwd=ROOT, capture_output=True, text=True, check=False, timeout=MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return time.monotonic() - began, "not done by then"
    said = f"exit {done.returncode}: {done.stderr.strip()[:100]}" if done.returncode not in (0, 1) else ""
    return time.monotonic() - began, said


def timed(title: str, *words: str, dsn: str, turns: int = TURNS, cache: str = "") -> None:
    """The median of a few turns, or what the command said against it."""
    times = []
    for _ in range(turns):
        seconds, problem = command(dsn, *words, cache=cache)
        if problem:
            told(title, seconds, problem)
            return
        times.append(seconds)
    told(title, statistics.median(times))


def indexed(dsn: str) -> None:
    """The local index of every row, then the verbs that read it."""
    with tempfile.TemporaryDirectory() as cache:
        timed("dlq index, every row", "index", dsn=dsn, turns=1, cache=cache)
        size = sum(path.stat().st_size for path in Path(cache).rglob("*") if path.is_file())
        print(f"the index: {size / 1e9:.2f} GB", flush=True)
        for verb in VERBS:
            timed(f"dlq {verb}, with an index", verb, dsn=dsn, cache=cache)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--dsn", help="a database that an earlier run filled")
    parser.add_argument("--keep", action="store_true", help="leave the server running and print its address")
    args = parser.parse_args()
    if args.dsn:
        measure(args.dsn, args.rows)
        return
    server = Postgres().start()
    try:
        began = time.monotonic()
        asyncio.run(fill(server.dsn("postgres"), args.rows))
        print(f"{args.rows:,} rows in 11 partitions, filled in {time.monotonic() - began:.0f} s", flush=True)
        if args.keep:
            print(server.dsn("postgres"), flush=True)
            return
        measure(server.dsn("postgres"), args.rows)
    finally:
        if not args.keep:
            server.stop()


def measure(dsn: str, rows: int) -> None:
    print(f"load average {os.getloadavg()[0]:.1f}", flush=True)
    shown = [sys.executable, "-P", "-m", "console", "--db", dsn, "--read-only"]
    with Timed(shown, {"PYTHONPATH": str(ROOT)}) as one:
        told("the console: first row on screen, from its start", one.until(b"buy|sell|SELL"))
    timed("dlq --version (what a start costs)", "--version", dsn=dsn)
    timed("dlq list --limit 5", "list", "--limit", "5", dsn=dsn)
    timed("dlq show ID", "show", f"dlq_{rows // 2:016x}", dsn=dsn)
    asyncio.run(pages(dsn, rows))
    asyncio.run(with_venue_index(dsn))
    with tempfile.TemporaryDirectory() as cache:
        for verb in VERBS:
            timed(f"dlq {verb}, without an index, one turn", verb, dsn=dsn, turns=1, cache=cache)
    indexed(dsn)


if __name__ == "__main__":
    main()

"""A large Postgres store, partitioned by month: how long the first row, pages, filters and verbs take.

`python -m bench.scale --rows 10000000` fills a server of its own (about 700 bytes a row) and takes some minutes. It has
no bounds: docs/scale.md tells the figures, and what an owner should index.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import asyncpg

from bench.terminal import Timed
from tests.support.postgres import Postgres

ROOT = Path(__file__).parents[1]
TURNS = 3
TABLE = """
CREATE TABLE order_dlq (
  dlq_id text NOT NULL, captured_at timestamptz NOT NULL, venue_name text NOT NULL, account_id text,
  market_id text NOT NULL, side text NOT NULL, quantity double precision NOT NULL, order_type text NOT NULL,
  price double precision, client_order_id text, error text NOT NULL, retry_count integer NOT NULL DEFAULT 0,
  dismissed boolean NOT NULL DEFAULT false, action_json text NOT NULL DEFAULT '',
  PRIMARY KEY (dlq_id, captured_at)
) PARTITION BY RANGE (captured_at)"""
FILL = """
INSERT INTO order_dlq SELECT
  'dlq_' || lpad(to_hex(n), 16, '0'), timestamptz '2026-01-01' + make_interval(secs => n * 25920000.0 / $1::float8),
  (ARRAY['alpaca','kalshi','ccxt:binance','hyperliquid'])[1 + n % 4], 'account-' || n % 12,
  (ARRAY['AAPL','MSFT','SPY','NVDA','BTC/USDT'])[1 + n % 5], (ARRAY['buy','sell'])[1 + n % 2], 1 + n % 500, 'limit',
  10 + n % 900, 'cid-' || n,
  (ARRAY['RuntimeError: HTTP 429 after 3 attempts','ReadTimeout: no answer in 10 s','HTTP 403: no buying power',
         'ConnectionResetError: [Errno 104] Connection reset by peer'])[1 + n % 4] || ' (request ' || n || ') '
    || repeat('x', 200),
  n % 3, n % 10 <> 0, '{"action":"new","time_in_force":"day"}'
FROM generate_series($2::bigint, $3::bigint) n"""


async def fill(dsn: str, rows: int) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(TABLE)
    for month in range(1, 12):
        await connection.execute(
            f"CREATE TABLE order_dlq_{month:02} PARTITION OF order_dlq "
            f"FOR VALUES FROM ('2026-{month:02}-01') TO ('2026-{month + 1:02}-01')"
        )
    step = 500_000
    for first in range(0, rows, step):
        await connection.execute(FILL, float(rows), first, min(first + step, rows) - 1)
    for sql in (
        "CREATE INDEX ON order_dlq (captured_at, dlq_id)",
        "CREATE INDEX ON order_dlq (captured_at, dlq_id) WHERE NOT dismissed",
        "CREATE INDEX ON order_dlq (venue_name, captured_at, dlq_id)",
        "VACUUM ANALYZE order_dlq",
    ):
        await connection.execute(sql)
    await connection.close()


def timed(title: str, *words: str, dsn: str) -> None:
    """Median wall-clock seconds of a command, its start included."""
    times = []
    for _ in range(TURNS):
        began = time.monotonic()
        command = [sys.executable, "-P", "-m", "console", *words]
        done = subprocess.run(
            command, env={**os.environ, "DLQ_DB": dsn}, cwd=ROOT, capture_output=True, text=True, check=False
        )
        times.append(time.monotonic() - began)
        if done.returncode not in (0, 1):
            print(f"{title}: exit {done.returncode}: {done.stderr.strip()[:200]}", flush=True)
            return
    print(f"{title:<60} {statistics.median(times):8.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    server = Postgres().start()
    try:
        dsn = server.dsn("postgres")
        began = time.monotonic()
        asyncio.run(fill(dsn, rows))
        print(f"{rows:,} rows in 11 partitions, filled in {time.monotonic() - began:.0f} s", flush=True)
        with Timed(
            [sys.executable, "-P", "-m", "console", "--db", dsn, "--read-only"], {"PYTHONPATH": str(ROOT)}
        ) as one:
            print(f"{'the console: first row':<60} {one.until(b'buy|SELL'):8.2f} s", flush=True)
        timed("dlq --version (what a start costs)", "--version", dsn=dsn)
        timed("dlq list --limit 5", "list", "--limit", "5", dsn=dsn)
        timed("dlq list --filter 'venue:kalshi' --limit 50", "list", "-f", "venue:kalshi", "--limit", "50", dsn=dsn)
        since = ("list", "-f", "since:2026-06-01 until:2026-06-02", "--limit", "50")
        timed("dlq list --filter 'since:… until:…' --limit 50", *since, dsn=dsn)
        timed("dlq show ID", "show", f"dlq_{rows // 2:016x}", dsn=dsn)
        timed("dlq list --state dismissed --limit 50", "list", "--state", "dismissed", "--limit", "50", dsn=dsn)
        timed("dlq check (every open entry is judged)", "check", dsn=dsn)
    finally:
        server.stop()


if __name__ == "__main__":
    main()

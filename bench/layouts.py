"""Messages and calls beside orders, of one Postgres in one run: the list, a page of 200, the counts.

`python -m bench.layouts [--rows 1000000] [--short]`. `dlq list` has the order layout as its peer; a page has the
bare driver with the same columns and joins, as the order layout's own pages have, and is told beside an order page,
turn by turn.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg
from faststream_outbox import make_dlq_table, make_outbox_table
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from backends import open_store
from backends.records import STATES, ActContext, Actor, Entry, Filter, RowKey
from backends.sql.other.select import Select
from backends.sql.other.store import OtherStore
from backends.store import Store
from bench.data import fill_postgres
from bench.figure import Figure, alternately, finish, options, show
from console import clock
from tests.support.postgres import Postgres

ACTOR: Final = Actor("bench", "bench", "here", "bench")
VIEWS: Final = {"open": Filter(), "all": Filter(states=frozenset(STATES))}
PAGE: Final = 200
ROWS, SHORT = 1_000_000, 50_000
STREAMED: Final = 100_000
SETTLED: Final = 0.1  # of the entries, as many as the order layout has dismissed
store_dsn: dict[str, str] = {}
_MESSAGES = """
INSERT INTO outbox_dlq (original_id, queue, payload, headers, deliveries_count, created_at, failed_at, failure_reason,
  last_exception)
SELECT n, 'queue-' || n % 12, convert_to('{"order": ' || n || ', "market": "AAPL", "quantity": "100", "note": "' ||
    repeat('x', 200) || '"}', 'UTF8'),
  jsonb_build_object('content-type', 'application/json', 'correlation_id', md5(CAST(n AS text))), 1 + n % 5, at, at +
    interval '90 s', (ARRAY['max_deliveries', 'retry_terminal', 'rejected'])[1 + n % 3],
    'ValueError(''no instrument ' || n || ' of the venue answers in 30 s'')'
FROM (SELECT n, timestamptz '2026-03-01' + n * interval '2.5 s' AS at FROM generate_series(1, $1::int) n) numbers
"""
_CALLS_TABLE = """
CREATE TABLE integration_dlq ("id" uuid PRIMARY KEY, "providerId" text NOT NULL, "providerName" text,
  "originalRequest" jsonb NOT NULL, "error" text NOT NULL, "attempts" int NOT NULL, "tenantId" text,
  "createdAt" timestamptz NOT NULL, "lastRetryAt" timestamptz, "deletedAt" timestamptz)
"""
_CALLS = """
INSERT INTO integration_dlq
SELECT CAST(md5(CAST(n AS text)) AS uuid), 'prov-' || n % 12, 'Provider ' || n % 12, jsonb_build_object('method',
    'POST', 'path', '/v1/charges/' || n, 'headers', jsonb_build_object('Content-Type', 'application/json'), 'body',
    jsonb_build_object('amount', n, 'note', repeat('x', 200))), 'HTTP 503 after 6 attempts: upstream ' || n % 40, 6,
  'tenant-' || n % 50, timestamptz '2026-03-01' + n * interval '2.5 s', NULL, NULL
FROM generate_series(1, $1::int) n
"""
# As so many acts of the console would leave it; acts themselves are measured elsewhere.
_SETTLE = """
INSERT INTO dlq_console.settled (source, entry_id, born, state, at, operation)
SELECT '{table}', CAST("id" AS text), CAST("{moment}" AS text),
  CASE WHEN n % 2 = 0 THEN 'dismissed' ELSE 'replayed' END,
  '2026-04-01T00:00:00+00:00', 'bench'
FROM (SELECT "id", "{moment}", row_number() OVER (ORDER BY "{moment}") AS n FROM {table}) numbered WHERE n % {every} = 0
"""


async def database(server: Postgres, name: str) -> str:
    admin = await asyncpg.connect(server.dsn("postgres"))
    await admin.execute(f'CREATE DATABASE "{name}"')
    await admin.close()
    store_dsn[name] = server.dsn(name)
    return store_dsn[name]


async def run(dsn: str, *statements: str, count: int | None = None) -> None:
    connection = await asyncpg.connect(dsn)
    for statement in statements:
        await connection.execute(statement, *([] if count is None else [count]), timeout=1800)
    await connection.close()


async def opened(dsn: str) -> Store:
    """With a ledger: looking it up costs from here on."""
    store = await open_store(dsn)
    await store.note("bench", ACTOR, ActContext(clock.now(), "bench", note="bench"))
    return store


async def orders(server: Postgres, count: int) -> Store:
    dsn = await database(server, "orders")
    await fill_postgres(dsn, count)
    return await opened(dsn)


async def outbox(server: Postgres, count: int) -> Store:
    """The tables as the package makes them."""
    dsn = await database(server, "outbox")
    metadata = MetaData()
    make_outbox_table(metadata, "outbox")
    make_dlq_table(metadata, "outbox_dlq")
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    await engine.dispose()
    await run(dsn, _MESSAGES, count=count)
    return await settled(dsn, "outbox_dlq", "failed_at")


async def integration(server: Postgres, count: int) -> Store:
    dsn = await database(server, "integration")
    await run(dsn, _CALLS_TABLE)
    await run(dsn, _CALLS, count=count)
    await run(dsn, 'CREATE INDEX ON integration_dlq ("createdAt")')
    return await settled(dsn, "integration_dlq", "createdAt")


async def settled(dsn: str, table: str, moment: str) -> Store:
    store = await opened(dsn)
    await run(dsn, _SETTLE.format(table=table, moment=moment, every=round(1 / SETTLED)))
    await run(dsn, f"VACUUM ANALYZE {table}", "VACUUM ANALYZE dlq_console.settled")
    return store


async def spots(store: Store, where: Filter, count: int) -> dict[str, RowKey | None]:
    """Where the three pages begin: the middle one by time, as both kinds of store can be asked it."""
    middle = datetime(2026, 3, 1, tzinfo=UTC) + (await _span(store)) / 2
    half = await store.page(Filter(states=where.states, since=middle), limit=1)
    end = await store.page(where, limit=min(PAGE + 1, count), newest_first=True)
    return {"first": None, "middle": half.entries[0].row_key, "last": end.entries[-1].row_key}


async def _span(store: Store):  # type: ignore[no-untyped-def]  # a timedelta
    last: Entry = (await store.page(VIEWS["all"], limit=1, newest_first=True)).entries[0]
    held = last.get({"orders": "captured_at", "outbox": "failed_at"}.get(last.layout, "createdAt"))
    assert isinstance(held, datetime)
    return held - datetime(2026, 3, 1, tzinfo=UTC)


async def pages(kind: str, store: OtherStore, peer: Store, count: int) -> list[bool]:
    good = []
    driver = await asyncpg.connect(store_dsn[kind])
    for view, where in VIEWS.items():
        here, there = await spots(store, where, count), await spots(peer, where, count)
        for name, place in here.items():
            query = Select(store._table, with_ledger=True).page(where, place, descending=False, most=PAGE + 1)
            bare = await driver.prepare(query.text)

            async def ours(where: Filter = where, place: RowKey | None = place) -> object:
                return await store.page(where, limit=PAGE, after=place)

            async def theirs(bare: Any = bare, values: Sequence[object] = query.values({})) -> object:
                return await bare.fetch(*values)

            async def orders_page(where: Filter = where, place: RowKey | None = there[name]) -> object:
                return await peer.page(where, limit=PAGE, after=place)

            got = await alternately(ours, theirs)
            good.append(show(Figure("layouts.page", *got, "ms", f"{kind}, {view}, {name}")).good)
            mine, order = await alternately(ours, orders_page, 100)
            print(f"     {'':<58} {mine:10.3f} ms  ÷ an order page {order:.3f} = {mine / order:6.2f}", flush=True)
    await driver.close()
    return good


def listed(kind: str, *words: str) -> float:
    command = [sys.executable, "-m", "console", "list", "--json", "--db", store_dsn[kind], *words]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def lists(kind: str, count: int) -> list[bool]:
    """`dlq list` as it is typed: to its first 200 entries, and as a stream."""
    turns = [(listed(kind, "--limit", "200"), listed("orders", "--limit", "200")) for _ in range(7)]
    ours, theirs = (statistics.median(times) for times in zip(*turns, strict=True))
    first = show(Figure("layouts.list", ours, theirs, "s", f"{kind}, --limit 200"))
    many = str(min(STREAMED, count // 2))
    ours, theirs = listed(kind, "--limit", many), listed("orders", "--limit", many)
    stream = show(Figure("layouts.list", ours, theirs, "s", f"{kind}, --limit {many} (n=1)"))
    return [first.good, stream.good]


async def counts(kind: str, store: Store, count: int) -> list[bool]:
    """Without a filter, and with one that a queue or a provider answers to."""
    origin = "queue-3" if kind == "outbox" else "prov-3"
    good = []
    for name, where in (("everything", VIEWS["all"]), ("one origin", Filter(venue=origin)), ("open", Filter())):
        took = []
        for _ in range(5):
            began = time.perf_counter()
            await store.counts(where)
            took.append(time.perf_counter() - began)
        allowed = max(0.2, count / 1_000_000)
        good.append(show(Figure("layouts.counts", min(took), allowed, "s", f"{kind}, {name}")).good)
    return good


async def measure(server: Postgres, count: int) -> list[bool]:
    peer = await orders(server, count)
    good: list[bool] = []
    for kind, make in (("outbox", outbox), ("integration", integration)):
        store = await make(server, count)
        assert isinstance(store, OtherStore)
        good += lists(kind, count)
        good += await pages(kind, store, peer, count)
        good += await counts(kind, store, count)
        await store.aclose()
    await peer.aclose()
    return good


def main() -> None:
    rows = options(argparse.ArgumentParser(), ROWS, SHORT).rows
    server = Postgres(durable=True).start()
    try:
        good = asyncio.run(measure(server, rows))
    finally:
        server.stop()
    finish("layouts", good)


if __name__ == "__main__":
    main()

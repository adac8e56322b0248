"""The store layer against the bare driver: pages, streaming, audit, noticing.

`python -m bench.stores [--rows 1000000] [--short]`; every figure is a ratio or a bound of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg

from backends import open_store
from backends.layouts import orders
from backends.ledger.audit_chain import GENESIS, Verifier, canonical, link
from backends.records import STATES, ActContext, Actor, Filter, RowKey
from backends.store import Store
from bench.data import fill_postgres, sqlite_copy, sqlite_file
from bench.figure import Figure, alternately, finish, limit, options, show
from console import clock
from tests.support.postgres import Postgres

ACTOR = Actor("bench", "bench", "here", "bench")
ALL = Filter(states=frozenset(STATES))
PAGE = 200
ROWS, SHORT = 1_000_000, 50_000
COLUMNS = ", ".join(f"d.{name}" for name in orders.COLUMNS)
TABLE = orders.DEFAULT_TABLE


async def make_ledger(store: Store) -> None:
    """The first act makes it; joins cost from here on."""
    await store.note("bench", ACTOR, ActContext(clock.now(), "bench", note="bench"))


def join(ledger: str) -> str:
    return (
        f"SELECT a.state, {COLUMNS} FROM {TABLE} d LEFT JOIN {ledger} a "
        f"ON a.source = '{TABLE}' AND a.entry_id = d.dlq_id AND a.holds = 1"
    )


async def sqlite_pages(rows: int) -> dict[str, Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = sqlite_copy(rows, Path(folder) / "orders.db")
        store = await open_store(str(path))
        await make_ledger(store)
        bare = await aiosqlite.connect(path)
        last = rows
        figures = {}
        for name, after in (("first", 0), ("middle", last // 2), ("last", last - PAGE)):
            place: RowKey | None = (after,) if after else None
            sql = f"{join('console_attempt')} WHERE d.rowid > {after} ORDER BY d.rowid LIMIT {PAGE + 1}"

            async def ours(place: RowKey | None = place) -> object:
                return await store.page(ALL, limit=PAGE, after=place)

            async def peer(sql: str = sql) -> object:
                return await bare.execute_fetchall(sql)

            got = await alternately(ours, peer)
            figures[name] = Figure("stores.page-sqlite", *got, "ms", f"{name}, {rows:,} rows")
        await bare.close()
        await store.aclose()
        return figures


async def postgres_pages(dsn: str, rows: int) -> dict[str, Figure]:
    store = await open_store(dsn)
    await make_ledger(store)
    bare = await asyncpg.connect(dsn)
    figures = {}
    for name, share in (("first", 0.0), ("middle", 0.5), ("last", 1.0)):
        skip = max(0, int(share * rows) - PAGE - 1)
        spot = await bare.fetchrow(f"SELECT captured_at, dlq_id FROM {TABLE} ORDER BY 1, 2 OFFSET {skip} LIMIT 1")
        place: RowKey | None = tuple(spot) if share else None
        where = "WHERE (d.captured_at, d.dlq_id) > ($1, $2)" if place else ""
        sql = f"{join('dlq_console.attempt')} {where} ORDER BY d.captured_at, d.dlq_id LIMIT {PAGE + 1}"
        statement = await bare.prepare(sql)

        async def ours(place: RowKey | None = place) -> object:
            return await store.page(ALL, limit=PAGE, after=place)

        async def peer(statement: Any = statement, place: RowKey | None = place) -> object:
            return await statement.fetch(*(place or ()))

        got = await alternately(ours, peer)
        figures[name] = Figure("stores.page-postgres", *got, "ms", f"{name}, {rows:,} rows")
    await bare.close()
    await store.aclose()
    return figures


def growth(kind: str, large: dict[str, Figure], small: dict[str, Figure]) -> list[bool]:
    return [
        show(Figure("stores.growth", large[name].ours, small[name].ours, "ms", f"{kind}, {name}")).good
        for name in large
    ]


def list_rss(target: str) -> float:
    """Peak MB of `dlq list --json` into nothing."""
    code = (
        "import resource, sys; from console.cli.main import run\n"
        f"code = run(['list', '--json', '--all', '--db', {target!r}])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True
    )
    return int(done.stderr.split()[-1]) / 1024


async def fresh_postgres(server: Postgres, name: str, rows: int) -> str:
    admin = await asyncpg.connect(server.dsn("postgres"))
    await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    await admin.execute(f'CREATE DATABASE "{name}"')
    await admin.close()
    await fill_postgres(server.dsn(name), rows)
    return server.dsn(name)


def bodies(count: int) -> list[bytes]:
    rng = random.Random(5)
    return [
        canonical(
            {
                "v": 1,
                "seq": number,
                "kind": "dismiss",
                "operation": f"{rng.getrandbits(128):032x}",
                "at": "2026-04-18T14:32:15.123456+00:00",
                "who": {
                    "operator": "oncall",
                    "os_user": "ops",
                    "host": "desk-1",
                    "db_role": "",
                    "program": "dlq-console",
                },
                "source": TABLE,
                "reason": "market-closed",
                "note": None,
                "entries": [[f"dlq_{rng.getrandbits(64):016x}", 0, 0]],
            }
        )
        for number in range(1, count + 1)
    ]


async def verify(target: str) -> float:
    store = await open_store(target, read_only=True)
    began = time.perf_counter()
    verifier = Verifier()
    async for block in store.chain():
        assert verifier.feed(block)
    assert verifier.finish() is None
    took = time.perf_counter() - began
    await store.aclose()
    return took


def chain_of(texts: list[bytes]) -> list[tuple[int, bytes, bytes]]:
    chained, previous = [], GENESIS
    for number, body in enumerate(texts, 1):
        previous = link(previous, body)
        chained.append((number, body, previous))
    return chained


def bare_chain(texts: list[bytes]) -> float:
    began = time.perf_counter()
    previous, sha256 = GENESIS, hashlib.sha256
    for body in texts:
        previous = sha256(previous + body).digest()
    return time.perf_counter() - began


async def audit(server: Postgres, events: int) -> list[bool]:
    texts = bodies(events)
    chained = chain_of(texts)
    good = []
    with tempfile.TemporaryDirectory() as folder:
        path = sqlite_copy(1000, Path(folder) / "audit.db")
        store = await open_store(str(path))
        await make_ledger(store)
        await store.aclose()
        with closing(sqlite3.connect(path)) as connection:
            for name in ("upd", "del", "ins"):
                connection.execute(f"DROP TRIGGER IF EXISTS console_audit_{name}")
            connection.execute("DELETE FROM console_audit")
            connection.executemany("INSERT INTO console_audit VALUES (?, ?, ?)", chained)
            connection.commit()
        ours, floor = await verify(str(path)), bare_chain(texts)
        ours, floor = min(ours, await verify(str(path))), min(floor, bare_chain(texts))
        good.append(show(Figure("stores.audit", ours, floor, "s", f"SQLite, {events:,} events")).good)
    dsn = await fresh_postgres(server, "audit", 1000)
    store = await open_store(dsn)
    await make_ledger(store)
    await store.aclose()
    connection = await asyncpg.connect(dsn)
    await connection.execute("ALTER TABLE dlq_console.audit DISABLE TRIGGER ALL; DELETE FROM dlq_console.audit")
    await connection.copy_records_to_table("audit", schema_name="dlq_console", records=chained)
    await connection.close()
    ours, floor = await verify(dsn), bare_chain(texts)
    ours, floor = min(ours, await verify(dsn)), min(floor, bare_chain(texts))
    good.append(show(Figure("stores.audit", ours, floor, "s", f"Postgres, {events:,} events")).good)
    return good


async def noticing(target: str, write: Any) -> list[float]:
    """Milliseconds from a foreign commit to the change being told, several times."""
    store = await open_store(target, read_only=True)
    changes = store.changes()
    await anext(changes)
    took = []
    for number in range(20):
        waiting = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(random.Random(number).uniform(0.05, 0.3))
        if waiting.done():
            waiting = asyncio.ensure_future(anext(changes))
        began = time.perf_counter()
        await write(number)
        await asyncio.wait_for(waiting, 10)
        took.append((time.perf_counter() - began) * 1000)
    await changes.aclose()  # type: ignore[attr-defined]  # an async generator behind the Protocol
    await store.aclose()
    return sorted(took)


async def noticed(server: Postgres) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        path = sqlite_copy(1000, Path(folder) / "watch.db")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:

            async def write(number: int) -> None:
                connection.execute(f"UPDATE {TABLE} SET retry_count = retry_count + 1 WHERE rowid = {number + 1}")

            seen = await noticing(str(path), write)
        good = [limit("stores.notice", seen[-1], "SQLite")]
    dsn = await fresh_postgres(server, "watch", 1000)
    bare = await asyncpg.connect(dsn)

    async def write_postgres(number: int) -> None:
        await bare.execute(
            f"UPDATE {TABLE} SET retry_count = retry_count + 1 "
            f"WHERE dlq_id = (SELECT dlq_id FROM {TABLE} OFFSET {number} LIMIT 1)"
        )

    seen = await noticing(dsn, write_postgres)
    good.append(limit("stores.notice", seen[-1], "Postgres by LISTEN"))
    await bare.execute(f"DROP TRIGGER {TABLE}_notify ON {TABLE}")
    seen = await noticing(dsn, write_postgres)
    good.append(limit("stores.notice-polling", seen[-1], "Postgres"))
    await bare.close()
    return good


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--only", choices=("pages", "stream", "audit", "notice"))
    args = options(words, ROWS, SHORT)
    server = Postgres(durable=True).start()
    good: list[bool] = []
    try:
        if args.only in (None, "pages"):
            good += _pages(server, args.rows)
        if args.only in (None, "stream"):
            large, small = list_rss(str(sqlite_file(args.rows))), list_rss(str(sqlite_file(1000)))
            good.append(show(Figure("stores.stream-memory", large, small, "MB")).good)
        if args.only in (None, "audit"):
            good += asyncio.run(audit(server, args.rows))
        if args.only in (None, "notice"):
            good += asyncio.run(noticed(server))
    finally:
        server.stop()
    finish("stores", good)


def _pages(server: Postgres, rows: int) -> list[bool]:
    good: list[bool] = []
    large, small = asyncio.run(sqlite_pages(rows)), asyncio.run(sqlite_pages(1000))
    good += [show(figure).good for figure in large.values()]
    good += growth("SQLite", large, small)
    dsn, small_dsn = (asyncio.run(fresh_postgres(server, name, n)) for name, n in (("large", rows), ("small", 1000)))
    large, small = asyncio.run(postgres_pages(dsn, rows)), asyncio.run(postgres_pages(small_dsn, 1000))
    good += [show(figure).good for figure in large.values()]
    return good + growth("Postgres", large, small)


if __name__ == "__main__":
    main()

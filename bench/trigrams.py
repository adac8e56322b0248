"""What a trigram index of the owner's (pg_trgm) would give a search on Postgres, and what it costs the engine.

`DLQ_TEST_PG_BINDIR=… python -m bench.trigrams [--rows 200000] [--short]`, with the programs of a Postgres that has its
extensions, as the tests' own has none. It has no bounds: docs/scale.md tells the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

import asyncpg

from bench import data
from bench.figure import options
from tests.support.postgres import Postgres

ROWS, SHORT = 200_000, 20_000
TURNS = 5
TABLE = "order_dlq"
INDEX = f"CREATE INDEX trigrams ON {TABLE} USING gin (error gin_trgm_ops)"
PAGE = f"SELECT * FROM {TABLE} WHERE NOT dismissed AND error ILIKE $1 ORDER BY captured_at DESC, dlq_id DESC LIMIT 50"
TEXTS = {"in one of 100,000": data.RARE, "in none": data.ABSENT, "in a tenth": data.COMMON, "two letters": "er"}
WRITES = 2_000
ACT = f"""UPDATE {TABLE} SET dismissed = true WHERE dlq_id IN (
    SELECT dlq_id FROM {TABLE} WHERE NOT dismissed ORDER BY captured_at, dlq_id LIMIT {WRITES})"""


async def taken(connection: asyncpg.Connection, sql: str, *values: object) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    await connection.fetch(sql, *values, timeout=600)
    return (time.perf_counter() - began) * 1000


async def searched(connection: asyncpg.Connection) -> dict[str, float]:
    return {
        name: statistics.median([await taken(connection, PAGE, f"%{text}%") for _ in range(TURNS)])
        for name, text in TEXTS.items()
    }


async def written(connection: asyncpg.Connection, rows: int) -> tuple[float, float]:
    """Milliseconds that dismissing takes, and that an engine's inserts take; both are taken back."""
    acts, inserts = [], []
    for _ in range(TURNS):
        change = connection.transaction()
        await change.start()
        acts.append(await taken(connection, ACT))
        began = time.perf_counter()
        await connection.copy_records_to_table(TABLE, records=data.rows(WRITES, start=rows), columns=None, timeout=600)
        inserts.append((time.perf_counter() - began) * 1000)
        await change.rollback()
    return statistics.median(acts), statistics.median(inserts)


async def measure(dsn: str, rows: int) -> None:
    await data.fill_postgres(dsn, rows)
    connection = await asyncpg.connect(dsn, statement_cache_size=0)  # a plan for the text that is asked for
    await connection.execute("CREATE EXTENSION pg_trgm")
    before, plain = await searched(connection), await written(connection, rows)
    build = await taken(connection, INDEX)
    await connection.execute(f"VACUUM ANALYZE {TABLE}", timeout=600)
    after, costly = await searched(connection), await written(connection, rows)
    sizes = await connection.fetchrow(f"SELECT pg_relation_size('trigrams'), pg_table_size('{TABLE}')")
    print(f"built in {build / 1000:.1f} s; {sizes[0] / 1e6:.0f} MB beside a table of {sizes[1] / 1e6:.0f} MB")
    for name in TEXTS:
        print(f"a page of 50 with a text {name:<18} {after[name]:9.2f} ms ÷ without {before[name]:9.2f} ms = "
              f"{after[name] / before[name]:.3f}")  # fmt: skip
    for what, ours, peer in zip((f"dismiss {WRITES:,}", f"insert {WRITES:,}"), costly, plain, strict=True):
        print(f"{what:<43} {ours:9.1f} ms ÷ without {peer:9.1f} ms = {ours / peer:.2f}")
    await connection.close()


def main() -> None:
    rows = options(argparse.ArgumentParser(description=__doc__), ROWS, SHORT).rows
    server = Postgres().start()
    try:
        asyncio.run(measure(server.dsn("postgres"), rows))
    except asyncpg.FeatureNotSupportedError as problem:
        print(f"skipped: this server has no pg_trgm ({problem}); name another in DLQ_TEST_PG_BINDIR")
    finally:
        server.stop()


if __name__ == "__main__":
    main()

"""Small stores of every shape that the console opens, by what they are called in a figure. Measures nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import asyncpg

from backends.layouts import orders
from bench import data
from tests.support.integration import IntegrationRig
from tests.support.orders import postgres_store, row
from tests.support.outbox import OutboxRig
from tests.support.postgres import Postgres

ROWS = 1_000
ORDER = rb"(buy|SELL) +[0-9.,]+ \S+"
TABLE = orders.DEFAULT_TABLE
_SQLITE = {
    "a table without constraints": (f"CREATE TABLE {TABLE} AS SELECT * FROM made.{TABLE}",),
    "a view": (f"CREATE TABLE kept AS SELECT * FROM made.{TABLE}", f"CREATE VIEW {TABLE} AS SELECT * FROM kept"),
    "a table WITHOUT ROWID": (
        f"CREATE TABLE {TABLE} ({', '.join(orders.COLUMNS)}, PRIMARY KEY (captured_at, dlq_id)) WITHOUT ROWID",
        f"INSERT INTO {TABLE} SELECT * FROM made.{TABLE}",
    ),
    "columns in another order": (
        f"CREATE TABLE {TABLE} AS SELECT {', '.join(reversed(orders.COLUMNS))}, 1 AS shard FROM made.{TABLE}",
    ),
}


class ShapedStore(NamedTuple):
    target: str
    first_row: bytes  # seen once its first row is


def sqlite_shapes(folder: Path) -> dict[str, ShapedStore]:
    made = {}
    for number, (name, statements) in enumerate(_SQLITE.items()):
        path = folder / f"shape-{number}.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("ATTACH ? AS made", (str(data.sqlite_file(ROWS)),))
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        made[name] = ShapedStore(str(path), ORDER)
    return made


def postgres_shapes(server: Postgres) -> dict[str, ShapedStore]:
    targets = {name: server.dsn(name) for name in ("orders", "outbox", "integration")}
    asyncio.run(_fill(server.dsn("postgres"), targets))
    postgres_store(targets["orders"], (row(n) for n in range(ROWS)))
    return {
        "Postgres": ShapedStore(targets["orders"], ORDER),
        "an outbox on Postgres": ShapedStore(targets["outbox"], b"order [0-9]+ is bad"),
        "failed calls on Postgres": ShapedStore(targets["integration"], b"HTTP 503 after"),
    }


async def _fill(admin: str, targets: dict[str, str]) -> None:
    connection = await asyncpg.connect(admin)
    for name in targets:
        await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    outbox, calls = OutboxRig(targets["outbox"]), IntegrationRig(targets["integration"])
    await outbox.tables()
    await outbox.dead(*range(ROWS))
    await calls.tables()
    await calls.failed(*range(1, ROWS))

"""Order stores for tests: rows that look like an engine's, written as an engine would write them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from backends.layouts import orders
from tests.support.owner_session import in_session_apart

CAPTURED = datetime(2026, 4, 18, 14, 32, 15, tzinfo=UTC)


def row(number: int, **given: object) -> dict[str, Any]:
    """One row as an engine writes it; any column can be given."""
    values: dict[str, Any] = {
        "dlq_id": f"dlq_{number:016x}",
        "captured_at": CAPTURED + timedelta(seconds=number),
        "venue_name": "alpaca",
        "account_id": "main",
        "market_id": "AAPL",
        "side": "buy",
        "quantity": 100.0,
        "order_type": "limit",
        "price": 180.0,
        "client_order_id": f"cid-{number}",
        "error": "RuntimeError: HTTP 429 after 3 attempts",
        "retry_count": 0,
        "dismissed": False,
        "action_json": "",
    }
    return values | given


def sqlite_store(path: Path, rows: Iterable[Mapping[str, Any]] = (), table: str = orders.DEFAULT_TABLE) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in orders.sqlite_ddl(table):
            connection.execute(statement)
        add_sqlite(connection, rows, table)
        connection.commit()
    return str(path)


def add_sqlite(
    connection: sqlite3.Connection, rows: Iterable[Mapping[str, Any]], table: str = orders.DEFAULT_TABLE
) -> None:
    for one in rows:
        values = [
            v.isoformat() if isinstance(v, datetime) else int(v) if isinstance(v, bool) else v for v in one.values()
        ]
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO {table} ({', '.join(one)}) VALUES ({marks})", values)


def postgres_store(dsn: str, rows: Iterable[Mapping[str, Any]] = (), table: str = orders.DEFAULT_TABLE) -> str:
    async def make(connection: Any) -> None:
        await connection.execute(";\n".join(orders.postgres_ddl(table)))
        for one in rows:
            marks = ", ".join(f"${n}" for n in range(1, len(one) + 1))
            await connection.execute(f"INSERT INTO {table} ({', '.join(one)}) VALUES ({marks})", *one.values())

    in_session_apart(dsn, make)
    return dsn

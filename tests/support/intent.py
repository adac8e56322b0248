"""An engine's intent table beside its queue, made by plain SQL: rows as an engine's witness leaves them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.owner_session import rows_apart

_ROW = (
    "dlq_id {text} PRIMARY KEY, captured_at {time} NOT NULL, venue_name {text} NOT NULL, account_id {text}, "
    "market_id {text} NOT NULL, side {text} NOT NULL, quantity {real} NOT NULL, order_type {text} NOT NULL, "
    "price {real}, client_order_id {text}, error {text}, retry_count integer, dismissed {flag}, "
    "action_json {text} NOT NULL DEFAULT '', owner {text} NOT NULL, host {text} NOT NULL, "
    "lease_until {time} NOT NULL, resolved_at {time}, venue_order_id {text}"
)
_SQLITE = {"text": "TEXT", "time": "TEXT", "real": "REAL", "flag": "INTEGER"}
_POSTGRES = {"text": "text", "time": "timestamptz", "real": "double precision", "flag": "boolean"}


def ddl(table: str = "order_dlq", *, on_postgres: bool, without: tuple[str, ...] = ()) -> str:
    columns = _ROW.format(**(_POSTGRES if on_postgres else _SQLITE)).split(", ")
    kept = [one for one in columns if one.split()[0] not in without]
    return f"CREATE TABLE {table}_intent ({', '.join(kept)})"


def intent_row(number: int, *, lease: float = -120.0, captured: float = -180.0, **given: object) -> dict[str, Any]:
    """An order that its engine was about to send; `lease`, `captured`: seconds from now."""
    now = datetime.now(UTC)
    row: dict[str, Any] = {
        "dlq_id": f"dlq_{number:016x}",
        "captured_at": now + timedelta(seconds=captured),
        "venue_name": "fake",
        "account_id": "main",
        "market_id": "AAPL",
        "side": "buy",
        "quantity": float(number),
        "order_type": "limit",
        "price": 10.0,
        "client_order_id": f"cid-{number}",
        "error": "",
        "retry_count": 0,
        "dismissed": False,
        "action_json": "",
        "owner": "engine-1",
        "host": "desk9",
        "lease_until": now + timedelta(seconds=lease),
    }
    return row | given


def run_sql(target: str, statement: str, *args: object) -> list[tuple[Any, ...]]:
    """One statement, behind every console's back; from any thread, in a loop or not."""
    if not target.startswith("postgresql"):
        with closing(sqlite3.connect(target, timeout=30)) as connection:
            told = [one.isoformat() if isinstance(one, datetime) else one for one in args]
            rows = connection.execute(statement, told).fetchall()
            connection.commit()
            return rows
    return rows_apart(target, statement, *args)


def make_intents(target: str, *rows: Mapping[str, Any], table: str = "order_dlq") -> None:
    run_sql(target, ddl(table, on_postgres=target.startswith("postgresql")))
    add_intents(target, *rows, table=table)


def add_intents(target: str, *rows: Mapping[str, Any], table: str = "order_dlq") -> None:
    on_postgres = target.startswith("postgresql")
    for row in rows:
        marks = ", ".join(f"${n}" if on_postgres else "?" for n in range(1, len(row) + 1))
        run_sql(target, f"INSERT INTO {table}_intent ({', '.join(row)}) VALUES ({marks})", *row.values())


def resolution(target: str, number: int = 1, table: str = "order_dlq") -> tuple[bool, str | None]:
    """(whether the intent is resolved, its order at the venue)."""
    told = f"SELECT resolved_at IS NOT NULL, venue_order_id FROM {table}_intent WHERE dlq_id = 'dlq_{number:016x}'"
    ((done, order),) = run_sql(target, told)
    return bool(done), order

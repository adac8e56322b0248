"""Order tables as others make them, by a seed: types, NOT NULL, column order, views, odd values, attempts."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from backends.layouts import orders
from backends.layouts.orders import quoted
from backends.ledger.names import table_name

_AT = datetime(2026, 4, 18, 14, 32, 15, tzinfo=UTC)
_OPTIONAL = tuple(orders.DEGRADED)
_SQLITE_IDS = ("TEXT", "VARCHAR(40)", "CHAR", "BLOB", "", "NUMERIC", "INTEGER")
_SQLITE_TIMES = ("TEXT", "DATETIME", "", "REAL", "INTEGER", "timestamp with time zone")
_SQLITE_FLAGS = ("INTEGER", "BOOLEAN", "TINYINT(1)", "NUMERIC", "", "REAL")
_SQLITE_REST = ("TEXT", "VARCHAR(9)", "", "BLOB", "CLOB", "NUMERIC", "REAL", "JSON")
_POSTGRES_IDS = ("text", "varchar(60)", "varchar", "character(40)")
_POSTGRES_TIMES = ("timestamptz", "timestamptz(3)", "timestamp", "date", "text")
_POSTGRES_FLAGS = ("boolean", "smallint", "integer", "bigint", "numeric")
_POSTGRES_REST = ("text", "varchar(12000)", "text", "character(30)")
_POSTGRES_NUMBERS = ("double precision", "real", "numeric(20, 8)", "numeric", "integer")
_NAMES = ("order_dlq", 'odd "name"', "dlq:1", "Über", "o'clock", "a b", "x%s")


@dataclass(frozen=True, slots=True)
class Shape:
    table: str
    statements: tuple[str, ...]  # that make the table
    insert: str
    rows: tuple[tuple[Any, ...], ...]
    attempts: tuple[tuple[Any, ...], ...]
    kind: str

    @property
    def source(self) -> str:
        return self.table

    def insert_attempt(self, dialect: str) -> str:
        names = (
            "id", "source", "entry_id", "attempt_no", "mode", "rehearsal", "venue", "client_order_id", "payload",
            "payload_hash", "started_at", "operator", "os_user", "token", "state", "holds",
        )  # fmt: skip
        marks = [f"${n}" if dialect == "postgresql" else "?" for n in range(1, len(names) + 1)]
        return f"INSERT INTO {table_name('attempt', dialect)} ({', '.join(names)}) VALUES ({', '.join(marks)})"


def sqlite_shape(seed: int) -> Shape:
    rnd = random.Random(seed)
    kind = rnd.choice(("table", "table", "without rowid", "view", "generated"))
    names = _columns(rnd)
    types = {
        name: rnd.choice(
            _SQLITE_IDS if name == "dlq_id" else _SQLITE_TIMES if name == "captured_at"
            else _SQLITE_FLAGS if name == "dismissed" else _SQLITE_REST
        )
        for name in names
    }  # fmt: skip
    key = " PRIMARY KEY" if kind == "without rowid" else rnd.choice(("", " PRIMARY KEY", " UNIQUE", ""))
    if kind == "without rowid" and types["dlq_id"] == "INTEGER":
        types["dlq_id"] = "TEXT"
    strict = {name: rnd.random() < 0.4 for name in names}
    loose_id = not (strict["dlq_id"] or kind == "without rowid") and "KEY" not in key
    rows = [
        tuple(_sqlite_value(rnd, name, n, types[name], null=loose_id if name == "dlq_id" else not strict[name])
              for name in names)
        for n in range(rnd.choice((0, 1, 7, 12)))
    ]  # fmt: skip
    table = rnd.choice(_NAMES)
    base, given = (table, names) if kind != "view" else ("base", tuple(f"c{n}" for n in range(len(names))))
    made = [
        f"{quoted(own)} {types[name]}{' NOT NULL' if strict[name] else ''}{key if name == 'dlq_id' else ''}"
        for own, name in zip(given, names, strict=True)
    ]
    if kind == "generated":
        made.append("seen TEXT GENERATED ALWAYS AS (upper(side)) VIRTUAL")
    tail = " WITHOUT ROWID" if kind == "without rowid" else ""
    statements = [f"CREATE TABLE {quoted(base)} ({', '.join(made)}){tail}"]
    if kind == "view":
        shown = ", ".join(f"{own} AS {name}" for own, name in zip(given, names, strict=True))
        statements.append(f"CREATE VIEW {quoted(table)} AS SELECT {shown} FROM base")
    marks = ", ".join("?" * len(names))
    insert = f"INSERT INTO {quoted(base)} ({', '.join(map(quoted, given))}) VALUES ({marks})"
    ids = [row[names.index("dlq_id")] for row in rows]
    return Shape(table, tuple(statements), insert, tuple(rows), _attempts(rnd, table, ids, seed), kind)


def postgres_shape(seed: int) -> Shape:
    rnd = random.Random(seed)
    kind = rnd.choice(("table", "table", "table", "view", "partitioned", "materialized"))
    names = _columns(rnd)
    types = {
        name: rnd.choice(
            _POSTGRES_IDS if name == "dlq_id" else _POSTGRES_TIMES if name == "captured_at"
            else _POSTGRES_FLAGS if name == "dismissed" else ("integer", "bigint") if name == "retry_count"
            else _POSTGRES_NUMBERS if name in ("quantity", "price") else _POSTGRES_REST
        )
        for name in names
    }  # fmt: skip
    strict = {name: rnd.random() < 0.4 for name in names}
    rows = [
        tuple(_postgres_value(rnd, name, n, types[name], null=not strict[name]) for name in names)
        for n in range(rnd.choice((0, 1, 7, 12)))
    ]
    table = f"{rnd.choice(_NAMES)} {seed}"
    hidden = (f"base{seed}", tuple(f"c{n}" for n in range(len(names))))
    base, given = (table, names) if kind in ("table", "partitioned") else hidden
    made = [
        f"{quoted(own)} {types[name]}{' NOT NULL' if strict[name] else ''}"
        for own, name in zip(given, names, strict=True)
    ]
    tail = " PARTITION BY HASH (side)" if kind == "partitioned" else ""
    statements = [f"CREATE TABLE {quoted(base)} ({', '.join(made)}){tail}"]
    if kind == "partitioned":
        statements += [
            f"CREATE TABLE {quoted(f'part{seed}_{n}')} PARTITION OF {quoted(base)} "
            f"FOR VALUES WITH (MODULUS 2, REMAINDER {n})"
            for n in range(2)
        ]
    shown = ", ".join(f"{own} AS {name}" for own, name in zip(given, names, strict=True))
    if kind == "view":
        statements.append(f"CREATE VIEW {quoted(table)} AS SELECT {shown} FROM {quoted(base)}")
    later = f"CREATE MATERIALIZED VIEW {quoted(table)} AS SELECT {shown} FROM {quoted(base)}"
    marks = ", ".join(f"CAST(CAST(${n} AS text) AS {types[name]})" for n, name in enumerate(names, 1))
    insert = f"INSERT INTO {quoted(base)} ({', '.join(map(quoted, given))}) VALUES ({marks})"
    ids = [row[names.index("dlq_id")] for row in rows]
    made_now = (*statements, later) if kind == "materialized" else tuple(statements)
    return Shape(table, made_now, insert, tuple(rows), _attempts(rnd, table, ids, seed), kind)


def _columns(rnd: random.Random) -> tuple[str, ...]:
    names = [name for name in orders.COLUMNS if name not in _OPTIONAL or rnd.random() < 0.8]
    if rnd.random() < 0.6:
        rnd.shuffle(names)
    return tuple(names)


def _sqlite_value(rnd: random.Random, name: str, number: int, kind: str, *, null: bool) -> Any:
    if name == "dlq_id":
        if kind == "INTEGER":
            return number + 1
        return rnd.choice((f"dlq_{number:04x}", f"dlq_{number:04x}", f"id {number}", None if null else f"n{number}"))
    if name == "captured_at":
        at = _AT + timedelta(seconds=rnd.randrange(5))
        odd = rnd.choice((at.isoformat(), at.timestamp(), "soon", 7, None if null else ""))
        return at.isoformat() if rnd.random() < 0.7 else odd
    if name == "dismissed":
        return rnd.choice((0, 0, 0, 1, None if null else 0))
    if name == "retry_count":
        return rnd.choice((0, 3, None if null else 1))
    text = ("x" * 4096, "x" * 4097, "é" * 4000, "a\0b", "")
    strange = (*text, 12.5, 7, b"\xff\x00", b"\xff" * 5000, None if null else "-")
    return rnd.choice(strange) if rnd.random() < 0.3 else f"{name} {number}"


def _postgres_value(rnd: random.Random, name: str, number: int, kind: str, *, null: bool) -> str | None:
    """As text, which the insert casts."""
    if null and name != "dlq_id" and rnd.random() < 0.2:
        return None
    if name == "dlq_id":
        return None if null and rnd.random() < 0.1 else f"dlq_{number:04x}"
    if name == "captured_at":
        if rnd.random() < 0.1:
            return rnd.choice(("infinity", "-infinity", "0044-03-15 BC" if kind != "text" else "soon"))
        return (_AT + timedelta(days=rnd.randrange(3), milliseconds=number)).isoformat()
    if name == "dismissed":
        return rnd.choice(("0", "0", "0", "1"))
    if name == "retry_count":
        return rnd.choice(("0", "3"))
    if name in ("quantity", "price"):
        return rnd.choice(("1", "100") if kind == "integer" else ("0.1", "100", "12345.678"))
    long = ("x" * 4096, "x" * 4097, "é" * 4000, "")
    return rnd.choice(long) if kind in ("text", "varchar(12000)") and rnd.random() < 0.3 else f"{name} {number}"


def _attempts(rnd: random.Random, table: str, ids: list[Any], seed: int) -> tuple[tuple[Any, ...], ...]:
    made = []
    for number, entry_id in enumerate(dict.fromkeys(one for one in ids if isinstance(one, str))):
        for n, mode in enumerate(("live", "paper")):
            if rnd.random() < 0.7:
                continue
            state = rnd.choice(("submitting", "in_doubt", "accepted", "rejected", "not_sent"))
            holds = 1 if state in ("submitting", "in_doubt", "accepted") else None
            key = seed * 1000 + number * 10 + n
            values = (key, table, entry_id, n + 1, mode, 0, "alpaca", f"c{key}", b"{}", "h", _AT.isoformat())
            made.append((*values, "ann", "ann", key, state, holds))
    return tuple(made)

"""Creates an order store for `dlq init`. The console creates an owner's table nowhere else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

from dlq_sink.libpq.connection import connect
from dlq_sink.values import readable

from backends.driver_errors import store_errors
from backends.layouts import orders
from backends.postgres_session import SAFE_PATH
from backends.sqlite_file import check_file
from backends.store import BadTarget, Unreachable
from backends.target import PostgresTarget, SQLiteTarget, parse_target


async def make_store(target: str, *, table: str | None = None, password: str | None = None) -> str:
    """Create the order layout with its WORM triggers and return its label; refuse if such a table is there."""
    parsed = parse_target(target)
    schema, _, name = (table or orders.DEFAULT_TABLE).rpartition(".")
    with store_errors(parsed.label):
        if isinstance(parsed, PostgresTarget):
            given = parsed if parsed.password is not None else replace(parsed, password=password)
            await _make_postgres(given, name, schema or "public")
        else:
            _check_place(parsed, schema)
            _make_sqlite(str(parsed.path), name)
    return parsed.label


def _check_place(target: SQLiteTarget, schema: str) -> None:
    """Raise a clear error where SQLite would only call the file unopenable or damaged."""
    if schema not in ("", "main"):
        raise BadTarget("a SQLite file has no schemas: --table takes the table's name alone")
    if not target.path.parent.is_dir():
        raise Unreachable(f"there is no directory {readable(str(target.path.parent))}: make it first")
    if target.path.exists() and (target.path.is_dir() or target.path.stat().st_size):
        check_file(target)


def _make_sqlite(path: str, table: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        names = "SELECT DISTINCT m.name FROM sqlite_master m JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table'"
        taken = connection.execute(f"{names} AND (m.name = ? OR c.name = 'dlq_id')", (table,)).fetchall()
        if taken:
            connection.execute("ROLLBACK")
            raise BadTarget(f"{path} already has {taken[0][0]}: nothing was made")
        for statement in orders.sqlite_ddl(table):
            connection.execute(statement)
        connection.execute("COMMIT")


async def _make_postgres(target: PostgresTarget, table: str, schema: str) -> None:
    connection = await connect(target, server_settings=target.settings.server_settings)
    try:
        async with connection.transaction():
            # The conditions of triggers and indexes keep the operators that are found now.
            await connection.execute(SAFE_PATH)
            taken = await connection.fetchval(
                "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
                "c.relkind IN ('r', 'p') AND n.nspname = $1 AND (c.relname = $2 OR EXISTS ("
                "SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'dlq_id'))",
                schema,
                table,
            )
            if taken:
                raise BadTarget(f"{target.label} already has {taken}: nothing was made")
            if await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema) is None:
                raise BadTarget(f"{target.label} has no schema {schema}: nothing was made")
            for statement in orders.postgres_ddl(table, schema):
                await connection.execute(statement)
    finally:
        await connection.close()

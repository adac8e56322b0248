"""`PostgresDLQ`: a sink on Postgres. Every act is one short transaction."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import Any

import asyncpg

from dlq_sink import order_table as orders
from dlq_sink.contract import ClosingSink, Entries, IntentRows
from dlq_sink.error import ActRefused, BadEntry, BadTarget, DuplicateEntry, NotADLQ
from dlq_sink.postgres_connection import SAVEPOINT, SinkConnection
from dlq_sink.record import DeadLetteredOrder
from dlq_sink.rows import SinkTable, Values, choose, differing, is_same, pending, record, refuse_nul, taken, values
from dlq_sink.target import PostgresTarget, parse_target

MAKING = 0x646C715F6D616B65  # the advisory lock held while creating the layout
_TABLES = """
SELECT n.nspname::text AS schema, c.relname::text AS name,
       array_agg(a.attname::text) AS names, array_agg(format_type(a.atttypid, a.atttypmod)) AS types,
       array_agg(CAST(a.attnotnull AS text)) AS not_null,
       EXISTS (SELECT 1 FROM pg_index i JOIN pg_attribute k ON k.attrelid = c.oid AND k.attname = 'dlq_id'
               WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                 AND i.indnkeyatts = 1 AND i.indkey[0] = k.attnum) AS has_key
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname !~ '^(pg_|information_schema$|dlq_console$)'
  AND 3 = (SELECT count(*) FROM pg_attribute x WHERE x.attrelid = c.oid
           AND CAST(x.attname AS text) = ANY (CAST($1 AS text[])))
GROUP BY c.oid, n.nspname, c.relname, c.relkind
"""
_READ_AS_IS = frozenset({"text", "double precision", "boolean", "smallint", "integer", "bigint"})
_EQ = "OPERATOR(pg_catalog.=)"  # the server's own, whatever the search_path is
_OF_THE_GRAMMAR = ("big", "int", "small", "bool", "num", "real", "double", "char", "time", "bit")
_RACED = frozenset({"42P07", "42710", "42723", "23505", "XX000"})  # seen if others create it without that lock


class PostgresDLQ(ClosingSink):
    """Takes `postgresql://user@host/db`; makes the layout where it is missing, else uses the table it finds.

    No call takes longer than `timeout` seconds; within it, a server that restarts is waited for. `url` (which never
    holds the password) and `table` name the same entries to `open_store`.
    """

    def __init__(self, url: str, *, table: str | None = None, timeout: float = 10.0) -> None:
        target = parse_target(url)
        if not isinstance(target, PostgresTarget):
            raise BadTarget("PostgresDLQ takes postgresql://user@host/db; for a file there is SQLiteDLQ")
        if not timeout > 0:
            raise ValueError("timeout must be more than 0 seconds")
        self._given = url
        self._label = target.label
        self._line = SinkConnection(target, timeout)
        try:
            self._table = self._line.call(lambda link, _: _attach(link, table, self._label), "attaches", patient=False)
        except BaseException:
            self._line.close()
            raise
        self._columns = ", ".join(_reading(name, self._table.types[name]) for name in orders.COLUMNS)
        places = places_for([self._table.types[name] for name in orders.COLUMNS])
        self._insert = (
            f"INSERT INTO {self._table.quoted} ({', '.join(orders.COLUMNS)}) VALUES ({places}) "
            f"RETURNING {self._columns}"
        )
        self.url = target.dsn
        self.table = self._table.shown
        self._survive_forks()
        atexit.register(self.close)  # an engine that forgets it ends in order

    def write(self, entry: DeadLetteredOrder) -> None:
        row = values(entry)
        refuse_nul(row, self._label)
        self._line.call(lambda link, repeated: self._insert_row(link, row, repeated), "settles")

    def list(self, *, include_dismissed: bool = False) -> Entries:
        """By captured_at, then dlq_id, as `dlq list` shows them: no column says in which order they were written."""
        where = "" if include_dismissed else f" WHERE {self._table.pending}"
        sql = f"SELECT {self._columns} FROM {self._table.quoted}{where} ORDER BY {self._table.order}"
        rows: list[Any] = self._line.call(lambda link, _: link.fetch(sql), "reads")
        return [record(row) for row in rows]

    def get(self, dlq_id: str) -> DeadLetteredOrder | None:
        row: Any = self._line.call(lambda link, _: self._fetch(link, dlq_id), "reads")
        return None if row is None else record(row)

    def mark_dismissed(self, dlq_id: str) -> bool:
        return self._line.call(lambda link, _: self._dismiss(link, dlq_id), "settles")

    def bump_retry(self, dlq_id: str) -> int:
        sql = (
            f"UPDATE {self._table.quoted} SET retry_count = coalesce(retry_count, 0) OPERATOR(pg_catalog.+) 1 "
            f"WHERE dlq_id {_EQ} $1 RETURNING retry_count"
        )
        count: int | None = self._line.call(lambda link, _: link.fetchval(sql, dlq_id), "counts")
        if count is None:
            raise KeyError(dlq_id)
        return int(count)

    def depth(self) -> int:
        sql = f"SELECT count(*) FROM {self._table.quoted} WHERE {self._table.pending}"
        count: int = self._line.call(lambda link, _: link.fetchval(sql), "reads")
        return count

    def close(self) -> None:
        atexit.unregister(self.close)
        self._end_renewal()
        self._line.close()

    def _after_fork_in_child(self) -> None:
        super()._after_fork_in_child()
        self._line.begin_again()

    def _dsn(self) -> str:
        """The target for `open_store`, as given, with its password if it had one."""
        return self._given

    async def _insert_row(self, link: Any, row: Values, repeated: bool) -> None:
        given = [value if value is None else str(value) for value in row]
        try:
            kept = await link.fetchrow(self._insert, *given)
        except asyncpg.UniqueViolationError:
            await link.execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
            stored = await self._fetch(link, str(row[0]))
            if stored is None:
                raise ActRefused(f"{self._label} refused the entry: it breaks a rule other than the id's") from None
            if not (repeated and is_same(row, stored)):
                raise DuplicateEntry(f"{row[0]} is already in {self._label}; nothing was overwritten") from None
            return
        # A column of another type or a trigger may alter a value; then nothing is written.
        if changed := differing(row, kept):
            raise BadEntry(f"{self._label} does not keep the value it is given, nothing was written: {changed}")

    async def _dismiss(self, link: Any, dlq_id: str) -> bool:
        yes = f"CAST('1' AS {_type(self._table.types['dismissed'])})"
        sql = f"UPDATE {self._table.quoted} SET dismissed = {yes} WHERE dlq_id {_EQ} $1 RETURNING 1"
        return await link.fetchval(sql, dlq_id) is not None

    def _intent_rows(self) -> IntentRows:
        from dlq_sink.witness.postgres import PostgresIntents

        return PostgresIntents(self)

    async def _fetch(self, link: Any, dlq_id: str) -> Any:
        return await link.fetchrow(f"SELECT {self._columns} FROM {self._table.quoted} WHERE dlq_id {_EQ} $1", dlq_id)

    def __repr__(self) -> str:
        return f"PostgresDLQ({self._label!r}, table={self.table!r})"


def _reading(name: str, declared: str) -> str:
    # Read as text, a number of another type keeps its digits; the driver would widen or round it.
    as_is = declared in _READ_AS_IS or declared.startswith("timestamp")
    return name if as_is else f"CAST({name} AS pg_catalog.text)"


def places_for(declared: Sequence[str]) -> str:
    """Parameters that are all given as text."""
    return ", ".join(f"CAST(CAST(${n} AS pg_catalog.text) AS {_type(kind)})" for n, kind in enumerate(declared, 1))


def _type(declared: str) -> str:
    """A type as the catalog spells it, so that no search_path can give the name to another type."""
    return declared if "." in declared or declared.startswith(_OF_THE_GRAMMAR) else f"pg_catalog.{declared}"


async def _attach(link: Any, wanted: str | None, label: str) -> SinkTable:
    found = await _find(link, wanted, label)
    if found is not None:
        return found
    schema, _, name = (wanted or orders.DEFAULT_TABLE).rpartition(".")
    try:
        async with link.transaction(isolation="read_committed"):
            await link.execute("SELECT pg_advisory_xact_lock($1)", MAKING)
            if await _find(link, wanted, label) is None:
                for statement in orders.postgres_ddl(name, schema or "public"):
                    await link.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        raise ActRefused(f"{label}: this role may not make {name}; its owner can, with `dlq init`") from None
    except asyncpg.PostgresError as problem:
        if problem.sqlstate not in _RACED:
            raise
    made = await _find(link, wanted, label)
    if made is None:
        raise taken(name, label)
    return made


def _table(row: Any) -> SinkTable:
    types = dict(zip(row["names"], row["types"], strict=True))
    # Booleans come as words: for a list of booleans the driver first asks the server what that is.
    not_null = dict(zip(row["names"], (word == "true" for word in row["not_null"]), strict=True))
    is_open = pending(is_boolean=types["dismissed"] == "boolean", is_required=not_null["dismissed"])
    return SinkTable(row["schema"], row["name"], types, is_open, "captured_at, dlq_id")  # no column holds the insertion


async def _find(link: Any, wanted: str | None, label: str) -> SinkTable | None:
    rows = await link.fetch(_TABLES, sorted(orders.ANCHORS))
    tables = [_table(row) for row in rows]
    found = choose(tables, wanted, label)
    if found is not None and not rows[tables.index(found)]["has_key"]:
        fix = f"CREATE UNIQUE INDEX ON {found.quoted} (dlq_id)"
        raise NotADLQ(f"{label}: {found.shown} does not keep dlq_id unique, so an entry could be there twice; {fix}")
    return found

"""Intents in Postgres, over the sink's own connection: each act one round trip, so that a witness costs one commit.

What opens or fails one is synced; what resolves or renews it is not, and resolves many at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from dlq_sink.error import ActRefused, DuplicateEntry, NotADLQ
from dlq_sink.order_table import quoted
from dlq_sink.postgres import MAKING, places_for
from dlq_sink.rows import Value, refuse_nul, values
from dlq_sink.witness.table import COLUMNS, KEPT_SECONDS, LEASE_SECONDS, intent_name, postgres_ddl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dlq_sink.postgres import PostgresDLQ
    from dlq_sink.record import DeadLetteredOrder

_UNIQUE_VIOLATION = "23505"
_NOW = "pg_catalog.now()"
_EQ = "OPERATOR(pg_catalog.=)"
_LEASE = f"({_NOW} OPERATOR(pg_catalog.+) '{LEASE_SECONDS:g} seconds'::pg_catalog.interval)"
_OLD = f"({_NOW} OPERATOR(pg_catalog.-) '{KEPT_SECONDS:g} seconds'::pg_catalog.interval)"
_COLUMNS_OF = """
SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = $1 AND c.relname = $2
"""


class PostgresIntents:
    """Makes its table where it is missing."""

    lingers = True

    def __init__(self, sink: PostgresDLQ) -> None:
        self._sink = sink
        self._line = sink._line
        self._label = sink._label
        schema, _, table = sink.table.partition(".")
        name = intent_name(table, sink._label)
        types = self._line.call(lambda link, _: self._attach(link, schema, name), "attaches")
        self._table = f"{quoted(schema)}.{quoted(name)}"
        self._into = f"INSERT INTO {self._table} ({', '.join(COLUMNS[:-2])}) VALUES"
        self._insert = f"{self._into} ({places_for([types[name] for name in COLUMNS[:-3]])}, {_LEASE})"

    def open(self, entry: DeadLetteredOrder, owner: str, host: str) -> None:
        row = values(entry)
        refuse_nul(row, self._label)
        given = [value if value is None else str(value) for value in (*row, owner, host)]

        def spell() -> str:
            return f"{self._into} ({', '.join(map(_literal, given))}, {_LEASE})"

        # The id is new, so a row that a second try finds is this one: the first was committed after all.
        self._line.insert(self._insert, given, spell, _UNIQUE_VIOLATION)

    def resolve(self, placed: Mapping[str, str | None]) -> Sequence[str]:
        rows = ", ".join(f"({_literal(dlq_id)}, {_literal(order_id)})" for dlq_id, order_id in placed.items())
        done = self._line.script(
            f"UPDATE {self._table} i SET resolved_at = {_NOW}, venue_order_id = told.order_id "
            f"FROM (VALUES {rows}) AS told (dlq_id, order_id) "
            f"WHERE i.dlq_id {_EQ} told.dlq_id::pg_catalog.text AND i.resolved_at IS NULL"
        )
        if done == f"UPDATE {len(placed)}":
            return ()
        return self._line.call(lambda link, _: self._adopt(link, placed), "settles")

    def fail(self, entry: DeadLetteredOrder) -> None:
        """The entry, and the intent resolved, in one transaction."""
        self._line.call(lambda link, repeated: self._fail(link, entry, repeated), "settles")

    def renew(self, owner: str) -> None:
        mine = f"owner {_EQ} {_literal(owner)} AND resolved_at IS NULL"
        self._line.script(f"UPDATE {self._table} SET lease_until = {_LEASE} WHERE {mine}")

    def clean(self, most: int) -> int:
        """Delete old resolved intents, a few at a time; the number deleted."""
        old = f"SELECT dlq_id FROM {self._table} WHERE resolved_at OPERATOR(pg_catalog.<) {_OLD} LIMIT {most:d}"
        return int(self._line.script(f"DELETE FROM {self._table} WHERE dlq_id {_EQ} ANY (ARRAY({old}))").split()[-1])

    async def _attach(self, link: Any, schema: str, name: str) -> Mapping[str, str]:
        """The types of its columns."""
        found = await self._columns(link, schema, name)
        if not found:
            try:
                async with link.transaction():
                    await link.execute("SELECT pg_catalog.pg_advisory_xact_lock($1)", MAKING)
                    if not (found := await self._columns(link, schema, name)):
                        for statement in postgres_ddl(name, schema):
                            await link.execute(statement)
                        found = await self._columns(link, schema, name)
            except asyncpg.InsufficientPrivilegeError:
                raise ActRefused(
                    f"{self._label}: this role may not make {schema}.{name}, where intents are kept: let the owner of "
                    f"{schema} run the engine once with a witness, then GRANT SELECT, INSERT, UPDATE, DELETE on it"
                ) from None
        if not found.keys() >= set(COLUMNS):
            raise NotADLQ(f"{self._label} has another kind of table named {name}: rename it, or do without a witness")
        return found

    async def _columns(self, link: Any, schema: str, name: str) -> dict[str, str]:
        return {row[0]: row[1] for row in await link.fetch(_COLUMNS_OF, schema, name)}

    async def _adopt(self, link: Any, placed: Mapping[str, str | None]) -> list[str]:
        """Harmless for those that had no entry."""
        sql = f"UPDATE {self._table} SET venue_order_id = $2 WHERE dlq_id {_EQ} $1"
        found = []
        for dlq_id, order_id in placed.items():
            await link.execute(sql, dlq_id, order_id)
            if await self._sink._dismiss(link, dlq_id):
                found.append(dlq_id)
        return found

    async def _fail(self, link: Any, entry: DeadLetteredOrder, repeated: bool) -> None:
        row = values(entry)
        refuse_nul(row, self._label)
        with suppress(DuplicateEntry):  # a console had already found the order absent and made the entry
            await self._sink._insert_row(link, row, repeated)
        sql = f"UPDATE {self._table} SET resolved_at = {_NOW} WHERE dlq_id {_EQ} $1 AND resolved_at IS NULL"
        await link.execute(sql, entry.dlq_id)


def _literal(value: Value) -> str:
    """A value inside a statement, for a pooler, which keeps no prepared one, and for a list of values.

    In an E'' string a backslash means the same under every setting of the server.
    """
    if value is None:
        return "NULL"
    text = str(value).replace("\\", "\\\\").replace("'", "''")
    return f"E'{text}'"

"""Traps that a role plants into a Postgres catalog: functions, operators, types, views, policies, indexes that tell.

Each planted function is counted by the server itself (`track_functions`), which no rollback undoes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from backends.layouts import orders
from tests.support.owner_session import end_session

ROWS = 3
TABLE = "shop.order_dlq"
_BODY = (
    "BEGIN BEGIN INSERT INTO evil.witness VALUES ('called'); EXCEPTION WHEN OTHERS THEN NULL; END; RETURN {value}; END"
)


def function(name: str, arguments: str, returns: str, value: str, *, kind: str = "VOLATILE") -> str:
    body = _BODY.format(value=value)
    return f"CREATE FUNCTION {name}({arguments}) RETURNS {returns} LANGUAGE plpgsql {kind} AS $$ {body} $$"


def operator(name: str, left: str, right: str, value: str = "true", returns: str = "boolean") -> tuple[str, str]:
    own = f"evil.op_{abs(hash((name, left, right))) % 10**9}"
    return (
        function(own, f"a {left}, b {right}", returns, value),
        f"CREATE OPERATOR evil.{name} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = {own})",
    )


@dataclass(frozen=True)
class Trap:
    """`refused`: looking at the table at all would run it, so that nothing may be read."""

    name: str
    statements: tuple[str, ...]
    refused: bool = False


def _view(expression: str, *, table: str = TABLE) -> tuple[str, ...]:
    shown = ", ".join(name for name in orders.COLUMNS if name != "error")
    return (
        f"ALTER TABLE {table} RENAME TO hidden",
        f"CREATE VIEW {table} AS SELECT {shown}, {expression} AS error FROM shop.hidden",
    )


_TELL_TEXT = function("evil.tell", "a text", "text", "a")
_TELL_FIXED = function("evil.fixed", "a integer", "boolean", "true", kind="IMMUTABLE")
_TELL_ROW = function("evil.may", "a text", "boolean", "true")

SHADOWS = (
    Trap("octet_length", (
        function("evil.octet_length", "a varchar", "integer", "1"),
        function("evil.octet_length", "a text", "integer", "1"),
    )),
    Trap("substr", (function("evil.substr", "a text, b integer, c integer", "text", "a"),)),
    Trap("clocks", (
        function("evil.now", "", "timestamptz", "pg_catalog.now()"),
        function("evil.clock_timestamp", "", "timestamptz", "pg_catalog.now()"),
    )),
    Trap("greeting", (
        function("evil.version", "", "text", "'PostgreSQL 15.0'"),
        function("evil.current_schema", "", "name", "'evil'"),
    )),
    Trap("catalog functions", (
        function("evil.pg_is_in_recovery", "", "boolean", "false"),
        function("evil.format_type", "a oid, b integer", "text", "'text'"),
        function("evil.has_table_privilege", "a oid, b text", "boolean", "true"),
        function("evil.pg_backend_pid", "", "integer", "1"),
        function("evil.row_security_active", "a oid", "boolean", "false"),
    )),
    Trap("locks and notes", (
        function("evil.pg_advisory_xact_lock", "a integer", "integer", "1"),
        function("evil.pg_notify", "a text, b text", "integer", "1"),
        function("evil.pg_current_snapshot", "", "text", "'1:1:'"),
    )),
    Trap("unnest", (
        function("evil.unnest", "a text[]", "text", "a[1]"), function("evil.num_nulls", "a text", "integer", "0"),
    )),
    Trap("equal", (
        *operator("=", "text", "text"), *operator("=", "varchar", "text"), *operator("=", "integer", "integer"),
    )),
    Trap("compared", (
        *operator("<", "timestamptz", "timestamptz"), *operator(">", "text", "text"), *operator("<>", "text", "text"),
    )),
    Trap("matched", (
        *operator("~~*", "text", "text"), *operator("~", "text", "text"),
        *operator("||", "text", "text", "a", "text"),
    )),
    Trap("types", (
        function("evil.fine", "a varchar", "boolean", "true", kind="IMMUTABLE"),
        "CREATE DOMAIN evil.text AS varchar CHECK (evil.fine(VALUE))",
        "CREATE DOMAIN evil.oid AS integer", "CREATE DOMAIN evil.regclass AS varchar CHECK (evil.fine(VALUE))",
    )),
    Trap("catalog tables", tuple(
        f"CREATE VIEW evil.{name} AS SELECT x.* FROM pg_catalog.{name} x WHERE evil.may2()"
        for name in ("pg_class", "pg_namespace", "pg_roles", "pg_proc")
    )),
)  # fmt: skip
COLUMNS = (
    Trap("domain", (
        function("evil.fine2", "a text", "boolean", "true", kind="IMMUTABLE"),
        "CREATE DOMAIN evil.entry_id AS text CHECK (evil.fine2(VALUE))",
        f"ALTER TABLE {TABLE} ALTER dlq_id TYPE evil.entry_id",
    )),
    Trap("cast of an enum", (
        "CREATE TYPE evil.side AS ENUM ('buy', 'sell')",
        function("evil.side_text", "a evil.side", "text", "'buy'"),
        "CREATE CAST (evil.side AS text) WITH FUNCTION evil.side_text(evil.side) AS IMPLICIT",
        f"ALTER TABLE {TABLE} ALTER side TYPE evil.side USING side::text::evil.side",
    )),
    Trap("generated column", (
        function("evil.twice", "a text", "text", "a", kind="IMMUTABLE"),
        f"ALTER TABLE {TABLE} ADD more text GENERATED ALWAYS AS (evil.twice(error)) STORED",
    )),
    Trap("check", (_TELL_FIXED.replace("fixed", "fixed3"), f"ALTER TABLE {TABLE} ADD CHECK (evil.fixed3(1))")),
    Trap("trigger", (
        "CREATE FUNCTION evil.on_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
        f"CREATE TRIGGER mine BEFORE UPDATE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION evil.on_row()",
    )),
    Trap("rule", (
        _TELL_ROW.replace("may", "may3"), f"CREATE RULE mine AS ON UPDATE TO {TABLE} DO ALSO SELECT evil.may3('x')",
    )),
)  # fmt: skip
REFUSED = (
    Trap("policy", (
        _TELL_ROW, f"CREATE POLICY mine ON {TABLE} USING (evil.may(market_id))",
        f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY",
    ), refused=True),
    Trap("index", (_TELL_FIXED, f"CREATE INDEX ON {TABLE} ((evil.fixed(1)))"), refused=True),
    Trap("partial index", (
        _TELL_FIXED.replace("fixed", "fixed2"), f"CREATE INDEX ON {TABLE} (error) WHERE evil.fixed2(1)",
    ), refused=True),
    Trap("statistics", (
        _TELL_FIXED.replace("fixed", "fixed4"), f"CREATE STATISTICS evil.stats ON (evil.fixed4(1)), error FROM {TABLE}",
    ), refused=True),
    Trap("view", (_TELL_TEXT, *_view("evil.tell(error)")), refused=True),
    Trap("view over a view", (
        _TELL_TEXT.replace("tell", "tell2"), *_view("error"), "ALTER VIEW shop.order_dlq RENAME TO between",
        "CREATE VIEW shop.lowest AS SELECT evil.tell2(error) AS error FROM shop.hidden",
        "CREATE VIEW shop.order_dlq AS SELECT b.* FROM shop.between b WHERE EXISTS (SELECT error FROM shop.lowest)",
    ), refused=True),
    Trap("operator of a view", (
        *operator("%%", "text", "text", "a", "text"), *_view("(error OPERATOR(evil.%%) 'x')::text"),
    ), refused=True),
    Trap("query in a view", (
        _TELL_TEXT.replace("tell", "tell3"),
        *_view("query_to_xml('SELECT evil.tell3(''x'')', true, true, '')::text"),
    ), refused=True),
    Trap("ledger", (
        "CREATE SCHEMA dlq_console", "CREATE TABLE dlq_console.meta (key text, value text)",
        _TELL_ROW.replace("may", "may4"), "CREATE POLICY mine ON dlq_console.meta USING (evil.may4(key))",
        "ALTER TABLE dlq_console.meta ENABLE ROW LEVEL SECURITY",
        *(f"CREATE TABLE dlq_console.{name} (id integer)" for name in
          ("approval", "attempt", "audit", "audit_entry", "claim", "halt", "note")),
        "GRANT USAGE ON SCHEMA dlq_console TO PUBLIC", "GRANT SELECT ON ALL TABLES IN SCHEMA dlq_console TO PUBLIC",
    ), refused=True),
)  # fmt: skip
PLAIN_VIEW = _view("pg_catalog.lower(error)")
TRAPS = (*SHADOWS, *COLUMNS, *REFUSED)


class HostileCatalog:
    """A database in which `mallory` owns the store and the schema that every role searches first."""

    def __init__(self, admin: str) -> None:
        self.admin = admin
        self.database = admin.rpartition("/")[2]
        self.mallory, self.ops = f"mallory_{self.database}", f"ops_{self.database}"
        self.looking = admin.replace("postgres@", f"{self.ops}@", 1)

    async def prepare(self) -> None:
        await self.tell(
            f"ALTER DATABASE {self.database} SET track_functions = 'all'",
            f"ALTER DATABASE {self.database} SET search_path = evil, shop, public, pg_catalog",
            f"CREATE ROLE {self.mallory} LOGIN",
            f"CREATE ROLE {self.ops} LOGIN",
            f"GRANT CREATE ON DATABASE {self.database} TO {self.mallory}",
        )

    async def restore(self) -> None:
        """Before anybody else works in this database."""
        await self.tell(
            "SET search_path = pg_catalog",
            "DROP SCHEMA IF EXISTS evil, shop, dlq_console CASCADE",
            f"ALTER DATABASE {self.database} RESET ALL",
        )

    async def plant(self, traps: Sequence[Trap]) -> None:
        """A store of mallory's with these traps, in place of the one before."""
        ddl = [
            one.replace("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER")
            for one in orders.postgres_ddl("order_dlq", "shop")
        ]
        fill = (
            f"INSERT INTO {TABLE} (dlq_id, captured_at, venue_name, market_id, side, quantity, order_type, error) "
            "SELECT 'dlq_' || pg_catalog.lpad(n::pg_catalog.text, 16, '0'), pg_catalog.now(), 'alpaca', 'AAPL', 'buy', "
            f"1, 'limit', 'HTTP 429 after 3 attempts' FROM pg_catalog.generate_series(1, {ROWS}) n"
        )
        await self.tell(
            "SET search_path = pg_catalog",
            "DROP SCHEMA IF EXISTS evil, shop, dlq_console CASCADE",
            f"SET ROLE {self.mallory}",
            *("CREATE SCHEMA evil", "CREATE SCHEMA shop", "CREATE TABLE evil.witness (what text)"),
            "GRANT ALL ON SCHEMA evil, shop TO PUBLIC",
            *(ddl if not any(trap.name in ("domain", "cast of an enum") for trap in traps) else ddl[:1]),
            fill,
            function("evil.may2", "", "boolean", "true"),
            *(statement for trap in traps for statement in trap.statements),
            "GRANT ALL ON ALL TABLES IN SCHEMA evil, shop TO PUBLIC",
        )
        await self.tell("SELECT pg_catalog.pg_stat_reset()")

    async def calls(self) -> dict[str, int]:
        """How often each planted function ran, once every other session has ended."""
        end_session(self.admin)  # the tests keep one
        connection = await asyncpg.connect(self.admin)
        try:
            await connection.execute("SET search_path = pg_catalog")
            others = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            async with asyncio.timeout(30):
                while await connection.fetchval(f"{others} AND backend_type = 'client backend'"):
                    await asyncio.sleep(0.01)
            rows = await connection.fetch(
                "SELECT funcname::pg_catalog.text AS name, calls FROM pg_stat_user_functions "
                "WHERE schemaname = 'evil' AND calls > 0"
            )
            return {row["name"]: row["calls"] for row in rows}
        finally:
            await connection.close()

    async def tell(self, *statements: str) -> Any:
        connection = await asyncpg.connect(self.admin)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

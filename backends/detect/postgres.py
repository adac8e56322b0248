"""Reads the Postgres catalog: tables, columns, triggers, indexes and rights, and reports on an order table there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

from dlq_sink.error import NotADLQ

from backends.detect.asked import CatalogConnection
from backends.detect.candidates import TELLING, Attached, Candidate, CatalogColumn, drift, order_report, type_drift
from backends.layouts import orders
from backends.layouts.columns import spelling
from backends.ledger.names import SCHEMA
from backends.store_info import STANDBY, Finding

# A domain by what it is made of: a cast to the domain itself would run its checks.
COLUMN_TYPE = """CASE WHEN ty.typtype <> 'd' THEN format_type(a.atttypid, a.atttypmod) ELSE (
  WITH RECURSIVE b(oid, mod) AS (SELECT ty.typbasetype, ty.typtypmod UNION ALL
    SELECT d.typbasetype, d.typtypmod FROM b JOIN pg_type d ON d.oid = b.oid AND d.typtype = 'd')
  SELECT format_type(b.oid, b.mod) FROM b JOIN pg_type f ON f.oid = b.oid AND f.typtype <> 'd') END"""


def flags(condition: str) -> str:
    """SQL for one letter a column, y or n: for a list of booleans the driver first asks the server what that is."""
    return f"string_agg(CASE WHEN {condition} THEN 'y' ELSE 'n' END, '' ORDER BY a.attnum)"


_SPELLINGS = ", ".join(f"'{spelling(name)}'" for name in TELLING)
# Tables of the server's own have smaller oids: their columns, thousands, need no look.
_TABLES = f"""
WITH told AS MATERIALIZED (
  SELECT DISTINCT x.attrelid FROM pg_attribute x
  WHERE x.attrelid >= 16384 AND lower(replace(x.attname, '_', '')) IN ({_SPELLINGS}))
SELECT n.nspname, c.relname, c.relkind::text,
       array_agg(a.attname::text ORDER BY a.attnum),
       array_agg({COLUMN_TYPE} ORDER BY a.attnum),
       {flags("a.attnotnull")},
       {flags("has_schema_privilege(n.oid, 'usage') AND has_column_privilege(c.oid, a.attnum, 'select')")},
       has_schema_privilege(n.oid, 'usage')
FROM told JOIN pg_class c ON c.oid = told.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type ty ON ty.oid = a.atttypid
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname !~ '^(pg_|information_schema$|{SCHEMA}$)'
GROUP BY c.oid, n.oid, n.nspname, c.relname, c.relkind ORDER BY 1, 2
"""
# Includes every role that this one could take by SET ROLE, since it could write whatever they may write.
_RIGHTS = f"""
SELECT current_user::text, NOT pg_is_in_recovery() AND EXISTS (
  SELECT 1 FROM pg_roles r, pg_class c
  WHERE c.oid = CAST($1 AS regclass) AND pg_has_role(current_user, r.oid, 'member') AND (
    r.rolsuper OR r.rolcreaterole OR r.oid = c.relowner OR c.relkind = 'v'
    OR r.rolname IN ('pg_write_all_data', 'pg_write_server_files', 'pg_execute_server_program')
    OR has_table_privilege(r.oid, c.oid, 'insert, update, delete, truncate, trigger')
    OR has_any_column_privilege(r.oid, c.oid, 'insert, update')
    OR has_schema_privilege(r.oid, c.relnamespace, 'create')
    OR has_database_privilege(r.oid, current_database(), 'create')
    OR EXISTS (SELECT 1 FROM pg_class l JOIN pg_namespace n ON n.oid = l.relnamespace AND n.nspname = '{SCHEMA}'
               WHERE l.relkind = 'r' AND has_table_privilege(r.oid, l.oid, 'insert, update, delete, truncate'))))
"""
_TRIGGERS = """
SELECT t.tgenabled::text, t.tgtype::int, p.prosrc,
  (SELECT array_agg(a.attname::text) FROM unnest(t.tgattr) k
   JOIN pg_attribute a ON a.attrelid = t.tgrelid AND a.attnum = k)
FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = CAST($1 AS regclass) AND NOT t.tgisinternal
"""
_INDEXES = """
SELECT i.indisunique AND i.indpred IS NULL, i.indpred IS NULL,
  (SELECT array_agg(a.attname::text ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY k(num, n)
   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num),
  (SELECT a.attname::text FROM pg_attribute a, pg_opclass o, pg_am m WHERE a.attrelid = i.indrelid
   AND a.attnum = i.indkey[0] AND i.indpred IS NULL AND i.indcollation[0] = a.attcollation AND o.oid = i.indclass[0]
   AND o.opcdefault AND m.oid = o.opcmethod AND m.amname = 'btree')
FROM pg_index i WHERE i.indrelid = CAST($1 AS regclass) AND i.indisvalid
"""
_INSERT, _DELETE, _UPDATE, _TRUNCATE = 4, 8, 16, 32  # bits of pg_trigger.tgtype
_NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "double precision")


def told(letters: str) -> list[bool]:
    """What `flags` says, column by column."""
    return [letter == "y" for letter in letters]


async def tables(connection: CatalogConnection) -> list[Candidate]:
    result = await connection.exec_driver_sql(_TABLES)
    found = []
    for row in result.fetchall():
        schema, name, kind, names, types, not_nulls, readable, is_usable = tuple(row)
        readable = told(readable)
        columns = [CatalogColumn(*column) for column in zip(names, types, told(not_nulls), strict=True)]
        found.append(
            Candidate(
                schema,
                name,
                "table" if kind in ("r", "p") else "view",
                tuple(column for column, may in zip(columns, readable, strict=True) if may),
                tuple(column.name for column, may in zip(columns, readable, strict=True) if not may),
                bool(is_usable),
            )
        )
    return found


async def rights(connection: CatalogConnection, table: str) -> tuple[str, bool]:
    """The role's name, and whether it could write this table or the ledger in any way."""
    role, can_write = (await connection.exec_driver_sql(_RIGHTS, (table,))).one()
    return str(role), bool(can_write)


STANDBY_FINDING = Finding(
    STANDBY, "this server is a standby: it can only be read, and changes are looked for; attach the primary to act"
)


async def is_standby(connection: CatalogConnection) -> bool:
    return bool((await connection.exec_driver_sql("SELECT pg_is_in_recovery()")).scalar())


async def indexes_of(connection: CatalogConnection, table: str) -> list[tuple[Any, ...]]:
    """For each index: unique and not partial, not partial, its columns in order, and the one whose order it has."""
    return [tuple(row) for row in (await connection.exec_driver_sql(_INDEXES, (table,))).fetchall()]


async def is_partitioned(connection: CatalogConnection, table: str) -> bool:
    kind = "SELECT relkind::text FROM pg_class WHERE oid = CAST($1 AS regclass)"
    return str((await connection.exec_driver_sql(kind, (table,))).scalar_one()) == "p"


def bare(label: str, found: Candidate, *, read_only: bool) -> Attached:
    """The order table without a report on it. Raises NotADLQ where nobody could tell what is open."""
    dismissed, retries = found.column("dismissed"), found.column("retry_count")
    if dismissed is None or not dismissed.type.startswith(("boolean", *_NUMBERS)):
        held = "" if dismissed is None else dismissed.type
        raise NotADLQ(f"{label}: {found.shown}.dismissed is {held}: cannot tell what is open")
    info = order_report(label, "postgresql", found, "captured_at", read_only=read_only)
    counts_retries = retries is not None and retries.type.startswith(_NUMBERS)
    return Attached(info, found, by_rowid=False, counts_retries=counts_retries)


async def report(connection: CatalogConnection, label: str, found: Candidate, *, read_only: bool) -> Attached:
    role, can_write = await rights(connection, found.quoted)
    triggers = [tuple(row) for row in (await connection.exec_driver_sql(_TRIGGERS, (found.quoted,))).fetchall()]
    indexes = await indexes_of(connection, found.quoted)
    held_types = {column.name: column.type for column in found.columns}
    findings = [
        *drift(found),
        *type_drift(found, held_types, orders.POSTGRES_TYPES),
        *_holes(found, triggers),
        *_index_holes(found, indexes),
    ]
    made = bare(label, found, read_only=read_only)
    by: Literal["client", "database"] = "client" if can_write else "database"
    info = replace(made.info, read_only_enforced_by=by, role=role, findings=tuple(findings))
    indexed = frozenset(str(leading) for *_, leading in indexes if leading is not None)
    return replace(made, info=info, channel=_channel(triggers), indexed=indexed)


def _holes(found: Candidate, triggers: list[tuple[Any, ...]]) -> list[Finding]:
    if found.kind != "table":
        return [Finding("view", f"{found.shown} is a view: it can be read, acts go to the table behind it")]
    # The type json has no equality operator.
    compared = tuple(
        f"{c.name}::text" if c.type == "json" else c.name for c in found.columns if c.name in found.identity
    )
    worm = orders.postgres_worm(found.name, found.schema or "public", columns=compared, mark="console_worm")
    fix = ";\n".join(worm) + ";"
    guards = [trigger for trigger in triggers if "raise" in trigger[2].lower() and trigger[0] != "D"]
    findings, seldom = [], []
    for bit, code, text in (
        (_UPDATE, "no-update-trigger", "can be changed"),
        (_DELETE, "no-delete-trigger", "entries can be deleted"),
        (_TRUNCATE, "no-truncate-trigger", "the table can be truncated"),
    ):
        mine = [guard for guard in guards if guard[1] & bit and _covers(found, guard)]
        if not mine:
            what = f"identity columns {text}" if bit == _UPDATE else text
            findings.append(Finding(code, f"{found.shown}: {what} (no trigger forbids it)", fix))
        elif not any(guard[0] == "A" for guard in mine):
            seldom.append(text)
    if seldom:
        text = (
            f"{found.shown}: the WORM triggers do not fire for session_replication_role = replica (not ENABLE ALWAYS)"
        )
        findings.append(Finding("trigger-not-always", text, fix))
    return findings


def _covers(found: Candidate, guard: tuple[Any, ...]) -> bool:
    """A trigger on certain columns guards only those."""
    return not guard[3] or set(found.identity) <= set(guard[3])


def _index_holes(found: Candidate, indexes: list[tuple[Any, ...]]) -> list[Finding]:
    if found.kind != "table":
        return []
    findings = []
    if not any(unique and names == ["dlq_id"] for unique, _, names, _ in indexes):
        findings.append(
            Finding(
                "no-unique-id",
                f"{found.shown}.dlq_id has no unique index: finding an entry reads the whole table",
                f"CREATE UNIQUE INDEX CONCURRENTLY ON {found.quoted} (dlq_id)",
            )
        )
    if not any(whole and names and names[0] == "captured_at" for _, whole, names, _ in indexes):
        findings.append(
            Finding(
                "no-captured-index",
                f"{found.shown} has no index on captured_at: pages of a large store are slow",
                orders.postgres_index(found.name, found.schema or "public").replace("INDEX", "INDEX CONCURRENTLY", 1),
            )
        )
    return findings


def _channel(triggers: list[tuple[Any, ...]]) -> str | None:
    """The channel of a trigger that notifies of inserts and of updates."""
    heard: dict[str, int] = {}
    for enabled, kind, source, _ in triggers:
        match = re.search(r"pg_notify\(\s*'((?:[^']|'')+)'\s*,", source)
        if match and enabled != "D":
            name = match[1].replace("''", "'")
            heard[name] = heard.get(name, 0) | kind
    return next((name for name, kind in heard.items() if kind & _INSERT and kind & _UPDATE), None)

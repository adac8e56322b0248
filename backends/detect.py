"""Which dead-letter queue lives in this database: found by its columns, with its drift, holes and privileges."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.layouts import orders
from backends.records import Finding, StoreInfo
from backends.store import BadTarget, NotADLQ
from backends.target import SQLiteTarget, Target

_LAYOUTS = (orders,)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    not_null: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A table that looks like a dead-letter queue, with what its database says about it."""

    schema: str | None
    name: str
    kind: str  # "table" or "view"
    columns: tuple[Column, ...]
    readable: bool = True

    @property
    def shown(self) -> str:
        return self.name if self.schema in (None, "public") else f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        name = orders.quoted(self.name)
        return name if self.schema is None else f"{orders.quoted(self.schema)}.{name}"

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class Attached:
    """Everything the reader and the writer need to know about the table they work on."""

    info: StoreInfo
    found: Found
    by_rowid: bool
    channel: str | None = None  # what the store notifies on, where it does


async def detect(connection: AsyncConnection, target: Target, table: str | None, *, read_only: bool) -> Attached:
    if isinstance(target, SQLiteTarget):
        found = _choose(await _sqlite_tables(connection), table, target.label)
        return await _sqlite_report(connection, target, found, read_only=read_only)
    found = _choose(await _postgres_tables(connection), table, target.label)
    return await _postgres_report(connection, target.label, found, read_only=read_only)


def _choose(candidates: list[Found], wanted: str | None, label: str) -> Found:
    matching = [found for found in candidates if any(_fits(found, layout.ANCHORS) for layout in _LAYOUTS)]
    if wanted is not None:
        named = [found for found in matching if wanted in (found.name, found.shown, f"{found.schema}.{found.name}")]
        if not named:
            there = ", ".join(found.shown for found in matching) or "none"
            raise BadTarget(f"{label} has no dead-letter queue named {wanted}; there are: {there}")
        matching = named
    tables = [found for found in matching if found.kind == "table"] or matching
    if not tables:
        raise NotADLQ(
            f"{label} has no dead-letter queue: no table with the columns {', '.join(sorted(orders.ANCHORS))}"
        )
    if len(tables) > 1:
        names = ", ".join(sorted(found.shown for found in tables))
        raise BadTarget(f"{label} has several dead-letter queues: say which with --table ({names})")
    found = tables[0]
    if not found.readable:
        raise NotADLQ(f"{label}: {found.shown} is a dead-letter queue, but this role may not read it")
    missing = orders.REQUIRED - {column.name for column in found.columns}
    if missing:
        raise NotADLQ(f"{label}: {found.shown} lacks the column {', '.join(sorted(missing))}: cannot work with it")
    return found


def _fits(found: Found, anchors: frozenset[str]) -> bool:
    return anchors <= {column.name for column in found.columns}


def _drift(found: Found) -> list[Finding]:
    names = {column.name for column in found.columns}
    findings = [
        Finding("missing-column", f"{found.shown} has no column {name}: {effect}")
        for name, effect in orders.DEGRADED.items()
        if name not in names
    ]
    if extra := sorted(names - set(orders.COLUMNS)):
        findings.append(Finding("extra-column", f"{found.shown} has further columns, left alone: {', '.join(extra)}"))
    return findings


async def _sqlite_tables(connection: AsyncConnection) -> list[Found]:
    rows = await connection.exec_driver_sql(
        'SELECT m.name, m.type, c.name, c.type, c."notnull" OR c.pk FROM sqlite_master m '
        "JOIN pragma_table_xinfo(m.name) c WHERE m.type IN ('table', 'view') "
        "AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND m.name NOT LIKE 'console\\_%' ESCAPE '\\' ORDER BY m.name, c.cid"
    )
    tables: dict[tuple[str, str], list[Column]] = {}
    for name, kind, column, type_, not_null in rows:
        tables.setdefault((name, kind), []).append(Column(column, (type_ or "").lower(), bool(not_null)))
    return [Found(None, name, kind, tuple(columns)) for (name, kind), columns in tables.items()]


async def _sqlite_report(
    connection: AsyncConnection, target: SQLiteTarget, found: Found, *, read_only: bool
) -> Attached:
    findings = _drift(found)
    triggers = [
        _plain(row[0])
        for row in await connection.execute(
            sa.text("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :name"),
            {"name": found.name},
        )
    ]
    findings += _sqlite_holes(found, triggers)
    by_rowid = found.kind == "table" and await _has_rowid(connection, found)
    if not await _sqlite_unique(connection, found):
        findings.append(
            Finding(
                "no-unique-id",
                f"{found.shown}.dlq_id has no unique index: finding an entry reads the whole table",
                f"CREATE UNIQUE INDEX {orders.quoted(found.name + '_id')} ON {found.quoted} (dlq_id)",
            )
        )
    journal = str((await connection.exec_driver_sql("PRAGMA journal_mode")).scalar())
    if journal != "wal":
        findings.append(
            Finding(
                "journal-mode",
                f"journal mode is {journal}: while the console writes, the engine's reads wait",
            )
        )
    if read_only and target.immutable:
        findings.append(Finding("immutable", "opened as immutable: what the engine writes meanwhile is not seen"))
    findings.append(
        Finding(
            "busy-timeout",
            "an engine that opens this file with a busy timeout of 0 may fail while the console writes",
        )
    )
    writable = os.access(target.path, os.W_OK) or os.access(target.path.absolute().parent, os.W_OK)
    info = StoreInfo(
        label=target.label,
        dialect="sqlite",
        layout=orders.NAME,
        table=found.shown,
        columns=tuple(name for name in orders.COLUMNS if found.column(name)),
        order="rowid" if by_rowid else "captured_at",
        read_only=read_only,
        read_only_enforced_by="client" if writable else "database",
        role="",
        findings=tuple(findings),
    )
    return Attached(info, found, by_rowid)


def _plain(sql: str | None) -> str:
    return re.sub(r"\s+", " ", sql or "").lower()


def _sqlite_holes(found: Found, triggers: list[str]) -> list[Finding]:
    if found.kind != "table":
        return [Finding("view", f"{found.shown} is a view: it can be read, acts go to the table behind it")]
    holes = {
        "update": ("no-update-trigger", "identity columns can be changed", r"before update|after update"),
        "delete": ("no-delete-trigger", "entries can be deleted", r"before delete|after delete"),
        "replace": ("replace-hole", "INSERT OR REPLACE can overwrite an entry unseen", r"before insert"),
    }
    return [
        Finding(code, f"{found.shown}: {text} (no trigger forbids it)", orders.sqlite_trigger(found.name, kind))
        for kind, (code, text, pattern) in holes.items()
        if not any(re.search(pattern, sql) and "raise" in sql for sql in triggers)
    ]


async def _has_rowid(connection: AsyncConnection, found: Found) -> bool:
    without = await connection.execute(
        sa.text("SELECT wr FROM pragma_table_list WHERE name = :name AND schema = 'main'"),
        {"name": found.name},
    )
    return not without.scalar()


async def _sqlite_unique(connection: AsyncConnection, found: Found) -> bool:
    rows = await connection.execute(
        sa.text(
            'SELECT l.name FROM pragma_index_list(:name) l WHERE l."unique" AND NOT l.partial '
            "AND (SELECT group_concat(i.name) FROM pragma_index_info(l.name) i) = 'dlq_id' "
            "UNION ALL SELECT name FROM pragma_table_info(:name) WHERE pk AND name = 'dlq_id'"
        ),
        {"name": found.name},
    )
    return rows.first() is not None


_POSTGRES_TABLES = """
SELECT n.nspname, c.relname, c.relkind::text, has_table_privilege(c.oid, 'select') AND has_schema_privilege(n.oid, 'usage'),
       array_agg(a.attname::text ORDER BY a.attnum),
       array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum),
       array_agg(a.attnotnull ORDER BY a.attnum)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname !~ '^(pg_|information_schema$|dlq_console$)'
  AND EXISTS (SELECT 1 FROM pg_attribute x WHERE x.attrelid = c.oid AND x.attname = 'dlq_id')
GROUP BY c.oid, n.oid, n.nspname, c.relname, c.relkind ORDER BY 1, 2
"""


async def _postgres_tables(connection: AsyncConnection) -> list[Found]:
    rows = await connection.exec_driver_sql(_POSTGRES_TABLES)
    return [
        Found(
            schema,
            name,
            "table" if kind in ("r", "p") else "view",
            tuple(Column(*column) for column in zip(names, types, not_nulls, strict=True)),
            readable,
        )
        for schema, name, kind, readable, names, types, not_nulls in rows
    ]


_POSTGRES_RIGHTS = """
SELECT current_user::text,
  NOT pg_is_in_recovery() AND (
    r.rolsuper OR pg_has_role(current_user, c.relowner, 'member')
    OR has_table_privilege(c.oid, 'insert, update, delete, truncate')
    OR has_any_column_privilege(c.oid, 'insert, update')
    OR pg_has_role(current_user, 'pg_write_all_data', 'member')
    OR pg_has_role(current_user, 'pg_write_server_files', 'member')
    OR pg_has_role(current_user, 'pg_execute_server_program', 'member')
    OR has_schema_privilege(c.relnamespace, 'create'))
FROM pg_class c, pg_roles r WHERE c.oid = CAST(:table AS regclass) AND r.rolname = current_user
"""
_POSTGRES_TRIGGERS = """
SELECT t.tgenabled::text, t.tgtype::int, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid = CAST(:table AS regclass) AND NOT t.tgisinternal
"""
_POSTGRES_INDEXES = """
SELECT i.indisunique AND i.indpred IS NULL, i.indpred IS NULL,
  (SELECT array_agg(a.attname::text ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY k(num, n)
   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num)
FROM pg_index i WHERE i.indrelid = CAST(:table AS regclass) AND i.indisvalid
"""
_UPDATE, _DELETE, _TRUNCATE, _INSERT = 16, 8, 32, 4


async def _postgres_report(connection: AsyncConnection, label: str, found: Found, *, read_only: bool) -> Attached:
    args = {"table": found.quoted}
    role, can_write = (await connection.execute(sa.text(_POSTGRES_RIGHTS), args)).one()
    triggers = [tuple(row) for row in await connection.execute(sa.text(_POSTGRES_TRIGGERS), args)]
    indexes = [tuple(row) for row in await connection.execute(sa.text(_POSTGRES_INDEXES), args)]
    findings = [*_drift(found), *_postgres_holes(found, triggers), *_postgres_index_holes(found, indexes)]
    enforced: Literal["database", "client"] = "client" if can_write else "database"
    info = StoreInfo(
        label=label,
        dialect="postgresql",
        layout=orders.NAME,
        table=found.shown,
        columns=tuple(name for name in orders.COLUMNS if found.column(name)),
        order="captured_at",
        read_only=read_only,
        read_only_enforced_by=enforced,
        role=role,
        findings=tuple(findings),
    )
    return Attached(info, found, by_rowid=False, channel=_channel(triggers))


def _postgres_holes(found: Found, triggers: list[tuple[Any, ...]]) -> list[Finding]:
    if found.kind != "table":
        return [Finding("view", f"{found.shown} is a view: it can be read, acts go to the table behind it")]
    fix = ";\n".join(orders.postgres_worm(found.name, found.schema or "public"))
    guards = [(enabled, kind) for enabled, kind, source in triggers if "raise" in source.lower()]
    holes = (
        (_UPDATE, "no-update-trigger", "identity columns can be changed"),
        (_DELETE, "no-delete-trigger", "entries can be deleted"),
        (_TRUNCATE, "no-truncate-trigger", "the table can be truncated"),
    )
    findings = [
        Finding(code, f"{found.shown}: {text} (no trigger forbids it)", fix)
        for bit, code, text in holes
        if not any(kind & bit and enabled != "D" for enabled, kind in guards)
    ]
    if any(enabled == "O" for enabled, _ in guards):
        text = (
            f"{found.shown}: the WORM triggers do not fire for session_replication_role = replica (not ENABLE ALWAYS)"
        )
        findings.append(Finding("trigger-not-always", text, fix))
    return findings


def _postgres_index_holes(found: Found, indexes: list[tuple[Any, ...]]) -> list[Finding]:
    if found.kind != "table":
        return []
    findings = []
    if not any(unique and names == ["dlq_id"] for unique, _, names in indexes):
        findings.append(
            Finding(
                "no-unique-id",
                f"{found.shown}.dlq_id has no unique index: finding an entry reads the whole table",
                f"CREATE UNIQUE INDEX CONCURRENTLY ON {found.quoted} (dlq_id)",
            )
        )
    if not any(whole and names and names[0] == "captured_at" for _, whole, names in indexes):
        findings.append(
            Finding(
                "no-captured-index",
                f"{found.shown} has no index on captured_at: pages of a large store are slow",
                orders.postgres_index(found.name, found.schema or "public").replace("INDEX", "INDEX CONCURRENTLY", 1),
            )
        )
    return findings


def _channel(triggers: list[tuple[Any, ...]]) -> str | None:
    """The channel of a trigger that tells of inserts and of updates alike."""
    heard: dict[str, int] = {}
    for enabled, kind, source in triggers:
        match = re.search(r"pg_notify\(\s*'([^']+)'\s*,", source)
        if match and enabled != "D":
            heard[match[1]] = heard.get(match[1], 0) | kind
    return next((name for name, kind in heard.items() if kind & _INSERT and kind & _UPDATE), None)


def with_finding(attached: Attached, finding: Finding) -> Attached:
    return replace(attached, info=replace(attached.info, findings=(*attached.info.findings, finding)))

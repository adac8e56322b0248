"""Reads the catalog of a SQLite file and reports on its order table: columns, triggers, indexes, who could write it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

from backends.detect.asked import CatalogConnection
from backends.detect.candidates import Attached, Candidate, CatalogColumn, drift, order_report, type_drift
from backends.layouts import orders
from backends.sqlite_file import could_be_written
from backends.store_info import Finding
from backends.target import SQLiteTarget

_TABLES = (
    'SELECT m.name, m.type, c.name, c.type, c."notnull" OR (c.pk AND t.wr), t.wr FROM sqlite_master m '
    "JOIN pragma_table_list t ON t.name = m.name AND t.schema = 'main' JOIN pragma_table_xinfo(m.name) c "
    "WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "AND m.name NOT LIKE 'console\\_%' ESCAPE '\\' ORDER BY m.name, c.cid"
)
_INDEXES = (
    'SELECT l."unique" AND NOT l.partial, (SELECT group_concat(i.name) FROM pragma_index_info(l.name) i), m.sql, '
    "(SELECT x.name FROM pragma_index_xinfo(l.name) x WHERE x.seqno = 0 AND x.coll = 'BINARY' AND NOT l.partial) "
    "FROM pragma_index_list(?) l LEFT JOIN sqlite_master m ON m.type = 'index' AND m.name = l.name "
    "UNION ALL SELECT 1, name, NULL, NULL FROM pragma_table_info(?) WHERE pk AND name = 'dlq_id' "
    "AND (SELECT count(*) FROM pragma_table_info(?) WHERE pk) = 1"
)
_TRIGGERS = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE"
_WITHOUT_ROWID = "SELECT wr FROM pragma_table_list WHERE name = ? AND schema = 'main'"
_TRIGGER = re.compile(
    r"create (?:temp |temporary )?trigger (?:if not exists )?"
    r"(?:\"(?:[^\"]|\"\")+\"|\[[^\]]+\]|`[^`]+`|[^\s\"\[`]+) "
    r"(?P<when>before |after )?(?P<verb>insert|update|delete)(?: of (?P<columns>.+?))? on "
)


async def tables(connection: CatalogConnection) -> list[Candidate]:
    result = await connection.exec_driver_sql(_TABLES)
    grouped: dict[tuple[str, str, bool], list[CatalogColumn]] = {}
    for row in result.fetchall():
        name, kind, column, type_, not_null, without_rowid = tuple(row)
        key = (name, "table" if kind == "table" else "view", bool(without_rowid))
        grouped.setdefault(key, []).append(CatalogColumn(column, (type_ or "").lower(), bool(not_null)))
    return [Candidate(None, name, kind, tuple(columns)) for (name, kind, _), columns in grouped.items()]


def bare(target: SQLiteTarget, found: Candidate, *, by_rowid: bool, read_only: bool) -> Attached:
    """The table without a report on it."""
    order = "rowid" if by_rowid else "captured_at"
    info = order_report(target.label, "sqlite", found, order, read_only=read_only)
    return Attached(info, found, by_rowid=by_rowid, counts_retries="retry_count" in info.columns)


async def report(connection: CatalogConnection, target: SQLiteTarget, found: Candidate, *, read_only: bool) -> Attached:
    rowid = await has_rowid(connection, found)
    triggers = await connection.exec_driver_sql(_TRIGGERS, (found.name,))
    indexes = [tuple(row) for row in (await connection.exec_driver_sql(_INDEXES, (found.name,) * 3)).fetchall()]
    journal = str((await connection.exec_driver_sql("PRAGMA journal_mode")).scalar())
    held = {column.name: orders.sqlite_affinity(column.type) for column in found.columns}
    findings = [
        *drift(found),
        *(type_drift(found, held, orders.SQLITE_AFFINITIES) if found.kind == "table" else ()),
        *_holes(found, [_plain(row[0]) for row in triggers.fetchall()], rowid=rowid),
        *_index_holes(found, indexes),
        *_file_findings(journal, target, read_only=read_only),
    ]
    made = bare(target, found, by_rowid=rowid, read_only=read_only)
    by: Literal["client", "database"] = "client" if could_be_written(target.path) else "database"
    indexed = frozenset(str(leading) for *_, leading in indexes if leading is not None)
    info = replace(made.info, read_only_enforced_by=by, findings=tuple(findings))
    return replace(made, info=info, indexed=indexed)


def _plain(sql: str | None) -> str:
    return re.sub(r"\s+", " ", sql or "").strip().lower()


def _holes(found: Candidate, triggers: list[str], *, rowid: bool) -> list[Finding]:
    if found.kind != "table":
        return [Finding("view", f"{found.shown} is a view: it can be read, acts go to the table behind it")]
    guards = [(match, sql) for sql in triggers if "raise" in sql and (match := _TRIGGER.match(sql))]

    def fix(kind: str, columns: tuple[str, ...] = found.identity) -> str:
        return orders.sqlite_trigger(found.name, kind, columns=columns, rowid=rowid, mark="console_worm")

    findings = []
    if open_columns := _unguarded(found, [match for match, _ in guards if match["verb"] == "update"]):
        which = "identity columns" if open_columns == found.identity else ", ".join(open_columns)
        text = f"{found.shown}: {which} can be changed (no trigger forbids it)"
        findings.append(Finding("no-update-trigger", text, fix("update", open_columns)))
    if not any(match["verb"] == "delete" for match, _ in guards):
        text = f"{found.shown}: entries can be deleted (no trigger forbids it)"
        findings.append(Finding("no-delete-trigger", text, fix("delete")))
    if not any(match["verb"] == "insert" and match["when"] != "after " and "dlq_id" in sql for match, sql in guards):
        text = f"{found.shown}: INSERT OR REPLACE can overwrite an entry unseen (no trigger forbids it)"
        findings.append(Finding("replace-hole", text, fix("replace")))
    return findings


def _unguarded(found: Candidate, guards: list[re.Match[str]]) -> tuple[str, ...]:
    guarded: set[str] = set()
    for match in guards:
        listed = match["columns"]
        guarded |= {name.strip(' "[]`') for name in listed.split(",")} if listed else set(found.identity)
    return tuple(name for name in found.identity if name not in guarded)


async def has_rowid(connection: CatalogConnection, found: Candidate) -> bool:
    if found.kind != "table":
        return False
    without = await connection.exec_driver_sql(_WITHOUT_ROWID, (found.name,))
    return not without.scalar()


def _index_holes(found: Candidate, indexes: list[tuple[Any, ...]]) -> list[Finding]:
    if found.kind != "table":
        return []
    findings = []
    if not any(unique and names == "dlq_id" for unique, names, *_ in indexes):
        text = f"{found.shown}.dlq_id has no unique index: finding an entry reads the whole table"
        name = orders.named(found.name, "_console_id")
        findings.append(Finding("no-unique-id", text, f"CREATE UNIQUE INDEX {name} ON {found.quoted} (dlq_id)"))
    if not any((names or "").startswith("dismissed") or "dismissed" in _plain(sql) for _, names, sql, _ in indexes):
        text = f"{found.shown} has no index on dismissed: counting what is open reads the whole table"
        findings.append(Finding("no-open-index", text, orders.sqlite_index(found.name)))
    return findings


def _file_findings(journal: str, target: SQLiteTarget, *, read_only: bool) -> list[Finding]:
    findings = []
    if journal != "wal" and not target.immutable:
        text = f"journal mode is {journal}: while the console writes, the engine's reads wait"
        findings.append(Finding("journal-mode", text))
    if target.immutable:
        findings.append(Finding("immutable", "opened as immutable: what the engine writes meanwhile is not seen"))
    if not read_only:
        text = "an engine that opens this file with a busy timeout of 0 may fail while the console writes"
        findings.append(Finding("busy-timeout", text))
    return findings

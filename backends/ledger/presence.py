"""Finds out whether there is a ledger, of which shape, and whether this role may read it. Reads the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from backends.detect.asked import CatalogConnection
from backends.ledger.names import GRANTS, SCHEMA, table_name
from backends.ledger.shape import CORE, FUNCTION, LedgerShape, is_newer
from backends.store_info import StoreInfo

Presence = Literal["ready", "absent", "unreadable"]
_SQLITE = "(EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'console_audit_entry'))"
_SQLITE_COLUMNS = (
    "SELECT substr(m.name, 9), c.name, 1, 1, 0 FROM sqlite_master m JOIN pragma_table_info(m.name) c "
    "WHERE m.type = 'table' AND m.name LIKE 'console\\_%' ESCAPE '\\'"
)
_POSTGRES = (
    f"(SELECT count(*) = {len(CORE)} AND bool_and(has_schema_privilege(n.oid, 'usage') "
    "AND has_table_privilege(c.oid, 'select') AND NOT row_security_active(c.oid)) "
    "FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid "
    f"AND c.relkind = 'r' AND c.relname = ANY('{{{','.join(CORE)}}}') WHERE n.nspname = '{SCHEMA}')"
)
_SCHEMA = f"(EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '{SCHEMA}'))"
_POSTGRES_COLUMNS = (
    "SELECT CAST(c.relname AS text), CAST(a.attname AS text), has_schema_privilege(n.oid, 'usage') "
    "AND has_table_privilege(c.oid, 'select'), pg_has_role(c.relowner, 'usage'), row_security_active(c.oid) "
    "FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' "
    "JOIN pg_attribute a ON a.attrelid = c.oid "
    f"AND a.attnum > 0 AND NOT a.attisdropped WHERE n.nspname = '{SCHEMA}' UNION ALL SELECT '{FUNCTION}', "
    "CAST(p.proname AS text), true, pg_has_role(p.proowner, 'usage'), false FROM pg_proc p "
    f"JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = '{SCHEMA}'"
)


def present_sql(*, on_postgres: bool) -> str:
    """An SQL condition: there is a ledger and this role can read it."""
    return f"({_POSTGRES} IS TRUE)" if on_postgres else _SQLITE


def hinted_sql(*, on_postgres: bool) -> str:
    """An SQL condition that costs less: there may be a ledger."""
    return _SCHEMA if on_postgres else _SQLITE


@dataclass(frozen=True, slots=True)
class LedgerSeen:
    presence: Presence
    shape: LedgerShape
    owned: bool = True  # this role may change its tables
    unread: tuple[str, ...] = ()  # the tables that this role may not read
    why: str = "this role may not read it"  # where it is unreadable
    filtered: tuple[str, ...] = ()  # the tables whose row security may hide rows from this role


async def look(connection: CatalogConnection, info: StoreInfo) -> LedgerSeen:
    dialect, settles = info.dialect, info.layout != "orders"
    sql = _POSTGRES_COLUMNS if dialect == "postgresql" else _SQLITE_COLUMNS
    rows: list[Any] = list((await connection.exec_driver_sql(sql)).fetchall())
    known = [row for row in rows if row[0] in GRANTS and (settles or row[0] != "settled")]
    shape = LedgerShape(dialect, frozenset((row[0], row[1]) for row in rows))
    owned = all(row[3] for row in known)
    # Without `settled` the ledger knows nothing about the entries of layouts that others own.
    if not shape.exists or (settles and not shape.has("settled")):
        return LedgerSeen("absent", shape, owned)
    unread = tuple(sorted({f"{SCHEMA}.{row[0]}" for row in known if not row[2]}))
    filtered = tuple(sorted({f"{SCHEMA}.{row[0]}" for row in known if row[4]}))
    readable = shape.is_whole and not unread and not filtered
    if readable and is_newer(await _version(connection, dialect, shape)) and not shape.is_current:
        why = "a newer dlq-console made it, in a form that this one does not know: upgrade"
        return LedgerSeen("unreadable", shape, owned, unread, why)
    why = _why(shape, dialect)
    if filtered and shape.is_whole and not unread:
        why = f"the row security of {', '.join(filtered)} may hide rows from this role"
    return LedgerSeen("ready" if readable else "unreadable", shape, owned, unread, why, filtered)


async def _version(connection: CatalogConnection, dialect: str, shape: LedgerShape) -> object:
    if not (shape.has("meta", "key") and shape.has("meta", "value")):
        return "unknown"
    meta = table_name("meta", dialect)
    return (await connection.exec_driver_sql(f"SELECT value FROM {meta} WHERE key = 'schema_version'")).scalar()


def _why(shape: LedgerShape, dialect: str) -> str:
    if not shape.is_whole:
        missing = sorted(set(CORE) - {table for table, _ in shape.columns})
        return f"{'tables' if len(missing) > 1 else 'table'} {', '.join(missing)} missing: restore a backup"
    return "this role may not read it" if dialect == "postgresql" else "it cannot be read"

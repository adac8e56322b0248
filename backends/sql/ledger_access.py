"""Finds out how the ledger looks and whether this role may use it, and writes the SQL that would allow it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from backends.detect import Attached
from backends.layouts.orders import quoted
from backends.ledger.functions import may_become_owner
from backends.ledger.migrations import CORE, FUNCTION, LedgerShape, is_newer, is_older, owner_statements
from backends.ledger.roles import OPERATOR, ROLES, hand_over_sql, ledger_grants, make_sql, role_sql
from backends.ledger.schema import GRANTS, SCHEMA, create_statements, ledger
from backends.records import Finding

Presence = Literal["ready", "absent", "unreadable"]
_SQLITE = "(EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'console_audit_entry'))"
_SQLITE_COLUMNS = (
    "SELECT substr(m.name, 9), c.name, 1, 1 FROM sqlite_master m JOIN pragma_table_info(m.name) c "
    "WHERE m.type = 'table' AND m.name LIKE 'console\\_%' ESCAPE '\\'"
)
_POSTGRES = (
    f"(SELECT count(*) = {len(CORE)} AND bool_and(has_schema_privilege(n.oid, 'usage') "
    "AND has_table_privilege(c.oid, 'select')) FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid "
    f"AND c.relkind = 'r' AND c.relname = ANY('{{{','.join(CORE)}}}') WHERE n.nspname = '{SCHEMA}')"
)
_POSTGRES_COLUMNS = (
    "SELECT CAST(c.relname AS text), CAST(a.attname AS text), has_schema_privilege(n.oid, 'usage') "
    "AND has_table_privilege(c.oid, 'select'), pg_has_role(c.relowner, 'usage') FROM pg_namespace n "
    "JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' JOIN pg_attribute a ON a.attrelid = c.oid "
    f"AND a.attnum > 0 AND NOT a.attisdropped WHERE n.nspname = '{SCHEMA}' UNION ALL SELECT '{FUNCTION}', "
    "CAST(p.proname AS text), true, pg_has_role(p.proowner, 'usage') FROM pg_proc p "
    f"JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = '{SCHEMA}'"
)


def present_sql(*, on_postgres: bool) -> str:
    """An SQL condition: there is a ledger and this role can read it."""
    return f"({_POSTGRES} IS TRUE)" if on_postgres else _SQLITE


@dataclass(frozen=True, slots=True)
class LedgerSeen:
    presence: Presence
    shape: LedgerShape
    owned: bool = True  # this role may change its tables
    unread: tuple[str, ...] = ()  # the tables that this role may not read
    why: str = "this role may not read it"  # where it is unreadable


async def look(connection: AsyncConnection, attached: Attached) -> LedgerSeen:
    dialect, settles = attached.info.dialect, attached.info.layout != "orders"
    sql = _POSTGRES_COLUMNS if dialect == "postgresql" else _SQLITE_COLUMNS
    rows: list[Any] = list((await connection.exec_driver_sql(sql)).fetchall())
    known = [row for row in rows if row[0] in GRANTS and (settles or row[0] != "settled")]
    shape = LedgerShape(dialect, frozenset((row[0], row[1]) for row in rows))
    owned = all(row[3] for row in known)
    # Without `settled` the ledger knows nothing about the entries of layouts that others own.
    if not shape.exists or (settles and not shape.has("settled")):
        return LedgerSeen("absent", shape, owned)
    unread = tuple(sorted({f"{SCHEMA}.{row[0]}" for row in known if not row[2]}))
    readable = shape.is_whole and not unread
    if readable and not shape.is_current and is_newer(await _version(connection, dialect, shape)):
        why = "a newer dlq-console made it, in a form that this one does not know: upgrade"
        return LedgerSeen("unreadable", shape, owned, unread, why)
    return LedgerSeen("ready" if readable else "unreadable", shape, owned, unread, _why(shape, dialect))


async def _version(connection: AsyncConnection, dialect: str, shape: LedgerShape) -> object:
    if not (shape.has("meta", "key") and shape.has("meta", "value")):
        return "unknown"
    meta = ledger(dialect).meta.fullname
    return (await connection.exec_driver_sql(f"SELECT value FROM {meta} WHERE key = 'schema_version'")).scalar()


def _why(shape: LedgerShape, dialect: str) -> str:
    if not shape.is_whole:
        missing = sorted(set(CORE) - {table for table, _ in shape.columns})
        return f"{'tables' if len(missing) > 1 else 'table'} {', '.join(missing)} missing: restore a backup"
    return "this role may not read it" if dialect == "postgresql" else "it cannot be read"


async def ledger_finding(connection: AsyncConnection, attached: Attached) -> Finding | None:
    """A finding on attaching, if the ledger cannot be read or is of another version."""
    seen = await look(connection, attached)
    match seen.presence:
        case "absent":
            return None
        case "unreadable":
            there = f"the console's ledger ({_place(attached)}) is there, but {seen.why}"
            text = f"{there}: what is in flight, in doubt, replayed or halted is unknown, and acts are refused"
            mends = attached.info.dialect == "postgresql" and seen.shape.is_whole
            return Finding("ledger-unreadable", text, owner_sql(attached, seen.shape) if mends else "")
        case "ready":
            meta = ledger(attached.info.dialect).meta.fullname
            kept = await connection.exec_driver_sql(f"SELECT value FROM {meta} WHERE key = 'schema_version'")
            return _version_finding(kept.scalar(), seen, attached)


def _place(attached: Attached) -> str:
    return f"schema {SCHEMA}" if attached.info.dialect == "postgresql" else "tables console_*"


async def rows_left_finding(connection: AsyncConnection, attached: Attached) -> Finding | None:
    """A finding on attaching, if rows of accepted calls wait for what the config asks to do with them."""
    if attached.info.layout != "integration" or (await look(connection, attached)).presence != "ready":
        return None
    attempt = ledger(attached.info.dialect).attempt
    owed = (attempt.c.state == "accepted", attempt.c.holds == 1, attempt.c.error.is_not(None))
    mine = sa.select(sa.func.count()).where(attempt.c.source == attached.found.shown, *owed)
    count = int((await connection.execute(mine)).scalar_one())
    if not count:
        return None
    text = (
        f"{count:,} rows of accepted calls are not removed yet, and their hub may retry them: dlq reconcile tries again"
    )
    return Finding("rows-left", text)


def _version_finding(version: object, seen: LedgerSeen, attached: Attached) -> Finding | None:
    if is_newer(version):
        return Finding("ledger-newer", "the console's ledger was made by a newer dlq-console: acts are refused")
    if not is_older(version, seen.shape):
        return None
    made = "the console's ledger was made by an earlier version of dlq-console"
    if seen.owned:
        return Finding("ledger-older", f"{made}: the first act migrates it")
    text = f"{made} and this role may not migrate it: looking works, acts are refused"
    return Finding("ledger-older", text, owner_sql(attached, seen.shape))


def owner_sql(attached: Attached, shape: LedgerShape) -> str:
    """The SQL by which the owner of the database lets this role act."""
    statements = list(create_statements(attached.info.dialect))
    if attached.info.dialect == "postgresql":
        if shape.exists and not shape.is_current:
            statements = list(owner_statements(shape))
        role = quoted(attached.info.role)
        statements += ledger_grants(OPERATOR, role)
        statements += [f"GRANT {rights} TO {role}" for rights in attached.grants()]
    return ";\n".join(statements) + ";"


_SQLITE_ADVISORY = (
    "four eyes, halt and policy are advisory: whoever may write the file may write its ledger too, and a second "
    "person is another OS user on this machine; Postgres with a ledger of its owner's enforces them"
)
_ADVISORY = (
    "four eyes, halt and policy are advisory: {login} {why}, and could change what they stand on; they are enforced "
    "once the ledger belongs to a role that nobody acts as"
)
_OWNER = "dlq_owner"


async def with_roles(connection: AsyncConnection, attached: Attached) -> Attached:
    """The attach report with what database roles may do here, and whether this one can be held to four eyes."""
    info = attached.info
    if info.dialect != "postgresql":
        return replace(attached, info=replace(info, advisory=Finding("advisory", _SQLITE_ADVISORY)))
    asked = f"SELECT CAST(session_user AS text), {may_become_owner()}"
    row: Any = (await connection.exec_driver_sql(asked)).one()
    login, advisory = row
    seen = await look(connection, attached)
    finding = None
    if advisory:
        why = "owns the ledger or may become its owner" if seen.shape.exists else "may make the ledger itself"
        mend = hand_over_sql(_OWNER) if seen.shape.exists else make_sql()
        finding = Finding("advisory", _ADVISORY.format(login=login, why=why), mend)
    reads = tuple(f"SELECT ON {attached.found.quoted}" for _ in attached.grants()[:1])
    writes = attached.grants()
    if attached.found.schema not in (None, "public"):
        used = f"USAGE ON SCHEMA {quoted(attached.found.schema or '')}"
        reads, writes = (used, *reads), (used, *writes)
    older = ";\n".join(owner_statements(seen.shape)) + ";" if seen.shape.exists else make_sql()
    made = () if seen.shape.is_current else (("owner", older),)
    roles = tuple((role.name.removeprefix("dlq_"), role_sql(role, reads, writes)) for role in ROLES)
    told = replace(info, login=str(login), advisory=finding, role_sql=(*made, *roles), unread=seen.unread)
    return replace(attached, info=told)

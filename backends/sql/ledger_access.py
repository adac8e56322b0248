"""What a store's ledger means for who attaches it: findings, roles, and the SQL that would allow acts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from backends.async_engine import AsyncConnection
from backends.detect import Attached
from backends.layouts.orders import quoted
from backends.ledger.functions import may_become_owner
from backends.ledger.migrations import owner_statements
from backends.ledger.names import SCHEMA
from backends.ledger.presence import LedgerSeen, look
from backends.ledger.roles import OPERATOR, ROLES, hand_over_sql, ledger_grants, make_sql, role_sql
from backends.ledger.schema import create_statements, ledger
from backends.ledger.shape import LedgerShape, is_newer, is_older
from backends.records import Finding


async def ledger_finding(connection: AsyncConnection, attached: Attached) -> Finding | None:
    """A finding on attaching, if the ledger cannot be read or is of another version."""
    seen = await look(connection, attached.info)
    match seen.presence:
        case "absent":
            return None
        case "unreadable":
            there = f"the console's ledger ({_place(attached)}) is there, but {seen.why}"
            text = f"{there}: what is in flight, in doubt, replayed or halted is unknown, and acts are refused"
            mends = attached.info.dialect == "postgresql" and seen.shape.is_whole
            shown = [f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;" for table in seen.filtered]
            granted = owner_sql(attached, seen.shape) if mends else ""
            return Finding("ledger-unreadable", text, "\n".join([granted, *shown] if granted else shown))
        case "ready":
            meta = ledger(attached.info.dialect).meta.fullname
            kept = await connection.exec_driver_sql(f"SELECT value FROM {meta} WHERE key = 'schema_version'")
            return _version_finding(kept.scalar(), seen, attached)


def _place(attached: Attached) -> str:
    return f"schema {SCHEMA}" if attached.info.dialect == "postgresql" else "tables console_*"


async def rows_left_finding(connection: AsyncConnection, attached: Attached) -> Finding | None:
    """A finding on attaching, if rows of accepted calls wait for what the config asks to do with them."""
    if attached.info.layout != "integration" or (await look(connection, attached.info)).presence != "ready":
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
    seen = await look(connection, attached.info)
    finding = None
    if advisory:
        why = "owns the ledger or may become its owner" if seen.shape.exists else "may make the ledger itself"
        mend = hand_over_sql(_OWNER) if seen.shape.exists else make_sql()
        finding = Finding("advisory", _ADVISORY.format(login=login, why=why), mend)
    writes = attached.grants()
    reads = attached.reading_grants() if writes else ()
    if attached.found.schema not in (None, "public"):
        used = f"USAGE ON SCHEMA {quoted(attached.found.schema or '')}"
        reads, writes = (used, *reads), (used, *writes)
    older = ";\n".join(owner_statements(seen.shape)) + ";" if seen.shape.exists else make_sql()
    made = () if seen.shape.is_current else (("owner", older),)
    roles = tuple((role.name.removeprefix("dlq_"), role_sql(role, reads, writes)) for role in ROLES)
    unread = tuple(sorted({*seen.unread, *seen.filtered}))
    told = replace(info, login=str(login), advisory=finding, role_sql=(*made, *roles), unread=unread)
    return replace(attached, info=told)

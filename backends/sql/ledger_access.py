"""Finds out whether the ledger is there and this role may use it, and writes the SQL that would allow it."""

from __future__ import annotations

from typing import Literal

from sqlalchemy.ext.asyncio import AsyncConnection

from backends.detect import Attached
from backends.layouts.orders import quoted
from backends.ledger.schema import GRANTS, SCHEMA, VERSION, create_statements, ledger
from backends.records import Finding

Presence = Literal["ready", "absent", "unreadable"]
_SQLITE = "(EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'console_audit_entry'))"
# NULL if the next act has to create the ledger, or to add `settled`, which order stores do not need.
_POSTGRES = (
    "SELECT CASE WHEN count(*) > 0 AND {complete} THEN count(*) >= {count} AND bool_and("
    "has_schema_privilege(n.oid, 'usage') AND has_table_privilege(c.oid, 'select')) END "
    "FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r' "
    f"AND c.relname = ANY('{{names}}') WHERE n.nspname = '{SCHEMA}'"
)


def _postgres_sql(*, settles: bool = False) -> str:
    names = sorted(table.name for table in ledger("postgresql").metadata.tables.values())
    if not settles:
        names.remove("settled")
    complete = "bool_or(c.relname = 'settled')" if settles else "true"
    return _POSTGRES.format(count=len(names), complete=complete, names="{" + ",".join(names) + "}")


def present_sql(*, on_postgres: bool) -> str:
    """An SQL condition: there is a ledger and this role can read it."""
    return f"(({_postgres_sql()}) IS TRUE)" if on_postgres else _SQLITE


async def presence(connection: AsyncConnection, attached: Attached) -> Presence:
    on_postgres, settles = attached.info.dialect == "postgresql", attached.info.layout != "orders"
    if not on_postgres:
        found = (await connection.exec_driver_sql(f"SELECT {_SQLITE}")).scalar()
        return "ready" if found else "absent"
    usable = (await connection.exec_driver_sql(_postgres_sql(settles=settles))).scalar()
    return "absent" if usable is None else "ready" if usable else "unreadable"


async def ledger_finding(connection: AsyncConnection, attached: Attached) -> Finding | None:
    """A finding on attaching, if the ledger cannot be read or is newer than this console."""
    match await presence(connection, attached):
        case "absent":
            return None
        case "unreadable":
            text = (
                f"the console's ledger (schema {SCHEMA}) is there, but this role may not read it: what is in flight, "
                "in doubt or replayed shows as pending or dismissed, and acts are refused"
            )
            return Finding("ledger-unreadable", text, owner_sql(attached))
        case "ready":
            meta = ledger(attached.info.dialect).meta.fullname
            kept = await connection.exec_driver_sql(f"SELECT value FROM {meta} WHERE key = 'schema_version'")
            if is_newer(kept.scalar()):
                return Finding("ledger-newer", "the console's ledger was made by a newer dlq-console: acts are refused")
            return None


def is_newer(version: object) -> bool:
    return version is not None and (not str(version).isdecimal() or int(str(version)) > int(VERSION))


def owner_sql(attached: Attached) -> str:
    """The SQL by which the owner of the database lets this role act."""
    statements = list(create_statements(attached.info.dialect))
    if attached.info.dialect == "postgresql":
        role = quoted(attached.info.role)
        statements.append(f"GRANT USAGE ON SCHEMA {SCHEMA} TO {role}")
        statements += [f"GRANT {rights} ON {SCHEMA}.{table} TO {role}" for table, rights in GRANTS.items()]
        statements.append(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {role}")
        statements += [f"GRANT {rights} TO {role}" for rights in attached.grants()]
    return ";\n".join(statements) + ";"

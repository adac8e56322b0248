"""Finds the intent table of a dead-letter queue, and reports whether it can be read and written. Reads no row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from backends.detect.asked import CatalogConnection
from backends.detect.candidates import Attached, Candidate
from backends.detect.exposure import foreign_triggers
from backends.detect.foreign_code import described, foreign_calls
from backends.layouts import intents, orders
from backends.layouts.orders import quoted
from backends.records import Finding

_UNKNOWN = "whether an engine ended before it knew the outcome of an order is unknown, and acts are refused"
_RIGHTS = """
SELECT has_column_privilege(CAST($1 AS regclass), 'resolved_at', 'update')
   AND has_column_privilege(CAST($1 AS regclass), 'venue_order_id', 'update'),
       has_table_privilege(CAST($2 AS regclass), 'insert')
"""
_HIDES_ROWS = """
SELECT c.relrowsecurity AND NOT pg_has_role(c.relowner, 'usage') AND NOT (
  SELECT r.rolsuper OR r.rolbypassrls FROM pg_roles r WHERE r.rolname = current_user)
FROM pg_class c WHERE c.oid = CAST($1 AS regclass)
"""


def intent_table_of(found: Candidate) -> tuple[str | None, str]:
    """(schema, name) that the intents of this queue would have."""
    return found.schema, f"{found.name}{intents.TAIL}"


def belonging(found: Candidate, candidates: Sequence[Candidate]) -> Candidate | None:
    """The intent table that carries this queue's name, in the same schema."""
    if found.other_layout is not None:
        return None
    wanted = intent_table_of(found)
    return next((one for one in candidates if one.is_intent_table and (one.schema, one.name) == wanted), None)


async def with_intents(connection: CatalogConnection, attached: Attached, candidates: Sequence[Candidate]) -> Attached:
    """The attach report with the engine's intents: theirs to write, ours to read and to resolve."""
    there = belonging(attached.found, candidates)
    if there is None:
        return attached
    on_postgres = attached.info.dialect == "postgresql"
    if why := _unusable(there, on_postgres=on_postgres) or (await _hidden(connection, there) if on_postgres else ""):
        missing = bool(there.hidden)
        sql = _grant(attached, f"SELECT ON {there.quoted}") if on_postgres and missing else ""
        text = f"{_told(there)}, but {why}: {_UNKNOWN}"
        return attached.with_finding(Finding("ledger-unreadable", text, sql))
    known = replace(attached, intents=there).with_findings(*_drift(there, attached.found))
    if on_postgres and not attached.info.read_only:
        known = known.with_findings(*await foreign_triggers(connection, there))
        return await _with_rights(connection, known, there)
    may = "read" if attached.info.read_only else "read and settled"
    text = f"{there.shown} holds the intents of the engine: they can be {may} from here"
    return known.with_finding(Finding("intents", text))


async def with_later_intents(connection: CatalogConnection, attached: Attached) -> Attached:
    """The same for a store that is attached already: an engine may make its table, or its owner grant it, later."""
    from backends.detect import postgres, sqlite  # not by who only attaches: it has read the catalog already

    catalog = postgres if attached.info.dialect == "postgresql" else sqlite
    schema, name = intent_table_of(attached.found)
    earlier = _told(replace(attached.found, schema=schema, name=name))
    known = tuple(one for one in attached.info.findings if not one.text.startswith(earlier))
    fresh = replace(attached, info=replace(attached.info, findings=known))
    return await with_intents(connection, fresh, await catalog.tables(connection))


def _told(there: Candidate) -> str:
    return f"the intents of the engine ({there.shown}) are there"


def _unusable(there: Candidate, *, on_postgres: bool) -> str:
    """Why its rows cannot be understood; empty if they can."""
    if there.kind != "table":
        return "as a view, which no engine makes"
    if hidden := sorted((intents.REQUIRED | set(intents.COLUMNS)) & set(there.hidden)):
        which = "it" if set(hidden) >= intents.REQUIRED else f"its columns {', '.join(hidden)}"
        return f"this role may not read {which}"
    if missing := sorted(intents.REQUIRED - {column.name for column in there.columns}):
        return f"without the column {', '.join(missing)}"
    lease = there.column("lease_until")
    if on_postgres and lease is not None and not lease.type.startswith("timestamp with time zone"):
        return f"lease_until is {lease.type}, not a time"
    return ""


async def _hidden(connection: CatalogConnection, there: Candidate) -> str:
    """Why reading its rows would run somebody's code, or not show them all; empty if neither."""
    if calls := await foreign_calls(connection, [there.quoted]):
        return f"looking at it would run code of another role: {described(calls)}"
    hides = (await connection.exec_driver_sql(_HIDES_ROWS, (there.quoted,))).scalar_one()
    return "row security may hide rows of it from this role" if hides else ""


def _drift(there: Candidate, found: Candidate) -> list[Finding]:
    names = {column.name for column in there.columns}
    wanted = [name for name in intents.COLUMNS if name not in intents.OPTIONAL and name not in names]
    missing = [name for name in wanted if name not in orders.COLUMNS or found.column(name) is not None]
    text = f"{there.shown} has no column {', '.join(missing)}: read as empty"
    return [Finding("missing-column", text)] if missing else []


async def _with_rights(connection: CatalogConnection, attached: Attached, there: Candidate) -> Attached:
    writable, insertable = False, False
    if there.column("venue_order_id") is not None:
        args = (there.quoted, attached.found.quoted)
        writable, insertable = (await connection.exec_driver_sql(_RIGHTS, args)).one()
    if writable and insertable:
        text = f"{there.shown} holds the intents of the engine: this role may read them and settle them"
        return attached.with_finding(Finding("intents", text))
    cannot = [
        *(() if writable else (f"write {' and '.join(intents.WRITTEN)} there",)),
        *(() if insertable else (f"insert into {attached.found.shown}",)),
    ]
    text = f"{there.shown} holds the intents of the engine: this role may read them, but not {' nor '.join(cannot)}"
    rights = attached.grants()[1:]
    return attached.with_finding(
        Finding("intents-unwritable", f"{text}: it cannot settle them", _grant(attached, *rights))
    )


def _grant(attached: Attached, *rights: str) -> str:
    role = quoted(attached.info.role)
    return "\n".join(f"GRANT {right} TO {role};" for right in rights)

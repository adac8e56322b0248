"""Dismiss and restore as one statement: only rows that are as they were seen, and that nobody holds, move."""

from __future__ import annotations

import json
import math
from typing import Any

import sqlalchemy as sa

from backends.detect import Attached
from backends.layouts import orders
from backends.ledger.schema import SCHEMA
from backends.records import Selection, Version
from backends.sql.order_select import OrderSelect
from backends.sql.row_order import RowOrder
from backends.values import is_encodable

SQLITE_NOW = "((julianday('now') - 2440587.5) * 86400.0)"
POSTGRES_NOW = "extract(epoch FROM clock_timestamp())"
_RETRIES: dict[str, Any] = {"numeric": sa.Numeric, "real": sa.Float, "double precision": sa.Float}


def is_plain(entry_id: str) -> bool:
    """An id that both engines take as it is; no other can be acted on."""
    return "\0" not in entry_id and (entry_id.isascii() or is_encodable(entry_id))


def is_comparable(version: Version, attached: Attached) -> bool:
    """The seen retry count can be told to the store, so that it can say whether it still is so."""
    retries = version[0] if attached.counts_retries else None
    if type(retries) is int:
        return True
    match retries:
        case bytes():
            return False
        case str():
            return is_plain(retries)
        case float():
            return math.isfinite(retries)
        case _:
            return True


def arguments(selection: Selection, attached: Attached) -> dict[str, object]:
    counted = attached.counts_retries
    known = {version for version in {version for _, version in selection.picks} if is_comparable(version, attached)}
    picks = [(entry_id, version[0] if counted else None) for entry_id, version in selection.picks if version in known]
    if not is_plain("".join(entry_id for entry_id, _ in picks)):
        picks = [(entry_id, retries) for entry_id, retries in picks if is_plain(entry_id)]
    if attached.info.dialect == "postgresql":
        args: dict[str, object] = {"ids": [entry_id for entry_id, _ in picks], "source": attached.info.table}
        return args | ({"retries": [retries for _, retries in picks]} if attached.counts_retries else {})
    return {"picks": json.dumps(dict(picks), ensure_ascii=False), "source": attached.info.table}


def statement(attached: Attached, *, dismiss: bool) -> sa.TextClause:
    is_open = _verbatim(OrderSelect(attached, with_ledger=False).pending_sql)
    seen = f"({is_open})" if dismiss else f"NOT ({is_open})"
    if attached.info.dialect == "postgresql":
        return _postgres(attached, seen, dismiss=dismiss)
    return _sqlite(attached, seen, dismiss=dismiss)


def _postgres(attached: Attached, seen: str, *, dismiss: bool) -> sa.TextClause:
    table, counted = _verbatim(attached.found.quoted), attached.counts_retries
    value = ("true" if dismiss else "false") if attached.column("dismissed").type.startswith("bool") else int(dismiss)
    same = f" AND {table}.retry_count IS NOT DISTINCT FROM p.retries" if counted else ""
    arrays = f"CAST(:ids AS text[]){', :retries' if counted else ''}"
    return sa.text(
        f"UPDATE {table} SET dismissed = {value} FROM unnest({arrays}) AS p(id{', retries' if counted else ''}) "
        f"WHERE {_verbatim(RowOrder(attached).identity)} = p.id AND {seen}{same} "
        f"AND {_free(f'{SCHEMA}.', 'p.id', POSTGRES_NOW)} RETURNING {table}.dlq_id"
    ).bindparams(*_binds(attached))


def _sqlite(attached: Attached, seen: str, *, dismiss: bool) -> sa.TextClause:
    table = _verbatim(attached.found.quoted)
    same = f" AND {table}.retry_count IS p.value" if attached.counts_retries else ""
    row = "_rowid_" if attached.by_rowid else "dlq_id"
    picks, listed = "json_each(:picks) AS p", ""
    led = f"{picks} CROSS JOIN {table}"  # the picks lead, the id's index follows
    if any(finding.code == "no-unique-id" for finding in attached.info.findings):
        # Without an index on the id the table leads, once, and finds each row's pick by an index made for the moment.
        led, listed = f"{table} CROSS JOIN p", f"WITH p AS MATERIALIZED (SELECT key, value FROM {picks}) "
    still = seen
    if orders.sqlite_affinity(attached.column("dismissed").type) != "text":  # a text is only equal to 0 as a text
        # The plus keeps SQLite from walking every open row for each pick.
        still = seen.replace(f"{table}.dismissed", f"+{table}.dismissed")
    chosen = (
        f"SELECT {table}.{row} FROM {led} WHERE {table}.dlq_id = p.key AND {still}{same} AND {_nobody_or_free('p.key')}"
    )
    return sa.text(f"{listed}UPDATE {table} SET dismissed = {int(dismiss)} WHERE {row} IN ({chosen}) RETURNING dlq_id")


def _free(ledger: str, identity: str, now: str) -> str:
    """Nobody holds it: no attempt that may be an order, no claim that still runs."""
    held = f"h WHERE h.source = :source AND h.entry_id = {identity}"
    return (
        f"NOT EXISTS (SELECT 1 FROM {ledger}attempt {held} AND h.holds = 1) AND NOT EXISTS "
        f"(SELECT 1 FROM {ledger}claim {held} AND h.released IS NULL AND h.expires_at > {now})"
    )


def _nobody_or_free(identity: str) -> str:
    """SQLite looks once whether anything is held at all, and only then at each entry."""
    held = "SELECT 1 FROM console_attempt x WHERE x.source = :source AND x.holds = 1"
    claimed = "SELECT 1 FROM console_claim x WHERE x.source = :source AND x.released IS NULL"
    return f"(NOT (EXISTS ({held}) OR EXISTS ({claimed})) OR ({_free('console_', identity, SQLITE_NOW)}))"


def counting(flips: sa.TextClause) -> str:
    """The same for SQLite itself, without naming what moved."""
    return flips.text.rpartition(" RETURNING ")[0].replace("\\:", ":")


def _verbatim(sql: str) -> str:
    """A colon in a table's name is no parameter."""
    return sql.replace(":", "\\:")


def _binds(attached: Attached) -> list[sa.BindParameter[Any]]:
    binds: list[sa.BindParameter[Any]] = [
        sa.bindparam("ids", type_=sa.ARRAY(sa.Text)),
        sa.bindparam("source", type_=sa.Text),
    ]
    if attached.counts_retries:
        declared = attached.column("retry_count").type.partition("(")[0]
        binds.append(sa.bindparam("retries", type_=sa.ARRAY(_RETRIES.get(declared, sa.BigInteger))))
    return binds

"""Counts over a layout of somebody else's, as SELECTs: by state, with our ledger joined at once. Pure."""

from __future__ import annotations

from backends.ledger.schema import SCHEMA
from backends.records import Filter
from backends.sql.other.filter import FilterQuestion, matching
from backends.sql.other.select import Select
from backends.sql.query import CompiledQuery


def tally(select: Select, where: Filter) -> CompiledQuery:
    """(state, count) of what a filter means."""
    ask = FilterQuestion()
    conditions = " AND ".join(matching(select.attached, where, ask))
    rows = f"{select.rows(each=False)} {f'WHERE {conditions}' if conditions else ''}"
    return ask.query(f"SELECT {select.joined_state}, count(*) {rows} GROUP BY 1")


def totals(select: Select) -> CompiledQuery:
    """(all that are open by their owner's word, all the others)."""
    counts = f"count(*) FILTER (WHERE {select.is_open}), count(*) FILTER (WHERE NOT ({select.is_open}))"
    return FilterQuestion().query(f"SELECT {counts} FROM {select.attached.found.quoted} t")


def marked(select: Select) -> CompiledQuery:
    """(state, open by its owner's word, count) of the few that our ledger knows of; only where they still are there."""
    held = f"{SCHEMA}.attempt a ON a.source = {select.source} AND a.holds = 1"
    table = f"{select.attached.found.quoted} t ON {select.attached.sql('id')}"
    settled = f"{SCHEMA}.settled s JOIN {table} = {select.as_id('s.entry_id')} AND {select.born} = s.born"
    mine = f"WHERE s.source = {select.source}"
    if not select.attached.layout.sends:
        return FilterQuestion().query(f"SELECT s.state, true, count(*) FROM {settled} {mine} GROUP BY 1")
    unsettled = (
        f"NOT EXISTS (SELECT 1 FROM {SCHEMA}.settled s {mine} AND s.entry_id = a.entry_id AND s.born = {select.born})"
    )
    return FilterQuestion().query(
        f"SELECT state, open, count(*) FROM ("
        f"SELECT coalesce(a.state, s.state) AS state, {select.is_open} AS open FROM {settled} "
        f"LEFT JOIN {held} AND a.entry_id = s.entry_id {mine} "
        f"UNION ALL SELECT a.state, {select.is_open} FROM {SCHEMA}.attempt a "
        f"JOIN {table} = {select.as_id('a.entry_id')} "
        f"WHERE a.source = {select.source} AND a.holds = 1 AND {unsettled}) known GROUP BY 1, 2"
    )

"""Chooses the dead-letter queue of a database and reports on it. Reads the catalog; of rows at most a sample."""

from __future__ import annotations

from dataclasses import replace

from backends.detect import postgres, sqlite
from backends.detect.asked import CatalogConnection
from backends.detect.candidates import Attached, Candidate, choose
from backends.detect.exposure import exposure
from backends.detect.foreign_code import described, foreign_calls
from backends.detect.intent_table import with_intents
from backends.records import Finding
from backends.store import NotADLQ, RunsForeignCode
from backends.target import SQLiteTarget, Target


async def detect(connection: CatalogConnection, target: Target, table: str | None, *, read_only: bool) -> Attached:
    if isinstance(target, SQLiteTarget):
        there = await sqlite.tables(connection)
        found = choose(there, table, target.label)
        if found.other_layout is not None:
            raise NotADLQ(f"{target.label}: the {found.other_layout.name} layout is supported on Postgres only")
        report = await sqlite.report(connection, target, found, read_only=read_only)
        return await with_intents(connection, report, there)
    there = await postgres.tables(connection)
    found = choose(there, table, target.label)
    calls = await foreign_calls(connection, [found.quoted])
    standby = await postgres.is_standby(connection)
    attached = await _report(connection, target.label, found, read_only=read_only or standby, look=not calls)
    attached = attached.with_findings(*await exposure(connection, found))
    if standby:
        attached = replace(attached.with_finding(postgres.STANDBY_FINDING), channel=None)
    if calls:
        text = f"looking at {found.shown} would run code of another role: {described(calls)}"
        advice = f"attach the table behind it, drop what calls it, or give it to the role {attached.info.role}"
        told = attached.with_finding(Finding("foreign-code", text, f"-- {advice}"))
        raise RunsForeignCode(f"{target.label}: {text}. Nothing was read: {advice}", told.info)
    return await with_intents(connection, attached, there)


async def _report(
    connection: CatalogConnection, label: str, found: Candidate, *, read_only: bool, look: bool
) -> Attached:
    """`look`: whether rows may be read."""
    if found.other_layout is not None:
        from backends.detect import other_layouts

        return await other_layouts.report(connection, label, found, read_only=read_only, look=look)
    return await postgres.report(connection, label, found, read_only=read_only)

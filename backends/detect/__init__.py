"""Finds the dead-letter queue of a database by its columns, and reports its drift, missing guards and rights."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from backends.detect import postgres, sqlite
from backends.detect.candidates import Attached, Candidate, CatalogColumn, choose
from backends.store import NotADLQ
from backends.target import SQLiteTarget, Target

__all__ = ["Attached", "Candidate", "CatalogColumn", "detect"]


async def detect(connection: AsyncConnection, target: Target, table: str | None, *, read_only: bool) -> Attached:
    if isinstance(target, SQLiteTarget):
        found = choose(await sqlite.tables(connection), table, target.label)
        if found.other_layout is not None:
            raise NotADLQ(f"{target.label}: the {found.other_layout.name} layout is known in Postgres alone")
        return await sqlite.report(connection, target, found, read_only=read_only)
    found = choose(await postgres.tables(connection), table, target.label)
    if found.other_layout is not None:
        from backends.detect import other_layouts

        return await other_layouts.report(connection, target.label, found, read_only=read_only)
    return await postgres.report(connection, target.label, found, read_only=read_only)

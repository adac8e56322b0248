"""The stores of fault cells: made empty, filled, copied as a backup would be, and brought back."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import uuid
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import asyncpg

from backends.layouts import orders
from backends.ledger.names import SCHEMA


async def insert(dsn: str, rows: Sequence[dict[str, Any]]) -> None:
    connection = await asyncpg.connect(dsn)
    for row in rows:
        marks = ", ".join(f"${n}" for n in range(1, len(row) + 1))
        await connection.execute(f"INSERT INTO order_dlq ({', '.join(row)}) VALUES ({marks})", *row.values())
    await connection.close()


def postgres_store(template: str) -> str:
    """An empty order store in a database of its own."""
    name = f"f_{uuid.uuid4().hex[:12]}"

    async def make() -> None:
        admin = await asyncpg.connect(template.replace("{db}", "postgres"))
        await admin.execute(f'CREATE DATABASE "{name}"')
        await admin.close()
        connection = await asyncpg.connect(template.replace("{db}", name))
        for statement in orders.postgres_ddl("order_dlq"):
            await connection.execute(statement)
        await connection.close()

    asyncio.run(make())
    return template.replace("{db}", name)


def forget_breakers(target: str) -> None:
    """Each cell is a day of its own: what the cells before it did to the venue holds up nothing."""
    if not target.startswith("postgresql:"):
        with closing(sqlite3.connect(target, timeout=30)) as connection, suppress(sqlite3.OperationalError):
            connection.execute("DELETE FROM console_breaker")  # not there before the first act
            connection.commit()
        return

    async def forget() -> None:
        connection = await asyncpg.connect(target)
        with suppress(asyncpg.UndefinedTableError):
            await connection.execute(f"DELETE FROM {SCHEMA}.breaker")
        await connection.close()

    asyncio.run(forget())


class StoreCopy:
    """The whole database as it is now, to be brought back later. Nobody may be at work in it."""

    def __init__(self, target: str, folder: Path) -> None:
        self._target = target
        self._file = folder / "copy.db"
        self._database = ""
        if target.startswith("postgresql:"):
            found = re.search(r"f_[0-9a-f]{12}", target)
            assert found is not None
            self._database = found.group()
            asyncio.run(self._admin(f'CREATE DATABASE "{self._database}_copy" TEMPLATE "{self._database}"'))
        else:
            _copied(target, str(self._file))

    def bring_back(self) -> None:
        if not self._database:
            _copied(str(self._file), self._target)
            return
        drop = f'DROP DATABASE "{self._database}" WITH (FORCE)'
        rename = f'ALTER DATABASE "{self._database}_copy" RENAME TO "{self._database}"'
        asyncio.run(self._admin(drop, rename))

    async def _admin(self, *statements: str) -> None:
        """Without those who were killed in it: the server may not have noticed yet."""
        connection = await asyncpg.connect(self._target.replace(self._database, "postgres"))
        try:
            gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ANY($1)"
            await connection.execute(gone, [self._database, f"{self._database}_copy"])
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()


def _copied(source: str, target: str) -> None:
    with closing(sqlite3.connect(source)) as there, closing(sqlite3.connect(target)) as here:
        there.backup(here)

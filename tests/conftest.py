"""Fixtures every suite shares: a real Postgres per worker, a fresh database per test."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import pytest

from tests.support.postgres import Postgres


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """A DSN with {db} in it."""
    if given := os.environ.get("DLQ_TEST_PG_DSN"):
        yield given
        return
    server = Postgres().start()
    try:
        yield server.dsn("{db}")
    finally:
        server.stop()


async def _admin(dsn: str, *statements: str) -> list[str]:
    """→ what the last one answered, as text."""
    connection = await asyncpg.connect(dsn.replace("{db}", "postgres"))
    try:
        rows: list[Any] = []
        for statement in statements:
            rows = await connection.fetch(statement)
        return [str(row[0]) for row in rows]
    finally:
        await connection.close()


def _apart(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    """Run on a loop of its own, whether or not the caller is on one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@pytest.fixture
def postgres_db(postgres_dsn: str) -> Iterator[str]:
    """The DSN of an empty database of its own; roles named `…_<database>` go with it."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    _apart(_admin(postgres_dsn, f'CREATE DATABASE "{name}"'))
    yield postgres_dsn.replace("{db}", name)
    roles = f"SELECT quote_ident(rolname) FROM pg_roles WHERE rolname LIKE '%\\_{name}'"
    left = _apart(_admin(postgres_dsn, f'DROP DATABASE "{name}" WITH (FORCE)', roles))
    _apart(_admin(postgres_dsn, *(f"DROP ROLE {role}" for role in left)))

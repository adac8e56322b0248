"""Fixtures every suite shares: a real Postgres per worker, a fresh database per test."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator

import asyncpg
import pytest

from tests.postgres import Postgres


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


async def _admin(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn.replace("{db}", "postgres"))
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
def postgres_db(postgres_dsn: str) -> Iterator[str]:
    """The DSN of an empty database of its own."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    asyncio.run(_admin(postgres_dsn, f'CREATE DATABASE "{name}"'))
    yield postgres_dsn.replace("{db}", name)
    asyncio.run(_admin(postgres_dsn, f'DROP DATABASE "{name}" WITH (FORCE)'))

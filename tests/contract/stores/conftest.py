"""The same suite on both engines: `store_rig` is one fresh database each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.store import PostgresRig, Rig, SQLiteRig, sqlite_rig


@pytest.fixture(params=["sqlite", "postgresql"])
async def store_rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    rig: Rig
    if request.param == "sqlite":
        rig = sqlite_rig(tmp_path)
    else:
        rig = PostgresRig(request.getfixturevalue("postgres_db"))
    yield rig
    await rig.aclose()


@pytest.fixture
async def sqlite_store(tmp_path: Path) -> AsyncIterator[SQLiteRig]:
    """For what only SQLite can do to us."""
    rig = sqlite_rig(tmp_path)
    yield rig
    await rig.aclose()


@pytest.fixture
async def postgres_store(postgres_db: str) -> AsyncIterator[PostgresRig]:
    rig = PostgresRig(postgres_db)
    yield rig
    await rig.aclose()

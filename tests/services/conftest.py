"""Stores for the services' tests: SQLite for everything, Postgres where the engine could make a difference."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.orders import postgres_store, sqlite_store
from tests.support.session import Stage, fresh

Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A SQLite store with rows 1…n, or with these."""
    return lambda rows, name="orders.db": sqlite_store(tmp_path / name, _rows(rows))


@pytest.fixture(params=["sqlite", "postgres"])
def make_both(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "sqlite":
        return lambda rows: sqlite_store(tmp_path / "orders.db", _rows(rows))
    dsn: str = request.getfixturevalue("postgres_db")

    def made(rows: int | list[dict[str, Any]]) -> str:
        # It runs a loop of its own, which a test's thread already does.
        with ThreadPoolExecutor() as pool:
            return pool.submit(postgres_store, dsn, _rows(rows)).result()

    return made


def _rows(rows: int | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [fresh(number) for number in range(1, rows + 1)] if isinstance(rows, int) else rows


@pytest.fixture
async def at() -> AsyncIterator[Callable[..., Any]]:
    """`await at(target, …)`: an operator at that store, gone when the test is."""
    async with AsyncExitStack() as stack:

        async def arrive(target: str, **given: Any) -> Stage:
            return await stack.enter_async_context(Stage(target, **given))

        yield arrive

"""The command line in this process, on both engines, with an environment of its own."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from backends.target import SQLiteTarget, parse_target
from console.cli.main import run
from tests.support.orders import postgres_store, sqlite_store


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Dlq = Callable[..., Ran]
Make = Callable[[Iterable[Mapping[str, Any]]], str]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DLQ_DB", "DLQ_CONFIG", "CREDENTIALS_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def dlq(capsys: pytest.CaptureFixture[str]) -> Dlq:
    def ran(*words: str) -> Ran:
        capsys.readouterr()
        code = run(list(words))
        seen = capsys.readouterr()
        return Ran(code, seen.out, seen.err)

    return ran


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes an order store with these rows; returns its target."""
    if request.param == "sqlite":
        return lambda rows: sqlite_store(tmp_path / "orders.db", rows)
    dsn: str = request.getfixturevalue("postgres_db")
    return lambda rows: postgres_store(dsn, rows)


def fetch(target: str, sql: str) -> list[tuple[Any, ...]]:
    """What the database itself says, past the console."""
    parsed = parse_target(target)
    if isinstance(parsed, SQLiteTarget):
        with closing(sqlite3.connect(parsed.path, isolation_level=None)) as connection:
            return [tuple(row) for row in connection.execute(sql)]

    async def ask() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(target)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    return asyncio.run(ask())

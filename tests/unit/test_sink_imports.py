"""An engine that imports a sink gets neither the console's screens nor its SQL toolkit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    ("code", "without"),
    [
        ("import backends", {"asyncpg", "asyncio", "sqlite3"}),
        (
            "from backends import DLQSink, DeadLetteredOrder, InMemoryDLQ, SQLiteDLQ; SQLiteDLQ('{db}').close()",
            {"asyncpg"},
        ),
        ("from backends import DLQSink, DeadLetteredOrder, InMemoryDLQ, SQLiteDLQ, PostgresDLQ", set()),
    ],
)
def test_sinks_load_neither_screens_nor_sqlalchemy(tmp_path: Path, code: str, without: set[str]) -> None:
    names = loaded(code.replace("{db}", str(tmp_path / "a.db")))
    assert "backends" in names
    assert (
        names & ({"textual", "rich", "sqlalchemy", "aiosqlite", "httpx", "keyring", "console", "venues"} | without)
        == set()
    )

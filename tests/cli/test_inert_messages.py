"""Messages and metrics are inert: what a store or an argument holds does nothing to the terminal."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Dlq
from tests.support.orders import row, sqlite_store

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e"


@pytest.fixture
def store(tmp_path: Path) -> str:
    return sqlite_store(tmp_path / "orders.db", [row(1, venue_name=EVIL)])


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--table", EVIL),
        ("list", "--filter", f"colour{EVIL}:x"),
        ("list", "--since", EVIL),
        ("show", EVIL),
        ("dismiss", EVIL, "--reason", "test"),
        ("dismiss", "x", "--reason", EVIL),
        ("replay", EVIL, "--paper"),
        ("list", f"--{EVIL}"),
        ("metrics",),
        ("check",),
        ("groups",),
        ("report",),
        ("doctor",),
        ("export", "--format", "csv"),
    ],
)
def test_nothing_printed_acts_on_the_terminal(dlq: Dlq, store: str, words: tuple[str, ...]) -> None:
    ran = dlq(*words, "--db", store)
    assert ran.code != 70
    assert not {"\x1b", "\x07", "\u202e"} & set(ran.out + ran.err), ran


def test_a_table_with_a_hostile_name(dlq: Dlq, store: str) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(f'CREATE TABLE "{EVIL}" AS SELECT * FROM order_dlq')
        connection.commit()
    ran = dlq("list", "--db", store)
    assert (ran.code, "\x1b" in ran.err) == (2, False)


def test_a_process_leaves_no_core() -> None:
    code = (
        "import resource; from console.cli.main import run; run(['x']); print(resource.getrlimit(resource.RLIMIT_CORE))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "(0, 0)"

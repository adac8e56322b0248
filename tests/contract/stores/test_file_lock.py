"""Attaching to a file a second time lets go of no lock: closing any descriptor of it would, for the whole process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from backends import open_store
from backends.first_page import read_first_page
from backends.records import Filter
from backends.target import parse_target
from tests.support.orders import row, sqlite_store

_VISIT = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT count(*) FROM order_dlq'); c.close()"
_WRITE = """
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    c.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError as problem:
    print(problem)
"""


async def _attach_again(path: Path) -> None:
    second = await open_store(str(path))
    await second.page(Filter(), limit=1)
    await second.aclose()


async def _look_first(path: Path) -> None:
    assert read_first_page(parse_target(str(path)), limit=5) is not None


@pytest.mark.parametrize("again", [_attach_again, _look_first])
async def test_a_visitor_leaves_the_log_of_a_store_attached_twice(
    tmp_path: Path, again: Callable[[Path], Awaitable[None]]
) -> None:
    path = tmp_path / "orders.db"
    sqlite_store(path, [row(number) for number in range(5)])
    store = await open_store(str(path))
    try:
        assert len((await store.page(Filter(), limit=10)).entries) == 5
        await again(path)
        log = Path(f"{path}-wal").stat().st_ino
        subprocess.run([sys.executable, "-c", _VISIT, str(path)], check=True, timeout=60)
        # The last to leave removes the log; the visitor is not the last as long as our lock stands.
        assert Path(f"{path}-wal").exists()
        assert Path(f"{path}-wal").stat().st_ino == log
    finally:
        await store.aclose()


async def test_an_open_write_keeps_others_out_while_a_store_is_attached(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    sqlite_store(path, [row(1)])
    with closing(sqlite3.connect(path, isolation_level=None)) as engine:
        engine.execute("PRAGMA journal_mode = DELETE")
        engine.execute("BEGIN IMMEDIATE")
        await _attach_again(path)
        done = subprocess.run(
            [sys.executable, "-c", _WRITE, str(path)], capture_output=True, text=True, check=True, timeout=60
        )
        assert "locked" in done.stdout

"""The first page read with the bare driver is the first page the store itself would read; or there is none."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from backends import open_store
from backends.first_page import FirstPage, read_first_page
from backends.records import ActContext, Entry, Filter, Selection, State
from backends.store import Claim, Intent, Result, Store
from backends.target import parse_target
from tests.support.app import ANN, NOW
from tests.support.orders import row, sqlite_store

HELD: frozenset[State] = frozenset({"in_doubt", "in_flight"})


def first(path: str | Path, limit: int = 50, **given: Any) -> FirstPage | None:
    return read_first_page(parse_target(str(path)), limit=limit, **given)


async def by_store(path: str, limit: int = 50) -> tuple[tuple[Entry, ...], tuple[Entry, ...], bool]:
    store = await open_store(path)
    try:
        pending = await store.page(Filter(states=frozenset({"pending"})), limit=limit, newest_first=True)
        held = await store.page(Filter(states=HELD), limit=limit, newest_first=True)
        return held.entries, pending.entries, pending.more
    finally:
        await store.aclose()


async def assert_equal(path: str, limit: int = 50) -> None:
    page = first(path, limit)
    assert page is not None
    assert (page.held, page.entries, page.more) == await by_store(path, limit)


@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 200])
async def test_it_is_the_store_s_own_first_page(tmp_path: Path, count: int) -> None:
    await assert_equal(sqlite_store(tmp_path / "s.db", (row(n) for n in range(count))))


ODD: Iterable[dict[str, Any]] = (
    {"error": "x" * 4095},
    {"error": "x" * 4096},
    {"error": "x" * 4097},
    {"error": "é" * 4000},
    {"error": "a\0b"},
    {"error": ""},
    {"account_id": None, "price": None, "client_order_id": None},
    {"quantity": 0.1, "price": 1e300},
    {"market_id": "[red]x[/red]\x1b[2J\u202e"},
    {"action_json": "{" * 5000},
    {"retry_count": 7},
    {"dismissed": True},
)


@pytest.mark.parametrize("given", ODD)
async def test_odd_values_are_the_same_too(tmp_path: Path, given: dict[str, Any]) -> None:
    await assert_equal(sqlite_store(tmp_path / "s.db", [row(1), row(2, **given), row(3)]))


async def _attempt(store: Store, entry_id: str, outcome: Any) -> None:
    entry = await store.get(entry_id)
    assert entry is not None
    claim = await store.claim(entry_id, entry.version, ANN, 60.0)
    assert isinstance(claim, Claim)
    why = ActContext(at=NOW, operation="op")
    await store.intend(claim, Intent("paper", "alpaca", entry_id, b"{}", "hash"), ANN, why)
    if outcome is not None:
        await store.conclude(claim, Result(outcome), ANN, why)


async def test_what_is_in_doubt_in_flight_replayed_or_dismissed(tmp_path: Path) -> None:
    path = sqlite_store(tmp_path / "s.db", (row(n) for n in range(12)))
    store = await open_store(path)
    for number, outcome in enumerate(("unknown", None, "accepted", "rejected", "not_sent", "unknown")):
        await _attempt(store, f"dlq_{number:016x}", outcome)
    entry = await store.get("dlq_0000000000000008")
    assert entry is not None
    await store.dismiss(Selection.of([entry]), ANN, ActContext(at=NOW, operation="op", reason="stale"))
    await store.aclose()
    await assert_equal(path)
    page = first(path)
    assert page is not None
    assert [entry.state for entry in page.held] == ["in_doubt", "in_flight", "in_doubt"]


def test_anything_unusual_is_left_to_the_store(tmp_path: Path) -> None:
    usual = sqlite_store(tmp_path / "usual.db", [row(1)])
    assert first(usual) is not None
    assert first(tmp_path / "gone.db") is None
    (tmp_path / "text.db").write_text("not a database, but long enough to be looked at" * 5)
    assert first(tmp_path / "text.db") is None
    assert first("postgresql://ops@127.0.0.1:1/none") is None
    assert first(usual, table="another") is None


def test_two_queues_in_one_file_need_a_name(tmp_path: Path) -> None:
    path = sqlite_store(tmp_path / "two.db", [row(1)])
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE second AS SELECT * FROM order_dlq")
    assert first(path) is None


async def test_undecodable_text_is_read_as_the_store_reads_it(tmp_path: Path) -> None:
    path = sqlite_store(tmp_path / "bytes.db", [row(1)])
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER order_dlq_worm_upd")
        connection.execute("UPDATE order_dlq SET error = CAST(x'ff41' AS TEXT)")
    connection.close()
    await assert_equal(path)


def test_it_changes_nothing(tmp_path: Path) -> None:
    path = Path(sqlite_store(tmp_path / "s.db", [row(1)]))
    before = path.read_bytes()
    assert first(path) is not None
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("engine", "unloaded"),
    [("sqlite", {"sqlalchemy", "textual", "aiosqlite", "asyncio"}), ("postgres", {"sqlalchemy", "textual"})],
)
def test_it_needs_neither_sqlalchemy_nor_textual(engine: str, unloaded: set[str]) -> None:
    program = f"import backends.first_page.{engine}, sys; print(sorted({unloaded} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

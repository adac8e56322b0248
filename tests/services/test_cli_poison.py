"""Poison on the command line: a mark in list and show, a word of the filter, cleared by restore with a note."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Console
from tests.support.exchange import Exchange, in_thread
from tests.support.orders import row, sqlite_store
from tests.support.session import ident


@pytest.fixture(scope="module")
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


def order(number: int, **given: object) -> dict[str, Any]:
    now = datetime.now(UTC) - timedelta(seconds=5)
    return row(number, **{"captured_at": now, "quantity": float(number), "price": 18.0, **given})


@pytest.fixture
def pool(tmp_path: Path, exchange: Exchange) -> Console:
    """Entry 1 failed three times in one way; entry 2 comes with an engine's count of nine."""
    rows = [order(1, market_id="REJECT"), order(2, retry_count=9), order(3)]
    made = Console(tmp_path, sqlite_store(tmp_path / "orders.db", rows), exchange.url)
    for _ in range(3):
        assert made.inline("replay", ident(1), "--paper", "--json").row["outcome"] == "rejected"
    return made


def marks(pool: Console, *words: str) -> dict[str, list[str]]:
    return {one["dlq_id"]: one["marks"] for one in pool.inline("list", "--json", *words).rows}


def test_list_and_show_say_it(pool: Console) -> None:
    assert marks(pool) == {ident(1): ["poison"], ident(2): [], ident(3): []}
    assert [one["marks"] for one in pool.inline("export", "--format", "jsonl").rows] == [["poison"], [], []]
    plain = pool.inline("list").out.splitlines()
    assert [line for line in plain if "poison" in line] == ["  poison: failed 3 times in the same way"]
    assert plain[0].endswith("[pending, retries=3]"), "the first line stays as it was"
    assert pool.inline("show", ident(1), "--json").row["entry"]["marks"] == ["poison"]
    shown = pool.inline("show", ident(1)).out
    assert "next: failed 3 times in the same way: fix the cause, then dlq restore with a note clears the mark" in shown
    assert "poison" not in pool.inline("show", ident(2)).out


def test_the_filter_finds_it(pool: Console) -> None:
    assert list(marks(pool, "--filter", "mark:poison")) == [ident(1)]
    assert list(marks(pool, "--filter", "mark:poison venue:kalshi")) == []
    assert list(marks(pool, "--filter", "mark:poison", "--venue", "alpaca")) == [ident(1)]
    for words, text in (
        (("--filter", "mark:venom"), "no mark venom: there are poison stale may-have-arrived"),
        (("--filter", "venue:a", "--venue", "b"), "venue is given twice"),
        (("--filter", "colour:red"), "no field colour"),
    ):
        ran = pool.inline("list", *words)
        assert (ran.code, text in ran.err) == (2, True), ran.err


def test_a_replay_is_refused_until_a_note_clears_it(pool: Console) -> None:
    assert pool.inline("replay", ident(1), "--paper", "--json").row["detail"].startswith("poison: failed 3 times")
    bare = pool.inline("restore", ident(1), "--json")
    assert (bare.code, bare.row["outcome"]) == (4, "refused")
    assert "--note" in bare.row["detail"]
    other = pool.inline("restore", ident(2), "--note", "mended", "--json")
    assert (other.code, other.row["detail"]) == (4, "is pending, not dismissed")
    ran = pool.inline("restore", ident(1), "--note", "the venue mended it", "--json")
    assert (ran.code, ran.row) == (0, {"dlq_id": ident(1), "outcome": "restored", "detail": "poison cleared"})
    assert marks(pool)[ident(1)] == []
    events = {one["kind"]: one for one in pool.inline("show", ident(1), "--json").row["audit"]}
    assert (events["clear-poison"]["note"], events["clear-poison"]["entries"]) == ("the venue mended it", [ident(1)])
    assert pool.inline("replay", ident(1), "--paper", "--json").row["outcome"] == "rejected"
    assert pool.inline("audit", "verify").code == 0

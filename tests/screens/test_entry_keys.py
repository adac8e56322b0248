"""Sorting, stepping through entries, copying one as JSON: by keys, on a real store."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from console.screens.entry import EntryScreen
from console.services.browse import ranking
from console.terminal import clipboard
from tests.support.app import (
    NOW,
    Stage,
    answer,
    current,
    ident,
    ids,
    make_store,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    until,
)


async def test_s_goes_through_the_orders_and_the_frame_says_which(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        newest = ids(app)
        await press(pilot, "s")
        assert ids(app) == newest[::-1]
        assert "oldest first" in screen_text(app)
        await press(pilot, "s")
        await until(pilot, lambda: "largest value first" in screen_text(app))
        assert ids(app) == [ident(n) for n in range(11, -1, -1)], "later orders are worth more"
        assert "row 1 · 12 open" in screen_text(app)
        await press(pilot, "colon")
        await answer(pilot, "sort -value")
        await until(pilot, lambda: ids(app) == [ident(n) for n in range(12)])
        assert "smallest value first" in screen_text(app)
        await press(pilot, "colon")
        await answer(pilot, "sort zebra")
        assert "sort by age, value, tries or venue" in screen_text(app)


async def test_sorting_a_long_store_says_how_far_it_reaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "STEP", 100)
    monkeypatch.setattr(ranking, "MOST", 400)
    path = make_store(tmp_path / "long.db", (order(n, minutes=1 + (900 - n) / 60, price=2.0) for n in range(900)))
    app = Stage(path).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "s", "s")
        await until(pilot, lambda: "largest value first among the newest 400" in screen_text(app))
        assert ids(app)[0] == ident(899)
        await press(pilot, "G")
        await until(pilot, lambda: current(app) == ident(500))
        await press(pilot, "g")
        await until(pilot, lambda: current(app) == ident(899))
        for _ in range(12):
            await press(pilot, "pagedown")
        row = app.queue.table.window.position
        assert row is not None
        assert row > 200, "it reads on by rank"
        assert current(app) == ident(900 - row)


async def test_a_filter_keeps_the_order(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "s", "s", "slash")
        await answer(pilot, "429")
        await until(pilot, lambda: "largest value first" in screen_text(app) and "of 12 match" in screen_text(app))
        assert ids(app) == sorted(ids(app), reverse=True)


async def test_j_and_k_open_the_next_and_the_previous_entry(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "enter", "J", "J", "K")
        await settled(pilot)
        assert isinstance(app.screen, EntryScreen)
        assert ident(10) in screen_text(app)
        assert current(app) == ident(10), "the queue's cursor follows"
        await press(pilot, "K", "K")
        assert "no more entries in this direction" in screen_text(app)
        await press(pilot, "escape", "tab", "J")
        assert on_queue(app)
        assert current(app) == ident(10), "also while the pane is read"


async def test_a_copy_is_what_show_prints(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from console.cli.main import run

    taken: list[str] = []

    async def keep(text: str, _: Any) -> str:
        taken.append(text)
        return "a test"

    monkeypatch.setattr(clipboard, "copy", keep)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "Y")
        await until(pilot, lambda: "as JSON" in screen_text(app))
    copied = json.loads(taken[0])
    assert set(copied) >= {"entry", "attempts", "audit"}
    assert copied["entry"]["dlq_id"] == ident(10)
    capsys.readouterr()
    await _run(run, ["show", ident(10), "--db", str(stage.path), "--json"])
    printed = json.loads(capsys.readouterr().out)
    for one in (copied, printed):
        one["entry"].pop("marks")  # stale by the clock, which the test's console has stopped
    assert copied == printed


async def _run(run: Any, arguments: list[str]) -> None:
    import asyncio

    assert await asyncio.to_thread(run, arguments) == 0


async def test_the_age_in_the_pane_moves(tmp_path: Path) -> None:
    later = [NOW]
    stage = Stage(make_store(tmp_path / "orders.db", [order(1, minutes=0.5)]), clock=lambda: later[0])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "30s ago" in screen_text(app)
        later[0] = NOW + timedelta(minutes=4)
        await until(pilot, lambda: "4m ago" in screen_text(app))


async def test_the_biggest_problem_is_one_key_away(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "f")
        await until(pilot, lambda: "HTTP 429 after" in screen_text(app))
        rows = [line for line in screen_text(app).splitlines() if "HTTP 429" in line or "no answer" in line]
        assert "HTTP 429" in rows[0], "the largest group stands first"

"""The report of a batch: orders with a cursor, honest progress, and what is done from it, against a real venue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from console.render.batch import ReportKeys, head_lines, report_line, report_rows
from console.render.line import plain
from console.screens.batch import BatchScreen
from console.screens.entry import EntryScreen
from console.screens.gates.replay import ReplayGate
from console.services.replay.background_run import BackgroundRun, Kind, RunProgress, RunScope
from console.services.replay.outcome import EntryOutcome, OutcomeKind
from console.settings.config import Limits, StoreConfig
from tests.screens.test_gates import states
from tests.screens.test_replay_actions import over, stage_with
from tests.support.app import answer, app_of, current, ident, notice, order, press, screen_text, settled, until
from tests.support.exchange import Exchange


async def gate(pilot: Any, count: int) -> None:
    """The gate has its plan; its number is typed, and the batch runs to its end."""
    app = app_of(pilot)
    await until(pilot, lambda: isinstance(app.screen, ReplayGate) and f"type {count} to send" in screen_text(app))
    run = app.activity.run
    await answer(pilot, str(count))
    await until(pilot, lambda: app.activity.run is not run)
    begun = app.activity.run
    assert begun is not None
    while not begun.over:
        landed = len(begun.landed)
        await until(pilot, lambda landed=landed: begun.over or len(begun.landed) > landed)  # type: ignore[misc]
    await over(pilot)


async def test_a_group_larger_than_a_batch_is_drained_with_one_decision_a_batch(
    tmp_path: Path, venue: Exchange
) -> None:
    limits = Limits(max_batch=50, four_eyes_over=Decimal(10**9))
    stage = stage_with(tmp_path, venue, [order(n) for n in range(120)], limits=limits)
    quick = {name: replace(one, rate_per_minute=60_000) for name, one in stage.config.venues.items()}
    stage.config = replace(stage.config, venues=quick)
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "f", "R")
        for count, left in ((50, "50 of 70 left in group"), (50, "20 in group")):
            await gate(pilot, count)
            shown = screen_text(app)
            assert "PAPER · done" in shown
            assert f"{count} of {count} sent" in shown
            assert f"R plans the next {left}" in shown, shown
            await press(pilot, "R")
        await gate(pilot, 20)
        assert "R plans" not in screen_text(app)
        await press(pilot, "R")
        assert "nothing of what was chosen is left to send" in notice(app)
    assert set((await states(stage)).values()) == {"replayed"}
    assert len(venue.orders) == 120


async def test_from_the_report_a_row_is_opened_reconciled_and_the_cursor_goes_to_it(
    tmp_path: Path, venue: Exchange
) -> None:
    stage = stage_with(tmp_path, venue, [order(1), order(2, market_id="DROP"), order(3)])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await gate(pilot, 3)
        rows = re.findall(r"│ +(in doubt|accepted) +(?:buy|SELL) +\d+ (\w+)", screen_text(app))
        assert [word for word, _ in rows] == ["in doubt", "accepted", "accepted"], "in doubt first"
        assert rows[0][1] == "DROP"
        assert "alpaca main" in screen_text(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, EntryScreen)
        assert ident(2) in screen_text(app)
        await press(pilot, "J")
        assert ident(2) not in screen_text(app), "the next row of the report, not of the queue"
        await press(pilot, "escape", "escape")
        assert current(app) == ident(2), "the queue's cursor goes to what is in doubt"
        await press(pilot, "b")
        await pilot.press("C")
        await until(pilot, lambda: "PAPER · reconcile · done" in screen_text(app))
        await over(pilot)
        assert "1 of 1 settled" in screen_text(app)
        assert len(venue.posts) == 3, "reconciling sends nothing"
    assert set((await states(stage)).values()) == {"replayed"}


async def test_after_a_stop_what_was_not_sent_is_marked_and_sent_next(tmp_path: Path, venue: Exchange) -> None:
    venue.keep_waiting()
    stage = stage_with(tmp_path, venue, [order(n) for n in range(12)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "type 12 to send" in screen_text(app))
        await answer(pilot, "12")
        await until(pilot, lambda: isinstance(app.screen, BatchScreen))
        await pilot.press("exclamation_mark")
        venue.clear()
        await over(pilot)
        told = re.search(r"PAPER · stopped, (\d+) not sent +(█*)(░+) (\d+) of 12 sent", screen_text(app))
        assert told is not None, screen_text(app)
        unsent = int(told[1])
        assert unsent + int(told[4]) == 12
        await press(pilot, "M")
        assert f"{unsent} entries not sent marked in the queue" in notice(app)
        await press(pilot, "escape")
        assert f"{unsent} marked" in screen_text(app)
        assert set(app.queue.marks) == {one for one, state in (await states(stage)).items() if state == "pending"}
        await press(pilot, "b", "R")
        await gate(pilot, unsent)
        assert f"{unsent} of {unsent} sent" in screen_text(app)
    assert len(venue.orders) == 12


async def test_a_rehearsal_says_so_and_a_replay_outlives_its_report(tmp_path: Path, venue: Exchange) -> None:
    venue.keep_waiting()
    stage = stage_with(tmp_path, venue, [order(n) for n in range(4)])
    stage = replace(stage, store=StoreConfig("prod-orders", str(stage.path), environment="live", mode="paper"))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "type 4 to send" in screen_text(app))
        for key in ("4", "enter"):
            await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, BatchScreen))
        await pilot.press("escape")
        venue.clear()
        await over(pilot)
        await press(pilot, "b")
        assert "PAPER · rehearsal · done" in screen_text(app)
        assert "every entry stays as it was" in screen_text(app)
    assert len(venue.orders) == 4
    assert set((await states(stage)).values()) == {"pending"}


def _run(
    kind: Kind, *ended: tuple[str, OutcomeKind, str], going: Sequence[str], held: Sequence[str] = ()
) -> RunProgress:
    async def nothing(_: object) -> tuple[EntryOutcome, ...]:
        return ()

    landed = [EntryOutcome(name, outcome, "paper", detail=detail) for name, outcome, detail in ended]
    scope = RunScope(tuple(going), (), tuple(held))
    return RunProgress(kind, "paper", len(landed), BackgroundRun(nothing), lambda: 1.0, landed, scope=scope, over=True)


def _head(run: RunProgress, size: int = 116) -> str:
    lines = head_lines(run, size, waiting="", keys=ReportKeys(), most=50, elsewhere=False)
    return "\n".join(plain(cells).rstrip() for cells in lines)


def test_refused_entries_are_no_progress_and_what_was_there_was_not_sent() -> None:
    run = _run(
        "replay",
        ("a", "accepted", "found: open"),
        ("b", "accepted", ""),
        ("c", "refused", "stale: 95m old"),
        ("d", "refused", "stale: 96m old"),
        going=("a", "b"),
        held=("c", "d"),
    )
    head = _head(run)
    assert "PAPER · done" in head
    assert "1 of 2 sent, 1 there already" in head
    assert "░" not in head
    assert "held 2: stale 2" in head
    assert "M marks 2 held" in head


@pytest.mark.parametrize("size", [76, 116])
def test_a_row_says_what_was_found_before_the_order_s_long_id(size: int) -> None:
    ended = EntryOutcome("a", "accepted", "paper", "72949ac4-ba3a-44be-8973-ab3492a18771", detail="found: open")
    run = _run("reconcile", going=())
    run.landed = [ended]
    (row,) = report_rows(run)
    assert "found: open" in plain(report_line(row, size, over=True, kind="reconcile"))


def test_nothing_looks_full_after_a_stop_or_a_failure() -> None:
    run = _run("replay", ("a", "accepted", ""), ("b", "skipped", "stopped: nothing was sent"), going=("a", "b", "c"))
    run.stopping = True
    assert "PAPER · stopped, 1 not sent" in _head(run)
    assert "1 of 3 sent" in _head(run)
    run.problem = "the store does not answer"
    head = _head(run)
    assert "ended early, 1 not sent, 1 without an outcome" in head
    assert "it ended early: the store does not answer" in head
    assert [row.ended and row.ended.outcome for row in report_rows(run)] == ["skipped", "accepted", None]


def test_a_reconcile_that_ends_in_doubt_is_not_full() -> None:
    head = _head(_run("reconcile", ("a", "unknown", "not there yet"), ("b", "not_sent", "absent"), going=()))
    assert "PAPER · reconcile · done" in head
    assert "1 of 2 settled" in head
    assert "absent 1" in head
    assert "░" in head

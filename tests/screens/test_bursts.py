"""Keys typed right after a capital: the gate discards them, and none reaches the queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.command import CommandList
from textual.pilot import Pilot

from console.app import ConsoleApp
from console.screens.entry import EntryScreen
from console.screens.error_dialog import Dialog
from console.screens.evidence.answer import AnswerDialog
from console.screens.gates.gate import DEAD_SECONDS, Gate
from console.screens.people.approvals import ApprovalsScreen
from tests.screens.test_gates import states
from tests.screens.test_replay_actions import over, stage_with
from tests.support.app import (
    Stage,
    answer,
    config,
    current,
    gate_message,
    ident,
    in_gate,
    make_store,
    notice,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    typed,
    until,
)
from tests.support.exchange import Exchange
from tests.support.snapshots.order_store import DISMISSED, IN_DOUBT, live_through, shift

ANSWERS = "zj1\r1\rlive 1\rquit\rbecause\rv "
SLOW = {"dead_seconds": DEAD_SECONDS}


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    """A store with one entry in doubt on top; gates have their real dead time."""
    path = make_store(tmp_path / "orders.db", shift())
    await live_through(path)
    return Stage(path, config=config(), changes=SLOW)


def key(character: str) -> events.Key:
    match character:
        case "\r":
            return events.Key("enter", "\r")
        case " ":
            return events.Key("space", " ")
        case _:
            return events.Key(character, character)


def burst(app: ConsoleApp, text: str) -> None:
    """Send all keys before the first one is handled."""
    for character in text:
        app.post_message(key(character))


def heard_by_queue(app: ConsoleApp) -> list[str]:
    """Record the keys that the queue receives."""
    heard: list[str] = []
    take: Callable[[events.Key], None] = app.queue.take_key

    def listening(event: events.Key) -> None:
        heard.append(event.key)
        take(event)

    app.queue.take_key = listening  # type: ignore[method-assign]  # it listens, and does what it always does
    return heard


async def gate_stands(pilot: Pilot[Any], app: ConsoleApp, heard: list[str], capital: str) -> None:
    await until(pilot, lambda: in_gate(app))
    await settled(pilot)
    assert heard == [capital]
    assert in_gate(app)
    assert typed(app) == ""


@pytest.mark.parametrize("capital", list("DRNHmS"))
async def test_a_burst_behind_a_capital_is_the_gates_and_does_nothing(stage: Stage, capital: str) -> None:
    before = await states(stage)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        if capital in "DR":
            await press(pilot, "j")
        heard = heard_by_queue(app)
        burst(app, f"{capital}{ANSWERS}")
        await gate_stands(pilot, app, heard, capital)
        assert app.header_state.mode == "paper"
        assert (app.header_state.halt is None) == (capital != "H"), "which halts at once"
        assert app.activity.run is None
    assert await states(stage) == before


async def test_a_burst_behind_restore_is_the_gates(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "state:dismissed")
        heard = heard_by_queue(app)
        burst(app, f"U{ANSWERS}")
        await gate_stands(pilot, app, heard, "U")
    assert (await states(stage))[ident(DISMISSED)] == "dismissed"


async def test_a_burst_behind_quit_while_something_runs_is_the_gates(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        heard = heard_by_queue(app)
        with app.activity.acting():
            burst(app, f"q{ANSWERS}")
            await gate_stands(pilot, app, heard, "q")
            await press(pilot, "escape")
        assert app.return_code is None


@pytest.mark.parametrize("capital", list("UDNR"))
async def test_a_capital_that_is_refused_leaves_no_keys_to_the_queue(stage: Stage, capital: str) -> None:
    """U on a pending entry, D on one in doubt, N and R on none: keys meant for a gate are discarded."""
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        if capital in "NR":
            await press(pilot, "slash")
            await answer(pilot, "zebra")
        at, newest = current(app), app.queue.loader.newest_first
        burst(app, f"{capital}js zq\r1\r")
        await settled(pilot)
        assert on_queue(app)
        assert not app._exit
        assert (current(app), app.queue.loader.newest_first) == (at, newest)
        assert not app.queue.marks
        assert "nothing to undo" not in notice(app)


async def test_after_a_rest_the_queue_hears_again(stage: Stage) -> None:
    stage.changes = {"dead_seconds": 0.0}
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "U", "j")
        assert current(app) != ident(IN_DOUBT)


async def test_the_venue_s_panel_opens_before_the_store_has_answered(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app.queue.press(next(one for one in app.keys_at("queue") if one.id == "reconcile"))
        assert isinstance(app.screen, AnswerDialog), "in the same breath, without an await between"
        await until(pilot, lambda: app.activity.run is not None and app.activity.run.over)


async def test_the_tail_of_what_was_typed_ahead_is_no_answer(stage: Stage) -> None:
    """Keys that begin in the dead time and go on after it: the gate opens only after a pause."""
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "D")
        gate = app.screen
        assert isinstance(gate, Gate)
        await until(pilot, lambda: gate._open_from < float("inf"))
        seen = gate._open_from - DEAD_SECONDS
        for n in range(40):  # a held key: one every 50 ms for two seconds
            event = key(("1", "1", "\r")[n % 3])
            event.time = seen + n / 20
            app.post_message(event)
        await settled(pilot)
        assert in_gate(app)
        assert typed(app) == ""
        assert "does not count" in gate_message(app)
        assert gate._open_from > seen + 2.0
    assert (await states(stage))[ident(29)] == "pending"


async def test_enter_held_down_after_the_answer_acts_once_and_opens_nothing(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "D")
        gate = app.screen
        assert isinstance(gate, Gate)
        await until(pilot, lambda: gate.is_open)
        burst(app, "11" + "\r" * 40)
        await settled(pilot)
        assert on_queue(app)
        assert "1 dismissed" in notice(app)
    kept = list((await states(stage)).values())
    assert kept.count("dismissed") == 2


async def test_leftovers_of_one_gate_do_not_answer_the_next(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "D")
        gate = app.screen
        assert isinstance(gate, Gate)
        await until(pilot, lambda: gate.is_open)
        burst(app, "11\r11\rD11\r11\r")
        await settled(pilot)
        await until(pilot, lambda: in_gate(app) and app.screen is not gate)
        assert typed(app) == ""
    assert list((await states(stage)).values()).count("dismissed") == 2


async def test_held_enter_begins_one_batch(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1), order(2)])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "type 2 to send" in screen_text(app))
        burst(app, "2" + "\r" * 40)
        await over(pilot)
        assert "PAPER · done" in screen_text(app), "an Enter held down opens nothing"
    assert len(venue.orders) == 2


async def test_a_burst_behind_p_opens_the_list_and_does_nothing_there(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        burst(app, f"P{ANSWERS}q")
        await settled(pilot)
        assert isinstance(app.screen, ApprovalsScreen), "no key behind it quits, or opens anything"
        assert app.return_code is None


async def test_a_dialog_that_comes_unasked_is_not_closed_by_typing(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app.push_screen(Dialog((), "the disk is full", dead_seconds=DEAD_SECONDS))
        burst(app, "\r\r\rq ")
        await settled(pilot)
        assert isinstance(app.screen, Dialog)
        await press(pilot, "escape")
        assert on_queue(app)


async def test_enter_after_a_gate_opens_the_entry_once_it_has_rested(stage: Stage) -> None:
    stage.changes = {"dead_seconds": 0.0}
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "D", "1")
        await answer(pilot, "1")
        await press(pilot, "enter")
        assert isinstance(app.screen, EntryScreen)


async def test_keys_behind_a_command_of_the_palette_are_nobodys(stage: Stage) -> None:
    """The palette closes a moment before the chosen command runs."""
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "ctrl+p")
        await until(pilot, lambda: app.screen.query(CommandList))
        await pilot.press(*"dismiss")
        listed = app.screen.query_one(CommandList)
        await until(pilot, lambda: 0 < listed.option_count < 4 and listed.highlighted == 0)
        at = current(app)
        burst(app, "\rjsz")
        await until(pilot, lambda: in_gate(app))
        await settled(pilot)
        assert (current(app), app.queue.loader.newest_first, typed(app)) == (at, True, "")


async def test_another_capital_right_behind_a_refused_one_works(stage: Stage) -> None:
    """D on an entry in doubt says reconcile first; C right after it must work, and what follows is nobody's."""
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        burst(app, "DC1\r")
        await until(pilot, lambda: app.activity.run is not None and app.activity.run.over)
        await settled(pilot)
        assert app.activity.run is not None
        assert app.activity.run.kind == "reconcile"

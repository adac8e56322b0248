"""Nothing but a typed answer acts: pastes, floods, held keys, keys typed ahead, a poisoned environment, resizes."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from tests.support.exchange import Exchange
from tests.support.terminal.console import Desk, fresh
from tests.support.terminal.pty import Size, Terminal, click, pasted

RESIZES = int(os.environ.get("DLQ_RESIZES", "30"))
FLOOD_SECONDS = float(os.environ.get("DLQ_FLOOD_SECONDS", "1"))
_BOMBS = (
    "D1\r1\r",
    "R1\r",
    "D9x\r1\r",
    "mlive\rR",
    "U1\r",
    "Nnoted\r",
    "C1\r",
    "S2gone\rsettle\r",
    ":dismiss\r1\r",
    "D\n1\n1\n",
)


@pytest.fixture
def desk(tmp_path: Path, venue: Exchange) -> Desk:
    return Desk.at(tmp_path, venue, [fresh(1)])


def _attached(terminal: Terminal) -> None:
    terminal.shows("pending 1 ", "row 1 · 1 open")


def _to_queue(terminal: Terminal) -> None:
    """Out of whatever is open; the console still answers."""
    for _ in range(3):
        terminal.press("esc")
        terminal.pump(0.2)  # an esc followed at once by another key would be that key with alt
    terminal.press("?")
    terminal.shows("remap them in the config")
    terminal.back("remap them in the config")
    _attached(terminal)


def _leave_untouched(terminal: Terminal, desk: Desk, venue: Exchange) -> None:
    _to_queue(terminal)
    assert "PAPER" in terminal.text
    terminal.press("q")
    assert terminal.ended() == 0
    assert terminal.is_restored()
    assert desk.is_untouched()
    assert venue.posts == []


def test_a_paste_acts_on_nothing(desk: Desk, venue: Exchange) -> None:
    with desk.open() as terminal:
        _attached(terminal)
        for bomb in _BOMBS:
            terminal.type(pasted(bomb))
        terminal.press("D")
        terminal.opened("Dismiss 1 entry")
        for bomb in _BOMBS:
            terminal.type(pasted(bomb))
        terminal.shows("a paste is not an answer")
        terminal.press("1")
        terminal.shows("type 1 to dismiss")
        terminal.type(pasted("1\r"))
        terminal.press("enter")
        terminal.shows("Enter alone confirms nothing")
        _leave_untouched(terminal, desk, venue)


def test_keys_typed_ahead_act_on_nothing(desk: Desk, venue: Exchange) -> None:
    """A paste from a terminal that does not say it is one: all of it is there before the gate has been seen."""
    with desk.open() as terminal:
        _attached(terminal)
        for bomb in _BOMBS:
            terminal.type(bomb)
            _to_queue(terminal)
            assert desk.is_untouched(), f"{bomb!r} acted"
            assert venue.posts == [], f"{bomb!r} sent an order"
        _leave_untouched(terminal, desk, venue)


def test_keys_right_behind_a_gates_key_are_the_gates(tmp_path: Path, venue: Exchange) -> None:
    """`z` takes back a dismiss at once: typed ahead into a gate, as in a note, it must not mean that."""
    desk = Desk.at(tmp_path, venue, [fresh(1), fresh(2)])
    with desk.open() as terminal:
        terminal.shows("pending 2 ", "row 1 · 2 open")
        terminal.press("D")
        terminal.opened("Dismiss 1 entry")
        terminal.press("1", "1", "enter")
        terminal.shows("1 dismissed", "pending 1 ")
        for gate in "DRNmS":
            terminal.type(f"{gate}zzz")
            terminal.opened()
            terminal.settle()
            assert "restored" not in terminal.text, gate
            terminal.back("esc cancels")
            terminal.shows("pending 1 ")
        terminal.type("Pzzz")
        terminal.shows("Nothing waits for a second person")
        assert "restored" not in terminal.text
        terminal.back("Nothing waits for a second person")
        terminal.type("Czzz")
        terminal.shows("What the venue says of 1 entry", "Nothing was written")
        assert "restored" not in terminal.text
        terminal.back("esc closes")
        terminal.type("Hzzz\r")  # halts at once; the rest is at most the note
        terminal.shows("HALT by")
        assert "restored" not in terminal.text
        assert sorted(desk.states().values()) == ["dismissed", "pending"]
        assert venue.posts == []


def test_a_flood_of_acting_keys_acts_on_nothing(desk: Desk, venue: Exchange) -> None:
    """At 1,000 a second, among them every right answer."""
    keys = itertools.cycle("DR1\r1\r1\rCUN1\r1\rmP1\rlive\r")
    with desk.open() as terminal:
        _attached(terminal)
        for _ in range(int(FLOOD_SECONDS * 100)):
            terminal.type("".join(itertools.islice(keys, 10)))
            terminal.pump(0.01)
        _leave_untouched(terminal, desk, venue)


@pytest.mark.parametrize("gate", ["D", "R"])
def test_a_flood_of_right_answers_acts_on_nothing(desk: Desk, venue: Exchange, gate: str) -> None:
    with desk.open() as terminal:
        _attached(terminal)
        terminal.press(gate)
        for _ in range(int(FLOOD_SECONDS * 100)):
            terminal.type("\r1\r1\r1\r1\r1")
            terminal.pump(0.01)
        told = ("does not count", "too fast to be typed")  # the second where the gate opened before the flood was over
        terminal.until(lambda: any(one in terminal.text for one in told), f"shows one of {told}")
        _leave_untouched(terminal, desk, venue)


@pytest.mark.parametrize("gate", ["D", "R"])
def test_enter_held_down_confirms_nothing(desk: Desk, venue: Exchange, gate: str) -> None:
    with desk.open() as terminal:
        _attached(terminal)
        terminal.press(gate)
        terminal.opened("1 entry")
        if gate == "D":
            terminal.press("1")
            terminal.shows("type 1 to dismiss")
        for held in itertools.count():
            terminal.press("enter")
            # On a slow machine they come in bunches: ever slower, until one of them was not typed ahead.
            terminal.pump(0.03 if held <= 45 else min(1.0, 0.01 * (held - 42)))
            if held > 45 and "Enter alone confirms nothing" in terminal.text:
                break
            assert held < 300, terminal.text
        _leave_untouched(terminal, desk, venue)


def test_clicks_confirm_nothing(desk: Desk, venue: Exchange) -> None:
    with desk.open() as terminal:
        _attached(terminal)
        terminal.press("R")
        terminal.opened("Replay 1 entry", "type 1 to send")
        for row, column in itertools.product(range(1, 25), range(1, 81, 3)):
            terminal.type(click(column, row, button=(row + column) % 3))
        terminal.shows("type 1 to send")
        _leave_untouched(terminal, desk, venue)


@pytest.mark.parametrize("keys", ["R,1,enter", "D,1,1,enter", "q"])
def test_the_environment_presses_no_key(desk: Desk, venue: Exchange, keys: str) -> None:
    poison = {"TEXTUAL_PRESS": keys, "TEXTUAL": "debug,devtools", "TEXTUAL_SCREENSHOT": "1", "TEXTUAL_LOG": "leak.log"}
    with desk.open(environ=poison) as terminal:
        _attached(terminal)
        assert "esc cancels" not in terminal.text
        _leave_untouched(terminal, desk, venue)


def test_resizes_to_any_size_lose_nothing(desk: Desk, venue: Exchange) -> None:
    sizes = (
        Size(80, 24),
        Size(1, 1),
        Size(200, 60),
        Size(79, 24),
        Size(3, 40),
        Size(80, 23),
        Size(300, 2),
        Size(20, 8),
    )
    with desk.open() as terminal:
        _attached(terminal)
        for number in range(RESIZES):
            terminal.resize(sizes[number % len(sizes)])
            if number % 7 == 3:
                terminal.press("D" if number % 2 else "R", "1", "1", "enter")
            terminal.pump(0.002)
        terminal.resize(Size(60, 20))
        for _ in range(3):
            terminal.press("esc")
            terminal.pump(0.2)
        terminal.shows("too small to act")
        terminal.press("D")
        terminal.shows("dismiss: the terminal is too")
        terminal.resize(Size(120, 40))
        terminal.hides("too small to act")
        terminal.resize(Size(80, 24))
        _leave_untouched(terminal, desk, venue)

"""A submit outlives its terminal: one that reads nothing, one that hangs up, a console that is told to end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.exchange import Exchange
from tests.support.terminal.console import Desk, fresh
from tests.support.terminal.entry import CANARY
from tests.support.terminal.pty import Size, Terminal, wait_for

STALL_SECONDS = float(os.environ.get("DLQ_STALL_SECONDS", "3"))
_MODES = (b"1000", b"1003", b"1006", b"2004", b"1004", b"1049")


@pytest.fixture
def desk(tmp_path: Path, venue: Exchange) -> Desk:
    return Desk.at(tmp_path, venue, [fresh(1)], settings={"timeout": STALL_SECONDS + 20})


def _submitting(terminal: Terminal, venue: Exchange, seconds: float) -> None:
    """Up to where the venue has the order and says nothing yet."""
    venue.fault("delay", seconds=seconds)
    terminal.shows("pending 1 ", "row 1 · 1 open")
    terminal.press("R")
    terminal.opened("Replay 1 entry · PAPER", "type 1 to send")
    terminal.press("1", "enter")
    terminal.until(lambda: venue.posts, "the venue hears of it")


def _state(desk: Desk) -> str:
    (state,) = desk.states().values()
    return state


def _is_clean(terminal: Terminal) -> bool:
    """Every mode that was set was reset after it was set for the last time; line mode and echo are back."""
    raw = bytes(terminal.raw)
    last_off = [raw.rfind(b"\x1b[?" + mode + b"l") > raw.rfind(b"\x1b[?" + mode + b"h") for mode in _MODES]
    return all(last_off) and raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l") and terminal.is_restored()


def _stall(terminal: Terminal) -> None:
    """More is painted than the line holds, and nobody reads."""
    for number in range(24):
        terminal.resize(Size(200, 60) if number % 2 else Size(120, 50))
        terminal.type("t", read=False)


def test_a_terminal_that_reads_nothing_costs_no_outcome(desk: Desk, venue: Exchange) -> None:
    with desk.open() as terminal:
        _submitting(terminal, venue, STALL_SECONDS)
        _stall(terminal)
        wait_for(lambda: _state(desk) == "replayed", "the outcome is on record")
        terminal.settle()  # what was painted for other sizes
        terminal.resize(Size(80, 24))
        terminal.settle()
        terminal.press("j")  # a person would press some key: what is shown then is what is so
        terminal.shows("PAPER · done", "accepted")
        terminal.back("PAPER · done")
        terminal.press("q")
        assert terminal.ended() == 0
        assert _is_clean(terminal)
    assert len(venue.posts) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_told_to_end_while_submitting(desk: Desk, venue: Exchange, number: signal.Signals) -> None:
    with desk.open() as terminal:
        _submitting(terminal, venue, 1.5)
        terminal.signal(number)
        assert terminal.ended() == 128 + number
        assert _is_clean(terminal)
    assert _state(desk) == "replayed"
    assert len(venue.posts) == 1


def test_told_to_end_while_the_terminal_reads_nothing(desk: Desk, venue: Exchange) -> None:
    with desk.open() as terminal:
        _submitting(terminal, venue, 1.5)
        _stall(terminal)
        terminal.signal(signal.SIGTERM)
        wait_for(lambda: terminal.process.poll() is not None, "it ends")
        assert terminal.ended() == 128 + signal.SIGTERM
        assert terminal.is_restored()
    assert _state(desk) == "replayed"
    assert len(venue.posts) == 1


def test_a_hang_up_while_submitting(desk: Desk, venue: Exchange) -> None:
    with desk.open() as terminal:
        _submitting(terminal, venue, 1.5)
        terminal.hang_up()
        assert terminal.ended() == 128 + signal.SIGHUP
    assert _state(desk) == "replayed"
    assert len(venue.posts) == 1


def test_a_hang_up_at_rest(desk: Desk, venue: Exchange) -> None:
    with desk.open() as terminal:
        terminal.shows("pending 1 ", "row 1 · 1 open")
        terminal.hang_up()
        assert terminal.ended() == 128 + signal.SIGHUP
    assert desk.is_untouched()


def test_a_hang_up_under_a_program_that_keeps_the_signal_to_itself(desk: Desk, venue: Exchange) -> None:
    """As make does: it waits for the console, and only it is told that the terminal is gone."""
    waiting = ("sh", "-c", 'trap "" HUP; "$@"; exit $?', "sh")
    with desk.open(under=waiting) as terminal:
        terminal.shows("pending 1 ", "row 1 · 1 open")
        terminal.hang_up()
        assert terminal.ended() == 128 + signal.SIGHUP
    assert desk.is_untouched()


def test_an_answer_that_never_comes_is_in_doubt(tmp_path: Path, venue: Exchange) -> None:
    desk = Desk.at(tmp_path, venue, [fresh(1)], settings={"timeout": 1.0})
    with desk.open() as terminal:
        _submitting(terminal, venue, 30)
        terminal.signal(signal.SIGTERM)
        assert terminal.ended() == 128 + signal.SIGTERM
        assert _is_clean(terminal)
    assert _state(desk) == "in_doubt"


def test_a_bug_tells_no_value(desk: Desk, venue: Exchange) -> None:
    with desk.open(module="tests.support.terminal.entry", environ={"DLQ_TEST_ENTRY": "crash"}) as terminal:
        terminal.shows("pending 1 ", "row 1 · 1 open")
        terminal.press("t")
        assert terminal.ended() == 70
        assert _is_clean(terminal)
        said = terminal.raw.decode()
    assert "this is a bug (RuntimeError" in said
    assert CANARY not in said
    assert "signing with" not in said
    assert "api_key" not in said
    assert "Traceback" not in said


def test_a_bug_while_submitting_loses_no_outcome(desk: Desk, venue: Exchange) -> None:
    with desk.open(module="tests.support.terminal.entry", environ={"DLQ_TEST_ENTRY": "crash"}) as terminal:
        _submitting(terminal, venue, 1.5)
        terminal.press("t")
        assert terminal.ended() == 70
        assert CANARY not in terminal.raw.decode()
    assert _state(desk) == "replayed"

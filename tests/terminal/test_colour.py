"""NO_COLOR: not one colour leaves for the terminal, on any screen; what the colours said is said otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.exchange import Exchange
from tests.support.terminal.console import Desk, fresh

SCREENS = (("?", "remap them in the config"), ("A", "WHAT BECAME OF IT"), ("f", "COUNT "), ("D", "Dismiss 1"))
_REVERSE = re.compile(rb"\x1b\[(?:\d+;)*7(?:;\d+)*m")
_UNDERLINE = re.compile(rb"\x1b\[(?:\d+;)*4(?:;\d+)*m")
_CTRL_P = "\x10"
_SGR = re.compile(rb"\x1b\[([0-9;:]*)m")


def colours(raw: bytes) -> set[bytes]:
    """Every escape that sets a colour; bold, dim, reverse and reset are none."""
    return {codes for codes in _SGR.findall(raw) if any(30 <= int(n) <= 107 for n in re.findall(rb"\d+", codes))}


@pytest.mark.parametrize("value", ["1", "yes"])
def test_no_colour_leaves(tmp_path: Path, venue: Exchange, value: str) -> None:
    desk = Desk.at(tmp_path, venue, [fresh(1), fresh(2)])
    with desk.open(environ={"NO_COLOR": value}) as terminal:
        terminal.shows("pending 2 ", "row 1 · 2 open")
        terminal.press("j")
        terminal.shows("row 2 · 2 open")
        for key, word in SCREENS:
            terminal.press(key)
            terminal.shows(word)
            terminal.back(word)
        terminal.press("q")
        assert terminal.ended() == 0
        assert colours(bytes(terminal.raw)) == set()
        assert _REVERSE.search(terminal.raw), "the cursor is seen"


def test_the_palette_s_chosen_line_is_told_without_colour(tmp_path: Path, venue: Exchange) -> None:
    with Desk.at(tmp_path, venue, [fresh(1)]).open(environ={"NO_COLOR": "1"}) as terminal:
        terminal.shows("pending 1 ", "row 1 · 1 open")
        assert not _UNDERLINE.search(terminal.raw)
        terminal.type(_CTRL_P)
        terminal.shows("a command by its name", "plan a replay")
        assert _UNDERLINE.search(terminal.raw)


def test_otherwise_colours_leave(tmp_path: Path, venue: Exchange) -> None:
    """The test above can fail."""
    with Desk.at(tmp_path, venue, [fresh(1)]).open() as terminal:
        terminal.shows("pending 1 ")
        assert colours(bytes(terminal.raw))


def test_sixteen_colours_keep_live_red_behind_a_gate(tmp_path: Path, venue: Exchange) -> None:
    """A dimmed red would be the nearest of sixteen: yellow, the colour of a warning."""
    environ = {"TERM": "xterm", "COLORTERM": ""}
    with Desk.at(tmp_path, venue, [fresh(1, error="RuntimeError: HTTP 429 after 3 attempts")]).open(
        environ=environ
    ) as terminal:
        terminal.shows("pending 1 ", "row 1 · 1 open")
        terminal.press("m")
        terminal.opened("type live")
        terminal.type("live\r")
        terminal.shows("LIVE")
        terminal.hides("esc cancels")
        terminal.raw.clear()
        terminal.press("D")
        terminal.opened("Dismiss 1")
        numbers = {int(n) for codes in colours(bytes(terminal.raw)) for n in codes.split(b";")}
        assert 91 in numbers, "red"
        assert not numbers & {33, 43, 93, 103}, "yellow"
        assert not numbers & {38, 48}, "none of 256"

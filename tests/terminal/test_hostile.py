"""Hostile rows in a real terminal: paged through, opened, clicked on. Nothing of them acts, nothing of them escapes."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path

import pytest

from tests.support.exchange import Exchange
from tests.support.hostile_rows import forbidden, hostile_store, tag
from tests.support.terminal.console import Desk
from tests.support.terminal.pty import Size, Terminal, click

ROWS = int(os.environ.get("DLQ_HOSTILE", "120"))
SIZE = Size(160, 50)
_TAG = re.compile(r"#\d{6}")
_ROW = re.compile(r"row ([\d,]+) · ")


@pytest.fixture
def desk(tmp_path: Path, venue: Exchange) -> Desk:
    desk = Desk.at(tmp_path, venue, [])
    desk.path.unlink()
    hostile_store(desk.path, ROWS)
    return desk


def _cursor_is_painted(terminal: Terminal, before: str) -> bool:
    """The frame names another row than before, and that row is on the screen: the frame may come before the rows."""
    at = _ROW.search(terminal.text)
    return at is not None and at[0] != before and tag(ROWS - int(at[1].replace(",", ""))) in terminal.text


def _page_through(terminal: Terminal) -> None:
    """From the top to the last row: every row was on the screen."""
    seen = set(_TAG.findall(terminal.text))
    while (at := _ROW.search(terminal.text)) and at[1] != f"{ROWS:,}":
        terminal.press("pgdn")
        terminal.until(partial(_cursor_is_painted, terminal, at[0]), "the next page")
        terminal.settle(0.2)
        seen |= set(_TAG.findall(terminal.text))
    assert {tag(number) for number in range(ROWS)} - seen == set()


def _open_some(terminal: Terminal, count: int) -> None:
    """Every tab of every so many."""
    for _ in range(count):
        terminal.press("enter")
        terminal.settle(0.1)
        for _ in range(5):
            terminal.press("]")
            terminal.settle(0.03)
        terminal.press("G")
        terminal.settle(0.03)
        terminal.press("esc")
        terminal.settle(0.2)
        terminal.press("down")


def _sweep(terminal: Terminal, size: Size) -> None:
    """A click on every cell; where one has opened an entry, that is clicked on too, then left."""
    for row in range(1, size.rows + 1):
        terminal.type("".join(click(column, row) for column in range(1, size.columns + 1)))
        terminal.settle(0.05)
        terminal.press("esc")
        terminal.settle(0.2)


def _quit_clean(terminal: Terminal, desk: Desk, venue: Exchange) -> None:
    terminal.press("q")
    assert terminal.ended() == 0, terminal.text
    assert forbidden(bytes(terminal.raw))[:20] == []
    assert desk.is_untouched() or _only_refused(desk)
    assert venue.posts == []


def _only_refused(desk: Desk) -> bool:
    """A click on `R` in the footer asks for a replay, which these rows are refused, and the refusal is on record."""
    kinds = {json.loads(body)["kind"] for (body,) in desk.query("SELECT body FROM console_audit")}
    touched = desk.query("SELECT 1 FROM order_dlq WHERE dismissed OR retry_count")
    return kinds <= {"refused-replay"} and not touched and not desk.query("SELECT 1 FROM console_attempt")


def test_hostile_rows_paged_through_and_opened(desk: Desk, venue: Exchange) -> None:
    with desk.open(size=SIZE) as terminal:
        terminal.shows("pending ", f"{ROWS:,} open")
        _page_through(terminal)
        _open_some(terminal, max(6, ROWS // 1000))
        terminal.press("f")
        terminal.shows(" groups · ")
        terminal.settle(0.3)
        terminal.back(" groups · ")
        _quit_clean(terminal, desk, venue)


def test_a_click_on_every_cell_of_hostile_rows(desk: Desk, venue: Exchange) -> None:
    size = Size(80, 24)
    with desk.open(size=size) as terminal:
        terminal.shows("pending ", f"{ROWS:,} open")
        for _ in range(2 if "DLQ_HOSTILE" in os.environ else 1):
            _sweep(terminal, size)
            terminal.press("pgdn")
            terminal.settle(0.1)
        _quit_clean(terminal, desk, venue)


def test_the_check_finds_what_it_is_for() -> None:
    """Textual's own bytes pass; each kind of hostile byte is found."""
    assert forbidden("\x1b[?1049h\x1b[1;2H\x1b[38;2;1;2;3mplain ▏ é\x1b[0m\r\n".encode()) == []
    for bad in (
        "\x1b]52;c;eA==\x07",
        "\x1b]0;t\x07",
        "\x1b[2J",
        "\u202e",
        "\u200b",
        "\x9b31m",
        "\0",
        "\ufe0f",
        "\ue000",
    ):
        assert forbidden(f"a{bad}b".encode()), repr(bad)

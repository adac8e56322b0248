"""The first frame shows the same rows in the same places as the queue, and acts on nothing."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path
from typing import Literal

import pyte
import pytest

from backends.first_page import read_first_page
from backends.target import parse_target
from console.app_setup import header_state_of
from console.terminal import first_frame as prelude
from console.text.untrusted import is_forbidden
from console.theme.palette import PALETTES, Depth
from tests.support.app import NOW, Stage, make_store, order, screen_text, settled

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HOSTILE = "x\x1b]52;c;aGk=\x07\u202e[@click=app.quit]\x00\x9b2J"


def painted(stage: Stage, size: tuple[int, int], colours: Depth | Literal["none"] = "true") -> str:
    page = read_first_page(parse_target(str(stage.path)), limit=120)
    assert page is not None
    setup = stage.setup()
    header_state = header_state_of(setup, setup.store)._replace(label=page.label)
    palette = PALETTES["true" if colours == "none" else colours]["dark"]
    return prelude.frame(page, header_state, NOW, prelude.Look(*size, colours), palette)


def shown(text: str, size: tuple[int, int]) -> list[str]:
    screen = pyte.Screen(*size)
    pyte.Stream(screen).feed(text)
    return [line.rstrip() for line in screen.display]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
@pytest.mark.parametrize("count", [0, 3, 12, 80])
async def test_the_screens_paint_the_same_rows_in_the_same_places(
    tmp_path: Path, size: tuple[int, int], count: int
) -> None:
    stage = Stage(make_store(tmp_path / "orders.db", (order(n, minutes=1 + n) for n in range(count))))
    first = shown(painted(stage, size), size)
    app = stage.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        then = screen_text(app).split("\n")
        table = app.queue.table.region
    assert first[0] == then[0], "the frame's title"
    wide = table.right
    for line in range(table.y, table.bottom):
        expected = then[line][:wide].rstrip()
        assert count == 0 or first[line][:wide].rstrip() == expected, line
    assert len(first) == size[1]
    assert all(len(line) == size[0] for line in first)


@pytest.mark.parametrize("colours", ["true", "256", "16", "none"])
def test_nothing_in_it_acts(tmp_path: Path, colours: Depth | Literal["none"]) -> None:
    hostile = order(1, error=HOSTILE, market_id=HOSTILE.replace("\0", ""), account_id=HOSTILE.replace("\0", ""))
    text = painted(Stage(make_store(tmp_path / "orders.db", [hostile])), (120, 40), colours)
    bare = _ESCAPES.sub("", text).replace("\r\n", "")
    assert not [one for one in bare if is_forbidden(one)]
    assert set(_ESCAPES.findall(text)) - {"\x1b[?1049h", "\x1b[?25l", "\x1b[1;1H"} == {
        one for one in _ESCAPES.findall(text) if one.endswith("m")
    }


def test_live_has_another_border(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "orders.db", [order(1)]))
    paper = shown(painted(stage, (80, 24)), (80, 24))
    setup = stage.setup()
    page = read_first_page(parse_target(str(stage.path)), limit=10)
    assert page is not None
    header_state = header_state_of(setup, setup.store)._replace(mode="live")
    look = prelude.Look(80, 24, "true")
    live = shown(prelude.frame(page, header_state, NOW, look, PALETTES["true"]["dark"]), (80, 24))
    assert paper[0].startswith("╭")
    assert live[0].startswith("┏")
    assert "LIVE" in live[0]


@pytest.mark.parametrize(
    ("environ", "size", "colours"),
    [
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, (80, 24), "true"),
        ({"TERM": "xterm-256color"}, (80, 24), "256"),
        ({"TERM": "xterm"}, (80, 24), "16"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, (80, 24), "none"),
        ({"TERM": "dumb"}, (80, 24), None),
        ({}, (80, 24), None),
        ({"TERM": "xterm"}, (79, 24), None),
    ],
)
def test_where_it_is_tried(environ: dict[str, str], size: tuple[int, int], colours: str | None) -> None:
    look = prelude.look_of(environ, os.terminal_size(size))
    assert (look.colours if look else None) == colours


def test_a_failure_before_the_screens_gives_the_terminal_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r+b", buffering=0) as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(sys, "stdin", terminal)
        with pytest.raises(ImportError), prelude.painted(f"{prelude.ENTER}rows"):
            raise ImportError
        expected = f"{prelude.ENTER}rows\x1b[0m\x1b[?25h\x1b[?1049l"
        written = ""
        while expected.startswith(written) and written != expected:  # a terminal hands over each write by itself
            written += os.read(ours, 4096).decode()
    os.close(ours)
    assert written == expected

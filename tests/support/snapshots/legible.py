"""What every screen must hold to at every size: no wrapped row, no word cut where there is room, no code, no repr."""

from __future__ import annotations

import re
from typing import Any

from textual.pilot import Pilot

from console.screens.gates.gate import Gate
from console.screens.health import HealthScreen
from console.widgets.text_pane import TextPane
from tests.support.app import app_of, screen_text
from tests.support.snapshots.play import Play, rested
from tests.support.snapshots.states import L, M, S

SIZES = (S, M, L)
_ROOM = 16  # blank columns behind a cut word that would have held more of it
_TURNS = 40
_CUT = re.compile(r"\S…( +)[│┃|║]?$")
_REPR = re.compile(
    r"Decimal\(|datetime\.|frozenset\(|namedtuple|object at 0x|<class |NoneType|\bNone\b|\{'|\['|dict_(keys|values)"
)
_EXPONENT = re.compile(r"(?<![\w.-])\d+(\.\d+)?[eE][-+]?\d{2}\b")
_CODE = re.compile(r"(?<![:,\w.\"=])(in_doubt|in_flight|not_sent|cannot_ask|partially_filled|self_approved)(?![\w:])")
_UNSEPARATED = re.compile(r"\b(pending|open|in doubt|marked|match|sent|gross|limit|over|worth) \d{4,}\b")
_FILTERS = re.compile(r"filter|state:|pending in_flight in_doubt|in_doubt \(replayed\)")  # the language has these words


def complaints(text: str) -> list[str]:
    """What is wrong with a screen's text."""
    rows = text.splitlines()
    found = [
        f"cut though there is room: {row.strip()}" for row in rows if (cut := _CUT.search(row)) and len(cut[1]) > _ROOM
    ]
    for row in rows:
        found += [f"{what}: {row.strip()}" for what, sign in _SIGNS if sign.search(row)]
        if _CODE.search(row) and not _FILTERS.search(row):
            found.append(f"a code: {row.strip()}")
    return found


_SIGNS = (("a repr", _REPR), ("an exponent", _EXPONENT), ("no separators", _UNSEPARATED))


class Wrong:
    """Looks at the screen of a scene that is kept as a picture, and puts it back; `found`: what is wrong with it."""

    def __init__(self) -> None:
        self.found = ""

    def look(self) -> Play:
        async def play(pilot: Pilot[Any]) -> None:
            width, height = app_of(pilot).size
            try:
                await check(pilot)
            except AssertionError as problem:
                self.found = str(problem)
            await pilot.resize_terminal(width, height)
            await rested(pilot)

        return play


async def _painted(pilot: Pilot[Any]) -> str:
    """The screen at its new size. One that shows through from behind may be some turns later than the one in front."""
    text = ""
    for turn in range(_TURNS):
        await pilot.pause()
        text = screen_text(app_of(pilot))
        if turn and not complaints(text):
            break
    return text


async def check(pilot: Pilot[Any]) -> None:
    """The screen as it stands, at every size."""
    app, found = app_of(pilot), []
    for size in SIZES:
        await pilot.resize_terminal(*size)
        text = await _painted(pilot)
        found += [f"{size[0]}x{size[1]}: {one}" for one in complaints(text)]
        drawn = isinstance(app.screen, HealthScreen) and "VENUES" in text  # else it tells in a sentence why not
        if drawn and len(app.screen.query_one(TextPane).rows) != len(app.screen.query_one(TextPane).lines):
            found.append(f"{size[0]}x{size[1]}: a row is wrapped")
        if not isinstance(app.screen, Gate) and any(len(row) > size[0] for row in text.splitlines()[:-1]):
            found.append(f"{size[0]}x{size[1]}: a row is wider than the screen")
    assert not found, "\n".join(found)

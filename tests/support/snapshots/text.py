"""A screen as a text file: its lines, then a letter per cell for the colours, then what each letter stands for.

`matches` compares it with the stored file; `pytest --snapshot-update` writes the file instead.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.pilot import Pilot

from console.app import ConsoleApp
from tests.support.snapshots import legible
from tests.support.snapshots.play import Play
from tests.support.snapshots.states import Size

HOME = Path(__file__).parents[2] / "snapshots" / "__text__"
Compare = Callable[..., None]
_LETTERS = "." + string.ascii_letters + string.digits
_WEIGHTS = ("bold", "dim", "italic", "underline", "reverse", "strike")


def file_of(name: str, size: Size) -> Path:
    return HOME / f"{name}-{size[0]}x{size[1]}.txt"


def take_text(app: ConsoleApp, size: Size, play: Play, *, at_every_size: bool) -> str:
    """Runs the console, plays the scene, writes down what it shows then; on demand looks at every size."""

    shown: list[str] = []
    wrong: list[str] = []

    async def auto_pilot(pilot: Pilot[Any]) -> None:
        await play(pilot)
        await pilot.pause()
        await pilot.wait_for_scheduled_animations()
        await pilot.pause()
        shown.append(written(app))
        try:
            if at_every_size:
                await legible.check(pilot)
        except AssertionError as problem:
            wrong.append(str(problem))
        app.exit()

    app.run(headless=True, auto_pilot=auto_pilot, size=size)
    assert shown, "the console ended before its screen was written down"
    assert not wrong, wrong[0]
    return shown[0]


def written(app: ConsoleApp) -> str:
    """The screen as it is painted, with the screens that show through from behind."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens, simplify=True)
    assert isinstance(update, LayoutUpdate)
    letters: dict[str, str] = {}
    lines, colours = [], []
    for line in update.strips:
        segments = [segment for strip in line for segment in strip]
        lines.append("".join(segment.text for segment in segments).rstrip())
        named = ((_look(segment.style), segment.cell_length) for segment in segments)
        colours.append("".join(letters.setdefault(look, _LETTERS[len(letters)]) * length for look, length in named))
    legend = [f"{letter} {look}" for look, letter in letters.items()]
    return "\n".join([*lines, "", "colours:", *colours, "", *legend]) + "\n"


def _look(style: Style | None) -> str:
    """A cell's colours and weight in words."""
    if style is None:
        return "plain"
    fore, back = ("default" if one is None else one.name for one in (style.color, style.bgcolor))
    return " ".join([fore, "on", back, *(weight for weight in _WEIGHTS if getattr(style, weight))])


def compare(path: Path, shown: str, *, update: bool) -> None:
    """Fails with the first line that differs; with `update` the file becomes what is shown."""
    if update:
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
        return
    assert path.exists(), f"{path.name} is missing: pytest --snapshot-update writes it"
    assert shown.split("\n") == path.read_text(encoding="utf-8").split("\n"), f"{path.name}: the screen has changed"

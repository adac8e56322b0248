"""The colours: readable on the ground and on the cursor in every theme, and told apart; with 256 and 16 too."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from rich.color import Color, ColorSystem

from console.render.line import TONES, Tone
from console.terminal.first_frame import _colour
from console.theme.palette import PALETTES, ROLES, Depth, ink_and_ground

_LEAST = 4.5
_STYLES = Path(__file__).parents[2] / "console" / "styles"
_TONES = ("text", "muted", "accent", "good", "warning", "danger")


def luminance(colour: str) -> float:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def in_terminal(colour: str, depth: Depth, sixteen: list[str]) -> str:
    """The colour as the terminal paints it: what the screens hand over is brought down to what there is."""
    if depth == "true":
        return colour
    system = ColorSystem.STANDARD if depth == "16" else ColorSystem.EIGHT_BIT
    lower = Color.parse(colour).downgrade(system)
    return sixteen[lower.number or 0] if depth == "16" else lower.get_truecolor().hex


# What common terminals make of the sixteen.
_SIXTEEN = {
    "vga": (
        "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa "
        "555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"
    ),
    "xterm": (
        "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
        "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
    ),
    "windows": (
        "0c0c0c c50f1f 13a10e c19c00 0037da 881798 3a96dd cccccc "
        "767676 e74856 16c60c f9f1a5 3b78ff b4009e 61d6d6 f2f2f2"
    ),
    "macos": (
        "000000 990000 00a600 999900 0000b2 b200b2 00a6b2 bfbfbf "
        "666666 e50000 00d900 e5e500 0000ff e500e5 00e5e5 e5e5e5"
    ),
}
_EVERY = [(theme, depth) for depth in PALETTES for theme in PALETTES[depth]]


@pytest.mark.parametrize("terminal", _SIXTEEN)
@pytest.mark.parametrize(("theme", "depth"), _EVERY)
def test_every_tone_can_be_read_on_the_ground_and_on_the_cursor(theme: str, depth: Depth, terminal: str) -> None:
    sixteen = [f"#{one}" for one in _SIXTEEN[terminal].split()]
    palette = PALETTES[depth][theme]
    assert {role for role, _ in ROLES.values()} == set(_TONES)
    low = {}
    for tone in TONES:
        for cursor in (False, True):
            pair = [in_terminal(one, depth, sixteen) for one in ink_and_ground(palette, tone, cursor=cursor)]
            if contrast(*pair) < _least(depth, tone):
                low[tone, cursor] = round(contrast(*pair), 2)
    assert not low


def _least(depth: Depth, tone: Tone) -> float:
    """With sixteen colours the terminal decides: its red, its magenta and its greys are what they are."""
    if depth != "16":
        return _LEAST
    return 3.9 if tone == "dim" else 4.2


@pytest.mark.parametrize(("theme", "depth"), _EVERY)
def test_paper_live_and_warning_are_told_apart(theme: str, depth: Depth) -> None:
    """PAPER has the accent, LIVE the danger; the cursor is seen, and no tone vanishes in it."""
    palette = PALETTES[depth][theme]
    vga = [f"#{one}" for one in _SIXTEEN["vga"].split()]
    shown = {role: in_terminal(getattr(palette, role), depth, vga) for role in (*_TONES, "ground", "cursor")}
    same = {pair for pair in combinations(shown, 2) if shown[pair[0]] == shown[pair[1]]}
    black_on_white = {("text", "good")} if (theme, depth) == ("light", "16") else set()  # no green is read on white
    assert same <= {("text", "muted")} | black_on_white


@pytest.mark.parametrize("theme", PALETTES["256"])
@pytest.mark.parametrize("depth", ["256", "16"])
def test_the_first_frame_and_the_screens_have_the_same_colours(theme: str, depth: Depth) -> None:
    """Rich brings the screens' colours down; the first frame, painted before Rich is loaded, names its numbers."""
    system = ColorSystem.STANDARD if depth == "16" else ColorSystem.EIGHT_BIT
    for colour in PALETTES[depth][theme][:8]:
        lower = Color.parse(str(colour)).downgrade(system)
        for under in (0, 10):
            assert _colour(str(colour), depth, under=under) == ";".join(lower.get_ansi_codes(foreground=not under))


def test_style_sheets_name_roles_and_no_colours() -> None:
    for sheet in _STYLES.glob("*.tcss"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(), flags=re.S)
        assert not re.search(r":[^;{]*#[0-9a-fA-F]{3,8}\b", text), sheet.name
        assert not re.search(r"\$(?!background|foreground|accent|error|warning|dlq-muted|dlq-cursor)\w", text), (
            sheet.name
        )


def test_paper_live_and_read_only_differ_in_border_too() -> None:
    sheet = (_STYLES / "frame.tcss").read_text()
    borders = re.findall(r"border: (\w+) \$(dlq-muted|error);", sheet)
    assert {kind for kind, _ in borders} >= {"round", "heavy", "ascii"}

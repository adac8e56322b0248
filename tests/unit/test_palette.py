"""The colours: readable on the ground and on the cursor in every theme, and told apart where there are only 16."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from rich.color import Color, ColorSystem

from console.theme.palette import PALETTES, ROLES

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


def of_sixteen(colour: str) -> int | None:
    return Color.parse(colour).downgrade(ColorSystem.STANDARD).number


@pytest.mark.parametrize("theme", PALETTES)
def test_every_tone_can_be_read_on_the_ground_and_on_the_cursor(theme: str) -> None:
    palette = PALETTES[theme]
    assert {role for role, _ in ROLES.values()} == set(_TONES)
    low = {
        (role, under): round(contrast(getattr(palette, role), getattr(palette, under)), 2)
        for role in _TONES
        for under in ("ground", "cursor")
        if contrast(getattr(palette, role), getattr(palette, under)) < _LEAST
    }
    assert not low


@pytest.mark.parametrize("theme", PALETTES)
def test_sixteen_colours_tell_paper_live_and_warning_apart(theme: str) -> None:
    """PAPER has the accent, LIVE the danger; the cursor is seen, and no tone vanishes in it."""
    palette = PALETTES[theme]
    numbers = {role: of_sixteen(getattr(palette, role)) for role in (*_TONES, "ground", "cursor")}
    same = [pair for pair in combinations(numbers, 2) if numbers[pair[0]] == numbers[pair[1]]]
    assert [pair for pair in same if set(pair) <= {"accent", "danger", "warning", "good", "text", "ground"}] == []
    assert [pair for pair in same if "cursor" in pair] == []


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

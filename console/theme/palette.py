"""The colours of the dark, light and high-contrast themes, named by purpose.

Must not import Textual: the first frame is painted before Textual is loaded. Every colour can be read on the ground
and on the cursor, and terminals with 256 or 16 colours have their own: the nearest ones could not be read there.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from console.render.line import Tone

Depth = Literal["true", "256", "16"]  # how many colours the terminal has


class Palette(NamedTuple):
    ground: str
    text: str
    muted: str
    cursor: str
    accent: str
    good: str
    warning: str
    danger: str
    has_bar: bool = False  # the cursor's row has its ink and its ground exchanged


_TRUE = {
    "dark": Palette(
        ground="#14181d", text="#d4d9de", muted="#8f9aa3", cursor="#22303d",
        accent="#55a0c8", good="#69c378", warning="#dcaf41", danger="#f06e73",
    ),
    "light": Palette(
        ground="#fbfaf7", text="#22272c", muted="#4f5a63", cursor="#c8d2dc",
        accent="#055a9b", good="#146414", warning="#7d4a00", danger="#aa1e2d",
    ),
    "contrast": Palette(
        ground="#000000", text="#ffffff", muted="#d0d0d0", cursor="#0000c0",
        accent="#00ffff", good="#00ff00", warning="#ffff00", danger="#ff7a7a",
    ),
}  # fmt: skip
# Colours that terminals with 256 have; Rich makes the lighter greys a step darker.
_INDEXED = {
    "dark": Palette(
        ground="#121212", text="#dadada", muted="#a8a8a8", cursor="#303030",
        accent="#5fafd7", good="#5fd787", warning="#d7af5f", danger="#ff8787",
    ),
    "light": Palette(
        ground="#ffffff", text="#262626", muted="#4e4e4e", cursor="#eeeeee",
        accent="#005f87", good="#005f00", warning="#875f00", danger="#af0000",
    ),
    "contrast": Palette(
        ground="#000000", text="#ffffff", muted="#dadada", cursor="#0000af",
        accent="#00ffff", good="#00ff00", warning="#ffff00", danger="#ff8787",
    ),
}  # fmt: skip
# The names of the sixteen, as their usual values. No terminal has a red that can be read on grey or blue, so the cursor
# is a bar in the ink's own colour; none has a green or a yellow that can be read on white.
_SIXTEEN = {
    "dark": Palette(
        ground="#000000", text="#ffffff", muted="#aaaaaa", cursor="#0000aa",
        accent="#55ffff", good="#55ff55", warning="#ffff55", danger="#ff5555", has_bar=True,
    ),
    "light": Palette(
        ground="#ffffff", text="#000000", muted="#555555", cursor="#aaaaaa",
        accent="#0000aa", good="#000000", warning="#aa00aa", danger="#aa0000", has_bar=True,
    ),
    "contrast": Palette(
        ground="#000000", text="#ffffff", muted="#ffffff", cursor="#0000aa",
        accent="#55ffff", good="#55ff55", warning="#ffff55", danger="#ff5555", has_bar=True,
    ),
}  # fmt: skip
PALETTES: dict[Depth, dict[str, Palette]] = {"true": _TRUE, "256": _INDEXED, "16": _SIXTEEN}
_LOUD = ("warning", "danger")  # keep their colour in a bar
# Tone: colour of the palette, and whether it is bold.
ROLES: dict[Tone, tuple[str, bool]] = {
    "plain": ("text", False),
    "dim": ("muted", False),
    "strong": ("text", True),
    "accent": ("accent", True),
    "warning": ("warning", False),
    "danger": ("danger", True),
    "good": ("good", False),
    "key": ("accent", False),
    "match": ("accent", True),  # and underlined
}


def chosen(theme: str | None) -> str:
    """The theme's name; dark where it is unknown."""
    return theme if theme in _TRUE else "dark"


def following(theme: str) -> str:
    """The theme that comes after this one."""
    names = list(_TRUE)
    return names[(names.index(theme) + 1) % len(names)]


def ink_and_ground(palette: Palette, tone: Tone, *, cursor: bool) -> tuple[str, str]:
    """The colours of a text in this tone, on the cursor's row or on another."""
    role = ROLES[tone][0]
    ink: str = getattr(palette, role)
    if not cursor:
        return ink, palette.ground
    if not palette.has_bar:
        return ink, palette.cursor
    return palette.ground, ink if role in _LOUD else palette.text

"""The colours of the dark, light and high-contrast themes, named by purpose.

Must not import Textual: the first frame is painted before Textual is loaded. Every colour can be read on the ground
and on the cursor (4.5:1), and terminals with 16 colours tell them apart.
"""

from __future__ import annotations

from typing import NamedTuple

from console.render.line import Tone


class Palette(NamedTuple):
    ground: str
    text: str
    muted: str
    cursor: str
    accent: str
    good: str
    warning: str
    danger: str


PALETTES = {
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
    return theme if theme in PALETTES else "dark"

"""The colours of the dark, light and high-contrast themes, named by purpose.

Must not import Textual: the first frame is painted before Textual is loaded.
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
        ground="#14181d", text="#d4d9de", muted="#7f8a94", cursor="#2b3947",
        accent="#7aa2c8", good="#7fb383", warning="#d9a441", danger="#e5626a",
    ),
    "light": Palette(
        ground="#fbfaf7", text="#22272c", muted="#666f77", cursor="#d8e3ec",
        accent="#1f5f99", good="#2f6f37", warning="#8a5a00", danger="#b3202c",
    ),
    "contrast": Palette(
        ground="#000000", text="#ffffff", muted="#d0d0d0", cursor="#0000c0",
        accent="#00ffff", good="#00ff00", warning="#ffff00", danger="#ff6060",
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
}


def chosen(theme: str | None) -> str:
    """The theme's name; dark where it is unknown."""
    return theme if theme in PALETTES else "dark"

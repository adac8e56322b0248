"""The colours: one accent, one warning, one danger; dark, light and high contrast. Styles name roles, never colours."""

from __future__ import annotations

from typing import NamedTuple

from textual.theme import Theme


class _Colours(NamedTuple):
    ground: str
    text: str
    muted: str
    cursor: str
    accent: str
    good: str
    warning: str
    danger: str


def _theme(name: str, colours: _Colours, *, dark: bool) -> Theme:
    return Theme(
        name=f"dlq-{name}",
        primary=colours.accent,
        accent=colours.accent,
        error=colours.danger,
        warning=colours.warning,
        success=colours.good,
        foreground=colours.text,
        background=colours.ground,
        surface=colours.ground,
        panel=colours.ground,
        dark=dark,
        variables={
            "dlq-muted": colours.muted,
            "dlq-cursor": colours.cursor,
            "input-cursor-background": colours.text,
            "input-cursor-foreground": colours.ground,
            "input-selection-background": colours.cursor,
        },
    )


_DARK = _Colours(
    ground="#14181d", text="#d4d9de", muted="#7f8a94", cursor="#2b3947",
    accent="#7aa2c8", good="#7fb383", warning="#d9a441", danger="#e5626a",
)  # fmt: skip
_LIGHT = _Colours(
    ground="#fbfaf7", text="#22272c", muted="#666f77", cursor="#d8e3ec",
    accent="#1f5f99", good="#2f6f37", warning="#8a5a00", danger="#b3202c",
)  # fmt: skip
_CONTRAST = _Colours(
    ground="#000000", text="#ffffff", muted="#d0d0d0", cursor="#0000c0",
    accent="#00ffff", good="#00ff00", warning="#ffff00", danger="#ff6060",
)  # fmt: skip
THEMES = (
    _theme("dark", _DARK, dark=True),
    _theme("light", _LIGHT, dark=False),
    _theme("contrast", _CONTRAST, dark=True),
)

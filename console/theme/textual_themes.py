"""The palettes as Textual themes, and the filter for NO_COLOR. Style sheets name roles, never colours."""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter, Monochrome
from textual.theme import Theme

from console.theme.palette import PALETTES, Depth, Palette


def _theme(name: str, palette: Palette) -> Theme:
    return Theme(
        name=f"dlq-{name}",
        primary=palette.accent,
        accent=palette.accent,
        error=palette.danger,
        warning=palette.warning,
        success=palette.good,
        foreground=palette.text,
        background=palette.ground,
        surface=palette.ground,
        panel=palette.ground,
        dark=name != "light",
        variables={
            "dlq-muted": palette.muted,
            "dlq-cursor": palette.cursor,
            "input-cursor-background": palette.text,
            "input-cursor-foreground": palette.ground,
            "input-selection-background": palette.cursor,
        },
    )


_DEPTHS: dict[str | None, Depth] = {"standard": "16", "windows": "16", "256": "256"}


def depth_of(colour_system: str | None) -> Depth:
    """How many colours there are, by Rich's name for it."""
    return _DEPTHS.get(colour_system, "true")


def themes(depth: Depth) -> tuple[Theme, ...]:
    return tuple(_theme(name, palette) for name, palette in PALETTES[depth].items())


class Colourless(LineFilter):
    """Removes every colour; Textual's own filter would still send greys."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's own signature
        return [Segment(text, style.without_color if style else None, control) for text, style, control in segments]


def colourless(filters: Iterable[LineFilter]) -> list[LineFilter]:
    return [*(one for one in filters if not isinstance(one, Monochrome)), Colourless()]

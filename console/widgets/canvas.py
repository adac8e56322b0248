"""The base of all widgets: paints lines of toned text. No markup, no actions, no new layout when a text changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from console.render.line import Line, Tone, clip
from console.theme.palette import PALETTES, ROLES, ink_and_ground
from console.theme.textual_themes import depth_of


class Canvas(Widget):
    """Paints each line of `show` cut to the width. Subclasses decide which line stands where."""

    DEFAULT_CSS = """
    Canvas { height: 1; }
    """

    def __init__(self, *lines: Line, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id, classes=classes)
        self._lines: Sequence[Line] = lines
        self.on_column: Callable[[int], None] | None = None  # told where the first line was clicked
        self._styles_of: dict[tuple[Tone, bool, str], Style] = {}

    def show(self, *lines: Line) -> None:
        """Repaint only where a line changed, so that an idle console writes nothing to the terminal."""
        if tuple(lines) != tuple(self._lines):
            self._lines = lines
            self.refresh()

    @property
    def lines(self) -> Sequence[Line]:
        return self._lines

    def on_click(self, event: events.Click) -> None:
        if self.on_column is not None and event.y == 0 and self._lines:
            event.stop()
            self.on_column(event.x)

    def notify_style_update(self) -> None:
        self._styles_of.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        return self.strip(self._lines[y] if y < len(self._lines) else ())

    def strip(self, line: Line, *, cursor: bool = False) -> Strip:
        size, theme = self.size.width, self.app.theme
        parts: list[tuple[str, Tone]] = []
        for cell in clip(line, size):
            # Spaces show no tone, unless it underlines them: join them to the segment before.
            if parts and cell.text.isspace() and parts[-1][1] != "match":
                parts[-1] = (parts[-1][0] + cell.text, parts[-1][1])
            else:
                parts.append((cell.text, cell.tone))
        segments = [Segment(text, self._style(tone, theme, cursor=cursor)) for text, tone in parts]
        return Strip(segments).adjust_cell_length(size, self._style("plain", theme, cursor=cursor))

    def _style(self, tone: Tone, theme: str, *, cursor: bool) -> Style:
        """Look the tone up in the theme; a CSS rule per tone would slow down every widget."""
        known = self._styles_of.get((tone, cursor, theme))
        if known is None:
            palette = PALETTES[depth_of(self.app.console.color_system)][theme.removeprefix("dlq-")]
            ink, ground = ink_and_ground(palette, tone, cursor=cursor)
            bold = ROLES[tone][1]
            known = self.rich_style + Style(color=ink, bold=bold or None, bgcolor=ground if cursor else None)
            if tone == "match":  # told without colour, too
                known += Style(underline=True)
            if self.app.no_color:
                known += Style(reverse=cursor or None, dim=(tone == "dim" and not cursor) or None)
            self._styles_of[tone, cursor, theme] = known
        return known

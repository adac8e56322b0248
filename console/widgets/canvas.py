"""A widget that paints lines of toned text and nothing else: no markup, no actions, no layout when a text changes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from console.render.line import Line, Tone, clip

_ROLES: dict[Tone, tuple[str, bool]] = {
    "plain": ("foreground", False),
    "dim": ("dlq-muted", False),
    "strong": ("foreground", True),
    "accent": ("accent", True),
    "warning": ("warning", False),
    "danger": ("error", True),
    "good": ("success", False),
    "key": ("accent", False),
}


class Canvas(Widget):
    """`show` puts lines up; each is cut to the width. Subclasses decide which line stands where."""

    DEFAULT_CSS = """
    Canvas { height: 1; }
    """

    def __init__(self, *lines: Line, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id, classes=classes)
        self._lines: Sequence[Line] = lines
        self._styles_of: dict[tuple[Tone, bool, str], Style] = {}

    def show(self, *lines: Line) -> None:
        """Paints only where something changed, so that an idle screen stays silent."""
        if tuple(lines) != tuple(self._lines):
            self._lines = lines
            self.refresh()

    @property
    def lines(self) -> Sequence[Line]:
        return self._lines

    def notify_style_update(self) -> None:
        self._styles_of.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        return self.strip(self._lines[y] if y < len(self._lines) else ())

    def strip(self, line: Line, *, cursor: bool = False) -> Strip:
        size = self.size.width
        segments = [Segment(cell.text, self._style(cell.tone, cursor=cursor)) for cell in clip(line, size)]
        return Strip(segments).adjust_cell_length(size, self._style("plain", cursor=cursor))

    def _style(self, tone: Tone, *, cursor: bool) -> Style:
        """A tone is a role of the theme, asked of the theme itself: a style rule for each would cost every widget."""
        theme = self.app.theme
        known = self._styles_of.get((tone, cursor, theme))
        if known is None:
            roles = self.app.theme_variables
            variable, bold = _ROLES[tone]
            ground = roles["dlq-cursor"] if cursor else None
            known = self.rich_style + Style(color=roles[variable], bold=bold or None, bgcolor=ground)
            self._styles_of[tone, cursor, theme] = known
        return known

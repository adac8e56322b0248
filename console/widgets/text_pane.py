"""A pane of wrapped lines that scrolls. Knows nothing of what the lines say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice

from textual import events
from textual.geometry import Size
from textual.strip import Strip

from console.render.line import Line, trusted, wrap
from console.widgets.canvas import Canvas

_MOST = 20_000  # lines after wrapping, so that a text of a million lines does not block the screen


class TextPane(Canvas):
    """Wraps its lines when they are painted, up to `_MOST`."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id, classes=classes)
        self._wrapped: list[Line] | None = None
        self._wrapped_to = 0
        self._top = 0

    def put(self, lines: Sequence[Line], *, keep_place: bool = False) -> None:
        if keep_place and list(lines) == self._lines:
            return  # an idle console writes nothing to the terminal
        self._lines, self._wrapped = list(lines), None
        self._top = self._top if keep_place else 0
        self.refresh(layout=self.styles.is_auto_height)

    @property
    def rows(self) -> list[Line]:
        size = self.size.width
        if self._wrapped is None or self._wrapped_to != size:  # it may be painted before the resize event arrives
            every = chain.from_iterable(wrap(cells, size) for cells in self._lines)
            self._wrapped, self._wrapped_to = list(islice(every, _MOST)), size
        return self._wrapped

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's own signature
        """The height of the text, for `height: auto`."""
        return max(1, sum(1 for cells in self._lines for _ in wrap(cells, width)))

    def scroll_lines(self, by: int) -> None:
        self.scroll_to_line(self._top + by)

    def scroll_to_line(self, top: int) -> None:
        last = max(0, len(self.rows) - self.size.height)
        wanted = max(0, min(top, last))
        if wanted != self._top:
            self._top = wanted
            self.refresh()

    def reveal(self, at: int) -> None:
        """Scroll as little as it takes to show this row; the last row of the pane may say how many more there are."""
        if at < self._top:
            self.scroll_to_line(at)
        elif at > self._top + self.size.height - 2:
            self.scroll_to_line(at - self.size.height + 2)

    def render_line(self, y: int) -> Strip:
        rows, height = self.rows, self.size.height
        self._top = max(0, min(self._top, len(rows) - height))
        at = self._top + y
        hidden = len(rows) - self._top - height
        if y == height - 1 and hidden > 0 and height > 1:
            return self.strip((trusted(f"↓ {hidden + 1:,} more lines", "dim"),))
        return self.strip(rows[at] if at < len(rows) else ())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)

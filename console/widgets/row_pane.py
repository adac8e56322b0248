"""A pane of wrapped lines with a cursor on one of them. Knows nothing of what the lines say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from textual.strip import Strip

from console.render.line import Line, wrap
from console.widgets.text_pane import TextPane

_MOST = 20_000  # lines after wrapping


class RowPane(TextPane):
    """The cursor stands on a line as it was put, however many rows that takes."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id, classes=classes)
        self._chosen: int | None = None
        self._sources: list[int] = []  # of each row: the line it is a part of

    def put(self, lines: Sequence[Line], *, keep_place: bool = False) -> None:
        if not keep_place:
            self._chosen = None
        super().put(lines, keep_place=keep_place)

    @property
    def chosen(self) -> int | None:
        return self._chosen

    @property
    def rows(self) -> list[Line]:
        size = self.size.width
        if self._wrapped is None or self._wrapped_to != size:
            every = ((at, row) for at, cells in enumerate(self._lines) for row in wrap(cells, size))
            pairs = list(islice(every, _MOST))
            self._sources = [at for at, _ in pairs]
            self._wrapped, self._wrapped_to = [row for _, row in pairs], size
        return self._wrapped

    def choose(self, at: int | None) -> None:
        """Put the cursor on this line and bring it into sight."""
        self._chosen = at
        if at is not None and self.rows:
            first = next((row for row, source in enumerate(self._sources) if source == at), 0)
            last = first + self._sources.count(at) - 1
            height = max(2, self.size.height) - 1  # the last row may say how many more there are
            if first < self._top:
                self._top = first
            elif last >= self._top + height:
                self._top = max(0, min(first, last - height + 1))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        strip, at = super().render_line(y), self._top + y
        rows = self.rows
        hides = y == self.size.height - 1 and len(rows) - self._top > self.size.height > 1
        if self._chosen is None or hides or at >= len(rows) or self._sources[at] != self._chosen:
            return strip
        return self.strip(rows[at], cursor=True)

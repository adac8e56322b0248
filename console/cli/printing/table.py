"""A table in plain text that is never wider than the terminal. Knows cells and widths; prints nothing itself."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LOOK_AT = 200  # rows by which the widths are chosen
_GAP = 2


class TextColumn(NamedTuple):
    title: str
    least: int = 0  # may be cut down to this; 0: never
    optional: bool = False  # left out where the terminal is narrow
    right: bool = False


def table_width() -> int | None:
    """The terminal's, or what COLUMNS says; None where nobody looks at it, so that nothing is cut."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


class TextTable:
    """Takes rows one by one and gives lines. The first rows are kept until the widths can be chosen."""

    def __init__(self, columns: Sequence[TextColumn], width: int | None) -> None:
        self._columns = columns
        self._width = width
        self._kept: list[Sequence[str]] = []
        self._widths: list[int] | None = None  # 0: left out

    def add(self, row: Sequence[str]) -> Iterator[str]:
        if self._widths is not None:
            yield self._line(row, self._widths)
            return
        self._kept.append(row)
        if len(self._kept) >= _LOOK_AT:
            yield from self.finish()

    def finish(self) -> Iterator[str]:
        """What is still kept. Without rows there is no head either."""
        if self._widths is not None or not self._kept:
            return
        self._widths = widths = self._chosen()
        yield self._line([one.title for one in self._columns], widths)
        for row in self._kept:
            yield self._line(row, widths)
        self._kept = []

    def _chosen(self) -> list[int]:
        titles = [one.title for one in self._columns]
        widths = [max(map(_cells, column)) for column in zip(titles, *self._kept, strict=True)]
        if self._width is None:
            return widths
        for place in reversed(range(len(widths))):
            least = [min(one.least or have, have) for one, have in zip(self._columns, widths, strict=True)]
            if _total(least) > self._width and self._columns[place].optional:
                widths[place] = 0
        while _total(widths) > self._width:
            spare = [have - one.least if one.least else 0 for one, have in zip(self._columns, widths, strict=True)]
            if max(spare) <= 0:
                break  # `_line` cuts what is left
            widths[spare.index(max(spare))] -= 1
        return widths

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = []
        for one, text, room in zip(self._columns, row, widths, strict=True):
            if room:
                shown = cut(text, room)
                pad = " " * (room - _cells(shown))
                cells.append(pad + shown if one.right else shown + pad)
        line = (" " * _GAP).join(cells).rstrip()
        return line if self._width is None else cut(line, self._width)


def cut(text: str, room: int) -> str:
    """At most so many cells of a terminal, the last one a sign that more follows."""
    if text.isascii():
        return text if len(text) <= room else f"{text[: max(0, room - 1)]}…"
    if _cells(text) <= room:
        return text
    from rich.cells import set_cell_size

    return f"{set_cell_size(text, max(0, room - 1)).rstrip()}…"


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _total(widths: Sequence[int]) -> int:
    shown = [one for one in widths if one]
    return sum(shown) + _GAP * max(0, len(shown) - 1)

"""Paints the first frame with plain escapes while Textual loads; the queue then shows the same rows in place.

Must not import Textual. Restores the terminal if the app never starts.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import termios
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from backends.first_page import FirstPage
from console.render.line import Cell, Line, clip, width
from console.render.row import header, row_line
from console.render.status import HeaderState, status, title
from console.services.triage.classified_entry import classified
from console.text.untrusted import is_forbidden
from console.theme.palette import ROLES, Palette

ENTER = "\x1b[?1049h"
Settings = list[Any]  # a terminal's settings from termios
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_SMALLEST = (80, 24)
_PLAIN = re.compile(r"[\x20-\x7e]*")
_ROWS_FROM = 4  # below the border, the status, the filter line and the table's header


class Look(NamedTuple):
    """The terminal's size and colours."""

    columns: int
    rows: int
    colours: str  # "true", "256" or "none"


def look_of(environ: Mapping[str, str], size: os.terminal_size) -> Look | None:
    """The terminal's size and colours; None where no first frame should be painted."""
    if size.columns < _SMALLEST[0] or size.lines < _SMALLEST[1] or environ.get("TERM", "dumb") in ("", "dumb"):
        return None
    if "NO_COLOR" in environ:
        return Look(size.columns, size.lines, "none")
    true = environ.get("COLORTERM", "") in ("truecolor", "24bit")
    return Look(size.columns, size.lines, "true" if true else "256")


def frame(page: FirstPage, header_state: HeaderState, now: datetime, look_: Look, palette: Palette) -> str:
    """The whole screen as one write."""
    inner = look_.columns - 4
    table, height = _table(look_)
    lines: list[Line] = [status(header_state, now, inner), (), header(table, page.layout)]
    entries = (*page.held, *page.entries)[:height]
    rows = [row_line(classified(entry), now, table, marked=False, fresh=False, quick=True) for entry in entries]
    brush = _Brush(look_.colours, palette, live=header_state.mode == "live" and not header_state.read_only)
    body = [*lines, *rows, *[()] * (look_.rows - 2 - len(lines) - len(rows))]
    painted = [brush.edge(title(header_state, inner - 2), look_.columns, top=True)]
    painted += [brush.row(cells, inner, cursor=n == _ROWS_FROM - 1) for n, cells in enumerate(body)]
    painted.append(brush.edge((), look_.columns, top=False))
    return f"{ENTER}\x1b[?25l\x1b[1;1H" + "\r\n".join(painted) + "\x1b[0m"


def _table(look_: Look) -> tuple[int, int]:
    """Width and rows of the queue's table, as its style sheet sets them."""
    work = look_.rows - 5
    return look_.columns - 4, work - work * 34 // 100 - 1


class _Brush:
    def __init__(self, colours: str, palette: Palette, *, live: bool) -> None:
        self._colours = colours
        self._palette = palette
        corners = "┏┓┗┛━┃" if live else "╭╮╰╯─│"
        self._corners = corners
        self._border = self._sgr(palette.danger if live else palette.muted, bold=False)
        self._title = self._sgr(palette.danger if live else palette.accent, bold=False)

    def edge(self, cells: Line, columns: int, *, top: bool) -> str:
        left, right = (self._corners[n] for n in ((0, 1) if top else (2, 3)))
        bar = self._corners[4]
        shown = clip(cells, columns - 6)
        text = "".join(_harmless(cell.text) for cell in shown)
        rest = bar * (columns - 2 - width(shown) - 2 - (2 if shown else 0))
        middle = f"{bar}{self._title} {text} {self._border}" if shown else bar * 2
        return f"{self._border}{left}{middle}{rest}{bar if shown else ''}{right}"

    def row(self, cells: Line, inner: int, *, cursor: bool) -> str:
        ground = self._palette.cursor if cursor else None
        painted = "".join(self._cell(cell, ground) for cell in clip(cells, inner))
        fill = self._cell(Cell(" " * (inner - width(clip(cells, inner)))), ground)
        side = f"{self._border}{self._corners[5]}"
        space = self._cell(Cell(" "), None)
        return f"{side}{space}{painted}{fill}{space}{side}"

    def _cell(self, cell: Cell, ground: str | None) -> str:
        role, bold = ROLES[cell.tone]
        return f"{self._sgr(getattr(self._palette, role), bold=bold, ground=ground)}{_harmless(cell.text)}"

    def _sgr(self, colour: str, *, bold: bool, ground: str | None = None) -> str:
        weight = "0;1" if bold else "0"
        if self._colours == "none":
            return f"\x1b[{weight}m"
        fore, back = (_colour(one, self._colours) for one in (colour, ground or self._palette.ground))
        return f"\x1b[{weight};38;{fore};48;{back}m"


def _colour(hex_text: str, colours: str) -> str:
    red, green, blue = (int(hex_text[n : n + 2], 16) for n in (1, 3, 5))
    if colours == "true":
        return f"2;{red};{green};{blue}"
    if max(red, green, blue) - min(red, green, blue) < 16:
        grey = round((red + green + blue) / 3)
        return f"5;{16 if grey < 8 else 231 if grey > 248 else 232 + (grey - 8) * 24 // 247}"
    steps = [0 if one < 48 else 1 if one < 115 else (one - 35) // 40 for one in (red, green, blue)]
    return f"5;{16 + 36 * steps[0] + 6 * steps[1] + steps[2]}"


def _harmless(text: str) -> str:
    """Replace control characters; `output_guard` does so for the frames that Textual paints."""
    return text if _PLAIN.fullmatch(text) else "".join("?" if is_forbidden(one) else one for one in text)


@contextlib.contextmanager
def painted(text: str) -> Iterator[Settings | None]:
    """Show the frame until the app takes over; keys typed meanwhile are kept for it.

    Yields the terminal's original settings, which the app restores at its end.
    """
    before = _quiet()
    _write(text)
    try:
        yield before
    except BaseException:
        _write(_LEAVE)
        restore(before)
        raise


def _quiet() -> Settings | None:
    """Set the terminal as Textual does: no echo, no line mode, and ctrl+c is a key. Returns the settings before."""
    try:
        before = termios.tcgetattr(sys.stdin.fileno())
        changed = list(before)
        changed[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON | termios.IXOFF)
        changed[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, changed)
    except (termios.error, ValueError, OSError):
        return None
    return before


def restore(settings: Settings | None) -> None:
    if settings is not None:
        with contextlib.suppress(termios.error, ValueError, OSError):
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, settings)


def _write(text: str) -> None:
    # Textual writes to stderr too.
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), text.encode())

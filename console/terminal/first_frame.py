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
from typing import Any, Literal, NamedTuple

from backends.first_page import FirstPage
from console.render.line import Cell, Line, clip, width
from console.render.row import header, row_line
from console.render.status import HeaderState, status, title
from console.services.triage.classified_entry import classified
from console.text.untrusted import is_forbidden
from console.theme.palette import ROLES, Depth, Palette, ink_and_ground

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
    colours: Depth | Literal["none"]


def look_of(environ: Mapping[str, str], size: os.terminal_size) -> Look | None:
    """The terminal's size and colours; None where no first frame should be painted."""
    if size.columns < _SMALLEST[0] or size.lines < _SMALLEST[1] or environ.get("TERM", "dumb") in ("", "dumb"):
        return None
    if "NO_COLOR" in environ:
        return Look(size.columns, size.lines, "none")
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return Look(size.columns, size.lines, "true")
    has_256 = environ["TERM"].strip().lower().rpartition("-")[2] in ("256color", "kitty")  # as Rich decides later
    return Look(size.columns, size.lines, "256" if has_256 else "16")


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
        painted = "".join(self._cell(cell, cursor=cursor) for cell in clip(cells, inner))
        fill = self._cell(Cell(" " * (inner - width(clip(cells, inner)))), cursor=cursor)
        side = f"{self._border}{self._corners[5]}"
        space = self._cell(Cell(" "), cursor=False)
        return f"{side}{space}{painted}{fill}{space}{side}"

    def _cell(self, cell: Cell, *, cursor: bool) -> str:
        ink, ground = ink_and_ground(self._palette, cell.tone, cursor=cursor)
        return f"{self._sgr(ink, bold=ROLES[cell.tone][1], ground=ground)}{_harmless(cell.text)}"

    def _sgr(self, colour: str, *, bold: bool, ground: str | None = None) -> str:
        weight = "0;1" if bold else "0"
        if self._colours == "none":
            return f"\x1b[{weight}m"
        fore, back = _colour(colour, self._colours), _colour(ground or self._palette.ground, self._colours, under=10)
        return f"\x1b[{weight};{fore};{back}m"


def _colour(hex_text: str, colours: str, *, under: int = 0) -> str:
    """The numbers that set a colour of the palette for this terminal as ink, or as ground if `under` is 10."""
    red, green, blue = (int(hex_text[n : n + 2], 16) for n in (1, 3, 5))
    if colours == "true":
        return f"{38 + under};2;{red};{green};{blue}"
    if colours == "16":  # the sixteen have the parts 0 and 170, the bright ones 85 and 255
        bright = 60 if 85 in (red, green, blue) or min(red, green, blue) == 255 else 0
        return str(30 + under + bright + sum(bit for bit, part in ((1, red), (2, green), (4, blue)) if part > 127))
    if red == green == blue and 0 < red < 255:
        return f"{38 + under};5;{231 + round(red / 255 * 25)}"  # as Rich rounds them
    steps = [0 if one < 48 else (one - 35) // 40 for one in (red, green, blue)]
    return f"{38 + under};5;{16 + 36 * steps[0] + 6 * steps[1] + steps[2]}"


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

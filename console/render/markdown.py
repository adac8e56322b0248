"""Markdown as our own reports write it, as lines of a screen: headings, tables, text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len

from console.render.line import HANG, Cell, Line, fit, line, plain, trusted, wrap

_ESCAPED = re.compile(r"\\(.)")
_BARS = re.compile(r"(?<!\\)\|")
_GAP = 2
_LEAST = 6  # columns of a cell


def markdown_lines(text: str, size: int) -> list[Line]:
    """The text is safe already: a report escapes what comes from the store."""
    made: list[Line] = []
    table: list[list[str]] = []
    for row in (*text.split("\n"), ""):
        if row.startswith("|"):
            if not set(row) <= set("|-"):
                table.append([_plain(cell.strip()) for cell in _BARS.split(row)[1:-1]])
            continue
        made += _table(table, size)
        table = []
        made.append(_line(row))
    return list(_without_doubles(made))


def _line(row: str) -> Line:
    if row.startswith("#"):
        return line(trusted(_plain(row.lstrip("# ")), "strong"))
    if row.startswith("> "):
        return line(trusted("! ", "warning"), HANG, trusted(_plain(row[2:]), "warning"))
    if row.startswith("- "):
        return line(trusted("  "), HANG, trusted(_plain(row[2:])))
    return line(trusted(_plain(row))) if row else ()


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", re.sub(r"(?<!\\)\*\*", "", text))


def _table(rows: Sequence[Sequence[str]], size: int) -> Iterator[Line]:
    """Columns as wide as their longest cell; where that is too wide, cells of the widest ones take several lines."""
    if not rows:
        return
    widths = _widths(rows, size)
    for n, row in enumerate(rows):
        folded = [
            _folded(cell, room, right=n > 0 and _is_number(cell)) for cell, room in zip(row, widths, strict=False)
        ]
        for parts in zip_longest(*folded):
            cells = (part or " " * room for part, room in zip(parts, widths, strict=False))
            yield (Cell((" " * _GAP).join(cells).rstrip(), "dim" if n == 0 else "plain"),)


def _widths(rows: Sequence[Sequence[str]], size: int) -> list[int]:
    """Narrowed first where cells have several words: half an id is of no use."""
    columns = [[row[at] for row in rows if at < len(row)] for at in range(len(rows[0]))]
    widths = [max(map(cell_len, column)) for column in columns]
    words = [max(cell_len(word) for cell in column for word in cell.split() or [""]) for column in columns]
    while sum(widths) + _GAP * (len(widths) - 1) > size and max(widths) > _LEAST:
        foldable = [width if width > max(word, _LEAST) else 0 for width, word in zip(widths, words, strict=True)]
        choice = foldable if any(foldable) else widths
        widths[choice.index(max(choice))] -= 1
    return widths


def _folded(text: str, room: int, *, right: bool) -> list[str]:
    """The cell's lines. What is cut already, as a long title, stays one."""
    if text.endswith("…"):
        return [fit(text, room)]
    return [fit(plain(part).strip(), room, right=right) for part in wrap(line(trusted(text)), room)]


def _is_number(text: str) -> bool:
    return text.replace(",", "").isdigit()


def _without_doubles(lines: Iterable[Line]) -> Iterator[Line]:
    """No two empty lines in a row, none at the end, and none between two warnings: those are one list."""
    waits = False
    last: Line = ()
    for one in lines:
        if not one:
            waits = True
            continue
        if waits and not (_warns(last) and _warns(one)):
            yield ()
        waits, last = False, one
        yield one


def _warns(cells: Line) -> bool:
    return bool(cells) and cells[0].tone == "warning"

"""Markdown as our own reports write it, as lines of a screen: headings, tables, text. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len

from console.render.line import HANG, Cell, Line, fit, line, trusted

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
    """Columns as wide as their longest cell; where that is too wide, the widest ones are cut."""
    if not rows:
        return
    widths = [max(cell_len(row[at]) if at < len(row) else 0 for row in rows) for at in range(len(rows[0]))]
    while sum(widths) + _GAP * (len(widths) - 1) > size and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    for n, row in enumerate(rows):
        cells = (fit(cell, room, right=n > 0 and _is_number(cell)) for cell, room in zip(row, widths, strict=False))
        yield (Cell((" " * _GAP).join(cells).rstrip(), "dim" if n == 0 else "plain"),)


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

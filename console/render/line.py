"""Lines of toned text: what every widget paints. Knows how wide a text is; knows nothing of records and colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

from console.text.untrusted import safe, safe_block

Tone = Literal["plain", "dim", "strong", "accent", "warning", "danger", "good", "key"]
TONES: tuple[Tone, ...] = ("plain", "dim", "strong", "accent", "warning", "danger", "good", "key")


class Cell(NamedTuple):
    """One run of text in one tone. Only `own` and `said` make them, so that nothing unsafe gets in."""

    text: str
    tone: Tone = "plain"


Line = tuple[Cell, ...]
EMPTY: Line = ()
HANG = Cell("")  # this very cell in a line: where it is wrapped, it goes on under here


def trusted(text: str, tone: Tone = "plain") -> Cell:
    """Our own words."""
    return Cell(text, tone)


def untrusted(text: str, tone: Tone = "plain", *, limit: int = 2000) -> Cell:
    """Words from a store, a venue, a config or an operator."""
    return Cell(safe(text, limit), tone)


def line(*parts: Cell | str) -> Line:
    """Bare strings here are literals of our own; `tests/unit/test_inert.py` looks after that."""
    return tuple(part if isinstance(part, Cell) else Cell(part) for part in parts)


def plain(cells: Line) -> str:
    return "".join(cell.text for cell in cells)


def width(cells: Line) -> int:
    return sum(cell_len(cell.text) for cell in cells)


def fit(text: str, size: int, *, right: bool = False) -> str:
    """Exactly `size` cells: cut with an ellipsis or filled up."""
    if size <= 0:
        return ""
    length = cell_len(text)
    if length > size:
        return set_cell_size(text, size - 1) + "…"
    space = " " * (size - length)
    return space + text if right else text + space


def clip(cells: Line, size: int) -> Line:
    """No wider than `size`, with an ellipsis where something is lost."""
    if width(cells) <= size:
        return cells
    kept: list[Cell] = []
    left = size
    for cell in cells:
        length = cell_len(cell.text)
        if length > left or (length == left and cell is not cells[-1]):
            kept.append(Cell(fit(cell.text + " ", left) if length < left else fit(cell.text + "…", left), cell.tone))
            break
        kept.append(cell)
        left -= length
    return tuple(kept)


def spread(left: Line, right: Line, size: int) -> Line:
    """Left and right of one line; where both do not fit, the left one gives way."""
    right = clip(right, size)
    room = size - width(right)
    if room < 2:
        return right
    left = clip(left, room - 1)
    return (*left, Cell(" " * (room - width(left))), *right)


def middle(text: str, size: int) -> str:
    """No wider than `size`; what is lost, is lost in the middle: both ends of a name tell it apart."""
    if cell_len(text) <= size:
        return text
    tail = (size - 1) // 2
    end = text[-tail:] if tail else ""
    while cell_len(end) > tail:
        end = end[1:]
    return f"{set_cell_size(text, size - 1 - cell_len(end))}…{end}"


def wrap(cells: Line, size: int) -> Iterator[Line]:
    """Broken at spaces where there are some, else hard; a word longer than the line is cut, never lost."""
    if size <= 0:
        return
    if width(cells) <= size:
        yield cells
        return
    margin = _margin(cells, size)
    hang = width(margin)
    current: list[Cell] = []
    used = start = 0
    for word, tone in ((word, cell.tone) for cell in cells for word in _words(cell.text)):
        length = cell_len(word)
        if used + length > size and used > start and word.strip():
            yield tuple(current)
            current, used, start = list(margin), hang, hang
        while length > size - used and used == start:
            head = _head(word, size - used)
            yield (*current, Cell(head, tone))
            word = word[len(head) :]
            length = cell_len(word)
            current, used, start = list(margin), hang, hang
        if used + length <= size:
            _append(current, word, tone)
            used += length
    yield tuple(current)


def _margin(cells: Line, size: int) -> Line:
    at = next((n for n, cell in enumerate(cells) if cell is HANG), 0)
    room = width(cells[:at])
    return (Cell(" " * room),) if 0 < room < size / 2 else ()


def _append(cells: list[Cell], text: str, tone: Tone) -> None:
    if cells and cells[-1].tone == tone:
        cells[-1] = Cell(cells[-1].text + text, tone)
    else:
        cells.append(Cell(text, tone))


def _words(text: str) -> list[str]:
    return re.findall(r"\s+|\S+", text)


def _head(word: str, size: int) -> str:
    """As many characters as fit; at least one, so that it ends."""
    count = min(size, len(word))
    while count > 1 and cell_len(word[:count]) > size:
        count -= 1
    return word[:count]


def block(text: str, tone: Tone = "plain") -> list[Line]:
    """A text of several lines that is safe already."""
    return [(Cell(part, tone),) for part in text.split("\n")]


def joined(parts: Iterable[Line], between: str = "   ") -> Line:
    made: list[Cell] = []
    for part in parts:
        if part:
            made += [Cell(between), *part] if made else part
    return tuple(made)


def columns(rows: Sequence[tuple[str, Line]], *, indent: int = 1) -> list[Line]:
    """Names in a column of their own, what they mean beside them."""
    size = max((cell_len(name) for name, _ in rows), default=0)
    return [(Cell(" " * indent), Cell(fit(name, size), "dim"), Cell("  "), HANG, *rest) for name, rest in rows]


LONGEST = 20_000  # characters of one text in a pane; the pager has it whole


def body(text: str) -> list[Line]:
    lines = block(safe_block(text, LONGEST))
    if len(text) > LONGEST:
        rest = len(text) - LONGEST
        lines.append(line(trusted(f"… {rest:,} more characters: p shows them all in a pager", "dim")))
    return lines

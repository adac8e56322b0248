"""Lines of toned text, their width, wrapping and clipping. Knows nothing of records and colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

from console.text.untrusted import safe, safe_block

Tone = Literal["plain", "dim", "strong", "accent", "warning", "danger", "good", "key", "match"]
TONES: tuple[Tone, ...] = ("plain", "dim", "strong", "accent", "warning", "danger", "good", "key", "match")


class Cell(NamedTuple):
    """A run of text in one tone. Made by `trusted` and `untrusted`, so that no unsafe text gets in."""

    text: str
    tone: Tone = "plain"


class Unit(Cell):
    """A cell that wrapping does not part, such as a number with its unit or a label with its value."""

    __slots__ = ()


Line = tuple[Cell, ...]
EMPTY: Line = ()
HANG = Cell("")  # put this cell into a line to indent its wrapped part up to here


def trusted(text: str, tone: Tone = "plain") -> Cell:
    """Text of the console itself, or made safe already."""
    return Cell(text, tone)


def untrusted(text: str, tone: Tone = "plain", *, limit: int = 2000) -> Cell:
    """Text from a store, a venue, a config or an operator, made safe here."""
    return Cell(safe(text, limit), tone)


def unit(cell: Cell) -> Cell:
    """The cell as one that stays on one line; the blanks before it may be wrapped."""
    return Unit(*cell)


def line(*parts: Cell | str) -> Line:
    """A line of cells; bare strings must be literals."""
    return tuple(part if isinstance(part, Cell) else Cell(part) for part in parts)


def plain(cells: Line) -> str:
    return "".join(cell.text for cell in cells)


def width(cells: Line) -> int:
    return sum([text_width(cell.text) for cell in cells])


def text_width(text: str) -> int:
    """The columns that a text takes. Most texts are plain ASCII, of which nothing has to be looked up."""
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def cell_at(cells: Line, x: int) -> int | None:
    """Which cell of the line stands in this column; None beyond its end."""
    end = 0
    for at, cell in enumerate(cells):
        end += text_width(cell.text)
        if x < end:
            return at
    return None


def word_at(text: str, x: int) -> str:
    """The word that stands in this column of a line of plain characters."""
    return next((found[0] for found in re.finditer(r"\S+", text) if found.start() <= x < found.end()), "")


def fit(text: str, size: int, *, right: bool = False) -> str:
    """The text in exactly `size` cells, cut with an ellipsis or padded."""
    if size <= 0:
        return ""
    length = text_width(text)
    if length > size:
        return f"{_cut(text, size - 1)}…"
    space = " " * (size - length)
    return space + text if right else text + space


def _cut(text: str, size: int) -> str:
    """The first `size` columns of a longer text; half a wide letter becomes a blank."""
    return text[:size] if text.isascii() and text.isprintable() else set_cell_size(text, size)


def clip(cells: Line, size: int) -> Line:
    """The line in at most `size` cells, with an ellipsis where it is cut."""
    if width(cells) <= size:
        return cells
    kept: list[Cell] = []
    left = size
    for cell in cells:
        length = text_width(cell.text)
        if length > left or (length == left and cell is not cells[-1]):
            kept.append(Cell(fit(cell.text + " ", left) if length < left else fit(cell.text + "…", left), cell.tone))
            break
        kept.append(cell)
        left -= length
    return tuple(kept)


def spread(left: Line, right: Line, size: int) -> Line:
    """Two texts at the ends of one line; where both do not fit, the left one is cut."""
    right = clip(right, size)
    room = size - width(right)
    if room < 2:
        return right
    left = clip(left, room - 1)
    return (*left, Cell(" " * (room - width(left))), *right)


def middle(text: str, size: int) -> str:
    """The text in at most `size` cells, cut in the middle: names differ at their ends."""
    if text_width(text) <= size:
        return text
    tail = (size - 1) // 2
    end = text[-tail:] if tail else ""
    while text_width(end) > tail:
        end = end[1:]
    return f"{_cut(text, size - 1 - text_width(end))}…{end}"


def wrap(cells: Line, size: int) -> Iterator[Line]:
    """Wrap the line at spaces, those within a unit left out; a word longer than a line is split."""
    if size <= 0:
        return
    if width(cells) <= size:
        yield cells
        return
    margin = _margin(cells, size)
    hang = width(margin)
    current: list[Cell] = []
    used = start = 0
    for word, tone, rest in _parts(cells, size - hang):
        length = text_width(word)
        if used + length + rest > size and used > start and word.strip():
            yield tuple(current)
            current, used, start = list(margin), hang, hang
        while length > size - used and used == start:
            head = _head(word, size - used)
            yield (*current, Cell(head, tone))
            word = word[len(head) :]
            length = text_width(word)
            current, used, start = list(margin), hang, hang
        if used + length <= size:
            _append(current, word, tone)
            used += length
    yield tuple(current)


def _parts(cells: Line, room: int) -> list[tuple[str, Tone, int]]:
    """Each word, or the part of it that has one tone, with the width of what follows it without a blank."""
    found = [(word, cell.tone) for cell in cells for word in _words(cell, room)]
    made: list[tuple[str, Tone, int]] = []
    rest = 0
    for word, tone in reversed(found):
        rest = 0 if word.isspace() else rest
        made.append((word, tone, rest))
        rest = 0 if word.isspace() else rest + text_width(word)
    return made[::-1]


def _margin(cells: Line, size: int) -> Line:
    at = next((n for n, cell in enumerate(cells) if cell is HANG), 0)
    room = width(cells[:at])
    return (Cell(" " * room),) if 0 < room < size / 2 else ()


def _append(cells: list[Cell], text: str, tone: Tone) -> None:
    if cells and cells[-1].tone == tone:
        cells[-1] = Cell(cells[-1].text + text, tone)
    else:
        cells.append(Cell(text, tone))


def _words(cell: Cell, room: int) -> list[str]:
    """Words and the blanks between them; a unit is one word, unless no line has room for it."""
    body = cell.text.strip()
    if isinstance(cell, Unit) and body and text_width(body) <= room:
        before, _, after = cell.text.partition(body)
        return [part for part in (before, body, after) if part]
    return re.findall(r"\s+|\S+", cell.text)


def _head(word: str, size: int) -> str:
    """The characters that fit, at least one so that wrapping ends."""
    count = min(size, len(word))
    while count > 1 and text_width(word[:count]) > size:
        count -= 1
    return word[:count]


def block(text: str, tone: Tone = "plain") -> list[Line]:
    """The lines of a text that was made safe already."""
    return [(Cell(part, tone),) for part in text.split("\n")]


def joined(parts: Iterable[Line], between: str = "   ") -> Line:
    made: list[Cell] = []
    for part in parts:
        if part:
            made += [Cell(between), *part] if made else part
    return tuple(made)


def columns(rows: Sequence[tuple[str, Line]], *, indent: int = 1) -> list[Line]:
    """Names in one column, their values beside them."""
    size = max((text_width(name) for name, _ in rows), default=0)
    return [(Cell(" " * indent), Cell(fit(name, size), "dim"), Cell("  "), HANG, *rest) for name, rest in rows]


def beside(blocks: Sequence[Sequence[Line]], size: int) -> list[Line]:
    """Blocks of lines next to each other, each wrapped to its share of the width."""
    room = (size - len(_BETWEEN) * (len(blocks) - 1)) // len(blocks)
    if room < 1:
        return [cells for block_ in blocks for cells in block_]
    wrapped = [[part for cells in block_ for part in (wrap(cells, room) if cells else (EMPTY,))] for block_ in blocks]
    made: list[Line] = []
    for n in range(max(map(len, wrapped))):
        cells: list[Cell] = []
        for column in wrapped:
            part = column[n] if n < len(column) else EMPTY
            cells += [*part, Cell(" " * (room - width(part))), Cell(_BETWEEN, "dim")]
        made.append(tuple(cells[:-1]))
    return made


_BETWEEN = " │ "
LONGEST = 20_000  # characters of one text in a pane; the pager shows all of it


def body(text: str) -> list[Line]:
    lines = block(safe_block(text, LONGEST))
    if len(text) > LONGEST:
        rest = len(text) - LONGEST
        lines.append(line(trusted(f"… {rest:,} more characters: the pager shows them all", "dim")))
    return lines

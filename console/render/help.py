"""The help page: keys by task in columns, the signs of the rows, the filter line and the gates. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from console.keymap import TASKS, Key, spelled
from console.render.line import HANG, Cell, Line, columns, fit, line, trusted, width, wrap
from console.render.row import legend
from console.services.layout_fields import LAYOUTS

TOLD_FROM = 100  # columns from which the page says of every key what it does; below, a list under it does
_GAP = 2
_READING = "SELL stands in capitals, buy in small letters; a VALUE without a currency is in USD, USDT or USDC."
_STATES = "pending in_flight in_doubt replayed dismissed, open, all; several with commas"


def help_lines(there: Sequence[Key], layout: str, size: int, *, read_only: bool) -> list[Line]:
    """`there`: the keys of the screen that the help is about, as they are mapped."""
    tells = size >= TOLD_FROM
    blocks = [_task(title, keys, tells=tells) for title, keys in _by_task(there)]
    blocks.append(_signs(layout, tells=tells))
    many = 3 if size < TOLD_FROM or size >= 170 else 2
    lines = flowed(blocks, size, many)
    if not tells:
        lines += [(), line(trusted("What each key does", "strong"))]
        lines += columns([(_names(key), line(trusted(key.tooltip))) for key in there])
    lines += [(), line(trusted("The filter line", "strong"))]
    lines += columns([(word, line(trusted(text))) for word, text in _filters(layout)])
    if LAYOUTS[layout].has_worth:
        lines += [(), line(trusted(" "), HANG, trusted(_READING))]
    if not read_only:
        lines += [(), line(trusted("Gates", "strong"))]
        lines += [line(trusted(" "), HANG, trusted(text)) for text in _gates(there)]
    return lines


def _by_task(there: Sequence[Key]) -> Iterable[tuple[str, list[Key]]]:
    for title, ids in TASKS:
        keys = [key for name in ids for key in there if key.id == name]
        if keys:
            yield title, keys


def _names(key: Key) -> str:
    return " ".join(map(spelled, key.keys))


def _task(title: str, keys: Sequence[Key], *, tells: bool) -> list[Line]:
    """A key a row; where room is short, its first key and its label."""
    rows = [(_names(key) if tells else key.shown, key) for key in keys]
    size = max(width(line(name)) for name, _ in rows)
    made = [line(trusted(title, "strong"))]
    for name, key in rows:
        text = key.tooltip if tells else key.label
        made.append((Cell(f" {fit(name, size)}  ", "key"), HANG, trusted(text)))
    return made


def _signs(layout: str, *, tells: bool) -> list[Line]:
    signs = [
        (Cell(f" {one.sign}  ", one.tone), HANG, trusted(one.meaning if tells else one.word)) for one in legend(layout)
    ]
    return [line(trusted("Signs before the rows", "strong")), *signs]


def flowed(blocks: Sequence[Sequence[Line]], size: int, many: int) -> list[Line]:
    """Blocks below and beside each other in columns of one width, each column about as long as the others."""
    room = (size - _GAP * (many - 1)) // many
    wrapped = [[row for cells in block for row in wrap(cells, room)] for block in blocks]
    tall = _least_height(wrapped, many)
    filled: list[list[Line]] = [[]]
    for block in wrapped:
        if filled[-1] and len(filled[-1]) + 1 + len(block) > tall:
            filled.append([])
        filled[-1] += [(), *block] if filled[-1] else block
    made: list[Line] = []
    for at in range(max(map(len, filled))):
        cells: list[Cell] = []
        for column in filled:
            part = column[at] if at < len(column) else ()
            cells += [*part, Cell(" " * (room - width(part) + _GAP))]
        made.append(tuple(cells[:-1]))
    return made


def _least_height(blocks: Sequence[Sequence[Line]], many: int) -> int:
    """The least height with which the blocks, in their order, need no more columns than these."""
    tall = max(map(len, blocks))
    while True:
        used, columns_ = 0, 1
        for block in blocks:
            need = len(block) + bool(used)
            if used and used + need > tall:
                used, columns_, need = 0, columns_ + 1, len(block)
            used += need
        if columns_ <= many:
            return tall
        tall += 1


def _filters(layout: str) -> tuple[tuple[str, str], ...]:
    words = LAYOUTS[layout].words
    return (
        ("some text", f"in {words.searched}"),
        ("!timeout", f"not there; !{words.origin}:x excludes a value"),
        (words.example, f"also {words.filters} category: group: mark: reason: operator: id: error:"),
        ("state:in_doubt", _STATES),
        ("age>1h  age<15m", "older, younger; also since:8h until:2026-04-18"),
        *((("notional>50k", "also qty price tries; >= <= < and : for equal"),) if LAYOUTS[layout].has_worth else ()),
        (f'{words.origin}:a,b*  {words.origin}:""', "either, * for anything; has none"),
    )


def _gates(there: Sequence[Key]) -> tuple[str, ...]:
    named = {key.id: key.shown for key in there}
    at_once = [f"{named[name]} {text}" for name, text in _AT_ONCE if name in named]
    return (*_GATES, f"{'; '.join(at_once)}.") if at_once else _GATES


_AT_ONCE = (("stop", "stops a running batch at once and never asks"), ("undo", "undoes the last dismiss at once"))
_GATES = (
    "Capitals only open a gate. Esc cancels it at any moment; Enter alone confirms nothing.",
    "What was typed before a gate could be read does not count; a paste never does.",
    "Dismiss asks for a reason's digit, then the number of entries. Replay for the number, in LIVE for the word "
    "and the number.",
)

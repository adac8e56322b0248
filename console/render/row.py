"""A row of the queue: which columns a width has room for, and what an entry shows in them. Pure."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from backends.records import readable
from console.render import column as other
from console.render import value
from console.render.column import Column, Layout
from console.render.line import Cell, Line, Tone, fit
from console.services.layout_fields import ORDERS, origin
from console.services.triage.triage import ClassifiedEntry
from console.text.untrusted import safe

_STATES = {
    "pending": ("pending", "plain", " "),
    "in_flight": ("in flight", "warning", "»"),
    "in_doubt": ("in doubt", "danger", "?"),
    "replayed": ("replayed", "good", "✓"),
    "dismissed": ("dismissed", "dim", "–"),
}


@lru_cache(maxsize=32)
def layout(size: int, kind: str = ORDERS) -> Layout:
    """What the operator judges by comes first; the rest where there is room. The error gets all that is left."""
    if kind != ORDERS:
        return other.columns(size, kind)
    wide = size >= 110
    chosen = [Column("AGE", 4, right=True)]
    if size >= 64:
        chosen.append(Column("VENUE", 12 if wide else 8))
    if wide:
        chosen.append(Column("ACCOUNT", 10))
    chosen.append(Column("ORDER", 34 if size >= 140 else 32 if wide else 25 if size >= 64 else 22))
    tail = [Column("TRY", 3, right=True), Column("STATE", 9)]
    if size >= 118:
        tail.insert(0, Column("CATEGORY", 11))
    gap = "  " if wide else " "
    taken = sum(column.size + len(gap) for column in (*chosen, *tail)) + 3
    return Layout((*chosen, Column("ERROR", max(8, size - taken)), *tail), gap)


def header(size: int, kind: str) -> Line:
    made = layout(size, kind)
    cells = [Cell("   ", "dim")]
    for column in made.columns:
        cells += [Cell(fit(column.title, column.size, right=column.right), "dim"), Cell(made.gap)]
    return tuple(cells[:-1])


def row_line(row: ClassifiedEntry, now: datetime, size: int, *, marked: bool, fresh: bool) -> Line:
    """One line, exactly as wide as the table."""
    _, tone, glyph = _STATES[row.entry.state]
    made = layout(size, row.entry.layout)
    mark = Cell("●", "accent") if marked else Cell("+", "accent") if fresh else Cell(" ")
    cells = [mark, Cell(f"{glyph} ", _tone(tone))]
    for column in made.columns:
        text, shade = _shown(row, column, now)
        cells += [Cell(fit(text, column.size, right=column.right), shade), Cell(made.gap)]
    return tuple(cells[:-1])


def _tone(name: str) -> Tone:
    return name  # type: ignore[return-value]  # the tones of _STATES


def _shown(row: ClassifiedEntry, column: Column, now: datetime) -> tuple[str, Tone]:
    entry = row.entry
    if entry.layout != ORDERS and (cell := other.shown(entry, column.title, now)) is not None:
        return cell
    settled: Tone = "dim" if entry.state in ("replayed", "dismissed") else "plain"
    match column.title:
        case "AGE":
            return value.entry_age(entry, now), "dim"
        case "VENUE":
            return safe(origin(entry), 40), settled
        case "ACCOUNT":
            return safe(entry.text("account_id"), 40), "dim"
        case "ORDER":
            text = value.order(entry, column.size)
            return text, "warning" if "⚠" in text else "strong" if settled == "plain" else settled
        case "ERROR":
            return value.error_head(entry, column.size), settled
        case "CATEGORY":
            return row.category, "dim"
        case "TRY":
            return safe(readable(value.tries(entry)), 8), "warning" if is_worn(row) else "dim"
        case _:
            word, tone, _ = _STATES[entry.state]
            return word, _tone(tone)


def is_worn(row: ClassifiedEntry) -> bool:
    """Tried three times or more."""
    tries = value.tries(row.entry)
    return isinstance(tries, int) and tries >= 3


def state_cell(state: str) -> Cell:
    word, tone, _ = _STATES[state]
    return Cell(word, _tone(tone))

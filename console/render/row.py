"""A row of the queue: which columns a width has room for, and what an entry shows in them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from console.render import value
from console.render.line import Cell, Line, Tone, fit
from console.safetext import safe
from console.services.triage import Row

_STATES = {
    "pending": ("pending", "plain", " "),
    "in_flight": ("in flight", "warning", "»"),
    "in_doubt": ("in doubt", "danger", "?"),
    "replayed": ("replayed", "good", "✓"),
    "dismissed": ("dismissed", "dim", "–"),
}


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    size: int
    right: bool = False


@lru_cache(maxsize=32)
def layout(size: int) -> tuple[Column, ...]:
    """What the operator judges by comes first; the rest where there is room. Marks and gaps are not counted here."""
    chosen: list[Column] = [Column("AGE", 4, right=True)]
    if size >= 70:
        chosen.append(Column("VENUE", 9 if size < 110 else 13))
    if size >= 100:
        chosen.append(Column("ACCOUNT", 10))
    chosen.append(Column("ORDER", 20 if size < 70 else 26 if size < 110 else 34))
    tail = [Column("TRY", 3, right=True), Column("STATE", 9)]
    if size >= 118:
        tail.insert(0, Column("CATEGORY", 11))
    taken = sum(column.size + 2 for column in (*chosen, *tail)) + 3
    chosen.append(Column("ERROR", max(8, size - taken - 2)))
    return (*chosen, *tail)


def header(size: int) -> Line:
    cells = [Cell("   ", "dim")]
    for column in layout(size):
        cells += [Cell(fit(column.title, column.size, right=column.right), "dim"), Cell("  ")]
    return tuple(cells[:-1])


def row_line(row: Row, now: datetime, size: int, *, marked: bool, fresh: bool) -> Line:
    """One line, exactly as wide as the table."""
    _, tone, glyph = _STATES[row.entry.state]
    mark = Cell("●", "accent") if marked else Cell("+", "accent") if fresh else Cell(" ")
    cells = [mark, Cell(f"{glyph} ", _tone(tone))]
    for column in layout(size):
        text, shade = _shown(row, column.title, now)
        cells += [Cell(fit(text, column.size, right=column.right), shade), Cell("  ")]
    return tuple(cells[:-1])


def _tone(name: str) -> Tone:
    return name  # type: ignore[return-value]  # the tones of _STATES


def _shown(row: Row, title: str, now: datetime) -> tuple[str, Tone]:
    entry = row.entry
    settled: Tone = "dim" if entry.state in ("replayed", "dismissed") else "plain"
    match title:
        case "AGE":
            return value.entry_age(entry, now), "dim"
        case "VENUE":
            return safe(entry.text("venue_name"), 40), settled
        case "ACCOUNT":
            return safe(entry.text("account_id"), 40), "dim"
        case "ORDER":
            text = value.order(entry)
            return text, "warning" if "⚠" in text else "strong" if settled == "plain" else settled
        case "ERROR":
            return value.error_head(entry), settled
        case "CATEGORY":
            return row.category, "dim"
        case "TRY":
            return safe(entry.text("retry_count") or "0", 8), "warning" if is_worn(row) else "dim"
        case _:
            word, tone, _ = _STATES[entry.state]
            return word, _tone(tone)


def is_worn(row: Row) -> bool:
    """Tried three times or more."""
    tries = row.entry.get("retry_count")
    return isinstance(tries, int) and tries >= 3


def state_cell(state: str) -> Cell:
    word, tone, _ = _STATES[state]
    return Cell(word, _tone(tone))

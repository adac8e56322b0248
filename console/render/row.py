"""A row of the queue: which columns a width has room for, and what an entry shows in them. Pure."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from backends.records import Entry, readable
from console.render import value
from console.render.line import Cell, Line, Tone, fit
from console.services import layout_fields as of
from console.services.layout_fields import ORDERS, origin
from console.services.triage.triage import ClassifiedEntry
from console.text.durations import span
from console.text.untrusted import safe

_WIDE = 104
_SOON_DAYS = 3  # of retention left


class Column(NamedTuple):
    title: str
    size: int
    right: bool = False


class Layout(NamedTuple):
    columns: tuple[Column, ...]
    gap: str


@lru_cache(maxsize=32)
def columns(size: int, kind: str) -> Layout:
    """What the operator judges by comes first; the error gets all that is left."""
    wide = size >= _WIDE
    first, last = _outbox(size) if kind == of.OUTBOX else _integration(size)
    gap = "  " if wide else " "
    chosen, tail = [Column("AGE", 4, right=True), *first], [*last, Column("STATE", 9)]
    taken = sum(column.size + len(gap) for column in (*chosen, *tail)) + 3
    return Layout((*chosen, Column("ERROR", max(8, size - taken)), *tail), gap)


def _outbox(size: int) -> tuple[list[Column], list[Column]]:
    wide = size >= _WIDE
    first = [Column("QUEUE", 16 if wide else 11), Column("REASON", 14)]
    if size >= 140:
        first.append(Column("MESSAGE", 30))
    if not wide:
        return first, [Column("DELIV", 5, right=True)]
    return first, [Column("TOOK", 5, right=True), Column("DELIVERIES", 10, right=True)]


def _integration(size: int) -> tuple[list[Column], list[Column]]:
    wide = size >= _WIDE
    first = [Column("PROVIDER", 14 if wide else 9)]
    if size >= 90:
        first.append(Column("TENANT", 10))
    first.append(Column("REQUEST", 28 if wide else 16))
    return first, [Column("TRIES", 5, right=True), Column("DAYS LEFT" if wide else "LEFT", 9 if wide else 4, True)]


def shown(entry: Entry, title: str, now: datetime) -> tuple[str, Tone] | None:
    """The cell of a column that orders do not have; None for those that all layouts share."""
    settled: Tone = "dim" if entry.state in ("replayed", "dismissed") else "plain"
    match title:
        case "QUEUE" | "PROVIDER":
            return safe(of.origin(entry), 40), settled
        case "ERROR" if entry.layout == of.OUTBOX and not of.text(entry, "last_exception"):
            return "no exception", "dim"
        case "REASON":
            return safe(of.text(entry, "failure_reason"), 40), settled
        case "MESSAGE" | "REQUEST":
            return value.order(entry), "strong" if settled == "plain" else settled
        case "TENANT":
            return safe(of.text(entry, "tenantId"), 40) or "–", "dim"
        case "TOOK":
            took = of.time_to_failure(entry)
            return span(took) if took is not None else "?", "dim"
        case "DELIV" | "DELIVERIES" | "TRIES":
            return _count(entry)
        case "LEFT" | "DAYS LEFT":
            return _left(entry, now)
        case _:
            return None


def _count(entry: Entry) -> tuple[str, Tone]:
    held = of.value(entry, "deliveries_count" if entry.layout == of.OUTBOX else "attempts")
    return safe("?" if held is None else str(held), 10), "dim"


def _left(entry: Entry, now: datetime) -> tuple[str, Tone]:
    days = of.days_left(entry, now)
    if days is None:
        return "?", "dim"
    return f"{days}d" if days else "due", "warning" if days <= _SOON_DAYS else "dim"


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
        return columns(size, kind)
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
    if entry.layout != ORDERS and (cell := shown(entry, column.title, now)) is not None:
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

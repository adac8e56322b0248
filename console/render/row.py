"""A row of the queue: the columns that fit a width, and an entry's cells in them. Pure."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from backends.records import Entry, readable
from console.render import value
from console.render.line import Cell, Line, Tone, fit
from console.services import layout_fields as of
from console.services.triage.lineage import told
from console.services.triage.triage import ClassifiedEntry
from console.text.durations import span
from console.text.untrusted import safe

_ROOM_FOR_WORDS = 40  # columns of the error from which it has room for a sentence before it
_SOON_DAYS = 3  # days of retention left that are worth a warning


class TableColumn(NamedTuple):
    title: str
    size: int
    right: bool = False


class TableColumns(NamedTuple):
    columns: tuple[TableColumn, ...]
    gap: str


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
    "unknown": ("unknown", "warning", "?"),  # the ledger cannot be read
}


@lru_cache(maxsize=32)
def table_columns(size: int, layout: str) -> TableColumns:
    """The columns that a list of this width has room for; the error gets all that is left."""
    fields = of.LAYOUTS[layout]
    gap = "  " if size >= fields.wide_from else " "
    chosen = [column for column in fields.columns if not column.sizes or column.size(size)]
    taken = sum(column.size(size) for column in chosen) + len(gap) * (len(chosen) - 1) + 3
    rest = max(8, size - taken)
    sized = (TableColumn(one.title, one.size(size) if one.sizes else rest, one.right) for one in chosen)
    return TableColumns(tuple(sized), gap)


def header(size: int, layout: str) -> Line:
    made = table_columns(size, layout)
    cells = [Cell("   ", "dim")]
    for column in made.columns:
        cells += [Cell(fit(column.title, column.size, right=column.right), "dim"), Cell(made.gap)]
    return tuple(cells[:-1])


_POISON = ("poison", "warning", "!")  # a pending entry that keeps failing in one way


def _state_words(row: ClassifiedEntry) -> tuple[str, str, str]:
    """(word, tone, glyph)."""
    return _POISON if row.poison and row.state == "pending" else _STATES[row.state]


def row_line(row: ClassifiedEntry, now: datetime, size: int, *, marked: bool, fresh: bool) -> Line:
    """The entry's line, exactly as wide as the table."""
    _, tone, glyph = _state_words(row)
    made = table_columns(size, row.entry.layout)
    mark = Cell("●", "accent") if marked else Cell("+", "accent") if fresh else Cell(" ")
    cells = [mark, Cell(f"{glyph} ", _tone(tone))]
    for column in made.columns:
        text, shade = _shown(row, column, now)
        cells += [Cell(fit(text, column.size, right=column.right), shade), Cell(made.gap)]
    return tuple(cells[:-1])


def _tone(name: str) -> Tone:
    return name  # type: ignore[return-value]  # the tones of _STATES


def _shown(row: ClassifiedEntry, column: TableColumn, now: datetime) -> tuple[str, Tone]:
    entry = row.entry
    settled: Tone = "dim" if entry.state in ("replayed", "dismissed") else "plain"
    match column.title:
        case "AGE":
            return value.entry_age(entry, now), "dim"
        case "VENUE" | "QUEUE" | "PROVIDER":
            return safe(of.origin(entry), 40), settled
        case "ACCOUNT":
            return safe(entry.text("account_id"), 40), "dim"
        case "ORDER":
            text = value.order(entry, column.size)
            return text, "warning" if "⚠" in text else "strong" if settled == "plain" else settled
        case "MESSAGE" | "REQUEST":
            return value.order(entry), "strong" if settled == "plain" else settled
        case "ERROR":
            return _error(row, column.size, settled)
        case "CATEGORY":
            return row.category, "dim"
        case "TRY":
            return _tries(row)
        case "STATE":
            word, tone, _ = _state_words(row)
            return word, _tone(tone)
        case _:
            return _shown_elsewhere(entry, column.title, now, settled)


def _shown_elsewhere(entry: Entry, title: str, now: datetime, settled: Tone) -> tuple[str, Tone]:
    """The cell of a column that only messages or calls have."""
    match title:
        case "REASON":
            return safe(of.text(entry, "failure_reason"), 40), settled
        case "TENANT":
            return safe(of.text(entry, "tenantId"), 40) or "–", "dim"
        case "TOOK":
            took = of.time_to_failure(entry)
            return span(took) if took is not None else "?", "dim"
        case "LEFT" | "DAYS LEFT":
            return _left(entry, now)
        case _:
            held = of.tries(entry)
            return safe("?" if held is None else str(held), 10), "dim"


def _error(row: ClassifiedEntry, room: int, settled: Tone) -> tuple[str, Tone]:
    """The error; before it, of a message that was replayed and failed again, how often."""
    if row.came_back:
        back = told(row.came_back) if room >= _ROOM_FOR_WORDS else f"back {row.came_back}x"
        text, _ = _own_error(row.entry, max(8, room - len(back) - 2), settled)
        return f"{back}: {text}", "warning" if settled == "plain" else settled
    return _own_error(row.entry, room, settled)


def _own_error(entry: Entry, room: int, settled: Tone) -> tuple[str, Tone]:
    fields = of.layout_of(entry)
    if fields.no_error and not of.text(entry, fields.errors[0]):
        return fields.no_error, "dim"
    return value.error_head(entry, room), settled


def _tries(row: ClassifiedEntry) -> tuple[str, Tone]:
    held = of.tries(row.entry)
    return safe(readable(0 if held is None else held), 8), "warning" if _is_worn(row) else "dim"


def _is_worn(row: ClassifiedEntry) -> bool:
    """Whether the entry was tried three times or more."""
    tries = of.tries(row.entry)
    return isinstance(tries, int) and tries >= 3


def state_cell(state: str) -> Cell:
    word, tone, _ = _STATES[state]
    return Cell(word, _tone(tone))

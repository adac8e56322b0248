"""A row of the queue: the columns that fit a width, an entry's cells in them, and what a filter found there. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from dlq_sink.values import readable

from backends.entry import Entry
from console.render import value
from console.render.line import HANG, Cell, Line, Tone, fit
from console.render.order_row import is_exit
from console.services import layout_fields as of
from console.services.market.entry_value import VenueTypes, quick_value, value_of
from console.services.triage.classified_entry import UNKNOWN, ClassifiedEntry
from console.services.triage.marks import MarkFacts, UsualLimits, may_have_arrived
from console.text.durations import span
from console.text.untrusted import safe

if TYPE_CHECKING:
    from backends.records import Filter

_ROOM_FOR_WORDS = 40  # columns of the error from which it has room for a sentence before it
_SOON_DAYS = 3  # days of retention left that are worth a warning
_WORN = 3  # tries that are worth a warning


class Sought(NamedTuple):
    """Folded texts that are looked for: in the error, and in the market."""

    error: tuple[str, ...] = ()
    market: tuple[str, ...] = ()


NOTHING = Sought()


def sought_by(where: Filter) -> Sought:
    """What must be found; what is excluded stands nowhere."""
    asked = [one for one in where.every if one.field in ("text", "error") and not one.negated]
    error = _pieces(piece for one in asked for choice in one.choices for piece in choice.pieces)
    market = _pieces(piece for one in asked if one.field == "text" for piece in one.choices[0].pieces)
    return Sought(error, market)


def _pieces(found: Iterable[str]) -> tuple[str, ...]:
    """The longest first, so that a text is marked whole where another begins like it."""
    return tuple(sorted({piece for piece in found if piece}, key=lambda piece: (-len(piece), piece)))


def marked(cells: Line, texts: tuple[str, ...]) -> Line:
    """The line with every place where one of the texts stands as a cell of its own."""
    if not texts:
        return cells
    made: list[Cell] = []
    for cell in cells:
        made += [cell] if cell is HANG else marked_cell(cell, texts)
    return tuple(made)


def marked_cell(cell: Cell, texts: tuple[str, ...], within: str = "") -> list[Cell]:
    """The parts of a cell. `within`: only where this part of its text stands."""
    text = cell.text
    low = text.find(within) if within else 0
    if not texts or low < 0:
        return [cell]
    high = low + len(within) if within else len(text)
    parts: list[Cell] = []
    at = 0
    for start, end in _places(text[low:high], texts):
        if start + low > at:
            parts.append(Cell(text[at : start + low], cell.tone))
        parts.append(Cell(text[start + low : end + low], "match"))
        at = end + low
    if at < len(text):
        parts.append(Cell(text[at:], cell.tone))
    return parts or [cell]


def _places(text: str, texts: tuple[str, ...]) -> list[tuple[int, int]]:
    """From where to where, in the text as it stands: folding may make it longer."""
    from backends.criterion import fold  # without a filter nothing is looked for

    folded = fold(text)
    found = [match.span() for match in re.finditer("|".join(map(re.escape, texts)), folded)]
    if not found or len(folded) == len(text):
        return found
    origin = [at for at, letter in enumerate(text) for _ in fold(letter)]
    spans = [(origin[start], origin[end - 1] + 1) for start, end in found]
    return [span for at, span in enumerate(spans) if at == 0 or span[0] >= spans[at - 1][1]]


class TableColumn(NamedTuple):
    title: str
    size: int
    right: bool = False


class TableColumns(NamedTuple):
    columns: tuple[TableColumn, ...]
    gap: str
    between: Cell  # two columns, of every row


def _left(entry: Entry, now: datetime) -> tuple[str, Tone]:
    days = of.days_left(entry, now)
    if days is None:
        return "?", "dim"
    return f"{days}d" if days else "due", "warning" if days <= _SOON_DAYS else "dim"


class Glyph(NamedTuple):
    """A sign in front of a row, its tone and what it means."""

    sign: str
    tone: Tone
    word: str
    meaning: str


_STATES = {
    "pending": Glyph(" ", "plain", "pending", "waits for somebody"),
    "in_flight": Glyph("»", "warning", "in flight", "in flight: being sent now"),
    "in_doubt": Glyph("?", "danger", "in doubt", "in doubt: sent, and nobody knows how that ended"),
    "replayed": Glyph("✓", "good", "replayed", "replayed: sent again and accepted"),
    "dismissed": Glyph("–", "dim", "dismissed", "dismissed: closed without sending"),
    UNKNOWN: Glyph("?", "warning", UNKNOWN, "unknown: the ledger cannot be read"),
}
_POISON = Glyph("☠", "warning", "poison", "poison: keeps failing in one way")
_ARRIVED = Glyph("≈", "warning", "may have arrived", "may have arrived: its error does not prove that it did not")
_STALE = Glyph("·", "dim", "stale", "stale: too old to be sent unasked")
_EXIT = Glyph("⚑", "accent", "exit", "exit: it only takes from a position")
_MARKED = Glyph("●", "accent", "marked", "marked")
_NEW = Glyph("+", "accent", "new", "new since you looked")
_MARKED_CELL, _NEW_CELL, _EXIT_CELL = (Cell(one.sign, one.tone) for one in (_MARKED, _NEW, _EXIT))
_UNMARKED, _BLANK = Cell(" ", "accent"), Cell(" ")


def legend(layout: str) -> tuple[Glyph, ...]:
    """What the signs in front of the rows mean; those that only orders have are left out elsewhere."""
    states = tuple(_STATES[name] for name in ("in_doubt", "in_flight", "replayed", "dismissed"))
    orders = (_ARRIVED, _STALE, _EXIT) if of.LAYOUTS[layout].has_modes else ()
    return (_MARKED, _NEW, *states, _POISON, *orders)


@lru_cache(maxsize=32)
def table_columns(size: int, layout: str) -> TableColumns:
    """The columns that a list of this width has room for; the error gets all that is left."""
    fields = of.LAYOUTS[layout]
    gap = "  " if size >= fields.wide_from else " "
    chosen = [column for column in fields.columns if not column.sizes or column.size(size)]
    taken = sum(column.size(size) for column in chosen) + len(gap) * (len(chosen) - 1) + len(_margin(layout))
    rest = max(8, size - taken)
    sized = (TableColumn(one.title, one.size(size) if one.sizes else rest, one.right) for one in chosen)
    return TableColumns(tuple(sized), gap, Cell(gap))


def header(size: int, layout: str) -> Line:
    made = table_columns(size, layout)
    cells = [Cell(_margin(layout), "dim")]
    for column in made.columns:
        cells += [Cell(fit(column.title, column.size, right=column.right), "dim"), Cell(made.gap)]
    return tuple(cells[:-1])


def column_at(x: int, size: int, layout: str) -> str | None:
    """The title of the column that stands there; None between the columns."""
    made, begins = table_columns(size, layout), len(_margin(layout))
    for column in made.columns:
        if begins <= x < begins + column.size:
            return column.title
        begins += column.size + len(made.gap)
    return None


def _margin(layout: str) -> str:
    """The room of the signs: marked, state and, of an order, exit."""
    return " " * (4 if of.LAYOUTS[layout].has_modes else 3)


def state_glyph(row: ClassifiedEntry, now: datetime) -> Glyph:
    """The sign of its state; of a pending entry the sign of the mark that matters most."""
    state = row.state
    if state != "pending":
        return _STATES[state]
    if row.poison:
        return _POISON
    if not of.layout_of(row.entry).has_modes:
        return _STATES[state]
    if may_have_arrived(row):
        return _ARRIVED
    facts = row.facts or MarkFacts({}, now, UsualLimits())  # before they are read, by the usual limit
    return _STALE if facts.has(row, "stale") else _STATES[state]


def row_line(
    row: ClassifiedEntry,
    now: datetime,
    size: int,
    *,
    marked: bool,
    fresh: bool,
    types: VenueTypes | None = None,
    quick: bool = False,
    sought: Sought = NOTHING,
) -> Line:
    """The entry's line, exactly as wide as the table. `quick`: only what can be told at once."""
    entry = row.entry
    made, state = table_columns(size, entry.layout), state_glyph(row, now)
    cells = [_MARKED_CELL if marked else _NEW_CELL if fresh else _UNMARKED, Cell(state.sign, state.tone)]
    if of.layout_of(entry).has_modes:
        cells.append(_EXIT_CELL if is_exit(entry) else _BLANK)
    cells.append(_BLANK)
    between = made.between
    for column in made.columns:
        title, room, right = column
        if title == "VALUE":
            text, shade = _value(entry, room, types or {}, quick=quick)
        else:
            text, shade = _shown(row, column, now)
        cell = Cell(fit(text, room, right=right), shade)
        if sought is NOTHING:
            cells.append(cell)
        else:
            cells += _found(entry, cell, title, sought)
        cells.append(between)
    cells.pop()
    return tuple(cells)


def _found(entry: Entry, cell: Cell, title: str, sought: Sought) -> list[Cell]:
    """The cell with what a filter found in it marked: in the error, and in an order's market."""
    if title == "ERROR":
        return marked_cell(cell, sought.error)
    if title == "ORDER":
        return marked_cell(cell, sought.market, within=value.name(entry.text("market_id")))
    return [cell]


def _value(entry: Entry, room: int, types: VenueTypes, *, quick: bool) -> tuple[str, Tone]:
    held = quick_value(entry, types) if quick else value_of(entry, types)
    text = "" if held.notional is None else value.short_value(held.notional, held.currency, room)
    return text, _settled(entry)


def _settled(entry: Entry) -> Tone:
    return "dim" if entry.state in ("replayed", "dismissed") else "plain"


def _shown(row: ClassifiedEntry, column: TableColumn, now: datetime) -> tuple[str, Tone]:
    entry = row.entry
    settled = _settled(entry)
    match column.title:
        case "AGE":
            return value.entry_age(entry, now), "dim"
        case "VENUE" | "QUEUE" | "PROVIDER":
            return _origin(entry, column.size), settled
        case "ACCOUNT":
            return safe(entry.text("account_id"), 40), "dim"
        case "ORDER":
            text = value.order(entry, column.size, aligned=True)
            return text, "warning" if "⚠" in text else _weight(entry, settled)
        case "MESSAGE" | "REQUEST":
            return value.order(entry), _weight(entry, settled)
        case "ERROR":
            return _error(row, column.size, settled)
        case "TRY":
            return _tries(row)
        case _:
            return _shown_elsewhere(entry, column.title, now, settled)


def _origin(entry: Entry, room: int) -> str:
    """The venue, queue or provider; where room is short, an exchange without the library that reaches it."""
    name = safe(of.origin(entry), 40)
    return name if len(name) <= room else name.removeprefix("ccxt:")


def _weight(entry: Entry, settled: Tone) -> Tone:
    """Bold only what somebody must look at first."""
    return "strong" if entry.state in ("in_doubt", "in_flight") else settled


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
        from console.services.triage.lineage import told

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
    """Blank for what was never tried again, which is most."""
    held = of.tries(row.entry)
    if held is None or held == 0:
        return "", "dim"
    return safe(readable(held), 8), "warning" if isinstance(held, int) and held >= _WORN else "dim"


def state_cell(state: str) -> Cell:
    told = _STATES[state]
    return Cell(told.word, told.tone)

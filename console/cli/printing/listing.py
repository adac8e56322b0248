"""A list in the form that was asked for: plain lines, JSON Lines, CSV or a table. Knows entries; opens no store."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from backends.records import AuditEvent, StoreInfo
from console import clock
from console.cli.parser import UsageError
from console.cli.printing.output import json_row, order_text, plain_entry
from console.cli.printing.table import TextColumn, TextTable, table_width
from console.render.entry_json import event_pairs
from console.services import layout_fields as layout
from console.services.json_lines import json_line
from console.services.layout_fields import ORDERS, OUTBOX
from console.services.market.entry_value import VenueTypes
from console.services.triage.triage import ClassifiedEntry
from console.text.durations import age
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.cli.printing.sheet import EntrySheet

Form = Literal["plain", "json", "csv", "table"]
_ENTRY_COLUMNS = (
    TextColumn("ID"),
    TextColumn("AGE", right=True),
    TextColumn("FROM", least=6),
    TextColumn("ACCOUNT", optional=True),
    TextColumn("WHAT", least=18),
    TextColumn("STATE"),
    TextColumn("TRIES", optional=True, right=True),
    TextColumn("ERROR", least=12),
)


def form_of(args: argparse.Namespace) -> Form:
    """What --json, -o and --watch ask for together."""
    said: Form | None = args.output
    if args.json and said not in (None, "json"):
        raise UsageError(f"--json and -o {said} exclude each other: say one of them")
    form = said or ("json" if args.json else "plain")
    if getattr(args, "watch", False):
        if form in ("json", "csv"):
            raise UsageError(f"--watch repaints a terminal: leave out {form}, or leave out --watch")
        return "table"
    return form


class EntryListing:
    """The lines of a list of entries, one entry at a time."""

    def __init__(self, form: Form, info: StoreInfo, types: VenueTypes) -> None:
        self._form = form
        self._types = types
        self._info = info
        self._table = TextTable(_ENTRY_COLUMNS, table_width())

    @cached_property
    def _sheet(self) -> EntrySheet:
        from console.cli.printing.sheet import EntrySheet  # the other forms do without

        return EntrySheet(self._info)

    def head(self) -> Iterator[str]:
        if self._form == "csv":
            yield self._sheet.head

    def lines(self, row: ClassifiedEntry) -> Iterable[str]:
        match self._form:
            case "plain":
                return (plain_entry(row, self._types),)
            case "json":
                return (json_row(row, self._types),)
            case "csv":
                return (self._sheet.line(row),)
            case "table":
                return self._table.add(entry_cells(row, self._types))

    def end(self) -> Iterator[str]:
        return self._table.finish()


def entry_cells(row: ClassifiedEntry, types: VenueTypes) -> list[str]:
    entry = row.entry
    at = layout.occurred_at(entry)
    account, tries = _account_and_tries(row)
    marks = "".join(f" {mark}" for mark in row.marks if mark == "poison")
    return [
        safe(entry.id, 200),
        age(at, clock.now()) if at else "?",
        safe(layout.origin(entry), 200) or "-",
        account or "-",
        _what(row, types),
        f"{row.state}{marks}",
        tries or "0",
        safe(layout.error_text(entry), 400),
    ]


def _what(row: ClassifiedEntry, types: VenueTypes) -> str:
    match row.entry.layout:
        case layout.ORDERS:
            return order_text(row, types)
        case layout.OUTBOX:
            return safe(layout.text(row.entry, "failure_reason"), 60)
        case _:
            return safe(layout.request_line(row.entry), 200)


def _account_and_tries(row: ClassifiedEntry) -> tuple[str, str]:
    entry = row.entry
    names = {ORDERS: ("account_id", "retry_count"), OUTBOX: ("", "deliveries_count")}
    account, tries = names.get(entry.layout, ("tenant", "attempts"))
    return safe(layout.text(entry, account), 80) if account else "", safe(layout.text(entry, tries), 20)


_EVENT_SHEET = ("seq", "at", "kind", "entries", "reason", "note", "who", "operation", "source", "hash")
_EVENT_COLUMNS = {
    "seq": TextColumn("SEQ", right=True),
    "at": TextColumn("AT"),
    "kind": TextColumn("KIND"),
    "who": TextColumn("WHO", least=8),
    "entries": TextColumn("ENTRIES", least=20),
    "reason": TextColumn("REASON", optional=True),
    "note": TextColumn("NOTE", least=8),
}


def _sheet_lines(documents: Iterable[Mapping[str, object]], columns: Iterable[str]) -> Iterable[str]:
    from console.cli.printing.sheet import document_lines  # the other forms do without

    return document_lines(documents, columns)


class EventListing:
    """The lines of the audit trail, one event at a time. What only some kinds of event hold is JSON in CSV's `rest`."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._table = TextTable(tuple(_EVENT_COLUMNS.values()), table_width())

    def head(self) -> Iterator[str]:
        if self._form == "csv":
            yield next(iter(_sheet_lines((), (*_EVENT_SHEET, "rest"))))

    def lines(self, event: AuditEvent) -> Iterator[str]:
        pairs = event_pairs(event)
        if self._form == "csv":
            rest = {key: value for key, value in pairs.items() if key not in _EVENT_SHEET}
            _, line = _sheet_lines(({**pairs, "rest": rest},), (*_EVENT_SHEET, "rest"))
            yield line
        elif self._form == "table":
            yield from self._table.add([_event_text(pairs, key) for key in _EVENT_COLUMNS])
        else:
            yield json.dumps(pairs)

    def end(self) -> Iterator[str]:
        return self._table.finish()


def _event_text(pairs: Document, key: str) -> str:
    match key, pairs.get(key):
        case "at", str() as at:
            return safe(f"{at[:19]}Z", 20)
        case "who", Mapping() as who:
            return safe(str(who.get("operator") or who.get("db_role") or "-"), 80)
        case _:
            return cell_text(pairs, key)


Document = Mapping[str, object]


def document_list(
    form: Form,
    documents: Sequence[Document],
    columns: Mapping[str, TextColumn],
    text: Callable[[Document, str], str] | None = None,
) -> Iterator[str]:
    """JSON Lines, CSV or a table; `columns` are the keys that a table shows, `text` makes a cell of one."""
    if form == "json":
        yield from map(json_line, documents)
        return
    if form == "csv":
        yield from _sheet_lines(documents, documents[0] if documents else columns)
        return
    table = TextTable(tuple(columns.values()), table_width())
    for document in documents:
        yield from table.add([(text or cell_text)(document, key) for key in columns])
    yield from table.finish()


def cell_text(document: Document, key: str) -> str:
    """A value as a cell of a table."""
    match document.get(key):
        case None:
            return "-"
        case bool() as yes:
            return "yes" if yes else "no"
        case Mapping() as counts:
            return safe(", ".join(str(name) for name in counts), 200) or "-"
        case list() | tuple() as several:
            return safe("; ".join(str(one) for one in several), 200) or "-"
        case value:
            return safe(str(value), 400)

"""Rows as CSV that neither a terminal nor a spreadsheet acts on. Knows entries and plain values; prints nothing."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from io import StringIO

from backends.records import StoreInfo, readable
from console.cli.printing.output import stored_number
from console.services.layout_fields import bytes_text, shown_values
from console.services.triage.triage import ClassifiedEntry
from console.text.untrusted import inert


def csv_line(cells: Iterable[str]) -> str:
    into = StringIO()
    csv.writer(into, lineterminator="\n").writerow(cells)  # it quotes what holds its own end of line
    return into.getvalue().removesuffix("\n")


class EntrySheet:
    """The columns of a store as stored, and behind them what the console adds."""

    def __init__(self, info: StoreInfo) -> None:
        self._has_own_id = "dlq_id" in info.columns
        own = () if self._has_own_id else ("dlq_id", "layout")
        self._names = (*own, *info.columns, "state", "category", "fingerprint")

    @property
    def head(self) -> str:
        return csv_line(map(inert, self._names))

    def line(self, row: ClassifiedEntry) -> str:
        entry = row.entry
        values = shown_values(entry)
        if self._has_own_id:
            cells = [_cell(one) for one in values]
        else:
            stored = [inert(bytes_text(one)) if isinstance(one, bytes) else _cell(one) for one in values]
            cells = [inert(entry.id), entry.layout, *stored]
        return csv_line([*cells, row.state, row.category, row.fingerprint])


def document_lines(documents: Iterable[Mapping[str, object]], names: Iterable[str]) -> Iterable[str]:
    """JSON objects as CSV with these columns; an object within one stays JSON."""
    columns = list(names)
    yield csv_line(map(inert, columns))
    for document in documents:
        yield csv_line(_cell(_flat(document.get(name))) for name in columns)


def _flat(value: object) -> object:
    return json.dumps(value, default=str) if isinstance(value, Mapping | list | tuple) else value


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    return stored_number(value) if isinstance(value, int | float | Decimal) else inert(readable(value))

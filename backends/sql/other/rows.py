"""Rows of a layout of somebody else's → entries, without what looks like a credential. Pure.

Column by column: what has to be done to a value is the exception, and a page is looked through for it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from backends.layouts.mask import hints_in, masked_document, masked_text
from backends.records import Entry
from backends.sql.other.filter import TIMES
from backends.sql.other.select import CLIP, SHOWN, Select

_ENDS = {datetime.max: "infinity", datetime.min: "-infinity"}  # noqa: DTZ901 - asyncpg makes them naive


def entries(select: Select, rows: Sequence[Sequence[Any]], *, whole: bool = False) -> list[Entry]:
    if not rows:
        return []
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    state, identity, stamp, *rest = columns
    places: Sequence[tuple[str, ...]] = [(entry_id,) for entry_id in identity]
    if not select.attached.by_number:
        places = list(zip(rest.pop(0), identity, strict=True))
    cut = set() if whole else _clip(select, rest)
    _mask(select, rest)
    _name_the_ends(select, rest)
    layout, names, shown = select.attached.layout.name, select.attached.info.columns, SHOWN.get
    return [
        # A state of a newer ledger is not ours to call safe.
        Entry(layout, entry_id, shown(held, "in_doubt"), (version,), place, names, values, at in cut)
        for at, (held, entry_id, version, place, values) in enumerate(
            zip(state, identity, stamp, places, zip(*rest, strict=True), strict=True)
        )
    ]


def _clip(select: Select, columns: list[Sequence[Any]]) -> set[int]:
    """Cuts what is too long; which rows it was."""
    cut: set[int] = set()
    for number, (name, _) in enumerate(select.attached.spelt):
        if not select.may_be_long(name):
            continue
        held = columns[number]
        if long := {at for at, value in enumerate(held) if value is not None and len(value) > CLIP}:
            columns[number] = [value[:CLIP] if at in long else value for at, value in enumerate(held)]
            cut |= long
    return cut


def _mask(select: Select, columns: list[Sequence[Any]]) -> None:
    layout = select.attached.layout
    maskers = {
        number: masked_document if name in layout.documents else masked_text
        for number, (name, _) in enumerate(select.attached.spelt)
        if name in layout.documents or name == layout.error
    }
    if hints := hints_in([value for number in maskers for value in columns[number] if type(value) is str]):
        for number, masked in maskers.items():
            columns[number] = [masked(value, hints) if type(value) is str else value for value in columns[number]]


def _name_the_ends(select: Select, columns: list[Sequence[Any]]) -> None:
    """Postgres' two ends of time, as it spells them."""
    for number, (name, _) in enumerate(select.attached.spelt):
        if not select.attached.part(name).type.startswith(TIMES):
            continue
        held = columns[number]
        if [value for value in held if type(value) is datetime and value.tzinfo is None]:
            columns[number] = [_ENDS.get(value, value) if type(value) is datetime else value for value in held]

"""Entries from the rows of a layout that others own: cut, masked, told apart. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from backends.entry import CLIP, Entry, stored_entry
from backends.layouts.mask import hints_in, masked_document, masked_text
from backends.ledger.names import shown_state
from backends.sql.other import naming
from backends.sql.other.select import Select
from backends.sql.postgres_columns import INFINITE, TIME_TYPES


def entries(
    select: Select, rows: Sequence[Sequence[Any]], *, whole: bool = False, repeated: frozenset[str] = frozenset()
) -> list[Entry]:
    """`repeated`: ids that several rows have, which are told apart by a suffix."""
    if not rows:
        return []
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    state, identity, stamp, *rest = columns
    places: Sequence[tuple[str, ...]] = [(entry_id,) for entry_id in identity]
    if len(select.order) > 1:
        pairs = zip(rest.pop(0), identity, strict=True)
        places = [(own, at) for at, own in pairs] if select.attached.by_number else list(pairs)
    if repeated:
        born = zip(identity, stamp, strict=True)
        identity = [f"{own}{naming.suffix(at)}" if own in repeated else own for own, at in born]
    cut = set() if whole else _clip(select, rest)
    _mask(select, rest)
    _name_the_ends(select, rest)
    layout, names = select.attached.layout.name, select.attached.info.columns
    return [
        stored_entry(
            layout, entry_id, shown_state(held), (version,), place, names=names, values=values, clipped=at in cut
        )
        for at, (held, entry_id, version, place, values) in enumerate(
            zip(state, identity, stamp, places, zip(*rest, strict=True), strict=True)
        )
    ]


def _clip(select: Select, columns: list[Sequence[Any]]) -> set[int]:
    """Cuts long values; returns the numbers of the rows that were cut."""
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
    """Shows infinite times as Postgres spells them."""
    for number, (name, _) in enumerate(select.attached.spelt):
        if not select.attached.part(name).type.startswith(TIME_TYPES):
            continue
        held = columns[number]
        if [value for value in held if type(value) is datetime and value.tzinfo is None]:
            columns[number] = [INFINITE.get(value, value) if type(value) is datetime else value for value in held]

"""The orders in which the queue can be listed, and their names. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

SortField = Literal["age", "value", "tries", "venue"]


class Sort(NamedTuple):
    """`descending`: newest, largest or most first; venues from Z to A."""

    by: SortField = "age"
    descending: bool = True

    @property
    def words(self) -> str:
        return _WORDS[self.by][0 if self.descending else 1]


_WORDS = {
    "age": ("newest first", "oldest first"),
    "value": ("largest value first", "smallest value first"),
    "tries": ("most tries first", "fewest tries first"),
    "venue": ("by venue, Z to A", "by venue"),
}
CYCLE = (Sort(), Sort("age", False), Sort("value"), Sort("tries"), Sort("venue", False))


def next_sort(sort: Sort, *, has_worth: bool) -> Sort:
    """The order that follows; what has no value is not sorted by it."""
    known = [one for one in CYCLE if has_worth or one.by != "value"]
    return known[(known.index(sort) + 1) % len(known)] if sort in known else known[0]


def parse_sort(text: str) -> Sort | None:
    """`value`, `-value` for the other direction; None where it is no order."""
    name, turned = text.strip().lstrip("-"), text.strip().startswith("-")
    usual = next((one for one in CYCLE if one.by == name), None)
    return usual._replace(descending=usual.descending != turned) if usual is not None else None


_TITLES: Mapping[str, SortField] = {
    "AGE": "age", "VALUE": "value", "TRY": "tries", "VENUE": "venue", "QUEUE": "venue", "PROVIDER": "venue",
}  # fmt: skip


def clicked(title: str, sort: Sort) -> Sort | None:
    """The order by this column; turned round where the list has it already. None where nobody sorts by it."""
    by = _TITLES.get(title)
    usual = next((one for one in CYCLE if one.by == by), None)
    if usual is None or sort.by != usual.by:
        return usual
    return sort._replace(descending=not sort.descending)

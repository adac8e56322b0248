"""A layout that somebody else owns: which columns it has, what part each plays, and however they are spelt. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LayoutColumns:
    """Columns by the layout's own names; a table may spell them its way, and `resolve` says how."""

    name: str
    columns: tuple[str, ...]  # in the order they are shown
    anchors: frozenset[str]  # these together are found in no other table
    required: frozenset[str]
    moment: str  # when it failed
    origin: tuple[str, ...]  # where it failed: what a filter by venue means here
    account: str | None
    error: str
    searched: tuple[str, ...]
    documents: frozenset[str]  # JSON
    types: Mapping[str, tuple[str, ...]]  # what a type begins with where nothing drifted; the first is its name
    degraded: Mapping[str, str] = field(default_factory=dict)
    seen: tuple[str, ...] = ()  # what others may change: an act holds only while these are as they were seen
    reason: str | None = None
    sends: bool = False  # a replay leaves this machine, so attempts hold entries


def spelling(name: str) -> str:
    """providerId, provider_id and providerid are one name."""
    return name.replace("_", "").lower()


def resolve(layout: LayoutColumns, names: Iterable[str]) -> dict[str, str]:
    """The layout's name of a column → what this table calls it, for those that are there."""
    there = list(names)
    loose = {spelling(name): name for name in reversed(there)}
    exact = {name: name for name in there}
    found = ((name, exact.get(name) or loose.get(spelling(name))) for name in layout.columns)
    return {name: actual for name, actual in found if actual is not None}


def fits(layout: LayoutColumns, names: Iterable[str]) -> bool:
    return layout.anchors <= resolve(layout, names).keys()

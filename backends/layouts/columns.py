"""A layout that somebody else owns: which columns it has, what part each plays, and however they are spelt. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from backends.store import BadTarget, OnSuccess


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


@dataclass(frozen=True, slots=True)
class Options:
    outbox_table: str | None = None  # which outbox takes a replay
    delete_after_replay: bool = False  # of an outbox's dead-lettered row
    replay_header: bool = True  # a replayed message says what it replays
    on_success: OnSuccess | None = None  # what becomes of an integration's row; None: our ledger alone says so


def read_options(given: Mapping[str, object]) -> Options:
    """Raises BadTarget for a value of the wrong kind; names that are not known are somebody else's business."""
    on_success = given.get("on_success")
    if on_success not in (None, "delete", "soft-delete"):
        raise BadTarget("on_success is delete or soft-delete")
    table = given.get("outbox_table")
    if table is not None and not (isinstance(table, str) and table):
        raise BadTarget("outbox_table is the name of a table")
    return Options(
        outbox_table=table,
        delete_after_replay=_flag(given, "delete_after_replay", default=False),
        replay_header=_flag(given, "replay_header", default=True),
        on_success="delete" if on_success == "delete" else "soft-delete" if on_success else None,
    )


def _flag(given: Mapping[str, object], name: str, *, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise BadTarget(f"{name} is true or false")
    return value

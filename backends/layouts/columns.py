"""Describes a layout that somebody else owns (columns, their spelling, their roles) and its config options. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dlq_sink.error import BadTarget

if TYPE_CHECKING:
    from backends.store import OnSuccess


@dataclass(frozen=True, slots=True)
class LayoutColumns:
    """Columns by the layout's own names; `resolve` maps them to a table's spelling."""

    name: str
    columns: tuple[str, ...]  # in the order they are shown
    anchors: frozenset[str]  # no other kind of table has all of these
    required: frozenset[str]
    moment: str  # when it failed
    origin: tuple[str, ...]  # where it failed; a filter by venue looks here
    account: str | None
    error: str
    documents: frozenset[str]  # JSON
    types: Mapping[str, tuple[str, ...]]  # expected beginnings of a column's type; findings name the first
    degraded: Mapping[str, str] = field(default_factory=dict)
    seen: tuple[str, ...] = ()  # columns that others may change: an act is refused once they differ from what was seen
    reason: str | None = None
    sends: bool = False  # a replay sends a request, so an open attempt holds its entry


def spelling(name: str) -> str:
    """Fold providerId, provider_id and providerid into one name."""
    return name.replace("_", "").lower()


def resolve(layout: LayoutColumns, names: Iterable[str]) -> dict[str, str]:
    """Map the layout's name of each column that is there to the table's own name."""
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
    replay_header: bool = True  # a replayed message names in a header what it replays
    on_success: OnSuccess | None = None  # what happens to the row of a call that was sent again; None: not said
    on_dismiss: OnSuccess = "keep"  # what happens to a dismissed row


def read_options(given: Mapping[str, object]) -> Options:
    """Raises BadTarget for a value of the wrong type; ignores names it does not know."""
    table = given.get("outbox_table")
    if table is not None and not (isinstance(table, str) and table):
        raise BadTarget("outbox_table must be the name of a table")
    return Options(
        outbox_table=table,
        delete_after_replay=_flag(given, "delete_after_replay", default=False),
        replay_header=_flag(given, "replay_header", default=True),
        on_success=_row_act(given, "on_success"),
        on_dismiss=_row_act(given, "on_dismiss") or "keep",
    )


def _row_act(given: Mapping[str, object], name: str) -> OnSuccess | None:
    match given.get(name):
        case None:
            return None
        case "delete" | "soft-delete" | "keep" as known:
            return known
        case _:
            raise BadTarget(f"{name} must be delete, soft-delete or keep")


def _flag(given: Mapping[str, object], name: str, *, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise BadTarget(f"{name} must be true or false")
    return value

"""What a store's config says of layouts that are not ours: where a replay goes and what it leaves behind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backends.store import BadTarget, OnSuccess


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

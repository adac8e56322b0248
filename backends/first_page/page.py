"""What a first page holds. Reads nothing."""

from __future__ import annotations

from typing import NamedTuple

from backends.records import Entry, State

PENDING: frozenset[State] = frozenset({"pending"})
HELD: frozenset[State] = frozenset({"in_flight", "in_doubt"})
HELD_MOST = 200  # with more of them the store reads the page


class FirstPage(NamedTuple):
    label: str
    layout: str
    held: tuple[Entry, ...]  # in doubt or in flight, newest first
    entries: tuple[Entry, ...]  # pending, newest first
    more: bool


def made(label: str, layout: str, held: list[Entry], pending: list[Entry], limit: int) -> FirstPage | None:
    """`pending` holds one more than is shown, if there is one."""
    if len(held) > HELD_MOST:
        return None
    return FirstPage(label, layout, tuple(held), tuple(pending[:limit]), len(pending) > limit)

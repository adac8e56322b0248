"""What a first page holds. Reads nothing."""

from __future__ import annotations

import threading
from typing import NamedTuple

from backends.entry import Entry, State

PENDING: frozenset[State] = frozenset({"pending"})
HELD: frozenset[State] = frozenset({"in_flight", "in_doubt"})
HELD_MOST = 200  # with more of them the store reads the page


class FirstPage(NamedTuple):
    label: str
    layout: str
    held: tuple[Entry, ...]  # in doubt or in flight, newest first
    entries: tuple[Entry, ...]  # pending, newest first
    more: bool


class ComingPage:
    """A first page that a thread reads; a Future would load what the first rows do not need."""

    def __init__(self) -> None:
        self._come = threading.Event()
        self._page: FirstPage | None = None

    def set_result(self, page: FirstPage | None) -> None:
        self._page = page
        self._come.set()

    def done(self) -> bool:
        return self._come.is_set()

    def result(self, seconds: float | None = None) -> FirstPage | None:
        """Raises TimeoutError where it does not come in time."""
        if not self._come.wait(seconds):
            raise TimeoutError
        return self._page


def made(label: str, layout: str, held: list[Entry], pending: list[Entry], limit: int) -> FirstPage | None:
    """`pending` holds one more than is shown, if there is one."""
    if len(held) > HELD_MOST:
        return None
    return FirstPage(label, layout, tuple(held), tuple(pending[:limit]), len(pending) > limit)

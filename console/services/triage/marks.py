"""Marks of an entry that are no states: poison, stale, may-have-arrived. Judged without asking a venue."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from backends.entry import Entry
from console.services.layout_fields import document, layout_of, occurred_at

if TYPE_CHECKING:
    from backends.store import Store
    from console.services.triage.classified_entry import ClassifiedEntry
    from console.services.triage.poison import Poison

MARKS = ("poison", "stale", "may-have-arrived")


class MarkLimits(Protocol):
    """Those limits of the config that marks are judged by."""

    @property
    def poison_after(self) -> int: ...

    @property
    def stale_after(self) -> timedelta: ...


class UsualLimits(NamedTuple):
    """As they are where no config says otherwise."""

    poison_after: int = 3
    stale_after: timedelta = timedelta(minutes=15)


class MarkFacts(NamedTuple):
    """What marks hang on besides the entry, read once for a whole list."""

    poisoned: Mapping[str, Poison]
    at: datetime
    limits: MarkLimits
    came_back: Mapping[str, int] = {}  # how often, of messages that were replayed and failed again
    is_known: bool = True  # False: the ledger cannot be read, and the state of every entry is unknown

    def has(self, row: ClassifiedEntry, mark: str) -> bool:
        match mark:
            case "poison":
                return row.entry.id in self.poisoned
            case "stale":
                return self._is_stale(row)
            case _:
                return may_have_arrived(row)

    def is_alike(self, other: MarkFacts) -> bool:
        """Whether no row looks different for it."""
        same = self.poisoned.keys() == other.poisoned.keys() and self.came_back == other.came_back
        return same and self.is_known == other.is_known

    def marks(self, row: ClassifiedEntry) -> tuple[str, ...]:
        return tuple(mark for mark in MARKS if self.has(row, mark))

    def _is_stale(self, row: ClassifiedEntry) -> bool:
        """By its age alone. A cancel takes risk away and is never stale."""
        entry = row.entry
        if entry.state != "pending" or not layout_of(entry).has_modes or _is_cancel(entry):
            return False
        captured = occurred_at(entry)
        return captured is None or self.at - captured > self.limits.stale_after


def _is_cancel(entry: Entry) -> bool:
    told = document(entry, "action_json") if "cancel" in entry.text("action_json").lower() else None
    return isinstance(told, dict) and str(told.get("action")).lower() == "cancel"


def may_have_arrived(row: ClassifiedEntry) -> bool:
    """It waits, and its error does not prove that the submit never reached the venue."""
    return row.entry.state == "pending" and may_arrive(row)


def may_arrive(row: ClassifiedEntry) -> bool:
    """The same, whatever has become of the entry since."""
    return layout_of(row.entry).has_modes and row.reach == "maybe"


async def mark_facts(store: Store, limits: MarkLimits, at: datetime) -> MarkFacts:
    # Rows are judged by facts that were read; who only shows rows does without what reads them.
    from backends.store import Lineages
    from console.services.triage.lineage import came_back
    from console.services.triage.poison import poisoned

    back = await came_back(store)
    among = None
    if isinstance(store, Lineages):  # a message's tries are its returns, which were just found
        among = tuple(entry_id for entry_id, times in back.items() if times >= limits.poison_after - 1)
    bad = await poisoned(store, limits.poison_after, among)
    return MarkFacts({one.entry.id: one for one in bad}, at, limits, back, store.info.ledger_is_readable)

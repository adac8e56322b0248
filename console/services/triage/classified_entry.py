"""An entry with what the console concludes from its error and its marks: what a row shows. Knows no store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from backends.entry import Entry
from console.services.errors.category import Class, classify
from console.services.layout_fields import stored_error, varying
from console.services.triage.marks import MarkFacts

if TYPE_CHECKING:
    from console.services.errors.fingerprint import Fingerprint
    from console.services.triage.poison import Poison

UNKNOWN = "unknown"


@dataclass(frozen=True)
class ClassifiedEntry:
    """An entry with its category and fingerprint, computed on demand: most entries of a page are never asked."""

    entry: Entry
    facts: MarkFacts | None = None  # None: nobody looked for marks

    @property
    def marks(self) -> tuple[str, ...]:
        return () if self.facts is None else self.facts.marks(self)

    @property
    def state(self) -> str:
        """The entry's state; `unknown` where the ledger, which adds to what the row says, cannot be read."""
        return self.entry.state if self.facts is None or self.facts.is_known else UNKNOWN

    @property
    def poison(self) -> Poison | None:
        return None if self.facts is None else self.facts.poisoned.get(self.entry.id)

    @property
    def came_back(self) -> int:
        """How often this message was replayed and failed again."""
        return 0 if self.facts is None else self.facts.came_back.get(self.entry.id, 0)

    @property
    def category(self) -> str:
        return self._class.category

    @property
    def reach(self) -> str:
        """Whether the failed submit may have reached the venue: "no" or "maybe"."""
        return self._class.reach

    @property
    def fingerprint(self) -> str:
        return self._mark.id

    @property
    def title(self) -> str:
        return self._mark.title

    @property
    def judged(self) -> tuple[Fingerprint, Class]:
        """Group and category, for who asks both of a million entries."""
        return self._mark, self._class

    @property
    def _class(self) -> Class:
        if (known := self.__dict__.get("known_class")) is None:  # a cached_property would take a lock for each entry
            known = self.__dict__["known_class"] = classify(self._error, self._varies)
        return known

    @property
    def _mark(self) -> Fingerprint:
        if (known := self.__dict__.get("known_mark")) is None:
            known = self.__dict__["known_mark"] = _judge_of_groups()(self._error, self._varies)
        return known

    @property
    def _error(self) -> str:
        if (known := self.__dict__.get("known_error")) is None:
            known = self.__dict__["known_error"] = stored_error(self.entry)
        return known

    @property
    def _varies(self) -> tuple[str, ...]:
        if (known := self.__dict__.get("known_names")) is None:
            known = self.__dict__["known_names"] = varying(self.entry)
        return known


@cache
def _judge_of_groups() -> Callable[[str, tuple[str, ...]], Fingerprint]:
    from console.services.errors.fingerprint import fingerprint  # a list shows categories, not groups

    return fingerprint


def classified(entry: Entry) -> ClassifiedEntry:
    return ClassifiedEntry(entry)

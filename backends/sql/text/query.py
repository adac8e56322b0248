"""A statement as text with the names of its values. Knows no driver and no SQLAlchemy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    text: str
    names: tuple[str, ...]  # of the values, in the order the statement takes them
    own: Mapping[str, object]  # values that are part of the statement itself

    def values(self, given: Mapping[str, object]) -> list[object]:
        return [given[name] if name in given else self.own[name] for name in self.names]

"""What each field of a `Filter` asks of an entry, in columns. Pure.

The SQL of every layout and the match in memory are made from this one description; it knows neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from backends.layouts.roles import Roles
from backends.records import Filter


@dataclass(frozen=True, slots=True)
class Equals:
    """One of the columns holds exactly this text.

    An absent value equals nothing, not even the empty text; without a column nothing matches.
    """

    name: str
    columns: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The moment is at or after the limit (`since`), or before it (`until`).

    A time without a zone counts as UTC; a value that is no time, or is infinite, lies in no span.
    """

    name: str
    column: str
    limit: datetime

    @property
    def is_lower(self) -> bool:
        return self.name == "since"


@dataclass(frozen=True, slots=True)
class Contains:
    """One of the columns contains the term in any case, or none does if `negated`; an absent value counts as empty."""

    name: str
    columns: tuple[str, ...]
    term: str
    negated: bool


Condition = Equals | Bound | Contains

_EQUAL: Mapping[str, Callable[[Roles], tuple[str, ...]]] = {
    "venue": lambda role: role.origins,
    "account": lambda role: (role.account,),
    "market": lambda role: (role.market,),
    "side": lambda role: (role.side,),
    "reason": lambda role: (role.reason,),
}


def conditions(where: Filter, role: Roles) -> Iterator[Condition]:
    """Everything a filter asks but the states; an entry fits when all of it holds. The names are unique."""
    for name, columns in _EQUAL.items():
        text: str | None = getattr(where, name)
        if text is not None:
            yield Equals(name, tuple(filter(None, columns(role))), text)
    for name, limit in (("since", where.since), ("until", where.until)):
        if limit is not None:
            yield Bound(name, role.moment, limit)
    for n, term in enumerate(where.terms):
        yield Contains(f"term_{n}", role.searched, term, negated=False)
    for n, term in enumerate(where.without):
        yield Contains(f"without_{n}", role.searched, term, negated=True)

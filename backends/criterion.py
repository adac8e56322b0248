"""One condition of a filter as data: a field, what it is compared with, and which values fit it. Pure.

Knows no entry and no database. Case is folded by `fold`, the one definition that every answer is checked against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

Sign = Literal[":", ">", ">=", "<", "<="]


def fold(text: str) -> str:
    """The text without the difference of case, in any alphabet: Unicode's full case folding."""
    return text.casefold()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A value that is asked for: the folded text between its stars; one piece if it has none."""

    pieces: tuple[str, ...]

    @classmethod
    def literal(cls, text: str) -> Pattern:
        return cls((fold(text),))

    @property
    def is_literal(self) -> bool:
        return len(self.pieces) == 1

    @property
    def is_nothing(self) -> bool:
        """Asks for entries that have no value."""
        return self.pieces == ("",)

    def fits(self, folded: str) -> bool:
        """Whether this is the whole value."""
        first, last = self.pieces[0], self.pieces[-1]
        if self.is_literal:
            return folded == first
        if len(folded) < len(first) + len(last) or not (folded.startswith(first) and folded.endswith(last)):
            return False
        at, end = len(first), len(folded) - len(last)
        for piece in self.pieces[1:-1]:
            found = folded.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    def occurs(self, folded: str) -> bool:
        """Whether a value holds it: a text without a star anywhere, a text with one as the whole value."""
        return self.pieces[0] in folded if self.is_literal else self.fits(folded)


@dataclass(frozen=True, slots=True)
class Criterion:
    """A field that must (or, `negated`, must not) have one of the choices, or lie beyond a limit."""

    field: str  # "text" for a text word; "action.KEY" for a key of the action
    choices: tuple[Pattern, ...] = ()
    numbers: tuple[Decimal, ...] = ()  # choices of a field that is a number
    sign: Sign = ":"
    limit: Decimal | datetime | None = None  # of a comparison; of an age, the moment that the entry's is compared with
    negated: bool = False

    @property
    def asks_for_nothing(self) -> bool:
        return any(choice.is_nothing for choice in self.choices)

    def fits_texts(self, values: Sequence[str]) -> bool:
        """`values`: the field's, as stored; empty ones count as none."""
        held = [fold(value) for value in values if value]
        return self._is_among(held) is not self.negated

    def _is_among(self, held: Sequence[str]) -> bool:
        if not held:
            return self.asks_for_nothing
        return any(choice.fits(value) for choice in self.choices if not choice.is_nothing for value in held)

    def occurs_in(self, value: str) -> bool:
        """As `fits_texts`, for a field in which a text is looked for."""
        if not value:
            return self.asks_for_nothing is not self.negated
        folded = fold(value)
        return any(one.occurs(folded) for one in self.choices if not one.is_nothing) is not self.negated

    def fits_number(self, value: Decimal | None) -> bool:
        if value is None:
            found = self.sign == ":" and self.asks_for_nothing
        elif self.sign == ":":
            found = value in self.numbers
        else:
            assert isinstance(self.limit, Decimal)
            found = compare(value, self.sign, self.limit)
        return found is not self.negated

    def fits_moment(self, at: datetime | None) -> bool:
        assert isinstance(self.limit, datetime)
        return (at is not None and compare(at, self.sign, self.limit)) is not self.negated


def compare(value: Decimal | datetime, sign: Sign, limit: Decimal | datetime) -> bool:
    match sign:
        case ">":
            return value > limit  # type: ignore[operator]  # both are numbers or both are moments
        case ">=":
            return value >= limit  # type: ignore[operator]
        case "<":
            return value < limit  # type: ignore[operator]
        case "<=":
            return value <= limit  # type: ignore[operator]
        case _:
            return value == limit

"""One line of the table that tells what kind of failure an error is, and whether the order may have arrived."""

from dataclasses import dataclass
from typing import Literal

Category = Literal["transient", "schema", "business", "integration"]
Reach = Literal["no", "maybe"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Matches when one of `words` is in the lower-cased text, or one of `statuses` (HTTP) or `codes` (a venue's
    negative codes) was answered; unless one of `unless` is there too. With `among` one of these statuses must also
    have been answered; with `own_words` the venue must also have said something of its own in an error body: a bare
    status proves nothing.
    """

    name: str
    category: Category
    reach: Reach
    next_step: str
    words: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    among: frozenset[int] = frozenset()
    own_words: bool = False

"""Names entries of a table whose id alone is not unique: a repeated id gets the moment it failed as a suffix. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def suffix(born: str) -> str:
    """`2026-04-18 14:32:15+00` → `@2026-04-18T14:32:15Z`."""
    return "@" + (f"{born[:-3]}Z" if born.endswith("+00") else born).replace(" ", "T")


def plain(entry_id: str, born: str) -> str:
    """The row's own id, of an entry that failed then."""
    return entry_id.removesuffix(suffix(born))


def possible(entry_id: str) -> tuple[str, ...]:
    """The ids that a row of this name may have: an id of text may hold an @ of its own."""
    head, mark, _ = entry_id.rpartition("@")
    return (entry_id, head) if mark and head else (entry_id,)


def repeated(ids: Sequence[str]) -> frozenset[str]:
    return frozenset(one for one, count in Counter(ids).items() if count > 1)

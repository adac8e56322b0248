"""The orders in which groups are listed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from console.services.stats.groups import Group

GroupSort = Literal["count", "last", "value", "oldest"]
_LATE = float("inf")
_KEYS: Mapping[str, Callable[[Group], tuple[float, ...]]] = {
    "count": lambda group: (-group.count, -_at(group.last_seen, -_LATE)),
    "last": lambda group: (-_at(group.last_seen, -_LATE), -group.count),
    "oldest": lambda group: (_at(group.first_seen, _LATE), -group.count),
}
WORDS: Mapping[GroupSort, str] = {
    "count": "largest first",
    "last": "last seen first",
    "value": "most value first",
    "oldest": "oldest first",
}

COLUMNS: Mapping[str, GroupSort] = {"COUNT": "count", "LAST": "last", "NOTIONAL": "value", "FIRST": "oldest"}


def sorted_groups(
    groups: Iterable[Group], by: GroupSort, dearest: Callable[[Group], Decimal] = lambda group: group.notional
) -> tuple[Group, ...]:
    """The largest, latest, dearest or oldest first; equals by their fingerprint. `dearest`: a group's largest sum of
    one currency."""

    way = _KEYS.get(by)
    if way is None:
        return tuple(sorted(groups, key=lambda group: (-float(dearest(group)), -group.count, group.fingerprint)))
    return tuple(sorted(groups, key=lambda group: (way(group), group.fingerprint)))


def next_group_sort(by: GroupSort, *, has_worth: bool) -> GroupSort:
    ways: tuple[GroupSort, ...] = ("count", "last", "value", "oldest") if has_worth else ("count", "last", "oldest")
    return ways[(ways.index(by) + 1) % len(ways)]


def _at(moment: datetime | None, otherwise: float) -> float:
    return moment.timestamp() if moment else otherwise

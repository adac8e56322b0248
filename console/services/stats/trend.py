"""Where a store's depth is going: the depth in the last ten minutes, one figure a minute, over all and by venue.

From the index's snapshots, else rebuilt from the times of entries and events. Knows neither SQL nor screens.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from backends.index.rows import captured_of, micros, moment, venue_of
from backends.records import OPEN_STATES, STATES, Entry, Filter, RowKey, parse_time
from backends.store import Store
from console.services.stats.tally import SNAPSHOTS, Tally

Direction = Literal["rising", "falling", "steady"]
SIGNS: Mapping[Direction, int] = {"rising": 1, "falling": -1, "steady": 0}
_KEPT = timedelta(minutes=2 * SNAPSHOTS)
_PAGE = 500


@dataclass(frozen=True, slots=True)
class DepthTrend:
    """The depth, one figure a minute, oldest first; the last one is now."""

    levels: tuple[int, ...]

    @property
    def average(self) -> float:
        return sum(self.levels) / len(self.levels)

    @property
    def recent(self) -> int:
        return self.levels[-1]

    @property
    def direction(self) -> Direction:
        """Rising from 1.2 times the average, falling up to 0.8 times; compared as integers, so that the edges hold."""
        recent, whole = 10 * self.recent * len(self.levels), sum(self.levels)
        if whole and recent >= 12 * whole:
            return "rising"
        return "falling" if whole and recent <= 8 * whole else "steady"


@dataclass(frozen=True, slots=True)
class DepthTrends:
    overall: DepthTrend
    venues: Mapping[str, DepthTrend]


@dataclass(frozen=True, slots=True)
class _Move:
    at: datetime
    ids: tuple[str, ...]
    leaves: bool  # they were open before; else they were not


class Moves:
    """Collects, from audit events in their order, which entries were closed or opened again in the last minutes."""

    def __init__(self) -> None:
        self._moves: deque[_Move] = deque()

    def take(self, body: Mapping[str, Any]) -> None:
        closes = leaves(body)
        at = None if closes is None else parse_time(body.get("at"))
        if closes is None or at is None:
            return
        entries = body.get("entries") or ()
        ids = tuple(str(one[0]) if isinstance(one, list) else str(one) for one in entries if one)
        while self._moves and self._moves[0].at <= at - _KEPT:
            self._moves.popleft()
        self._moves.append(_Move(at, ids, closes))

    def since(self, at: datetime) -> list[_Move]:
        return [move for move in self._moves if move.at > at]


def leaves(body: Mapping[str, Any]) -> bool | None:
    """Whether the entries that an event names are closed by it or opened again; None: neither."""
    match body.get("kind"):
        case "dismiss":
            return True
        case "restore":
            return False
        case "outcome" | "reconcile" if body.get("outcome") == "accepted" and not body.get("rehearsal"):
            return True
        case _:
            return None


async def depth_trends(store: Store, tally: Tally, moves: Moves) -> DepthTrends | None:
    """None where the ledger cannot be read: nobody knows when entries were closed."""
    if not tally.is_readable:
        return None
    seen = of_snapshots(tally)
    return seen if len(seen.overall.levels) == SNAPSHOTS else await rebuilt(store, tally, moves)


def of_snapshots(tally: Tally) -> DepthTrends:
    """From the snapshots of the index, fewer than ten if it was not kept for so long."""
    depths = [*tally.depths, {name: venue.depth for name, venue in tally.venues.items()}]
    return _trends(depths, [sum(one.values()) for one in depths])


def _trends(depths: Sequence[Mapping[str, int]], overall: Sequence[int]) -> DepthTrends:
    names = sorted({name for one in depths for name in one})
    by_venue = {name: DepthTrend(tuple(one.get(name, 0) for one in depths)) for name in names}
    return DepthTrends(DepthTrend(tuple(overall)), by_venue)


@dataclass(slots=True)
class _Touched:
    """An entry that came, was closed or was opened again in the last minutes."""

    venue: str | None  # None: its row is gone, and nobody knows
    captured: datetime | None
    is_open: bool
    moves: list[_Move]

    def was_open(self, at: datetime) -> bool:
        if self.captured is not None and self.captured > at:
            return False
        later = next((move for move in self.moves if move.at > at), None)
        return self.is_open if later is None else later.leaves


async def rebuilt(store: Store, tally: Tally, moves: Moves) -> DepthTrends:
    """Takes back what happened since each moment. What others did past the consoles shows as if it always was."""
    moments = [tally.at - timedelta(minutes=minutes) for minutes in range(SNAPSHOTS - 1, -1, -1)]
    touched = await _touched(store, moves.since(moments[0]), moments[0])
    still = Counter({name: venue.depth for name, venue in tally.venues.items()})
    for one in touched:
        if one.venue is not None:
            still[one.venue] -= one.is_open
    depths, overall = list[Mapping[str, int]](), list[int]()
    for at in moments:
        # The store's clock may be ahead of ours: what it has recorded has happened by now.
        then = Counter(one.venue for one in touched if (one.is_open if at == tally.at else one.was_open(at)))
        depths.append({name: max(0, count + then[name]) for name, count in still.items()})
        overall.append(sum(depths[-1].values()) + then[None])
    return _trends(depths, overall)


async def _touched(store: Store, moves: Sequence[_Move], since: datetime) -> list[_Touched]:
    named = dict.fromkeys(one for move in moves for one in move.ids)
    newest = await _newest(store, since)  # also spares asking a hub for each of these
    entries = {one.id: one for one in newest if one.id in named or (captured_of(one) or 0) > micros(since)}
    others = tuple(one for one in named if one not in entries)
    for start in range(0, len(others), _PAGE):
        entries |= await store.many(others[start : start + _PAGE])
    gone = tuple(one for one in others if one not in entries)
    found = {one: _Touched(venue, None, False, []) for one, venue in (await _lost_venues(store, gone)).items()}
    for entry in entries.values():
        at = moment(captured_of(entry))
        found[entry.id] = _Touched(venue_of(entry), at, entry.state in OPEN_STATES, [])
    for move in moves:
        for one in move.ids:
            found[one].moves.append(move)
    return list(found.values())


async def _lost_venues(store: Store, ids: tuple[str, ...]) -> dict[str, str | None]:
    """Of entries whose row is gone: where they were sent, if they were."""
    attempts = await store.attempts_of(ids) if ids else {}
    return {one: attempts[one][-1].venue if attempts.get(one) else None for one in ids}


async def _newest(store: Store, since: datetime) -> list[Entry]:
    """What came after a moment, and some before it: reads newest first until a whole page is older."""
    found: list[Entry] = []
    row_key: RowKey | None = None
    while True:
        page = await store.page(Filter(states=frozenset(STATES)), limit=_PAGE, after=row_key, newest_first=True)
        found += page.entries
        times = [captured for entry in page.entries if (captured := captured_of(entry)) is not None]
        if not page.more or (times and max(times) < micros(since)):
            return found
        row_key = page.entries[-1].row_key

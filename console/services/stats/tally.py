"""A store's figures at one moment (depth, ages, categories, groups, arrivals), counted or read from the index.

Alerts, metrics and reports are made from it. Knows neither SQL nor screens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from backends.index import Reader, file_entry
from backends.index.rows import MINUTE, captured_of, micros, moment
from backends.records import OPEN_STATES, STATES, Filter, RowKey, State
from backends.store import Store
from console.services.index.keeper import label
from console.services.stats.groups import Group, Grouping, from_lines

SNAPSHOTS = 10  # minutes of arrivals that the alert rule compares
_PAGE = 500


@dataclass(frozen=True, slots=True)
class VenueTally:
    depth: int
    in_doubt: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class Tally:
    """Groups, categories, retries and venues cover open entries. Read from the index, groups list venues only."""

    at: datetime
    states: Mapping[State, int]
    venues: Mapping[str, VenueTally]
    categories: Mapping[str, int]
    groups: tuple[Group, ...]
    retries: int
    arrivals: tuple[int, ...]  # in the last ten whole minutes, oldest first

    @property
    def open(self) -> int:
        return sum(self.states.get(state, 0) for state in OPEN_STATES)

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def oldest(self) -> datetime | None:
        return min((venue.oldest for venue in self.venues.values() if venue.oldest), default=None)


async def counted(store: Store, now: datetime) -> Tally:
    """Counts every open entry. Takes as long as reading them."""
    grouping = Grouping()
    depth: Counter[str] = Counter()
    doubted: Counter[str] = Counter()
    categories: Counter[str] = Counter()
    oldest: dict[str, int] = {}
    retries = 0
    row_key: RowKey | None = None
    while True:
        page = await store.page(Filter(), limit=_PAGE, after=row_key)
        for entry in page.entries:
            whole = (await store.get(entry.id) or entry) if entry.clipped else entry
            mark = file_entry(whole, label(whole))
            grouping.add(mark)
            depth[mark.venue] += 1
            doubted[mark.venue] += mark.state == "in_doubt"
            categories[mark.label.category] += 1
            retries += mark.retries
            if mark.captured is not None:
                oldest[mark.venue] = min(mark.captured, oldest.get(mark.venue, mark.captured))
        if not page.more:
            break
        row_key = page.entries[-1].row_key
    counts = await store.counts(Filter(states=frozenset(STATES)))
    return Tally(
        at=now,
        states={state: counts.by_state.get(state, 0) for state in STATES},
        venues={name: VenueTally(depth[name], doubted[name], moment(oldest.get(name))) for name in sorted(depth)},
        categories=dict(sorted(categories.items())),
        groups=grouping.groups(),
        retries=retries,
        arrivals=await _arrivals(store, now),
    )


async def indexed(reader: Reader, now: datetime) -> Tally:
    """Reads the figures from the index, which the caller has found to be current."""
    lines = await reader.lines()
    groups = from_lines(lines, await reader.parts(("venue",)), everything=False, trends={}, new={})
    states: Counter[State] = Counter()
    categories: Counter[str] = Counter()
    for line in lines:
        states[line.state] += line.count
        if line.state in OPEN_STATES:
            categories[line.category] += line.count
    last = micros(now) // MINUTE
    minutes = await reader.minutes(last - SNAPSHOTS)
    return Tally(
        at=now,
        states={state: states[state] for state in STATES},
        venues={
            line.venue: VenueTally(line.open, line.in_doubt, moment(line.oldest))
            for line in sorted(await reader.venues(), key=lambda line: line.venue)
            if line.open
        },
        categories=dict(sorted(categories.items())),
        groups=groups,
        retries=sum(group.retries for group in groups),
        arrivals=tuple(minutes.get(minute, 0) for minute in range(last - SNAPSHOTS, last)),
    )


async def _arrivals(store: Store, now: datetime) -> tuple[int, ...]:
    """Arrivals by minute. Reads newest first until a whole page is older than the span."""
    last = micros(now) // MINUTE
    found: Counter[int] = Counter()
    since = now - timedelta(minutes=SNAPSHOTS + 1)
    row_key: RowKey | None = None
    while True:
        page = await store.page(Filter(states=frozenset(STATES)), limit=_PAGE, after=row_key, newest_first=True)
        times = [captured for entry in page.entries if (captured := captured_of(entry)) is not None]
        found.update(captured // MINUTE for captured in times)
        if not page.more or (times and max(times) < micros(since)):
            break
        row_key = page.entries[-1].row_key
    return tuple(found[minute] for minute in range(last - SNAPSHOTS, last))

"""A store's figures at one moment (depth, ages, categories, retries, groups, arrivals), counted or read from the index.

Alerts, metrics and reports are made from it. Knows neither SQL nor screens.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from backends.index import Reader, VenueLine, file_entry
from backends.index.rows import LAST_STEP, MINUTE, captured_of, micros, moment, retries_of, venue_of
from backends.records import OPEN_STATES, STATES, Entry, Filter, RowKey, State, StoreInfo
from backends.store import Store
from console.services.browse.engine_intent import counts_of, intents_of
from console.services.index.keeper import label, labelled
from console.services.layout_fields import LAYOUTS, ORDERS, LayoutWords
from console.services.market.entry_value import worth_by
from console.services.policy import limits_for_looking
from console.services.stats.groups import Group, Grouping, from_lines
from console.services.triage.poison import Poison, poisoned
from console.services.triage.triage import classified, uncut
from console.settings.config import Config

SNAPSHOTS = 10  # minutes of arrivals that the alert rule compares, and of depths that a trend does
RETRY_STEPS = (*map(str, range(LAST_STEP)), f"{LAST_STEP}+")
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class VenueTally:
    """The open entries of a venue, a queue or a provider."""

    depth: int
    in_doubt: int
    oldest: datetime | None
    average_age: timedelta | None = None
    over_age: int = 0  # those that wait for as long as the config's alert allows, or longer
    categories: Mapping[str, int] = field(default_factory=dict)
    retries: int = 0  # summed
    by_retries: tuple[int, ...] = (0,) * (LAST_STEP + 1)  # entries with 0, 1, 2, 3, 4, and 5 or more
    poisoned: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """Groups, categories, retries and venues cover open entries; a venue of which nothing is open has depth 0.

    Read from the index, groups list venues only. Where the ledger cannot be read, nobody knows what is in doubt or
    poisoned, nor what happened to the entries: those figures are then no figures.
    """

    at: datetime
    states: Mapping[State, int]
    venues: Mapping[str, VenueTally]
    categories: Mapping[str, int]
    groups: tuple[Group, ...]
    retries: int
    arrivals: tuple[int, ...]  # in the last ten whole minutes, oldest first
    is_readable: bool = True  # the ledger
    layout: str = ORDERS
    depths: tuple[
        Mapping[str, int], ...
    ] = ()  # by venue, in the last whole minutes as the index saw them, oldest first
    sizes: tuple[int, ...] | None = None  # of the groups, where only these were counted

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """How many entries each group has, the largest group first."""
        return tuple(group.count for group in self.groups) if self.sizes is None else self.sizes

    @property
    def words(self) -> LayoutWords:
        return LAYOUTS[self.layout].words

    @property
    def open(self) -> int:
        return sum(self.states.get(state, 0) for state in OPEN_STATES)

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def oldest(self) -> datetime | None:
        return min((venue.oldest for venue in self.venues.values() if venue.oldest), default=None)

    @property
    def poisoned(self) -> int:
        return sum(venue.poisoned for venue in self.venues.values())


@dataclass(slots=True)
class _VenueSums:
    """The running sums of one venue."""

    depth: int = 0
    in_doubt: int = 0
    retries: int = 0
    timed: int = 0
    captured: int = 0  # the sum of the times
    oldest: int | None = None
    over_age: int = 0
    categories: Counter[str] = field(default_factory=Counter)
    steps: Counter[int] = field(default_factory=Counter)

    def file(self, entry: Entry, category: str, limit: int) -> None:
        """One open entry; `limit` as in `waits_since`."""
        retries, captured = retries_of(entry), captured_of(entry)
        self.depth += 1
        self.in_doubt += entry.state == "in_doubt"
        self.retries += retries
        self.categories[category] += 1
        self.steps[min(retries, LAST_STEP)] += 1
        if captured is not None:
            self.timed += 1
            self.captured += captured
            self.waits_since(captured, limit)

    def add(self, line: VenueLine) -> None:
        self.depth += line.count
        self.in_doubt += line.count * (line.state == "in_doubt")
        self.retries += line.retries
        self.timed += line.timed
        self.captured += line.captured
        self.categories[line.category] += line.count
        self.steps[line.step] += line.count

    def waits_since(self, captured: int, limit: int) -> None:
        self.oldest = captured if self.oldest is None else min(captured, self.oldest)
        self.over_age += captured <= limit

    def tally(self, now: datetime, poisoned: int) -> VenueTally:
        waited = (micros(now) * self.timed - self.captured) // self.timed if self.timed else None
        return VenueTally(
            depth=self.depth,
            in_doubt=self.in_doubt,
            oldest=moment(self.oldest),
            average_age=None if waited is None else timedelta(microseconds=max(0, waited)),
            over_age=self.over_age,
            categories=dict(sorted(self.categories.items())),
            retries=self.retries,
            by_retries=tuple(self.steps[step] for step in range(LAST_STEP + 1)),
            poisoned=poisoned,
        )


def ledger_is_readable(info: StoreInfo) -> bool:
    return info.ledger_is_readable


def poison_by_venue(found: Sequence[Poison]) -> Counter[str]:
    return Counter(venue_of(one.entry) for one in found)


Detail = Literal["whole", "sizes", "none"]  # how much is counted of groups; alerts and reports need none


async def counted(
    store: Store, now: datetime, config: Config, *, closed: bool = True, groups: Detail = "whole"
) -> Tally:
    """Counts every open entry, which takes as long as reading them. Without `closed`, leaves out the venues of which
    nothing is open."""
    poison = await poisoned(store, (await limits_for_looking(config, store)).poison_after)
    grouping, sizes = Grouping({one.entry.id for one in poison}), Counter[str]()
    venues: defaultdict[str, _VenueSums] = defaultdict(_VenueSums)
    limit, worth = micros(now - config.alerts.oldest), worth_by(config.venue_types)
    async for entries in _open_entries(store):
        for entry in entries:
            row = classified(entry)
            if groups == "whole":
                grouping.add(file_entry(entry, labelled(row, worth)))
            elif groups == "sizes":
                sizes[row.fingerprint] += 1
            venues[venue_of(entry)].file(entry, row.category, limit)
    for entry in await intents_of(store, Filter()):  # what engines left open, whose outcome nobody knows
        venues[venue_of(entry)].file(entry, classified(entry).category, limit)
    categories = sum((sums.categories for sums in venues.values()), Counter[str]())
    for name in await store.origins() if closed else ():
        venues.setdefault(name, _VenueSums())
    counts = await counts_of(store, Filter(states=frozenset(STATES)))
    return Tally(
        at=now,
        states={state: counts.by_state.get(state, 0) for state in STATES},
        venues=_tallied(venues, now, poison),
        categories=dict(sorted(categories.items())),
        groups=grouping.groups(),
        sizes=None if groups == "whole" else tuple(sorted(sizes.values(), reverse=True)),
        retries=sum(sums.retries for sums in venues.values()),
        arrivals=await _arrivals(store, now),
        is_readable=ledger_is_readable(store.info),
        layout=store.info.layout,
    )


async def _open_entries(store: Store) -> AsyncIterator[Sequence[Entry]]:
    """Every open entry, uncut, in pages. The next page is read while this one is judged."""
    coming = asyncio.ensure_future(store.page(Filter(), limit=_PAGE))
    try:
        while True:
            page = await coming
            if page.more:
                coming = asyncio.ensure_future(store.page(Filter(), limit=_PAGE, after=page.entries[-1].row_key))
                await asyncio.sleep(0)  # sends it off
            yield await uncut(store, page.entries)
            if not page.more:
                return
    finally:
        coming.cancel()


async def indexed(store: Store, reader: Reader, now: datetime, config: Config) -> Tally:
    """Reads the figures from the index, which the caller has found to be current."""
    poison = await poisoned(store, (await limits_for_looking(config, store)).poison_after)
    by_group = Counter(label(one.entry).fingerprint for one in poison)
    lines = await reader.lines()
    parts = await reader.parts(("venue",))
    groups = from_lines(lines, parts, everything=False, trends={}, new={}, poisoned=by_group)
    states: Counter[State] = Counter()
    categories: Counter[str] = Counter()
    for line in lines:
        states[line.state] += line.count
        if line.state in OPEN_STATES:
            categories[line.category] += line.count
    last = micros(now) // MINUTE
    minutes = await reader.minutes(last - SNAPSHOTS)
    venues = await _indexed_venues(reader, now - config.alerts.oldest)
    for entry in await intents_of(store, Filter()):
        category = classified(entry).category
        states["in_doubt"] += 1
        categories[category] += 1
        venues.setdefault(venue_of(entry), _VenueSums()).file(entry, category, micros(now - config.alerts.oldest))
    return Tally(
        at=now,
        states={state: states[state] for state in STATES},
        venues=_tallied(venues, now, poison),
        categories=dict(sorted(categories.items())),
        groups=groups,
        retries=sum(group.retries for group in groups),
        arrivals=tuple(minutes.get(minute, 0) for minute in range(last - SNAPSHOTS, last)),
        is_readable=ledger_is_readable(store.info),
        layout=store.info.layout,
        depths=_unbroken(await reader.depths(last - SNAPSHOTS + 1), last),
    )


async def _indexed_venues(reader: Reader, limit: datetime) -> dict[str, _VenueSums]:
    venues: dict[str, _VenueSums] = {}
    for line in await reader.venues():
        sums = venues.setdefault(line.venue, _VenueSums())
        if line.state in OPEN_STATES:
            sums.add(line)
    for age in await reader.ages(limit):
        if age.venue in venues:
            venues[age.venue].oldest = age.oldest
            # Few came lately, many may wait: so the late ones are counted. The index may have moved on in between.
            venues[age.venue].over_age = max(0, venues[age.venue].timed - age.later)
    return venues


def _tallied(venues: Mapping[str, _VenueSums], now: datetime, poison: Sequence[Poison]) -> dict[str, VenueTally]:
    by_venue = poison_by_venue(poison)
    return {name: venues[name].tally(now, by_venue[name]) for name in sorted(venues)}


def _unbroken(depths: Mapping[int, Mapping[str, int]], last: int) -> tuple[Mapping[str, int], ...]:
    """The minutes before `last` back to the first one without a snapshot: then nobody kept the index."""
    found: list[Mapping[str, int]] = []
    for minute in range(last - 1, last - SNAPSHOTS, -1):
        if minute not in depths:
            break
        found.append(depths[minute])
    return tuple(reversed(found))


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

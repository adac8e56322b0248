"""The figures of the health screen: depth, arrivals and alerts over the last hours, from the index.

Knows neither SQL nor screens; returns numbers that a screen can draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from backends.index import IndexUnavailable, Reader
from backends.index.reader import NoIndex
from backends.index.rows import MINUTE, micros
from backends.index.writer import HOUR
from backends.records import Halt
from backends.store import Store
from console.clock import Clock
from console.services.stats import tally
from console.services.stats.alerts import Alert, alerts
from console.services.stats.tally import Tally
from console.services.stats.trend import DepthTrends, of_snapshots
from console.settings.config import Config

SPAN = timedelta(hours=8)
POINTS = 96
ARRIVAL_HOURS = 24


@dataclass(frozen=True, slots=True)
class HealthView:
    at: datetime
    tally: Tally
    alerts: tuple[Alert, ...]
    halt: Halt | None
    depth: tuple[int | None, ...]  # over the span, oldest first; None before the first snapshot
    in_doubt: tuple[int | None, ...]
    arrivals: Mapping[str, tuple[int, ...]]  # category → the last 24 hours, hour by hour
    minutes: tuple[int, ...]  # arrivals of the last hour, minute by minute
    age_limit: timedelta  # of the alert
    trends: DepthTrends  # over as many of the last ten minutes as the index was kept


class Health:
    def __init__(self, store: Store, reader: Reader, config: Config, clock: Clock) -> None:
        self._store = store
        self._reader = reader
        self._config = config
        self._clock = clock

    async def view(self, span: timedelta = SPAN, points: int = POINTS) -> HealthView | None:
        """None if the index is not built yet."""
        now = self._clock()
        try:
            progress = await self._reader.progress()
            if progress is None or not progress.built:
                return None
            counted = await tally.indexed(self._store, self._reader, now, self._config)
            seen = await self._reader.snapshots(now - span)
            hours = await self._reader.hours(micros(now) // HOUR - ARRIVAL_HOURS + 1)
            minutes = await self._reader.minutes(micros(now) // MINUTE - 60)
        except (NoIndex, IndexUnavailable):
            return None
        moments = [now - span + span * (point + 1) / points for point in range(points)]
        last = micros(now) // MINUTE
        return HealthView(
            at=now,
            tally=counted,
            alerts=alerts(counted, self._config.alerts),
            halt=await self._store.halted(),
            depth=levels([(one.at, one.open) for one in seen], moments),
            in_doubt=levels([(one.at, one.in_doubt) for one in seen], moments),
            arrivals=_by_category(hours, micros(now) // HOUR),
            minutes=tuple(minutes.get(minute, 0) for minute in range(last - 60, last)),
            age_limit=self._config.alerts.oldest,
            trends=of_snapshots(counted),
        )


def levels(seen: Sequence[tuple[datetime, int]], moments: Sequence[datetime]) -> tuple[int | None, ...]:
    """The last level seen at or before each moment."""
    found: list[int | None] = []
    level: int | None = None
    at = 0
    for moment in moments:
        while at < len(seen) and seen[at][0] <= moment:
            level = seen[at][1]
            at += 1
        found.append(level)
    return tuple(found)


def _by_category(hours: Mapping[tuple[str, str], Mapping[int, int]], last: int) -> dict[str, tuple[int, ...]]:
    sums: dict[str, dict[int, int]] = {}
    for (_, category), counts in hours.items():
        into = sums.setdefault(category, {})
        for hour, count in counts.items():
            into[hour] = into.get(hour, 0) + count
    window = range(last - ARRIVAL_HOURS + 1, last + 1)
    return {category: tuple(sums[category].get(hour, 0) for hour in window) for category in sorted(sums)}

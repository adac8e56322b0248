"""The figures of the health screen: depth, arrivals and alerts over the last hours, from the index.

Knows neither SQL nor screens; returns numbers that a screen can draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from backends.index import IndexUnavailable, Reader
from backends.index.delta import HOUR
from backends.index.reader import NoIndex
from backends.index.rows import MINUTE, micros
from backends.records import Halt
from backends.store import Store
from console.clock import Clock
from console.services.stats import tally
from console.services.stats.alerts import Alert, alerts
from console.services.stats.depth import DepthHistory, levels
from console.services.stats.tally import Tally
from console.services.stats.trend import DepthTrends, depth_trends, of_snapshots
from console.settings.config import Config

SPAN = timedelta(hours=8)
POINTS = 96
ARRIVAL_HOURS = 24
_FEW = 2000  # arrivals of ten minutes that are read again for the trend


@dataclass(frozen=True, slots=True)
class HealthView:
    at: datetime
    tally: Tally
    alerts: tuple[Alert, ...]
    halt: Halt | None
    depth: tuple[int | None, ...]  # over the span, oldest first; None: unknown, where the ledger cannot be read
    arrivals: Mapping[str, tuple[int, ...]]  # category → the last 24 hours, hour by hour
    minutes: tuple[int, ...]  # arrivals of the last hour, minute by minute
    age_limit: timedelta  # of the alert
    trends: DepthTrends  # over the last ten minutes; over fewer where the ledger cannot be read


class Health:
    def __init__(self, store: Store, reader: Reader, config: Config, clock: Clock) -> None:
        self._store = store
        self._reader = reader
        self._config = config
        self._clock = clock
        self._history = DepthHistory(store)

    async def tally(self) -> Tally:
        """The figures of now."""
        return await tally.indexed(self._store, self._reader, self._clock(), self._config)

    async def view(self, span: timedelta = SPAN, points: int = POINTS) -> HealthView | None:
        """None if the index is not built yet."""
        now = self._clock()
        moments = [now - span + span * (point + 1) / points for point in range(points)]
        try:
            progress = await self._reader.progress()
            if progress is None or not progress.built:
                return None
            counted = await tally.indexed(self._store, self._reader, now, self._config)
            seen = await self._reader.snapshots(now - span)
            hours = await self._reader.hours(micros(now) // HOUR - ARRIVAL_HOURS + 1)
            minutes = await self._reader.minutes(micros(now - span) // MINUTE)
            depth = levels([(one.at, one.open) for one in seen], moments)
            if counted.is_readable:
                await self._history.read(now - span, progress.audit_seq)
                rebuilt = self._history.levels(counted.open, minutes, moments)
                depth = tuple(then if then is not None else now_ for then, now_ in zip(depth, rebuilt, strict=True))
        except (NoIndex, IndexUnavailable):
            return None
        last = micros(now) // MINUTE
        few = sum(counted.arrivals) <= _FEW
        trends = await depth_trends(self._store, counted, self._history.moves) if few else None
        return HealthView(
            at=now,
            tally=counted,
            alerts=alerts(counted, self._config.alerts),
            halt=await self._store.halted(),
            depth=depth,
            arrivals=_by_category(hours, micros(now) // HOUR),
            minutes=tuple(minutes.get(minute, 0) for minute in range(last - 60, last)),
            age_limit=self._config.alerts.oldest,
            trends=trends or of_snapshots(counted),
        )


def _by_category(hours: Mapping[tuple[str, str], Mapping[int, int]], last: int) -> dict[str, tuple[int, ...]]:
    sums: dict[str, dict[int, int]] = {}
    for (_, category), counts in hours.items():
        into = sums.setdefault(category, {})
        for hour, count in counts.items():
            into[hour] = into.get(hour, 0) + count
    window = range(last - ARRIVAL_HOURS + 1, last + 1)
    return {category: tuple(sums[category].get(hour, 0) for hour in window) for category in sorted(sums)}

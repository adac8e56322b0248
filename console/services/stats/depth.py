"""The depth of a store over the last hours: as the index saw it, else rebuilt from arrivals and the ledger's events.

Reads the store contract; knows neither SQL nor screens.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from backends.index.rows import MINUTE, moment
from backends.records import AuditEvent, parse_time
from backends.store import Store
from console.services.stats.trend import Moves, leaves

_FRESH = timedelta(minutes=2)  # a snapshot that is older says nothing of a moment: nobody kept the index then


class _Step(NamedTuple):
    at: datetime
    change: int  # of the depth


class DepthHistory:
    """Which entries the ledger's events closed and opened again; reads only what came since it was asked last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seq: int | None = None  # of the last event that was read
        self._steps: list[_Step] = []
        self.moves = Moves()

    async def read(self, since: datetime, last_seq: int) -> None:
        """`last_seq`: an event that there is; later ones are read too."""
        if self._seq is None:
            self._seq = await self._before(since, last_seq)
        async for block in self._store.audit(after=self._seq):
            for event in block:
                self._take(event, since)
            self._seq = block[-1].seq
        self._steps = [step for step in self._steps if step.at > since]

    async def _before(self, since: datetime, last_seq: int) -> int:
        """The number of an event from before this moment, found in a few reads: a chain may have millions."""
        low, high = 0, last_seq
        while low < high:
            middle = (low + high + 1) // 2
            at = await self._time_after(middle - 1)
            if at is not None and at < since:
                low = middle
            else:
                high = middle - 1
        return low

    async def _time_after(self, seq: int) -> datetime | None:
        async for block in self._store.audit(after=seq):
            return parse_time(_body(block[0]).get("at"))
        return None

    def _take(self, event: AuditEvent, since: datetime) -> None:
        body = _body(event)
        if body.get("source") not in (self._store.info.table, None):
            return
        self.moves.take(body)
        at, closes = parse_time(body.get("at")), leaves(body)
        if closes is None or at is None or at <= since:
            return
        count = len(body.get("entries") or ())
        self._steps.append(_Step(at, -count if closes else count))

    def levels(self, now_open: int, arrivals: Mapping[int, int], moments: Sequence[datetime]) -> tuple[int, ...]:
        """The depth at these moments, by what came and went since; `arrivals` by the minute."""
        came = [_Step(at, count) for minute, count in arrivals.items() if (at := moment(minute * MINUTE)) is not None]
        steps = sorted((*came, *self._steps), key=lambda step: step.at)
        times, after = [step.at for step in steps], [0]
        for step in reversed(steps):
            after.append(after[-1] + step.change)  # what changed from this step on
        return tuple(max(0, now_open - after[len(steps) - bisect_right(times, at)]) for at in moments)


def _body(event: AuditEvent) -> Mapping[str, Any]:
    try:
        body = json.loads(event.body)
    except ValueError:
        return {}  # `dlq audit verify` reports a damaged body
    return body if isinstance(body, dict) else {}


def levels(seen: Sequence[tuple[datetime, int]], moments: Sequence[datetime]) -> tuple[int | None, ...]:
    """The level seen at each moment or shortly before; None where nobody looked then."""
    found: list[int | None] = []
    last: tuple[datetime, int] | None = None
    at = 0
    for one in moments:
        while at < len(seen) and seen[at][0] <= one:
            last = seen[at]
            at += 1
        found.append(last[1] if last is not None and one - last[0] <= _FRESH else None)
    return tuple(found)

"""Decides whether the index of an attached store can be trusted, and gives groups, search, health and alerts with it
or without it. Without an index these are slower or partial, and say so. Knows neither SQL nor screens.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from backends.index import IndexUnavailable, Progress, Reader
from backends.index.reader import NoIndex
from backends.index.rows import moment
from backends.index.writer import EVERYTHING
from backends.records import OPEN_STATES, Counts
from backends.store import Store
from console.services.browse.search import BUDGET, Search
from console.services.index.keeper import has_caught_up, is_current, reader_of
from console.services.policy import limits_for_looking
from console.services.stats import tally
from console.services.stats.alerts import Alert, alerts
from console.services.stats.groups import Groups
from console.services.stats.health import Health
from console.services.stats.tally import Tally, VenueTally
from console.services.triage.poison import poisoned

if TYPE_CHECKING:
    from console.services.session import SessionSettings, StoreSession

_FEW = 2000  # up to this many open entries are counted if there is no index
_COUNT_SECONDS = 60.0  # alerts are computed again after this, because ages grow on their own


@dataclass(frozen=True, slots=True)
class _Anchor:
    """The newest entry and the last act when the console attached. An index that holds both has caught up."""

    entry_id: str | None
    audit_seq: int


class IndexStatus:
    def __init__(self, session: StoreSession, reader: Reader) -> None:
        setting = session.setting
        self.reader = reader
        self.progress: Progress | None = None
        self.budget = BUDGET  # seconds for one step of a search
        self.is_trusted = False  # its figures equal those of counting, as far as it is built
        self._setting: SessionSettings = setting
        self._store: Store = session.store
        self._indexed = (
            Groups(session.triage, reader, setting.clock),
            Search(session.store, reader),
        )
        self._bare = Groups(session.triage, None, setting.clock), Search(session.store, None)
        self._health = Health(session.store, reader, setting.config, setting.clock)
        self._anchor: _Anchor | None = None
        self._was_behind = True
        self._judged: tuple[object, bool] | None = None
        self._raised: tuple[object, float, tuple[Alert, ...]] | None = None

    @classmethod
    async def of(cls, session: StoreSession) -> IndexStatus:
        """Opens the index and checks it once."""
        setting = session.setting
        made = cls(session, await reader_of(session.store, setting.cache, types=setting.config.venue_types))
        await made.look()
        return made

    async def aclose(self) -> None:
        await self.reader.aclose()

    @property
    def groups(self) -> Groups:
        return (self._indexed if self.is_trusted else self._bare)[0]

    @property
    def search(self) -> Search:
        return (self._indexed if self.is_trusted else self._bare)[1]

    @property
    def health(self) -> Health | None:
        """None if there is no built index to trust."""
        built = self.progress is not None and self.progress.built
        return self._health if self.is_trusted and built else None

    @property
    def stamp(self) -> object:
        """Changes whenever the index does."""
        seen = self.progress
        return None if seen is None else (seen.filed, seen.searchable, seen.audit_seq, tuple(seen.states.values()))

    async def alike(self, fingerprint: str) -> tuple[int, datetime | None] | None:
        """(open entries of this fingerprint, when the first of them failed); None without an index to trust."""
        if not self.is_trusted:
            return None
        try:
            lines = [line for line in await self.reader.lines() if line.fingerprint == fingerprint]
        except (NoIndex, IndexUnavailable):
            return None
        held = [line for line in lines if line.state in OPEN_STATES]
        first = min((line.first for line in held if line.first is not None), default=None)
        return sum(line.count for line in held), moment(first)

    async def look(self, *, kept: bool = False) -> None:
        """Reads the progress again. If a process keeps the index (`kept`), an index that caught up stays trusted."""
        try:
            self.progress = await self.reader.progress()
            self.is_trusted = await self._is_true(kept=kept)
        except (NoIndex, IndexUnavailable):
            self.progress, self.is_trusted = None, False

    async def _is_true(self, *, kept: bool) -> bool:
        progress = self.progress
        if progress is None or not (progress.built or progress.filed):
            return False
        if not kept:
            self._was_behind = True
            if not await has_caught_up(self._store, progress):
                return False
            if self._judged is None or self._judged[0] != self.stamp:
                self._judged = self.stamp, await is_current(self._store, progress)
            return self._judged[1]
        if self._was_behind:
            self._was_behind = not await self._has_passed(progress)
        return not self._was_behind

    async def _has_passed(self, progress: Progress) -> bool:
        if self._anchor is None:
            newest = (await self._store.page(EVERYTHING, limit=1, newest_first=True)).entries
            seq = progress.audit_seq
            async for block in self._store.audit(after=seq):
                seq = block[-1].seq
            self._anchor = _Anchor(newest[0].id if newest else None, seq)
        if progress.audit_seq < self._anchor.audit_seq:
            return False
        wanted = self._anchor.entry_id
        return wanted is None or wanted in await self.reader.known([wanted])

    async def alerts(self, counts: Counts | None) -> tuple[Alert, ...]:
        """From the index; without one, counted if that is quick, else only the rules that totals can answer."""
        key = self.stamp, counts, self.is_trusted
        if self._raised is not None and self._raised[0] == key and time.monotonic() < self._raised[1]:
            return self._raised[2]
        try:
            found = alerts(await self._tally(counts), self._setting.config.alerts)
        except (NoIndex, IndexUnavailable):
            found = alerts(await self._totals(counts), self._setting.config.alerts)
        self._raised = key, time.monotonic() + _COUNT_SECONDS, found
        return found

    async def _tally(self, counts: Counts | None) -> Tally:
        if self.health is not None:
            return await tally.indexed(self._store, self.reader, self._setting.clock(), self._setting.config)
        if counts is not None and counts.open <= _FEW:
            return await asyncio.to_thread(lambda: asyncio.run(self._counted()))  # begun only where it is run
        return await self._totals(counts)

    async def _counted(self) -> Tally:
        store = await self._setting.open()
        try:
            return await tally.counted(store, self._setting.clock(), self._setting.config, closed=False)
        finally:
            await store.aclose()

    async def _totals(self, counts: Counts | None) -> Tally:
        states = {} if counts is None else dict(counts.by_state)
        oldest = None if counts is None else counts.oldest_pending
        limits = await limits_for_looking(self._setting.config, self._store)
        found = await poisoned(self._store, limits.poison_after)
        poison = tally.poison_by_venue(found)
        venues = {name: VenueTally(0, 0, None, poisoned=count) for name, count in sorted(poison.items())}
        if oldest is not None:
            # The oldest entry of all is the oldest at some venue. Totals say nothing about the depth of one venue.
            venues["some venue"] = VenueTally(0, 0, oldest)
        return Tally(
            at=self._setting.clock(),
            states={state: states.get(state, 0) for state in OPEN_STATES},
            venues=venues,
            categories={},
            groups=(),
            retries=0,
            arrivals=(),
            is_readable=tally.ledger_is_readable(self._store.info),
            layout=self._store.info.layout,
        )

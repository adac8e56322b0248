"""Does the index still agree with its store? Counts first; entries one by one only where the counts say so.

Changes that leave every count as it was are found by a patrol that goes round at leisure.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

from backends.index.filing import EVERYTHING, Filing
from backends.records import STATES, State


class Check:
    """`catch_up` brings in what is known to be new: a count taken before and after it must lie between."""

    def __init__(self, filing: Filing, catch_up: Callable[[], Awaitable[None]]) -> None:
        self._filing = filing
        self._catch_up = catch_up
        self._pending = True
        self._from: int | None = None  # where the patrol is
        self._again: int | None = None  # where the next one begins, for what changed behind this one's back
        self.due = 0.0
        self.patrol_due = 0.0

    @property
    def next_due(self) -> float:
        """On the monotonic clock; infinite where nothing changed since everything was looked at."""
        dues = [self.due] * self._pending + [self.patrol_due] * (self._from is not None)
        return min(dues, default=float("inf"))

    def changed(self, newest: int) -> None:
        self._pending = True
        if self._from is None:
            self._from = newest
        else:
            self._again = newest

    async def step(self) -> bool:
        now = time.monotonic()
        if self._pending and now >= self.due:
            await self.run()
        elif self._from is not None and now >= self.patrol_due:
            await self._patrol(self._from)
        else:
            return False
        return True

    async def run(self) -> bool:
        """True where the counts agree, if need be after the entries were compared, newest first, until they did."""
        began = time.process_time()
        await self._catch_up()
        before = await self._filing.states()
        seen = (await self._filing.store.counts(EVERYTHING)).by_state
        await self._catch_up()
        missing = _missing(seen, before, await self._filing.states())
        self._pending = False
        agreed = not any(missing.values()) or await self._sweep(missing)
        pace, cost = self._filing.pace, time.process_time() - began
        self.due = time.monotonic() + max(pace.least_check, cost / pace.check_share)
        return agreed

    async def round(self) -> None:
        """A whole patrol at once."""
        below = int((await self._filing.meta())["next_high"])
        while block := await self._filing.block(below, self._filing.pace.page):
            below = block[-1][0]
            await self._filing.compare([entry_id for _, entry_id in block])

    async def _sweep(self, missing: dict[State, int]) -> bool:
        place = None
        while True:
            page = await self._filing.store.page(
                EVERYTHING, limit=self._filing.pace.page, after=place, newest_first=True
            )
            _take(missing, await self._filing.put(tuple(reversed(page.entries))))
            if not any(missing.values()):
                return True
            if not page.more:
                return await self._prune(missing)
            place = page.entries[-1].row_key

    async def _prune(self, missing: dict[State, int]) -> bool:
        """Rows that are gone from the store, where its count says that there must be some."""
        below = int((await self._filing.meta())["next_high"])
        while sum(missing.values()) < 0 and (block := await self._filing.block(below, self._filing.pace.page)):
            below = block[-1][0]
            _take(missing, await self._filing.compare([entry_id for _, entry_id in block]))
        return not any(missing.values())

    async def _patrol(self, below: int) -> None:
        began = time.process_time()
        block = await self._filing.block(below, self._filing.pace.page // 2)
        if block:
            self._from = block[-1][0]
        else:
            self._from, self._again = self._again, None
        await self._filing.compare([entry_id for _, entry_id in block])
        self.patrol_due = time.monotonic() + (time.process_time() - began) / self._filing.pace.patrol_share


def _take(missing: dict[State, int], changes: dict[State, int]) -> None:
    for state, change in changes.items():
        missing[state] -= change


def _missing(seen: Mapping[State, int], before: Mapping[State, int], after: Mapping[State, int]) -> dict[State, int]:
    """By how much the store's counts lie outside ours, taken before and after them.

    A store counts all of them and the open ones one after the other, so while an engine writes its number of dismissed
    ones, the difference, fits neither moment: that one is not compared but follows from the total.
    """
    others: list[State] = [state for state in STATES if state != "dismissed"]
    found: dict[State, int] = {state: _outside(seen.get(state, 0), before[state], after[state]) for state in others}
    total = _outside(sum(seen.values()), sum(before.values()), sum(after.values()))
    return {**found, "dismissed": total - sum(found.values())}


def _outside(seen: int, one: int, other: int) -> int:
    """0 where a count may be right."""
    least, most = min(one, other), max(one, other)
    return seen - most if seen > most else min(0, seen - least)

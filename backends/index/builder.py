"""Builds an index, newest entries first, keeps up with its store, and checks it against the store's counts.

Reads the store through its contract, in short pages, and always does the most urgent work next.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime

from backends.index.rows import MINUTE, IndexedEntry, Labeller, micros, spell, unspell
from backends.index.search_text import searchable
from backends.index.writer import EVERYTHING, BuildPace, Filing, IndexBatch, IndexSource, IndexWriter
from backends.layouts.orders import NAME as ORDERS
from backends.records import STATES, Page, RowKey, State
from backends.store import StoreError


class Check:
    """Compares the index with the store's counts, and entry by entry where they differ.

    `catch_up` files what is new; the index's counts before and after it must enclose the store's.
    """

    def __init__(self, filing: Filing, catch_up: Callable[[], Awaitable[None]]) -> None:
        self._filing = filing
        self._catch_up = catch_up
        self._pending = True
        self._from: int | None = None  # the number the patrol has come down to
        self._again: int | None = None  # where the next patrol begins, for what changed above this one
        self.due = 0.0
        self.patrol_due = 0.0

    @property
    def next_due(self) -> float:
        """On the monotonic clock; infinite if nothing changed since the last full look."""
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
        """Compare the counts and, if they differ, entries, newest first, until they agree. False if they never do."""
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
        """Compare every entry at once."""
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
        """Drop entries that are gone from the store, while its counts say that there are some."""
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
    """By how much each of the store's counts lies outside the index's counts before and after it.

    A store counts all entries and open entries in two queries. While an engine writes, their difference, the number of
    dismissed entries, fits neither moment; so it is not compared but derived from the total.
    """
    others: list[State] = [state for state in STATES if state != "dismissed"]
    found: dict[State, int] = {state: _outside(seen.get(state, 0), before[state], after[state]) for state in others}
    total = _outside(sum(seen.values()), sum(before.values()), sum(after.values()))
    return {**found, "dismissed": total - sum(found.values())}


def _outside(seen: int, one: int, other: int) -> int:
    """0 if the count lies between the two others."""
    least, most = min(one, other), max(one, other)
    return seen - most if seen > most else min(0, seen - least)


_SNAPSHOTS_KEPT = 7 * 24 * 60  # minutes
_VENUES_KEPT = 15  # minutes; a trend compares ten
_MOST_OVERLAPS = 20
_LONGEST_REST = 60.0


class IndexBuilder:
    def __init__(
        self,
        store: IndexSource,
        writer: IndexWriter,
        label: Labeller,
        *,
        now: Callable[[], datetime],
        pace: BuildPace | None = None,
    ) -> None:
        self._store = store
        self._now = now
        self._filing = Filing(store, writer, label, pace or BuildPace())
        self._check = Check(self._filing, self._catch_up)
        self._heard = asyncio.Event()
        self._heard.set()
        self._taken = asyncio.Event()
        self._looked = float("-inf")
        self._minute = 0  # of the last snapshot

    def close(self) -> None:
        self._filing.close()

    async def run(self) -> None:
        """Run until cancelled; wait while the store is away."""
        watching = asyncio.create_task(self._watch())
        try:
            while True:
                try:
                    busy = await self.step()
                except StoreError:
                    await asyncio.sleep(self._filing.pace.tick)
                    self._heard.set()
                    continue
                if not busy:
                    await self._rest()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def settle(self, *, thorough: bool = False) -> bool:
        """Build, catch up and check, then stop; `thorough` compares every entry. False if the counts do not agree."""
        self._looked = float("-inf")
        self._heard.set()
        while await self._urgent():
            pass
        agreed = await self._check.run()
        if thorough:
            await self._check.round()
        return agreed

    def hear(self) -> None:
        """Note that something changed in the store."""
        self._heard.set()

    async def step(self) -> bool:
        """Do the most urgent work; False if there is none now."""
        return await self._urgent() or await self._new_minute() or await self._check.step()

    async def _urgent(self) -> bool:
        meta = await self._filing.meta()
        if "high" not in meta:
            await self._begin()
        elif self._heard.is_set() and time.monotonic() >= self._looked + self._filing.pace.tick:
            await self._catch_up()
        elif "built" not in meta:
            await self._older(unspell(meta["low"]), int(meta["text_low"]))
        elif "texts_built" not in meta:
            await self._texts(int(meta["text_low"]))
        else:
            return False
        return True

    async def _watch(self) -> None:
        async with aclosing(self._store.changes()) as changes:  # type: ignore[type-var]  # every store's is a generator
            async for _ in changes:
                self._taken.clear()
                self._heard.set()
                await self._taken.wait()  # saves asking a store that changes all the time

    async def _rest(self) -> None:
        due = min(self._check.next_due, time.monotonic() + 60 - self._now().timestamp() % 60)
        if self._heard.is_set():
            due = min(due, self._looked + self._filing.pace.tick)
            await asyncio.sleep(max(0.01, due - time.monotonic()))
            return
        try:
            await asyncio.wait_for(self._heard.wait(), min(_LONGEST_REST, max(0.01, due - time.monotonic())))
        except TimeoutError:
            return

    async def _begin(self) -> None:
        """File the newest page, and note where the build goes on downwards and the catching up upwards."""
        info = self._store.info
        if info.layout != ORDERS or any(one.code == "no-unique-id" for one in info.findings):
            await self._filing.index_ids()
        seq = 0
        async for block in self._store.audit():
            seq = block[-1].seq
        expected = sum((await self._store.counts(EVERYTHING)).by_state.values())
        page = await self._store.page(EVERYTHING, limit=self._filing.pace.page, newest_first=True)
        meta = {"high": spell(page.entries[0].row_key if page.entries else None), "audit_seq": str(seq)}
        meta |= {"expected": str(expected), **_low(page)}
        prepared = await self._filing.prepared(page.entries)
        numbers, texts = await self._filing.put_older(prepared, meta)
        await self._filing.apply(IndexBatch(texts=texts, meta={"text_low": str(numbers.start)}))

    async def _older(self, low: RowKey | None, reached: int) -> None:
        """File older pages: while the texts of some are written, which takes longest, the next are read and labelled.

        `reached`: the number down to which entries are searchable. If texts above are missing, all are written later.
        """
        filing, going = self._filing, True
        writing = asyncio.create_task(filing.apply(IndexBatch()))
        try:
            while going:
                prepared: list[tuple[IndexedEntry, str]] = []
                while going and len(prepared) < filing.pace.batch:
                    page = await self._store.page(EVERYTHING, limit=filing.pace.page, after=low, newest_first=True)
                    prepared += await filing.prepared(page.entries)
                    low = page.entries[-1].row_key if page.entries else low
                    going = page.more and not self._heard.is_set()
                await writing
                meta = {"low": spell(low)} | ({} if page.more else {"built": "1"})
                numbers, texts = await filing.put_older(prepared, meta)
                if numbers.stop == reached:
                    reached = numbers.start
                    batch = IndexBatch(texts=texts, meta={"text_low": str(reached)})
                    writing = asyncio.create_task(filing.apply(batch))
        finally:
            await writing

    async def _texts(self, below: int) -> None:
        """Make filed entries searchable, newest first, where a build was interrupted before it came to that."""
        filing = self._filing
        block = await filing.block(below, filing.pace.batch)
        done = {} if block else {"texts_built": "1"}
        writing = asyncio.create_task(filing.apply(IndexBatch(meta=done)))
        try:
            while block:
                texts, low = await self._read_texts(block), block[-1][0]
                await writing
                block = [] if self._heard.is_set() else await filing.block(low, filing.pace.batch)
                writing = asyncio.create_task(filing.apply(IndexBatch(texts=texts, meta={"text_low": str(low)})))
        finally:
            await writing

    async def _read_texts(self, block: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        ids, page = [entry_id for _, entry_id in block], self._filing.pace.page
        texts: dict[str, str] = {}
        for start in range(0, len(ids), page):
            found = await self._store.many(tuple(ids[start : start + page]))
            texts.update((entry_id, searchable(entry)) for entry_id, entry in found.items())
        return [(n, texts[entry_id]) for n, entry_id in reversed(block) if entry_id in texts]

    async def _catch_up(self) -> None:
        meta = await self._filing.meta()
        self._heard.clear()
        self._taken.set()
        self._looked = time.monotonic()
        self._check.changed(int(meta["next_high"]))
        high = unspell(meta["high"])
        if self._store.info.order == "rowid" or high is None or not await self._overlap(meta["high"]):
            await self._forward(high)
        await self._acts(int(meta["audit_seq"]))
        await self._snapshot()

    async def _new_minute(self) -> bool:
        """A snapshot in every minute, so that a gap shows when nobody kept the index."""
        return micros(self._now()) // MINUTE != self._minute and await self._snapshot()

    async def _snapshot(self) -> bool:
        if "built" not in await self._filing.meta():
            return False  # half an index would record half the depth
        self._minute = micros(self._now()) // MINUTE
        await self._filing.snapshot(self._minute, keep=_SNAPSHOTS_KEPT, keep_venues=_VENUES_KEPT)
        return True

    async def _overlap(self, high: str) -> bool:
        """Read the newest pages again, back to a known entry, since a later commit may sort before what is filed.

        False if that takes too many pages.
        """
        pages: list[Page] = []
        row_key: RowKey | None = None
        while len(pages) < _MOST_OVERLAPS:
            page = await self._store.page(EVERYTHING, limit=self._filing.pace.overlap, after=row_key, newest_first=True)
            pages.append(page)
            if not page.more or await self._filing.known([page.entries[-1].id]):
                break
            row_key = page.entries[-1].row_key
        else:
            return False
        for page in reversed(pages):
            await self._filing.put(tuple(reversed(page.entries)))
        if pages[0].entries and (newest := spell(pages[0].entries[0].row_key)) != high:
            await self._filing.apply(IndexBatch(meta={"high": newest}))
        return True

    async def _forward(self, high: RowKey | None) -> None:
        while True:
            page = await self._store.page(EVERYTHING, limit=self._filing.pace.page, after=high)
            if not page.entries:
                return
            high = page.entries[-1].row_key
            await self._filing.put(page.entries, meta={"high": spell(high)})
            if not page.more:
                return

    async def _acts(self, seq: int) -> None:
        """Compare the entries that consoles acted on, which the audit chain names."""
        async for block in self._store.audit(after=seq):
            ids = tuple(dict.fromkeys(entry_id for event in block for entry_id in _named(event.body)))
            for start in range(0, len(ids), self._filing.pace.page):
                await self._filing.compare(ids[start : start + self._filing.pace.page])
            await self._filing.apply(IndexBatch(meta={"audit_seq": str(block[-1].seq)}))


def _low(page: Page) -> dict[str, str]:
    low = {"low": spell(page.entries[-1].row_key if page.entries else None)}
    return low if page.more else {**low, "built": "1"}


def _named(body: bytes) -> list[str]:
    """The entries that an audit event names."""
    try:
        entries = json.loads(body).get("entries", [])
    except (ValueError, AttributeError):
        return []
    return [str(one[0]) if isinstance(one, list) else str(one) for one in entries if one]

"""Search within a time budget; each result says how much of the store it covers.

For a text, the trigrams of an index name candidates and the store's rows confirm them. Anything else, and a text
without an index, is looked for in the newest rows until the time is up. Knows neither SQL nor screens.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from backends.index import Candidates, IndexQuestion, IndexUnavailable, Progress, Reader
from backends.index.reader import NoIndex
from backends.index.search_text import beginning, either, expression
from backends.records import Entry, Filter, RowKey
from backends.store import Store
from console.services.browse.filter_match import fits

BUDGET = 0.1  # seconds
_FIND_SHARE = 0.7  # share of the time for finding candidates; the rest is for reading them
_FIRST_STRETCH = 100  # rows of the first look: what they hold is there at once
_LARGEST_STRETCH = 64_000
_FRESH_PAGE = 50
_MOST_FRESH = 400  # entries newer than the index that one search may read
_MOST_GRAMS = 300


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a search stopped. Pass it to `find` to continue."""

    below: int | None = None  # a row number of the index
    row_key: RowKey | None = None  # a row key of the store
    size: int = 100  # rows to look at next


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Newest first. `covered` of `total` entries were searched; `complete` if all were, or if the page is full."""

    entries: tuple[Entry, ...]
    covered: int
    total: int | None
    complete: bool
    source: Literal["index", "store"]
    next: Cursor | None  # None if nothing is left to search
    seconds: float


class Search:
    def __init__(self, store: Store, reader: Reader | None) -> None:
        self._store = store
        self._reader = reader

    async def find(
        self, where: Filter, *, limit: int = 50, budget: float = BUDGET, cursor: Cursor | None = None
    ) -> SearchResult:
        """One page of entries that match `where`."""
        began = time.monotonic()
        needed = required_texts(where)
        if needed and self._reader is not None and not (cursor is not None and cursor.row_key is not None):
            try:
                progress = await self._reader.progress()
                if progress is not None and progress.searchable:
                    hunt = _Hunt(self._store, self._reader, where, limit=limit, ends=began + budget)
                    return await hunt.run(progress, cursor)
            except (NoIndex, IndexUnavailable):
                pass  # the index was removed meanwhile: scan instead
        return await self._scan(where, limit, budget, cursor)

    async def _scan(self, where: Filter, limit: int, budget: float, cursor: Cursor | None) -> SearchResult:
        """Looks at the newest rows, a stretch at a time, until the time is up. A stretch grows while it is quick."""
        began = time.monotonic()
        row_key, size = (cursor.row_key, cursor.size) if cursor else (None, _FIRST_STRETCH)
        found: list[Entry] = []
        covered, more = 0, True
        while more and len(found) < limit and (covered == 0 or time.monotonic() < began + budget):
            start = time.monotonic()
            got = await self._store.scan(where, most=size, after=row_key)
            found += got.entries
            covered, more, row_key = covered + got.looked, got.more, got.reached
            size = _next_size(size, time.monotonic() - start, budget)
        return SearchResult(
            entries=tuple(found),
            covered=covered,
            total=None if more else covered,
            complete=not more or len(found) >= limit,
            source="store",
            next=Cursor(row_key=row_key, size=size) if more else None,
            seconds=time.monotonic() - began,
        )


def _next_size(size: int, took: float, budget: float) -> int:
    if took > budget:
        return max(_FIRST_STRETCH, size // 2)
    return min(_LARGEST_STRETCH, size * 2) if took < budget / 3 else size


def required_texts(where: Filter) -> tuple[str, ...]:
    """Texts, folded, of which every match holds each in its error, its market or an id."""
    found: list[str] = []
    for asked in where.every:
        if asked.field in ("text", "error") and not asked.negated and len(asked.choices) == 1:
            found += [piece for piece in asked.choices[0].pieces if piece]
    return tuple(found)


class _Hunt:
    """One search with the index: first entries newer than the index, then its candidates, newest first."""

    def __init__(self, store: Store, reader: Reader, where: Filter, *, limit: int, ends: float) -> None:
        self._store = store
        self._reader = reader
        self._where = where
        self._limit = limit
        self._began = time.monotonic()
        self._ends = ends
        self._found: dict[str, Entry] = {}
        self._read = 0  # entries read that are newer than the index
        self._last_fresh: RowKey | None = None  # set if newer entries alone filled the page

    async def run(self, progress: Progress, cursor: Cursor | None) -> SearchResult:
        below = progress.next_high
        if cursor is not None and cursor.below is not None:
            below, behind = cursor.below, False
        else:
            behind = not await self._fresh()
        asked = await self._expression()
        bottom = asked is None
        while asked is not None and not (self._full or bottom):
            got = await self._reader.find(self._ask(asked, below))
            if got.reached == below:
                break  # the time is up
            below, bottom = await self._confirm(got)
        everything = bottom and progress.texts_built and not behind
        total = max(progress.filed, 0 if progress.built else progress.expected) + self._read
        covered = progress.next_high - (progress.text_low if bottom else below) + self._read
        return SearchResult(
            entries=tuple(self._found.values()),
            covered=covered,
            total=total,
            complete=everything or (self._full and not behind),
            source="index",
            next=self._next(below, bottom=bottom),
            seconds=time.monotonic() - self._began,
        )

    def _next(self, below: int, *, bottom: bool) -> Cursor | None:
        if self._full and self._last_fresh is not None:
            return Cursor(row_key=self._last_fresh)
        return None if bottom else Cursor(below=below)

    def _ask(self, asked: str, below: int) -> IndexQuestion:
        where = self._where
        return IndexQuestion(
            expression=asked,
            below=below,
            limit=max(_FRESH_PAGE, 2 * self._limit),
            deadline=self._began + (self._ends - self._began) * _FIND_SHARE,
            states=where.states,
        )

    @property
    def _full(self) -> bool:
        return len(self._found) >= self._limit

    @property
    def _left(self) -> float:
        return self._ends - time.monotonic()

    async def _fresh(self) -> bool:
        """Reads the entries newer than the index. False if there are too many to read now."""
        row_key: RowKey | None = None
        only = Filter(states=self._where.states)
        while self._read < _MOST_FRESH and self._left > 0:
            page = await self._store.page(only, limit=_FRESH_PAGE, after=row_key, newest_first=True)
            known = await self._reader.known([entry.id for entry in page.entries])
            for entry in page.entries:
                if entry.id in known:
                    continue
                self._read += 1
                self._take(entry)
                if self._full:
                    self._last_fresh = entry.row_key
                    return True
            if known or not page.more:
                return True
            row_key = page.entries[-1].row_key
        return False

    async def _expression(self) -> str | None:
        """The index query for the terms; None if a term occurs nowhere in the index."""
        terms = required_texts(self._where)
        parts = [part for part in (expression(terms),) if part]
        for term in terms:
            if short := beginning(term):
                grams = await self._reader.grams(short, limit=_MOST_GRAMS, deadline=time.monotonic() + self._left * 0.3)
                if grams is not None and not grams:
                    return None
                if grams is not None:
                    parts.append(either(grams))
        return " AND ".join(parts)

    async def _confirm(self, got: Candidates) -> tuple[int, bool]:
        """Checks candidates against their rows. Returns where to continue, and whether nothing is left."""
        for start in range(0, len(got.rows), self._limit):
            some = got.rows[start : start + self._limit]
            if self._left <= 0:
                return some[0][0] + 1, False
            found = await self._store.many(tuple(entry_id for _, entry_id in some))
            for n, entry_id in some:
                if self._full:
                    return n + 1, False
                if entry_id in found:
                    self._take(found[entry_id])
        return got.reached, got.bottom

    def _take(self, entry: Entry) -> None:
        if not self._full and fits(entry, self._where):
            self._found.setdefault(entry.id, entry)

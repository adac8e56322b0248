"""Reads the queue: pages around the cursor, counts, arrivals and the store's change signals.

Keeps the window, the filter and the counts, and returns what each read changed. Knows no screen and no widget.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from backends.criterion import Criterion, Pattern
from backends.records import STATES, Counts, Entry, Filter, Halt, RowKey
from backends.store import Partial
from console.services.browse.engine_intent import counts_of
from console.services.browse.filter_syntax import is_countable, parse_expression
from console.services.browse.queue_order import QueueSection, View
from console.services.browse.queue_window import PAGE, Window
from console.services.browse.sort import Sort
from console.services.layout_fields import occurred_at
from console.services.triage.marks import MarkFacts
from console.services.triage.triage import Query

if TYPE_CHECKING:
    from backends.store import Change
    from console.services.browse.incremental_search import IncrementalSearch
    from console.services.browse.ranking import Ranking, Weigh
    from console.services.session import StoreSession
    from console.services.triage.last_act import LastActs


_EVERYTHING = Filter(states=frozenset(STATES))
_RENEW_SECONDS = 0.25  # shortest time between two reads, however fast the engine writes
_COUNT_SECONDS = 1.0
_TREND_SECONDS = 60.0
_TREND_ROWS = 2000
_NEWER_ROWS = 500
_SEARCH_AGAIN = 5000  # rows of a search that is repeated when the store changes
_RANK_ROWS = 2_000  # entries that a ranking reads before it is shown again
_SEARCH_AHEAD = 400  # a search stops here until somebody scrolls: up to this many matches are counted exactly

Blank = Literal["searching", "unmatched", "empty"]


class RowsRead(NamedTuple):
    """A read changed the window."""

    blank: Blank | None = None  # why the list has no rows; None: unchanged
    cursor: bool = True  # the entry under the cursor may have changed too
    continues: bool = False  # the search has more to read: follow `search_on`


class CountsRead(NamedTuple):
    counts: Counts
    halt: Halt | None
    cut: str | None  # what of the store is not shown, and why
    facts: MarkFacts  # what the marks of entries hang on


class Arrivals(NamedTuple):
    """When the newest entries failed; `whole`: the store has no others."""

    moments: list[datetime]
    whole: bool


class QueueLoader:
    def __init__(self, session: Callable[[], StoreSession | None], clock: Callable[[], datetime]) -> None:
        self._session = session
        self._clock = clock
        self.window = Window()
        self.text = ""
        self.sort = Sort()
        self.weigh: Weigh = lambda _: None  # an order's value, for sorting by it
        self.ranking: Ranking | None = None  # None where the store gives the order by itself
        self.matching: int | None = None
        self.counts: Counts | None = None
        self.facts: MarkFacts | None = None  # read with the counts
        self.seen: RowKey | None = None  # the newest entry when the operator last looked
        self.fresh = 0  # entries that arrived since then
        self.search: IncrementalSearch | None = None  # None where the store answers the filter by itself
        self.is_paused = False  # the table shows a preview instead of this window
        self._known: RowKey | None = None  # the newest entry counted
        self._growing: set[str] = set()
        self._newest: tuple[Entry, ...] = ()  # as of the last look at arrivals
        self._acts: LastActs | None = None  # read where the filter asks who acted
        self._listed: IncrementalSearch | None = None  # the search whose results the window holds
        self._followed: IncrementalSearch | None = None  # the search that `search_on` is reading
        self._next_count = 0.0
        self._next_trend = 0.0

    @property
    def session(self) -> StoreSession:
        session = self._session()
        assert session is not None  # reads start after a store is attached
        return session

    @property
    def newest_first(self) -> bool:
        """The direction in which the store is read; a ranking reads the newest first."""
        return self.sort.by != "age" or self.sort.descending

    @property
    def is_reading_on(self) -> bool:
        """Whether a search or a ranking has more to read: follow `search_on`."""
        reading = self.search if self.ranking is None else self.ranking
        return reading is not None and not reading.is_over

    @property
    def view(self) -> View:
        query = parse_expression(self.text, self._clock())
        session = self._session()
        worth = None if session is None else session.triage.worth
        facts = self.facts if query.by_mark else None
        return View(replace(query, facts=facts, acts=self._acts, worth=worth), self.newest_first)

    async def _fresh_view(self) -> View:
        """The view with marks and acts as they are now, where the filter asks for them."""
        query = self.view.query
        if query.by_mark:
            self.facts = await self.session.triage.mark_facts()
        if query.by_act:
            self._acts = await self.session.triage.last_acts()
        return self.view

    def ready(self) -> bool:
        return self._session() is not None

    def forget(self) -> None:
        """Drop everything known of the previous store."""
        self.text, self.matching, self.counts, self.facts, self._acts = "", None, None, None, None
        self.search = self._listed = self.ranking = None
        self.seen, self.fresh, self._known = None, 0, None
        self.window.start(QueueSection((), more=False))
        self._newest = ()
        self._growing.clear()
        self._next_count = self._next_trend = 0.0

    def set_filter(self, text: str) -> None:
        self.text, self.matching = text, None

    def set_sort(self, sort: Sort) -> None:
        self.sort = sort

    def adopt(self, text: str, search: IncrementalSearch, window: Window) -> None:
        """Continue with a filter whose first results are already in `window`."""
        self.text, self.window = text, window
        self.search = self._listed = search
        self.ranking = None
        self.matching = search.found if search.is_over else None

    async def start(self) -> RowsRead | None:
        """Read from the top, as after a new filter. None: the filter changed before the rows were there."""
        asked = (self.text, self.sort)
        view = await self._fresh_view()
        if self.sort.by != "age":
            return await self._start_ranked(view)
        search = await self.search_for(view)
        if asked != (self.text, self.sort):
            return None
        self.search, self.ranking = search, None
        if search is not None:
            await self.look(view)
            rows = await self._step(search, anew=True)
            if rows is not None and self._is_dense(search):
                self.search = self._listed = None  # matches are frequent: the store's own pages are quick, both ways
                return RowsRead()
            return None if rows is None else rows._replace(continues=not search.is_over)
        stretch = await self.session.queue_order.after(view, None, PAGE)
        if asked != (self.text, self.sort):
            return None
        self.window.start(stretch)
        await self.look(view)
        return RowsRead(self._blank(stretch))

    async def _start_ranked(self, view: View) -> RowsRead | None:
        """Rank the newest matches; `search_on` reads the others."""
        from console.services.browse.ranking import Ranking

        asked = (self.text, self.sort)
        ranking = Ranking(self.session.queue_order, self.session.store, view, self.sort, self.weigh)
        await ranking.step()
        stretch = await ranking.section(0, PAGE)
        if asked != (self.text, self.sort):
            return None
        self.search, self._listed, self.ranking = None, None, ranking
        self.window.start(stretch)
        await self.look(view)
        return RowsRead(self._blank(stretch), continues=not ranking.is_over)

    async def _rank_on(self, ranking: Ranking) -> AsyncGenerator[RowsRead]:
        while ranking is self.ranking and not ranking.is_over:
            before = len(ranking)
            await ranking.step()
            if not ranking.is_over and before // _RANK_ROWS == len(ranking) // _RANK_ROWS:
                yield RowsRead(cursor=False)
            elif (rows := await self._ranked_again(ranking)) is not None:
                yield rows
            await asyncio.sleep(0)

    async def _ranked_again(self, ranking: Ranking) -> RowsRead | None:
        """Show the same part of a ranking that has changed; who stands at the top stays there."""
        window = self.window
        held, first = window.current, 0
        if held is not None and window.position != 1:
            first = max(0, (ranking.rank_of(held.entry.id) or 0) - PAGE // 2)
        stretch = await ranking.section(first, 2 * PAGE)
        if ranking is not self.ranking or window.current is not held:
            return None  # the list or the cursor has moved since: the next step shows it
        window.place(stretch, first, held if window.position != 1 else None)
        return RowsRead(self._blank(stretch))

    async def _grow_ranked(self, ranking: Ranking, where: Literal["above", "below"]) -> None:
        window = self.window
        first, count = window.first or 0, len(window.spots)
        start = first + count if where == "below" else max(0, first - PAGE)
        size = PAGE if where == "below" else first - start
        stretch = await ranking.section(start, size)
        if ranking is not self.ranking or (window.first or 0, len(window.spots)) != (first, count):
            return
        if where == "below":
            window.grow_below(stretch)
        else:
            window.grow_above(stretch._replace(more=start > 0))

    def _is_dense(self, search: IncrementalSearch) -> bool:
        """Whether one step filled a page, and the store answers such a filter by itself."""
        return not search.is_over and search.found >= PAGE and is_countable(search.query)

    async def search_for(self, view: View) -> IncrementalSearch | None:
        """An incremental search for the view; None where the store answers it by itself."""
        query = view.query
        if query.where.is_open and not query.by_class:
            return None
        from console.services.browse.incremental_search import IncrementalSearch

        index_status = await self.session.index_status()
        return (
            IncrementalSearch(index_status, self.session.store, view)
            if IncrementalSearch.suits(view, index_status)
            else None
        )

    async def search_on(self) -> AsyncGenerator[RowsRead]:
        """Continue the search step by step until a page is ahead of the cursor or nothing is left."""
        if self.ranking is not None:
            async for ranked in self._rank_on(self.ranking):
                yield ranked
            return
        search = self.search
        self._followed = search
        try:
            while search is not None and search is self.search is self._listed and not search.is_over:
                if not self.window.wants_below and search.found >= _SEARCH_AHEAD:
                    return
                if (rows := await self._step(search)) is not None:
                    yield rows
                await asyncio.sleep(0)
        finally:
            if self._followed is search:
                self._followed = None

    async def _step(self, search: IncrementalSearch, *, anew: bool = False) -> RowsRead | None:
        spots = await search.step(PAGE)
        if search is not self.search:
            return None
        self._listed, stretch = search, QueueSection(spots, not search.is_over)
        self.window.start(stretch) if anew else self.window.grow_below(stretch)
        self.matching = search.found if search.is_over else None
        if not search.is_over:
            return RowsRead("searching")
        return RowsRead(self._blank(QueueSection(tuple(self.window.spots), more=False)))

    def total_of(self, search: IncrementalSearch) -> int | None:
        """How many entries the search has to look at, where that is known."""
        if search.total is not None or self.counts is None:
            return search.total
        return sum(self.counts.by_state.get(state, 0) for state in search.query.where.states)

    def _blank(self, stretch: QueueSection) -> Blank | None:
        if stretch.spots:
            return None
        return "unmatched" if self.text else "empty"

    async def look(self, view: View) -> None:
        """Count every entry that is there now as seen."""
        everything = View(Query(Filter(states=view.query.where.states)))
        self._known = await self.session.queue_order.newest(everything if self.search is not None else view)
        self.seen = self._known
        self.fresh = 0

    async def finish(self) -> RowsRead:
        """Read the end of the queue; a search goes to the last entry it has found."""
        if self.search is not None:
            self.window.move(len(self.window.spots) - 1)
            return RowsRead()
        if self.ranking is not None:
            start = max(0, len(self.ranking) - PAGE)
            stretch = await self.ranking.section(start, PAGE)
            self.window.finish(stretch._replace(more=start > 0), len(self.ranking))
            return RowsRead()
        stretch = await self.session.queue_order.before(self.view, None, PAGE)
        self.window.finish(stretch, self.matching)
        return RowsRead()

    async def grow(self, where: Literal["above", "below"]) -> RowsRead | None:
        """Read one more page at this end of the window."""
        if where in self._growing or not self.ready() or self.is_paused:
            return None
        if where == "below" and self.search is not None:
            is_idle = self._followed is not self.search is self._listed and not self.search.is_over
            return RowsRead(cursor=False, continues=True) if is_idle else None
        self._growing.add(where)
        window, view = self.window, self.view
        mark = window.below if where == "below" else window.above
        try:
            if self.ranking is not None:
                await self._grow_ranked(self.ranking, where)
            elif where == "below":
                stretch = await self.session.queue_order.after(view, mark, PAGE)
                if mark == window.below:
                    window.grow_below(stretch)
            else:
                stretch = await self.session.queue_order.before(view, mark, PAGE)
                if mark == window.above:
                    window.grow_above(stretch)
        finally:
            self._growing.discard(where)
        return RowsRead(cursor=False)

    async def renew(self) -> RowsRead | None:
        """Read the same part of the queue again; the cursor stays on its entry."""
        view, window = await self._fresh_view(), self.window
        if self.ranking is not None:
            return await self._renew_ranked(self.ranking)
        if self.search is not None:
            return await self._renew_found(self.search)
        spot = window.current
        if spot is None:
            return await self.start()
        asked = self.text, self.sort
        before, after = await self.session.queue_order.around(view, spot, PAGE)
        if self.window.current is not spot or asked != (self.text, self.sort):
            return None  # the cursor has moved since: the next change reads around it again
        window.renew(before, after)
        await self._count_fresh(view)
        return RowsRead(self._blank(after))

    async def _renew_found(self, search: IncrementalSearch) -> RowsRead | None:
        """Read the found entries again and add the new ones that match, without repeating a long search."""
        window = self.window
        if self._is_short(search) and (again := await self._searched_again(search)):
            return again
        known, before = self._known, list(window.spots)
        come = await self.session.queue_order.newer(search.view, known, _NEWER_ROWS) if known is not None else ()
        entries = await self.session.store.many(tuple(spot.entry.id for spot in before)) if before else {}
        if not (search is self.search is self._listed) or window.spots != before:
            return None  # the list has changed since: the next change reads it again
        window.replace(search.renewed(before, entries, come if window.at_top else ()), window.current)
        self._known = come[-1].row_key if come else known
        self.fresh += len(come)
        self.matching = search.found if search.is_over else None
        return RowsRead()

    async def _renew_ranked(self, ranking: Ranking) -> RowsRead | None:
        """Rank what arrived and what changed, without reading everything again."""
        known = self._known
        come = await self.session.queue_order.newer(ranking.view, known, _NEWER_ROWS) if known is not None else ()
        await ranking.renew(tuple(self.window.spots), come)
        rows = await self._ranked_again(ranking)
        if come and ranking is self.ranking:
            self.fresh += len(come)
            self._known = come[-1].row_key
        return rows

    def _is_short(self, search: IncrementalSearch) -> bool:
        by_text = any(one.field == "text" for one in search.query.where.every)
        return search.is_over and search.covered <= _SEARCH_AGAIN and not by_text

    async def _searched_again(self, search: IncrementalSearch) -> RowsRead | None:
        """Repeat a short search, so that what somebody put back is listed again. None: the list has changed since."""
        known, before = self._known, list(self.window.spots)
        fresh = await self.search_for(await self._fresh_view())
        if fresh is None:
            return None
        spots = await fresh.step(len(before) + PAGE)
        come = await self.session.queue_order.newer(fresh.view, known, _NEWER_ROWS) if known is not None else ()
        if not (search is self.search is self._listed) or self.window.spots != before or not fresh.is_over:
            return None
        self.search = self._listed = fresh
        self.window.replace(list(spots), self.window.current)
        self._known = come[-1].row_key if come else known
        self.fresh += len(come)
        self.matching = fresh.found
        return RowsRead(self._blank(QueueSection(spots, more=False)))

    async def _count_fresh(self, view: View) -> None:
        if self._known is None:
            await self.look(view)
            return
        come = await self.session.queue_order.newer(view, self._known, _NEWER_ROWS)
        if come:
            self.fresh += len(come)
            self._known = come[-1].row_key

    async def count(self, *, soon: bool = False) -> CountsRead:
        """Count the store and the filter; unless `soon`, wait in proportion to what a count costs here."""
        now = time.monotonic()
        if not soon and now < self._next_count:
            await asyncio.sleep(self._next_count - now)
        began = time.monotonic()
        store, view = self.session.store, self.view
        everything = await counts_of(store, _EVERYTHING)
        if self.search is not None and not self.search.is_over and is_countable(view.query):
            self.matching = await self._matching(view.query.where, everything)
        elif self.search is None:
            by_class = view.query.by_class
            self.matching = None if by_class else await self._matching(view.query.where, everything)
        halt = await store.halted()
        self.facts = await self.session.triage.mark_facts()
        self._next_count = time.monotonic() + max(_COUNT_SECONDS, 5 * (time.monotonic() - began))
        self.counts = everything
        return CountsRead(everything, halt, store.shortfall if isinstance(store, Partial) else None, self.facts)

    async def _matching(self, where: Filter, everything: Counts) -> int:
        if where.is_open:
            return sum(everything.by_state.get(state, 0) for state in where.states)
        return sum((await counts_of(self.session.store, where)).by_state.values())

    async def arrivals(self) -> Arrivals | None:
        """When the newest entries failed; None where that was read less than a minute ago."""
        if time.monotonic() < self._next_trend:
            return None
        self._next_trend = time.monotonic() + _TREND_SECONDS
        page = await self.session.store.page(_EVERYTHING, limit=_TREND_ROWS, newest_first=True)
        self._newest = page.entries
        return Arrivals([at for entry in page.entries if (at := occurred_at(entry))], not page.more)

    def complete(self, before: str) -> tuple[int, list[str]]:
        """What the filter's word at the cursor may become, by the rows that are at hand: nothing is read for it."""
        from console.services.browse.filter_completion import completions, seen_values

        session = self._session()
        reasons = () if session is None else session.setting.config.reasons
        entries = (*self._newest, *(spot.entry for spot in self.window.spots))
        return completions(before, seen_values(entries, {"reason": reasons}))

    async def settled_id(self) -> str | None:
        """A line on an entry that has the id typed as the filter and is not open; None where there is none."""
        query = self.view.query
        asked = query.where.criteria
        if len(asked) != 1 or asked[0].field not in ("text", "id") or asked[0].negated or query.by_class:
            return None
        text = self.text.strip().removeprefix("id:").strip('"')
        store, states = self.session.store, query.where.states
        found = tuple((await store.many(tuple(dict.fromkeys((text, text.lower()))))).values())
        if not found:  # an id is also the client order id
            by_id = (Criterion("id", (Pattern.literal(text),)),)
            others = Filter(states=frozenset(STATES) - states, criteria=by_id)
            found = (await store.page(others, limit=1, newest_first=True)).entries
        hidden = [entry.state for entry in found if entry.state not in states]
        return f"1 {hidden[0].replace('_', ' ')} entry has this id: add state:all to see it" if hidden else None

    async def watch(self) -> AsyncIterator[Change]:
        """The store's change signals, no faster than they can be read after."""
        async for change in self.session.store.changes():
            yield change
            if change.kind != "lost":
                await asyncio.sleep(_RENEW_SECONDS)

"""What the queue reads: pages around the cursor, counts, the trend, and the store's signs of life. Never acts.

Every read is off the keys; a slow count holds up neither a page nor a key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from backends.records import STATES, Counts, Filter, RowKey
from backends.store import Partial, StoreError
from console.render.line import Line, line, trusted
from console.render.status import make_trend
from console.render.value import coverage
from console.services.browse.filter_syntax import parse_expression
from console.services.browse.queue_order import QueueSection, View
from console.services.browse.queue_window import PAGE
from console.services.layout_fields import occurred_at
from console.services.triage.triage import Query

if TYPE_CHECKING:
    from console.screens.action_screen import ListingScreen
    from console.services.browse.incremental_search import IncrementalSearch
    from console.services.session import StoreSession


_REST = 3.0  # times as long as it took: a store that is slow to read is read seldom


class Coalescer:
    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._running = False
        self._again = False

    async def __call__(self) -> None:
        """Returns when what was asked for is done; at once where somebody else is at it, who will see to it."""
        self._again = True
        if self._running:
            return
        self._running = True
        try:
            while self._again:
                self._again = False
                began = time.monotonic()
                await self._work()
                if self._again:
                    await asyncio.sleep((time.monotonic() - began) * _REST)
        finally:
            self._running = False


_EVERYTHING = Filter(states=frozenset(STATES))
_RENEW_SECONDS = 0.25  # at most so often, however fast the engine writes
_COUNT_SECONDS = 1.0
_TREND_SECONDS = 60.0
_TREND_ROWS = 2000
_ENOUGH = 400  # found ones that are worth looking for ahead: so many can be told exactly


class QueueLoader:
    def __init__(self, screen: ListingScreen) -> None:
        self._screen = screen
        self.text = ""
        self.newest_first = True
        self.matching: int | None = None
        self.fresh = 0  # entries that came since the operator looked
        self._known: RowKey | None = None  # the newest entry counted
        self._growing: set[str] = set()
        self._next_count = 0.0
        self._next_trend = 0.0
        self.pursuit: IncrementalSearch | None = None  # where the store alone would have to read much of itself
        self._hunted: IncrementalSearch | None = None  # the one that is being followed now
        self.is_paused = False  # something else is listed for now
        # A read of a million entries goes on in the store when nobody waits for it any more: never two of them.
        self._renewal, self._counting = Coalescer(self._renewed), Coalescer(self._counted)

    @property
    def session(self) -> StoreSession:
        session = self._screen.console.session
        assert session is not None  # readers start after attaching
        return session

    @property
    def view(self) -> View:
        return View(parse_expression(self.text, self._screen.console.now()), self.newest_first)

    def ready(self) -> bool:
        return self._screen.console.session is not None

    def forget(self) -> None:
        """Another store: nothing that is known of the one before counts."""
        self.text, self.matching, self.fresh, self._known = "", None, 0, None
        self._growing.clear()
        self._next_count = self._next_trend = 0.0

    async def start(self) -> None:
        """From the top, as after a new filter."""
        view = self.view
        table = self._screen.table
        self.pursuit = await self.pursue(view)
        if self.pursuit is not None:
            await self.look(view)
            await self._go_on(self.pursuit, anew=True)
            self.hunt()
            return
        stretch = await self.session.queue_order.after(view, None, PAGE)
        table.window.start(stretch)
        self._blank(stretch)
        await self.look(view)
        table.renewed()
        self._screen.show_filter()

    async def pursue(self, view: View) -> IncrementalSearch | None:
        """None where the store answers this by itself."""
        query = view.query
        if not (query.where.terms or query.where.without or query.group):
            return None
        from console.services.browse.incremental_search import IncrementalSearch

        index_status = await self.session.index_status()
        return (
            IncrementalSearch(index_status, self.session.store, view)
            if IncrementalSearch.suits(view, index_status)
            else None
        )

    def hunt(self) -> None:
        """Look further, beside the keys, until there is a page more or nothing is left."""
        if self.pursuit is not None and not self.pursuit.is_over:
            self._screen.start(self._hunt, group="hunt", exclusive=True)

    async def _hunt(self) -> None:
        pursuit, window = self.pursuit, self._screen.table.window
        self._hunted = pursuit
        try:
            while pursuit is not None and pursuit is self.pursuit and not pursuit.is_over:
                if not window.wants_below and pursuit.found >= _ENOUGH:
                    return
                await self._go_on(pursuit)
                await asyncio.sleep(0)
        finally:
            if self._hunted is pursuit:
                self._hunted = None

    async def _go_on(self, pursuit: IncrementalSearch, *, anew: bool = False) -> None:
        spots = await pursuit.step(PAGE)
        if pursuit is not self.pursuit or self.is_paused:
            return
        window, stretch = self._screen.table.window, QueueSection(spots, not pursuit.is_over)
        window.start(stretch) if anew else window.grow_below(stretch)
        self.matching = pursuit.found if pursuit.is_over else None
        if pursuit.is_over:
            self._blank(QueueSection(tuple(window.spots), more=False))
        else:
            self._screen.table.blank = line(trusted("   searching …", "dim"))
        self._screen.table.renewed()
        self._screen.show_filter()

    def searched(self, pursuit: IncrementalSearch) -> Line:
        """How far it got, of how much."""
        total, counts = pursuit.total, self._screen.console.header_state.counts
        if total is None and counts is not None:
            total = sum(counts.by_state.get(state, 0) for state in pursuit.query.where.states)
        return coverage(pursuit.found, pursuit.covered, total, over=pursuit.is_over)

    def _blank(self, stretch: QueueSection) -> None:
        if not stretch.spots:
            self._screen.say_empty(filtered=bool(self.text))

    async def look(self, view: View) -> None:
        """What is there now counts as seen."""
        everything = View(Query(Filter(states=view.query.where.states)))
        self._known = await self.session.queue_order.newest(everything if self.pursuit is not None else view)
        self._screen.table.seen = self._known
        self.fresh = 0

    async def finish(self) -> None:
        if self.pursuit is not None:
            self._screen.table.move_to(len(self._screen.table.window.spots) - 1)
            return
        stretch = await self.session.queue_order.before(self.view, None, PAGE)
        self._screen.table.window.finish(stretch, self.matching)
        self._screen.table.renewed()

    async def grow(self, where: Literal["above", "below"]) -> None:
        """One page more at this end."""
        if where in self._growing or not self.ready() or self.is_paused:
            return
        if where == "below" and self.pursuit is not None:
            if self._hunted is not self.pursuit:
                self.hunt()
            return
        self._growing.add(where)
        window, view = self._screen.table.window, self.view
        mark = window.below if where == "below" else window.above
        try:
            if where == "below":
                window_stretch = await self.session.queue_order.after(view, mark, PAGE)
                if mark == window.below:
                    window.grow_below(window_stretch)
            else:
                window_stretch = await self.session.queue_order.before(view, mark, PAGE)
                if mark == window.above:
                    window.grow_above(window_stretch)
        finally:
            self._growing.discard(where)
        self._screen.table.refresh()
        self._screen.show_filter()

    async def renew(self) -> None:
        """The same place, read anew: the cursor stays on its entry."""
        view, table = self.view, self._screen.table
        if self.pursuit is not None:
            await self._renew_found(self.pursuit)
            return
        spot = table.window.current
        if spot is None:
            await self.start()
            return
        asked = self.text, self.newest_first
        before, after = await self.session.queue_order.around(view, spot, PAGE)
        if table.window.current is not spot or asked != (self.text, self.newest_first):
            return  # the cursor has moved on meanwhile: the next change reads around it again
        table.window.renew(before, after)
        self._blank(after)
        await self._count_fresh(view)
        table.renewed()
        self._screen.show_filter()

    async def _renew_found(self, pursuit: IncrementalSearch) -> None:
        """What was found, as it is now, and what has come since: nothing is searched again."""
        window = self._screen.table.window
        known, before = self._known, list(window.spots)
        come = await self.session.queue_order.newer(pursuit.view, known, 500) if known is not None else ()
        entries = await self.session.store.many(tuple(spot.entry.id for spot in before)) if before else {}
        if pursuit is not self.pursuit or window.spots != before:
            return  # the list has moved on meanwhile: the next change reads it again
        window.replace(pursuit.renewed(before, entries, come if window.at_top else ()), window.current)
        self._known = come[-1].row_key if come else known
        self.fresh += len(come)
        self.matching = pursuit.found if pursuit.is_over else None
        self._screen.table.renewed()
        self._screen.show_filter()

    async def _count_fresh(self, view: View) -> None:
        if self._known is None:
            await self.look(view)
            return
        come = await self.session.queue_order.newer(view, self._known, 500)
        if come:
            self.fresh += len(come)
            self._known = come[-1].row_key

    async def count(self, *, soon: bool = False) -> None:
        """Totals for the frame and the filter; paced by what a count costs here."""
        now = time.monotonic()
        if not soon and now < self._next_count:
            await asyncio.sleep(self._next_count - now)
        began = time.monotonic()
        store, view = self.session.store, self.view
        everything = await store.counts(_EVERYTHING)
        if self.pursuit is None:
            by_class = view.query.by_class
            self.matching = None if by_class else await self._matching(view.query.where, everything)
        halt = await store.halted()
        self._next_count = time.monotonic() + max(_COUNT_SECONDS, 5 * (time.monotonic() - began))
        cut = store.shortfall if isinstance(store, Partial) else None
        self._screen.console.update_header(counts=everything, halt=halt, cut=cut)
        self._screen.show_filter()

    async def _matching(self, where: Filter, everything: Counts) -> int:
        if where == Filter(states=where.states):
            return sum(everything.by_state.get(state, 0) for state in where.states)
        return sum((await self.session.store.counts(where)).by_state.values())

    async def trend(self) -> None:
        if time.monotonic() < self._next_trend:
            return
        self._next_trend = time.monotonic() + _TREND_SECONDS
        page = await self.session.store.page(_EVERYTHING, limit=_TREND_ROWS, newest_first=True)
        now = self._screen.console.now()
        moments = [at for entry in page.entries if (at := occurred_at(entry))]
        self._screen.console.update_header(trend=make_trend(moments, now, whole=not page.more))

    async def watch(self) -> None:
        """Until the screen ends: what the store says of itself becomes reads."""
        async for change in self.session.store.changes():
            match change.kind:
                case "lost":
                    self._screen.console.update_header(lost=change.detail or "it does not answer")
                    continue
                case "back":
                    self._screen.console.update_header(lost=None)
                    self._screen.tell_back()
                case "changed":
                    pass
            self._screen.changed()
            await asyncio.sleep(_RENEW_SECONDS)

    async def after_change(self) -> None:
        if not self.is_paused:
            await asyncio.gather(self._renewal(), self._counting())

    async def _renewed(self) -> None:
        with self._losing():
            await self.renew()
            await self.trend()

    async def _counted(self) -> None:
        with self._losing():
            await self.count()

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except StoreError as problem:
            self._screen.console.update_header(lost=str(problem))

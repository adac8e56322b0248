"""What the queue reads: pages around the cursor, counts, the trend, and the store's signs of life. Never acts.

Every read is off the keys; a slow count holds up neither a page nor a key.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Literal

from backends.records import STATES, Counts, Filter, Place
from backends.store import StoreError
from console.render.status import make_trend
from console.services.expression import parse_expression
from console.services.layout import occurred_at
from console.services.lineup import Stretch, View
from console.services.window import PAGE

if TYPE_CHECKING:
    from console.screens.listing import ListingScreen
    from console.services.workplace import Workplace

_EVERYTHING = Filter(states=frozenset(STATES))
_RENEW_SECONDS = 0.25  # at most so often, however fast the engine writes
_COUNT_SECONDS = 1.0
_TREND_SECONDS = 60.0
_TREND_ROWS = 2000


class Feed:
    def __init__(self, screen: ListingScreen) -> None:
        self._screen = screen
        self.text = ""
        self.newest_first = True
        self.matching: int | None = None
        self.fresh = 0  # entries that came since the operator looked
        self._known: Place | None = None  # the newest entry counted
        self._growing: set[str] = set()
        self._next_count = 0.0
        self._next_trend = 0.0

    @property
    def place(self) -> Workplace:
        place = self._screen.console.place
        assert place is not None  # readers start after attaching
        return place

    @property
    def view(self) -> View:
        return View(parse_expression(self.text, self._screen.console.now()), self.newest_first)

    def ready(self) -> bool:
        return self._screen.console.place is not None

    async def start(self) -> None:
        """From the top, as after a new filter."""
        view = self.view
        stretch = await self.place.lineup.after(view, None, PAGE)
        table = self._screen.table
        table.window.start(stretch)
        self._blank(stretch)
        await self.look(view)
        table.renewed()
        self._screen.show_filter()

    def _blank(self, stretch: Stretch) -> None:
        if not stretch.spots:
            self._screen.say_empty(filtered=bool(self.text))

    async def look(self, view: View) -> None:
        """What is there now counts as seen."""
        self._known = await self.place.lineup.newest(view)
        self._screen.table.seen = self._known
        self.fresh = 0

    async def finish(self) -> None:
        stretch = await self.place.lineup.before(self.view, None, PAGE)
        self._screen.table.window.finish(stretch, self.matching)
        self._screen.table.renewed()

    async def grow(self, where: Literal["above", "below"]) -> None:
        """One page more at this end."""
        if where in self._growing or not self.ready():
            return
        self._growing.add(where)
        window, view = self._screen.table.window, self.view
        mark = window.below if where == "below" else window.above
        try:
            if where == "below":
                window_stretch = await self.place.lineup.after(view, mark, PAGE)
                if mark == window.below:
                    window.grow_below(window_stretch)
            else:
                window_stretch = await self.place.lineup.before(view, mark, PAGE)
                if mark == window.above:
                    window.grow_above(window_stretch)
        finally:
            self._growing.discard(where)
        self._screen.table.refresh()
        self._screen.show_filter()

    async def renew(self) -> None:
        """The same place, read anew: the cursor stays on its entry."""
        view, table = self.view, self._screen.table
        spot = table.window.current
        if spot is None:
            await self.start()
            return
        before, after = await self.place.lineup.around(view, spot, PAGE)
        if table.window.current is not spot:
            return  # the cursor has moved on meanwhile: the next change reads around it again
        table.window.renew(before, after)
        self._blank(after)
        await self._count_fresh(view)
        table.renewed()
        self._screen.show_filter()

    async def _count_fresh(self, view: View) -> None:
        if self._known is None:
            await self.look(view)
            return
        come = await self.place.lineup.newer(view, self._known, 500)
        if come:
            self.fresh += len(come)
            self._known = come[-1].place

    async def count(self, *, soon: bool = False) -> None:
        """Totals for the frame and the filter; paced by what a count costs here."""
        now = time.monotonic()
        if not soon and now < self._next_count:
            await asyncio.sleep(self._next_count - now)
        began = time.monotonic()
        store, view = self.place.store, self.view
        everything = await store.counts(_EVERYTHING)
        self.matching = None if view.query.by_class else await self._matching(view.query.where, everything)
        halt = await store.halted()
        self._next_count = time.monotonic() + max(_COUNT_SECONDS, 5 * (time.monotonic() - began))
        self._screen.console.restand(counts=everything, halt=halt)
        self._screen.show_filter()

    async def _matching(self, where: Filter, everything: Counts) -> int:
        if where == Filter(states=where.states):
            return sum(everything.by_state.get(state, 0) for state in where.states)
        return sum((await self.place.store.counts(where)).by_state.values())

    async def trend(self) -> None:
        if time.monotonic() < self._next_trend:
            return
        self._next_trend = time.monotonic() + _TREND_SECONDS
        page = await self.place.store.page(_EVERYTHING, limit=_TREND_ROWS, newest_first=True)
        now = self._screen.console.now()
        moments = [at for entry in page.entries if (at := occurred_at(entry))]
        self._screen.console.restand(trend=make_trend(moments, now, whole=not page.more))

    async def watch(self) -> None:
        """Until the screen ends: what the store says of itself becomes reads."""
        async for change in self.place.store.changes():
            match change.kind:
                case "lost":
                    self._screen.console.restand(lost=change.detail or "it does not answer")
                    continue
                case "back":
                    self._screen.console.restand(lost=None)
                    self._screen.tell_back()
                case "changed":
                    pass
            self._screen.changed()
            await asyncio.sleep(_RENEW_SECONDS)

    async def after_change(self) -> None:
        try:
            await self.renew()
            await self.trend()
            await self.count()
        except StoreError as problem:
            self._screen.console.restand(lost=str(problem))

"""A screen that lists entries: the table that shows what the loader has read, its marks and its pane."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from textual.timer import Timer

from backends.records import Entry
from backends.store import StoreError
from console.render.entry import Shown
from console.render.line import Line, line, trusted
from console.render.row import sought_by
from console.render.status import make_trend
from console.render.value import count, many, short_amounts
from console.screens.people.watch import PeopleWatch
from console.screens.queue.coalescer import Coalescer
from console.screens.queue.loader import QueueLoader, RowsRead
from console.services.browse.filter_syntax import parse_expression
from console.services.market.entry_value import summed, value_of
from console.services.triage.triage import ClassifiedEntry
from console.widgets.entry_pane import EntryPane
from console.widgets.entry_table import EntryTable

if TYPE_CHECKING:
    from console.screens.queue.loader import Blank


from console.screens.action_screen import ActingScreen, Pick, Picks, acts_on

_PANE_SECONDS = 0.06  # time the cursor rests before its history is read
_MOST_MARKS = 200_000
_HINTS = ("open", "mark", "mark-all", "filter", "groups", "mode", "audit", "sort", "command", "quit")
_HINTS_OF_NOTHING = ("filter", "refresh", "audit", "stores", "command", "quit")
_BLANKS = {
    "searching": "searching …",
    "unmatched": "nothing matches: esc clears the filter",
    "empty": "nothing here: the queue is empty",
}


class ListingScreen(ActingScreen):
    def __init__(self) -> None:
        super().__init__()
        self.loader = QueueLoader(lambda: self.console.session, self.console.now)
        # The store finishes a long read even when nobody waits for it any more, so two never run at once.
        self._renewal, self._counting = Coalescer(self._renew), Coalescer(self._count, rest=0.0)
        self.people = PeopleWatch(self)
        self.marks: dict[str, Pick] = {}
        self.table = EntryTable(self.console.now(), ClassifiedEntry, id="table")
        self.table.venue_types = self.console.venue_types
        self.loader.weigh = lambda entry: value_of(entry, self.console.venue_types).notional
        self.table.window = self.loader.window
        self.table.on_move = self.moved
        self.pane = EntryPane(id="pane")
        self.in_pane = False  # j and k scroll the pane instead of moving the cursor
        self._rest: Timer | None = None

    def seek(self, text: str) -> None:
        """Mark what this filter looks for in rows and pane; from the next painting on."""
        where = parse_expression(text, self.console.now()).where
        self.table.sought = self.pane.sought = sought_by(where)

    def show_filter(self) -> None:
        """Show the filter and how much of the queue is listed."""
        raise NotImplementedError

    def show_blank(self, blank: Blank) -> None:
        self.table.blank = line(trusted(f"   {_BLANKS[blank]}", "dim"))

    def show_rows(self, rows: RowsRead) -> None:
        """Paint what a read changed, unless a preview covers the list."""
        if self.loader.is_paused:
            return
        if rows.blank is not None:
            self.show_blank(rows.blank)
        self.table.seen = self.loader.seen
        if rows.cursor:
            self.table.renewed()
        else:
            self.table.refresh()
        self.show_filter()
        if rows.continues:
            self.search_on()

    async def load(self, read: Callable[[], Awaitable[RowsRead | None]]) -> None:
        """Wait for a read of the list and show its rows."""
        rows = await read()
        if rows is not None:
            self.show_rows(rows)

    def search_on(self) -> None:
        """Continue the search of the filter beside the keys."""
        if self.loader.is_reading_on:
            self.start(self._search_on, group="search", exclusive=True)

    async def _search_on(self) -> None:
        async with aclosing(self.loader.search_on()) as found:
            async for rows in found:
                self.show_rows(rows)

    async def load_counts(self, *, soon: bool = False) -> None:
        read = await self.loader.count(soon=soon)
        known = self.loader.session.info.ledger_is_readable  # it may have become readable, or have ceased to be
        self.console.update_header(
            counts=read.counts, halt=read.halt, cut=read.cut, is_known=known, read_at=self.console.now()
        )
        self.console.alarm.told(self.console.header_state.store, read.counts.by_state.get("in_doubt", 0))
        self.people.read()
        before, self.table.facts = self.table.facts, read.facts
        if before is None or not before.is_alike(read.facts):
            self.table.refresh()
        self.show_filter()

    async def load_trend(self) -> None:
        read = await self.loader.arrivals()
        if read is not None:
            self.console.update_header(trend=make_trend(read.moments, self.console.now(), whole=read.whole))

    async def follow_store(self) -> None:
        """Read again after every change of the store, until the screen ends."""
        session = self.console.session
        if session is not None and any(finding.code == "pooler" for finding in session.info.findings):
            polled = "polling for changes: a pooler such as pgbouncer is in front of the server"
            self.show_notice(line(trusted(polled, "accent")))
        async for change in self.loader.watch():
            if change.kind == "lost":
                self.console.update_header(lost=change.detail or "it does not answer")
                continue
            if change.kind == "back":
                self.console.update_header(lost=None)
                self.tell_back()
            self.changed()

    def tell_back(self) -> None:
        self.show_notice(line(trusted("the store is back", "good")))

    def changed(self) -> None:
        """Read the list and the counts again: the store has changed."""
        self.start(self._after_change, group="change", exclusive=False)
        self.people.store_changed()

    async def _after_change(self) -> None:
        if not self.loader.is_paused:
            await asyncio.gather(self._renewal(), self._counting())

    async def _renew(self) -> None:
        with self._reports_loss():
            await self.load(self.loader.renew)
            await self.load_trend()

    async def _count(self) -> None:
        with self._reports_loss():
            await self.load_counts()

    @contextmanager
    def _reports_loss(self) -> Iterator[None]:
        try:
            yield
        except StoreError as problem:
            self.console.update_header(lost=str(problem))

    def acted(self) -> None:
        self.marks.clear()
        self.table.range_from = None
        self._remark()
        self.changed()

    def picks(self) -> Picks:
        if self.marks:
            return dict(self.marks)
        spot = self.table.window.current
        return {} if spot is None else {spot.entry.id: Pick(spot.entry.version, spot.entry.state)}

    def current(self) -> Shown | None:
        return self.pane.shown

    def known(self, entry_id: str) -> Entry | None:
        at = self.table.window.find(entry_id)
        return None if at is None else self.table.window.spots[at].entry

    def lead(self) -> Line:
        if self.table.range_from is not None:
            return line(trusted(f"{len(self.table.range_ids())} in range, v marks them", "accent"))
        if not self.marks:
            return ()
        worth = self._marked_worth()
        return line(trusted(f"{count(len(self.marks))} marked", "accent"), trusted(worth and f" · {worth}", "dim"))

    def _marked_worth(self) -> str:
        """What the marked entries are worth, per currency; empty where not all of them are listed."""
        spots = self.table.window.spots
        marked = [spot.entry for spot in spots if spot.entry.id in self.marks]
        return short_amounts(summed(marked, self.console.venue_types)) if len(marked) == len(self.marks) else ""

    def hints(self) -> tuple[str, ...]:
        running = self.console.activity.run
        stop = ("stop", "batch") if running is not None and not running.over else ()
        spot = self.table.window.current
        if spot is None and not self.marks:
            return (*stop, *(("back",) if self.loader.text else ()), *_HINTS_OF_NOTHING)
        if self.table.range_from is not None:
            # No acts: they would ignore the range and take the entry under the cursor.
            return (*stop, "range", "down", "up", "back")
        if self.marks or spot is None:
            return (*stop, "dismiss", "replay", "reconcile", "unmark", *_HINTS)
        first = acts_on(spot.entry, self.current())
        return (*stop, *first, *_HINTS)

    def do_down(self) -> None:
        self.pane.text.scroll_lines(1) if self.in_pane else self.table.move_by(1)

    def do_up(self) -> None:
        self.pane.text.scroll_lines(-1) if self.in_pane else self.table.move_by(-1)

    def do_next(self) -> None:
        self.table.move_by(1)

    def do_previous(self) -> None:
        self.table.move_by(-1)

    def do_page_down(self) -> None:
        self.pane.text.scroll_lines(self.pane.text.size.height - 1) if self.in_pane else self.table.page(1)

    def do_page_up(self) -> None:
        self.pane.text.scroll_lines(1 - self.pane.text.size.height) if self.in_pane else self.table.page(-1)

    def do_top(self) -> None:
        if self.in_pane:
            self.pane.text.scroll_to_line(0)
        elif self.table.window.at_top and not self.loader.fresh:
            self.table.move_to(0)
        else:
            self.read(lambda: self.load(self.loader.start))

    def do_bottom(self) -> None:
        if self.in_pane:
            self.pane.text.scroll_to_line(1 << 30)
        elif self.table.window.at_end:
            self.table.move_to(len(self.table.window.spots) - 1)
        else:
            self.read(lambda: self.load(self.loader.finish))

    def read(self, work: Callable[[], Awaitable[None]]) -> None:
        if self.loader.ready():
            self.start(work, group="page", exclusive=True)

    def do_pane(self) -> None:
        self.in_pane = not self.in_pane
        self.pane.chosen(self.in_pane)

    def do_tab_before(self) -> None:
        self.pane.turn(-1)

    def do_tab_after(self) -> None:
        self.pane.turn(1)

    def on_entry_table_wants(self, message: EntryTable.Wants) -> None:
        if self.loader.ready():
            grow = partial(self.loader.grow, message.where)
            self.start(lambda: self.load(grow), group=f"grow-{message.where}", exclusive=False)

    def moved(self) -> None:
        """Show the entry that the cursor is on now; read its history when the cursor rests."""
        row = self.table.row
        self.pane.put(None if row is None else self.console.shown_row(row), self.table.now)
        self._show_footer()
        self.show_filter()
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(_PANE_SECONDS, self._rested)

    def _rested(self) -> None:
        if self.loader.ready() and self.table.row is not None:
            self.start(self._read_entry, group="entry", exclusive=True)

    async def _read_entry(self) -> None:
        row = self.table.row
        shown = None if row is None else await self.console.shown(row.entry.id)
        if shown is not None and self.table.row is not None and self.table.row.entry.id == shown.row.entry.id:
            self.pane.put(shown, self.console.now())
            self._show_footer()  # what can be done hangs on its attempts

    def _remark(self) -> None:
        self.table.marks = {entry_id: pick.version for entry_id, pick in self.marks.items()}
        self.table.refresh()
        self._show_footer()

    def do_mark(self) -> None:
        spot = self.table.window.current
        if spot is None:
            return
        if self.marks.pop(spot.entry.id, None) is None:
            self.marks[spot.entry.id] = Pick(spot.entry.version, spot.entry.state)
        self._remark()
        self.table.move_by(1)

    def do_range(self) -> None:
        spot = self.table.window.current
        if spot is None:
            return
        if self.table.range_from is None:
            self.table.range_from = spot.entry.id
        else:
            chosen = self.table.range_ids()
            for one in self.table.window.spots:
                if one.entry.id in chosen:
                    self.marks[one.entry.id] = Pick(one.entry.version, one.entry.state)
            self.table.range_from = None
        self._remark()

    def mark_only(self, entries: Iterable[Entry]) -> None:
        """Mark these and nothing else, as they are now."""
        self.table.range_from = None
        self.marks = {entry.id: Pick(entry.version, entry.state) for entry in entries}
        self._remark()

    def go_to(self, ids: Sequence[str]) -> None:
        """Put the cursor on the first of these that is listed."""
        self.read(lambda: self._go_to(ids))

    async def _go_to(self, ids: Sequence[str]) -> None:
        if self._listed_at(ids) is None:
            await self.load(self.loader.start)  # what is in doubt is listed first
        if (at := self._listed_at(ids)) is not None:
            self.table.move_to(at)

    def _listed_at(self, ids: Sequence[str]) -> int | None:
        return next((at for one in ids if (at := self.table.window.find(one)) is not None), None)

    def do_mark_all(self) -> None:
        self.read(self._mark_all)

    async def _mark_all(self) -> None:
        """Mark every match in its present version; later arrivals are not marked."""
        marks: dict[str, Pick] = {}
        async for entries in self.loader.session.queue_order.chosen(self.loader.view):
            marks |= {entry.id: Pick(entry.version, entry.state) for entry in entries}
            if len(marks) > 2000:
                self.show_notice(line(trusted(f"marking … {len(marks):,}; esc stops", "accent")))
            if len(marks) >= _MOST_MARKS:
                self.warn(f"only the first {_MOST_MARKS:,} are marked: narrow the filter for the rest")
                break
        self.marks = marks
        self._remark()
        self.show_notice(line(trusted(f"{many(len(marks), 'entry')} marked; later arrivals are not", "accent")))

    def do_unmark(self) -> None:
        self.marks.clear()
        self.table.range_from = None
        self._remark()

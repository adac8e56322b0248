"""The queue: shows what its loader has read, takes the filter, and opens the other screens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual import events
from textual.containers import Container
from textual.widget import Widget

from backends.records import OPEN_STATES
from console.render.line import Line, joined, line, spread, trusted, untrusted, width
from console.render.status import data_age
from console.render.value import count, coverage, many, short_amounts
from console.screens.queue.listing import ListingScreen
from console.screens.queue.search_preview import Preview
from console.services.browse.filter_syntax import ExpressionError, parse_expression
from console.services.browse.queue_window import Window
from console.services.browse.sort import Sort, clicked, next_sort, parse_sort
from console.services.layout_fields import LAYOUTS
from console.services.market.entry_value import summed
from console.text.durations import long_age
from console.widgets.entry_table import EntryTable
from console.widgets.prompt_line import PromptLine

if TYPE_CHECKING:
    from console.services.browse.incremental_search import IncrementalSearch

_LATEST_SECONDS = 0.5


class QueueScreen(ListingScreen):
    key_context = "queue"
    CSS_PATH = "../../styles/queue.tcss"

    def __init__(self, window: Window | None = None) -> None:
        """`window`: the first page, where it was read while the app was loading."""
        super().__init__()
        self._line = PromptLine(id="filter")
        self._preview = Preview(self)
        self._has_begun = False
        self._oldest = ""
        self._stale = ""
        self._summed: tuple[list[str], str] | None = None  # the worth of these entries
        if window is not None:
            self.loader.window = self.table.window = window

    def body(self) -> Iterable[Widget]:
        yield self._line
        yield Container(self.table, self.pane, id="work")

    def on_mount(self) -> None:
        super().on_mount()
        self.table.kind = self.pane.kind = self.console.header_state.layout  # of the first page
        self._line.complete = self.loader.complete
        self._line.remember = self.console.setup.remember_filter
        self._line.recall(self.console.setup.filters)
        self.set_interval(1.0, self._tick)
        self.set_timer(_LATEST_SECONDS, self._begin)  # also where the terminal is too small to paint a row
        self.show_filter()
        self.moved()

    def on_entry_table_painted(self) -> None:
        """Attach only after the first rows are painted, so that loading does not delay them."""
        self._begin()

    def _begin(self) -> None:
        store = self.console.setup.store
        if store is not None and not self._has_begun:
            self._has_begun = True
            self.console.attach(store)

    def attached(self, *, fresh: bool) -> None:
        """Read the attached store; `fresh`: it replaces another one."""
        if self.console.session is not None:
            self.table.kind = self.pane.kind = self.console.session.info.layout
        self.start(lambda: self._first(fresh=fresh), group="page", exclusive=True)
        if self.console.setup.watch:
            self.start(self.follow_store, group="watch", exclusive=True)

    def forget(self) -> None:
        """Drop rows, marks and filter of the store that is being left."""
        for group in ("page", "entry", "grow-above", "grow-below", "search", "ask", "watch"):
            self.workers.cancel_group(self, group)
        self._preview.drop()
        self.loader.forget()
        self.seek("")
        self.table.facts = None
        self.table.seen, self.table.blank = None, line(trusted("   reading …", "dim"))
        self.in_pane = False
        self.pane.chosen(yes=False)
        self.do_unmark()
        self.table.renewed()

    async def _first(self, *, fresh: bool) -> None:
        wanted = None if fresh else self.console.setup.open_id
        await self.load(self.loader.start if self.loader.window.current is None else self.loader.renew)
        if wanted:
            await self._open_id(wanted)
        await self.load_counts(soon=True)
        await self.load_trend()

    def _tick(self) -> None:
        """Repaint the ages that read differently; the frame only where its oldest age does."""
        now, counts = self.console.now(), self.console.header_state.counts
        self.table.tick(now)
        self.pane.tick(now)
        oldest = counts.oldest_pending if counts is not None else None
        words = "" if oldest is None else long_age(oldest, now)
        if words != self._oldest:
            self._oldest = words
            self.header_changed()
        stale = data_age(self.console.header_state, now)
        if stale != self._stale:
            self._stale = stale
            self.console.update_header()  # on every screen that is open: it says how old its data are

    def show_filter(self) -> None:
        if not self.is_mounted or self._line.is_asking:
            return
        loader, window, size = self.loader, self.table.window, max(10, self.size.width - 4)
        if loader.text:
            left = line(trusted("filter: ", "dim"), untrusted(loader.text, "accent"))
        else:
            left = ()
        right = joined([self._sorted(), self._scope(window)])
        if not loader.text:
            left = self._first_keys(bool(window.spots), size - width(right) - 2)
        if loader.text and width(left) + width(right) > size:  # the filter is what the operator typed: it stays
            right = joined([self._sorted(), self._scope(window)[:1]])
        self._line.rest(spread(left, right, size))

    def _first_keys(self, has_rows: bool, room: int) -> Line:
        """The keys to begin with, as many as fit whole; all keys above all."""
        name = self.console.name_of_key
        shown = [f"{name('help')} all keys"]
        for key in ("mark", "filter") if has_rows else ():
            longer = [f"{name(key)} {key}", *shown]
            if len("   ".join(longer)) <= room:
                shown = longer
        text = "   ".join(shown)
        return line(trusted(text, "dim")) if len(text) <= room else ()

    def _sorted(self) -> Line:
        """The order of the list where it is not the usual one, and how far it reaches."""
        loader = self.loader
        if loader.sort == Sort():
            return ()
        ranking, words = loader.ranking, loader.sort.words
        if loader.sort.by == "age" or ranking is None:
            return line(trusted(words, "accent"))
        if not ranking.is_over:
            return line(trusted(f"{words}: {count(len(ranking))} read …", "accent"))
        reach = f" among the newest {count(len(ranking))}" if ranking.has_more else ""
        return line(trusted(f"{words}{reach}", "accent"))

    def _scope(self, window: Window) -> Line:
        """`row 3 · 312 of 1,204 match · 14 new · 2.1M USD`"""
        loader, counts = self.loader, self.console.header_state.counts
        search = loader.search
        if search is not None and not search.is_over and loader.matching is None:
            return self.searched(search)
        row = f"row {count(window.position)} · " if window.position is not None else ""
        if loader.matching is None:
            end = "" if window.at_end and window.at_top else "+"
            known = f"{many(len(window.spots), 'entry')}{end} loaded"
        elif not loader.text:
            known = f"{count(loader.matching)} open"
        else:
            among = counts is not None and loader.view.query.where.states <= OPEN_STATES
            known = f"{count(loader.matching)}{f' of {count(counts.open)}' if counts and among else ''} match"
        fresh = line(trusted(f" · {count(loader.fresh)} new", "accent")) if loader.fresh else ()
        return (trusted(f"{row}{known}", "dim"), *fresh, *self._worth(window))

    def _worth(self, window: Window) -> Line:
        """What the listed entries are worth, per currency, where all of them are in memory."""
        if not (window.at_top and window.at_end and window.spots):
            return ()
        known = self._summed
        ids = [spot.entry.id for spot in window.spots]
        if known is None or known[0] != ids:
            total = summed((spot.entry for spot in window.spots), self.console.venue_types)
            known = self._summed = (ids, short_amounts(total))
        return line(trusted(f" · {known[1]}", "dim")) if known[1] else ()

    def searched(self, search: IncrementalSearch) -> Line:
        """How much of the store the search has looked at."""
        return coverage(search.found, search.covered, self.loader.total_of(search), over=search.is_over)

    def take_key(self, event: events.Key) -> None:
        if not self._line.is_asking:
            super().take_key(event)
            return
        self._hush()
        came = self._line.press(event)
        self._show_footer()
        match came:
            case "given" if self._line.purpose == "command":
                self.show_filter()
                self.console.command(self._line.text)
            case "given":
                self._apply(self._line.text.strip())
            case "given-up":
                self._preview.give_up()
                self.show_filter()
            case "typing" if self._line.purpose == "filter":
                self._preview.typed(self._line.text.strip())
                if self._line.offered:
                    self.show_notice(line(untrusted("  ".join(self._line.offered), "accent")))
            case "typing":
                pass

    def _apply(self, text: str) -> None:
        """Filter by the text; keep the preview and its cursor where it lists this text already."""
        if self.loader.sort.by == "age" and self._preview.take(text):  # a preview is listed by age
            self.show_filter()
        else:
            self._preview.give_up()
            self.filter_by(text)

    def take_paste(self, text: str) -> None:
        if self._line.is_asking:
            self._line.paste(text)
            if self._line.purpose == "filter":
                self._preview.typed(self._line.text.strip())

    def do_filter(self) -> None:
        self._line.ask("filter", earlier=self.loader.text)
        self._show_footer()

    def do_command(self) -> None:
        self._line.ask("command")
        self._show_footer()

    @property
    def is_typing(self) -> bool:
        return self._line.is_asking

    def filter_by(self, text: str) -> None:
        try:
            parse_expression(text, self.console.now())
        except ExpressionError as problem:
            self._line.ask("filter", text)
            self.warn(str(problem))
            return
        self.loader.set_filter(text)
        self.seek(text)
        self.show_filter()
        self.read(self._filtered)

    async def _filtered(self) -> None:
        self.show_blank("searching")
        await self.load(self.loader.start)
        await self.hint_at_settled()
        await self.load_counts(soon=True)

    async def hint_at_settled(self) -> None:
        """Say so where the id that was typed belongs to an entry that the filter leaves out."""
        if not self.loader.window.spots and (hint := await self.loader.settled_id()):
            self.show_notice(line(trusted(hint, "accent")))

    def do_sort(self) -> None:
        has_worth = LAYOUTS[self.console.header_state.layout].has_worth
        self._sort(next_sort(self.loader.sort, has_worth=has_worth))

    def sort_by(self, text: str) -> None:
        """Sort as a command says: `value`, `-value` for the other direction."""
        sort = parse_sort(text)
        if sort is None or (sort.by == "value" and not LAYOUTS[self.console.header_state.layout].has_worth):
            self.warn("sort by age, value, tries or venue; -age turns the order round")
        else:
            self._sort(sort)

    def on_entry_table_titled(self, event: EntryTable.Titled) -> None:
        """A click on a column sorts by it; another one turns the order round."""
        sort = clicked(event.column, self.loader.sort)
        if sort is not None:
            self._sort(sort)

    def _sort(self, sort: Sort) -> None:
        self.workers.cancel_group(self, "search")
        self.loader.set_sort(sort)
        self.read(lambda: self.load(self.loader.start))
        self.show_notice(line(trusted(sort.words, "accent")))
        self.show_filter()

    def do_back(self) -> None:
        """Leave the pane, the range, the filter or the marks, whichever comes first."""
        self.workers.cancel_group(self, "export")
        if self.in_pane:
            self.do_pane()
        elif self.table.range_from is not None:
            self.table.range_from = None
            self._remark()
        elif self.loader.text:
            self.filter_by("")
        elif self.marks:
            self.do_unmark()

    def do_refresh(self) -> None:
        self.read(self._filtered)

    def do_open(self) -> None:
        from console.screens.entry import EntryScreen

        row = self.table.row
        if row is not None:
            self.app.push_screen(EntryScreen(self.console.shown_row(row), self.pane.tab))

    def on_entry_table_opened(self) -> None:
        self.do_open()

    async def _open_id(self, entry_id: str) -> None:
        from console.screens.entry import EntryScreen

        shown = await self.console.shown(entry_id)
        if shown is None:
            self.warn(f"no entry {entry_id} in this store")
        else:
            self.app.push_screen(EntryScreen(shown, 0))

    def open_id(self, entry_id: str) -> None:
        self.read(lambda: self._open_id(entry_id))

    def do_groups(self) -> None:
        from console.screens.groups import GroupsScreen

        if self.loader.ready():
            self.app.push_screen(GroupsScreen(self.loader.text))

    def do_health(self) -> None:
        from console.screens.health import HealthScreen

        if self.loader.ready():
            self.app.push_screen(HealthScreen())

    def do_batch(self) -> None:
        self.console.show_batch()

    def do_stores(self) -> None:
        self.console.choose_store()

    def do_export(self) -> None:
        self.read(lambda: self.console.export_view(self.loader.view))

    def do_palette(self) -> None:
        self.console.open_palette()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self.show_filter)

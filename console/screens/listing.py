"""A table of entries with the pane of the one under the cursor: moving, marking, and what is chosen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textual.timer import Timer

from backends.records import Entry
from console.render.entry import Shown
from console.render.line import Line, line, trusted
from console.render.value import count, many
from console.screens.action_screen import ActingScreen, Pick, Picks
from console.screens.queue.loader import QueueLoader
from console.services.triage.triage import classified
from console.widgets.entry_pane import EntryPane
from console.widgets.entry_table import EntryTable

_PANE_SECONDS = 0.06  # the cursor rests: now its history is worth reading
_MOST_MARKS = 200_000
_HINTS = ("open", "mark", "mark-all", "filter", "groups", "mode", "audit", "sort", "command", "quit")
_HINTS_OF_NOTHING = ("filter", "refresh", "audit", "stores", "command", "quit")


class ListingScreen(ActingScreen):
    def __init__(self) -> None:
        super().__init__()
        self.loader = QueueLoader(self)
        self.marks: dict[str, Pick] = {}
        self.table = EntryTable(self.console.now(), classified, id="table")
        self.table.on_move = self.moved
        self.pane = EntryPane(id="pane")
        self.in_pane = False  # j and k move in the pane's text
        self._rest: Timer | None = None

    def show_filter(self) -> None:
        """What is listed, and how much of it."""
        raise NotImplementedError

    def say_empty(self, *, filtered: bool) -> None:
        text = "nothing matches: esc clears the filter" if filtered else "nothing is dead: the queue is empty"
        self.table.blank = line(trusted(f"   {text}", "dim"))

    def tell_back(self) -> None:
        self.show_notice(line(trusted("the store is back", "good")))

    def changed(self) -> None:
        """The store has moved."""
        self.start(self.loader.after_change, group="change", exclusive=False)

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
        return line(trusted(f"{count(len(self.marks))} marked", "accent")) if self.marks else ()

    def hints(self) -> tuple[str, ...]:
        running = self.console.activity.run
        stop = ("stop", "batch") if running is not None and not running.over else ()
        spot = self.table.window.current
        if spot is None and not self.marks:
            return (*stop, *(("back",) if self.loader.text else ()), *_HINTS_OF_NOTHING)
        if self.table.range_from is not None:
            return (*stop, "range", "down", "up", "back")  # an act would be about the cursor's entry alone
        state = spot.entry.state if spot else "pending"
        acts = {"in_doubt": ("reconcile",), "in_flight": ("reconcile",), "dismissed": ("restore",), "replayed": ()}
        first = acts.get(state, ("replay", "dismiss")) if not self.marks else ("dismiss", "replay", "unmark")
        return (*stop, *first, *_HINTS)

    def do_down(self) -> None:
        self.pane.text.scroll_lines(1) if self.in_pane else self.table.move_by(1)

    def do_up(self) -> None:
        self.pane.text.scroll_lines(-1) if self.in_pane else self.table.move_by(-1)

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
            self.read(self.loader.start)

    def do_bottom(self) -> None:
        if self.in_pane:
            self.pane.text.scroll_to_line(1 << 30)
        elif self.table.window.at_end:
            self.table.move_to(len(self.table.window.spots) - 1)
        else:
            self.read(self.loader.finish)

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
            self.start(lambda: self.loader.grow(message.where), group=f"grow-{message.where}", exclusive=False)

    def moved(self) -> None:
        """The cursor is on another entry."""
        row = self.table.row
        self.pane.put(
            None if row is None else Shown(row, read_only=self.console.header_state.read_only), self.table.now
        )
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

    def do_mark_all(self) -> None:
        self.read(self._mark_all)

    async def _mark_all(self) -> None:
        """A frozen set: what matches now, as it is now."""
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
        self.show_notice(line(trusted(f"{many(len(marks), 'entry')} marked, as they are now", "accent")))

    def do_unmark(self) -> None:
        self.marks.clear()
        self.table.range_from = None
        self._remark()

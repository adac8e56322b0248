"""The screen of one entry, with every act on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.widget import Widget

from backends.records import Entry
from console.render.entry import Shown, summary
from console.screens.action_screen import ActingScreen, Pick, Picks, acts_on
from console.widgets.canvas import Canvas
from console.widgets.entry_pane import PAGE_FROM, EntryPane

_HINTS = ("copy", "copy-json", "note", "pager", "editor", "audit", "mode")


class EntryScreen(ActingScreen):
    key_context = "entry"

    def __init__(self, shown: Shown, tab: int, *, step: Callable[[int], Shown | None] | None = None) -> None:
        """`step` moves in the list it was opened from and returns what stands there; None: in the queue."""
        super().__init__()
        self._step = step or self._step_in_queue
        self._shown = shown
        self._order = Canvas(id="entry-order")
        self.pane = EntryPane(page_from=PAGE_FROM, id="entry")
        self.pane.tab = tab

    def body(self) -> Iterable[Widget]:
        yield self._order
        yield self.pane

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(1.0, self._tick)
        self._put()
        self.acted()

    def header_changed(self) -> None:
        super().header_changed()
        self._order.show(summary(self._shown, max(20, self.size.width - 4)))

    def _put(self) -> None:
        self.pane.sought = self.console.queue.pane.sought
        self.pane.put(self._shown, self.console.now())
        self.header_changed()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.acted()

    def _tick(self) -> None:
        self.pane.tick(self.console.now())

    def acted(self) -> None:
        if self.console.session is not None:
            self.start(self._read, group="entry", exclusive=True)

    async def _read(self) -> None:
        shown = await self.console.shown(self._shown.row.entry.id)
        if shown is not None and shown.row.entry.id == self._shown.row.entry.id:
            self._shown = shown
            self._put()

    def picks(self) -> Picks:
        entry = self._shown.row.entry
        return {entry.id: Pick(entry.version, entry.state)}

    def known(self, entry_id: str) -> Entry | None:
        entry = self._shown.row.entry
        return entry if entry.id == entry_id else None

    def current(self) -> Shown | None:
        return self._shown

    def hints(self) -> tuple[str, ...]:
        first = acts_on(self._shown.row.entry, self._shown)
        return ("back", *first, "next", "previous", "tab-after", *_HINTS)

    def do_next(self) -> None:
        self._go(1)

    def do_previous(self) -> None:
        self._go(-1)

    def _go(self, by: int) -> None:
        """Open the entry after or before this one in its list, whose cursor follows."""
        shown = self._step(by)
        if shown is None or shown.row.entry.id == self._shown.row.entry.id:
            self.warn("no more entries in this direction")
            return
        self._shown = shown
        self._put()
        self.acted()

    def _step_in_queue(self, by: int) -> Shown | None:
        table = self.console.queue.table
        at = table.window.find(self._shown.row.entry.id)
        if at is not None:
            table.move_to(at + by)
        row = table.row
        return None if row is None else self.console.shown_row(row)

    def do_down(self) -> None:
        self.pane.text.scroll_lines(1)

    def do_up(self) -> None:
        self.pane.text.scroll_lines(-1)

    def do_page_down(self) -> None:
        self.pane.text.scroll_lines(self.pane.text.size.height - 1)

    def do_page_up(self) -> None:
        self.pane.text.scroll_lines(1 - self.pane.text.size.height)

    def do_top(self) -> None:
        self.pane.text.scroll_to_line(0)

    def do_bottom(self) -> None:
        self.pane.text.scroll_to_line(1 << 30)

    def do_tab_before(self) -> None:
        self.pane.turn(-1)

    def do_tab_after(self) -> None:
        self.pane.turn(1)

    def do_command(self) -> None:
        self.dismiss()
        self.console.queue.do_command()

    def do_palette(self) -> None:
        self.console.open_palette()

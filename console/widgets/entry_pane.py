"""The pane of the entry under the cursor: a line of tabs and the chosen tab's text. Reads nothing."""

from __future__ import annotations

from datetime import datetime

from textual.app import ComposeResult
from textual.containers import Vertical

from console.render.entry import Shown, tab_lines, tabs, titles
from console.render.line import spread, trusted, width
from console.render.status import value_label
from console.widgets.canvas import Canvas
from console.widgets.text_pane import TextPane

_LONGEST_ID = 20  # length of an order's id; longer ids are cut where the tabs need the room


class EntryPane(Vertical):
    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._tabs = Canvas(classes="pane-tabs")
        self.text = TextPane(classes="pane-text")
        self.shown: Shown | None = None
        self.tab = 0
        self.kind = "orders"  # the layout of the store
        self._now: datetime | None = None
        self._is_chosen = False

    def compose(self) -> ComposeResult:
        yield self._tabs
        yield self.text

    def put(self, shown: Shown | None, now: datetime) -> None:
        same = shown is not None and self.shown is not None and shown.row.entry.id == self.shown.row.entry.id
        self.shown, self._now = shown, now
        self.tab = min(self.tab, len(titles(shown, self.kind)) - 1)
        self._paint(keep_place=same)

    def chosen(self, yes: bool) -> None:
        """Mark the pane as the one that keys scroll, or no longer."""
        self._is_chosen = yes
        self._paint(keep_place=True)

    def turn(self, by: int) -> None:
        self.tab = (self.tab + by) % len(titles(self.shown, self.kind))
        self._paint()

    def on_resize(self) -> None:
        self._paint(keep_place=True)

    def _paint(self, *, keep_place: bool = False) -> None:
        shown = self.shown
        lead = (trusted("▸", "accent"),) if self._is_chosen else (trusted(" "),)
        titles_line = (*lead, *tabs(shown, self.tab, self.kind))
        room = max(_LONGEST_ID, self.size.width - width(titles_line) - 3)  # a longer id gives way to the tabs
        name = (trusted(value_label(shown.row.entry.id, room), "dim"), trusted(" ")) if shown else ()
        self._tabs.show(spread(titles_line, name, max(1, self.size.width)))
        size = max(1, self.text.size.width)
        lines = tab_lines(shown, self.tab, self._now, size=size) if shown and self._now else []
        self.text.put(lines, keep_place=keep_place)

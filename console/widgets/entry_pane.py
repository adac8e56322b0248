"""The entry under the cursor: a line of tabs and the chosen tab's text."""

from __future__ import annotations

from datetime import datetime

from textual.app import ComposeResult
from textual.containers import Vertical

from console.render.entry import TABS, Shown, tab_lines, tabs
from console.render.line import own, said, spread
from console.widgets.canvas import Canvas
from console.widgets.text_pane import TextPane


class EntryPane(Vertical):
    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._tabs = Canvas(classes="pane-tabs")
        self.text = TextPane(classes="pane-text")
        self.shown: Shown | None = None
        self.tab = 0
        self._now: datetime | None = None
        self._is_chosen = False

    def compose(self) -> ComposeResult:
        yield self._tabs
        yield self.text

    def put(self, shown: Shown | None, now: datetime) -> None:
        same = shown is not None and self.shown is not None and shown.row.entry.id == self.shown.row.entry.id
        self.shown, self._now = shown, now
        self._paint(keep_place=same)

    def chosen(self, yes: bool) -> None:
        """Keys move here now, or no longer."""
        self._is_chosen = yes
        self._paint(keep_place=True)

    def turn(self, by: int) -> None:
        self.tab = (self.tab + by) % len(TABS)
        self._paint()

    def on_resize(self) -> None:
        self._paint(keep_place=True)

    def _paint(self, *, keep_place: bool = False) -> None:
        shown = self.shown
        name = (said(shown.row.entry.id, "dim", limit=60), own(" ")) if shown else ()
        lead = (own("▸", "accent"),) if self._is_chosen else (own(" "),)
        self._tabs.show(spread((*lead, *tabs(shown, self.tab)), name, max(1, self.size.width)))
        lines = tab_lines(shown, self.tab, self._now) if shown and self._now else []
        self.text.put(lines, keep_place=keep_place)

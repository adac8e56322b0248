"""The pane of the entry under the cursor: a line of tabs and the chosen tab's text. Reads nothing."""

from __future__ import annotations

from datetime import datetime

from textual.app import ComposeResult
from textual.containers import Vertical

from console.render.entry import Shown, heading, page_lines, tab_lines, tabs, titles
from console.render.line import cell_at, spread, trusted, width
from console.render.row import NOTHING
from console.render.status import value_label
from console.render.value import entry_age
from console.widgets.canvas import Canvas
from console.widgets.text_pane import TextPane

_MINUTE = 60
_LONGEST_ID = 20  # length of an order's id; longer ids are cut where the tabs need the room


PAGE_FROM = 96  # columns from which an entry is one page
_THREE_FROM = 150  # columns from which its page has three columns


class EntryPane(Vertical):
    def __init__(self, *, page_from: int = _THREE_FROM, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        """`page_from`: the width from which the first tab shows error, order and timeline at once."""
        super().__init__(id=id)
        self._verdict = Canvas(classes="pane-verdict")
        self._tabs = Canvas(classes="pane-tabs")
        self._tabs.on_column = self._click_tab
        self.text = TextPane(classes="pane-text")
        self.shown: Shown | None = None
        self.tab = 0
        self.kind = "orders"  # the layout of the store
        self.sought = NOTHING  # what the filter of the list looks for
        self._page_from = page_from
        self._now: datetime | None = None
        self._is_chosen = False

    def compose(self) -> ComposeResult:
        yield self._verdict
        yield self._tabs
        yield self.text

    @property
    def now(self) -> datetime | None:
        """The moment that its ages are of."""
        return self._now

    def put(self, shown: Shown | None, now: datetime) -> None:
        same = shown is not None and self.shown is not None and shown.row.entry.id == self.shown.row.entry.id
        self.shown, self._now = shown and shown._replace(sought=self.sought), now
        self.tab = min(self.tab, len(titles(shown, self.kind)) - 1)
        self._paint(keep_place=same)

    def tick(self, now: datetime) -> None:
        """Let the ages move on: every second while they are told in seconds, later once a minute."""
        if self.shown is None or self._now is None:
            return
        entry, before = self.shown.row.entry, self._now
        if entry_age(entry, before) != entry_age(entry, now) or (now - before).total_seconds() >= _MINUTE:
            self.put(self.shown, now)

    def chosen(self, yes: bool) -> None:
        """Mark the pane as the one that keys scroll, or no longer."""
        self._is_chosen = yes
        self._paint(keep_place=True)

    def _click_tab(self, x: int) -> None:
        """A line of tabs has a cell before them, and one between each two."""
        at = cell_at(self._tabs.lines[0], x)
        tab, between = divmod(at - 1 if at else -1, 2)
        if not between and 0 <= tab < len(titles(self.shown, self.kind)):
            self.tab = tab
            self._paint()

    def turn(self, by: int) -> None:
        self.tab = (self.tab + by) % len(titles(self.shown, self.kind))
        self._paint()

    def on_resize(self) -> None:
        self._paint(keep_place=True)

    def _paint(self, *, keep_place: bool = False) -> None:
        shown, size = self.shown, max(1, self.size.width)
        is_page = size >= self._page_from
        lead = (trusted("▸", "accent"),) if self._is_chosen else (trusted(" "),)
        titles_line = (*lead, *tabs(shown, self.tab, self.kind, whole=is_page))
        room = max(_LONGEST_ID, size - width(titles_line) - 3)  # a longer id gives way to the tabs
        name = (trusted(value_label(shown.row.entry.id, room), "dim"), trusted(" ")) if shown else ()
        self._tabs.show(spread(titles_line, name, size))
        if shown is None or self._now is None:
            self._verdict.show(())
            self.text.put([], keep_place=keep_place)
            return
        head, over = heading(shown, self._now, size)
        self._verdict.show(head)
        if self.tab == 0 and is_page:
            lines = page_lines(shown, self._now, size, columns_=3 if size >= _THREE_FROM else 2)
        else:
            lines = tab_lines(shown, self.tab, self._now, size=size)
        self.text.put([*over, *lines] if self.tab == 0 else lines, keep_place=keep_place)

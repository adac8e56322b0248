"""The queue's table: paints the visible part of a window, one line per entry.

Posts a message where the window should grow; reads nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from backends.records import Entry, RowKey, Version
from console.render.line import Line, trusted
from console.render.row import NOTHING, column_at, header, row_line
from console.render.value import entry_age
from console.services.browse.queue_order import ListedEntry
from console.services.browse.queue_window import Window
from console.services.market.entry_value import VenueTypes
from console.services.triage.marks import MarkFacts
from console.services.triage.triage import ClassifiedEntry
from console.widgets.canvas import Canvas

_WHEEL = 3


class EntryTable(Canvas):
    class Wants(Message):
        """The cursor comes near an end of the window."""

        def __init__(self, where: Literal["above", "below"]) -> None:
            super().__init__()
            self.where = where

    class Opened(Message):
        """The entry under the cursor was clicked twice."""

    class Titled(Message):
        """The title of a column was clicked."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    class Painted(Message):
        """The table was painted for the first time."""

    def __init__(
        self,
        now: datetime,
        look: Callable[[Entry, MarkFacts | None], ClassifiedEntry],
        *,
        id: str | None = None,  # noqa: A002 - Textual's own name
    ) -> None:
        super().__init__(id=id)
        self.window = Window()
        self.kind = "orders"  # the layout of what is listed
        self.marks: Mapping[str, Version] = {}
        self.range_from: str | None = None
        self.seen: RowKey | None = None  # entries after this one are new
        self.now = now
        self.blank: Line = (trusted("reading …", "dim"),)
        self.on_move: Callable[[], None] = lambda: None  # no message: its changes are painted in the same frame
        self._is_painted = False
        self.venue_types: VenueTypes = {}
        self.sought = NOTHING  # what the filter looks for
        self.facts: MarkFacts | None = None  # what the marks of the listed entries hang on
        self._classify = look
        self._looked: dict[str, ClassifiedEntry] = {}

    @property
    def row(self) -> ClassifiedEntry | None:
        spot = self.window.current
        return None if spot is None else self._look(spot)

    def renewed(self) -> None:
        """Repaint after the window has changed."""
        if len(self._looked) > 2000:
            self._looked.clear()
        self.refresh()
        self._ask()
        self.on_move()

    def tick(self, now: datetime) -> None:
        """Repaint only the lines whose age reads differently now."""
        before, self.now = self.now, now
        for n, spot in enumerate(self.window.in_view):
            if entry_age(spot.entry, before) != entry_age(spot.entry, now):
                self.refresh(Region(0, n + 1, self.size.width, 1))

    def move_by(self, delta: int) -> None:
        self.move_to(self.window.cursor + delta)

    def move_to(self, index: int) -> None:
        window = self.window
        before, top = window.cursor, window.top
        if not window.move(index):
            self._ask()
            return
        if window.top != top or self.range_from is not None:
            self.refresh()
        else:
            for line in (before, window.cursor):
                self.refresh(Region(0, line - top + 1, self.size.width, 1))
        self._ask()
        self.on_move()

    def page(self, direction: int) -> None:
        self.move_by(direction * max(1, self.window.height - 1))

    def range_ids(self) -> set[str]:
        """The entries from the start of the range to the cursor."""
        begin = self.window.find(self.range_from) if self.range_from is not None else None
        if begin is None:
            return set()
        low, high = sorted((begin, self.window.cursor))
        return {spot.entry.id for spot in self.window.spots[low : high + 1]}

    def render_line(self, y: int) -> Strip:
        if y == 0:
            if not self._is_painted:
                self._is_painted = True
                self.post_message(self.Painted())
            return self.strip(header(self.size.width, self.kind))
        window = self.window
        at = window.top + y - 1
        if at >= len(window.spots):
            return self.strip(self.blank if y == 1 and not window.spots else ())
        return self.strip(self._line(window.spots[at]), cursor=at == window.cursor)

    def _line(self, spot: ListedEntry) -> Line:
        entry = spot.entry
        marked = entry.id in self.marks or (self.range_from is not None and entry.id in self.range_ids())
        fresh = self.seen is not None and spot.part > 0 and _is_after(entry.row_key, self.seen)
        row, types = self._look(spot), self.venue_types
        return row_line(row, self.now, self.size.width, marked=marked, fresh=fresh, types=types, sought=self.sought)

    def _look(self, spot: ListedEntry) -> ClassifiedEntry:
        """Classify the entry; only entries in view are ever classified."""
        known = self._looked.get(spot.entry.id)
        if known is None or known.entry is not spot.entry or known.facts is not self.facts:
            known = self._looked[spot.entry.id] = self._classify(spot.entry, self.facts)
        return known

    def _ask(self) -> None:
        if self.window.wants_below:
            self.post_message(self.Wants("below"))
        if self.window.wants_above:
            self.post_message(self.Wants("above"))

    def on_resize(self, event: events.Resize) -> None:
        self.window.resize(event.size.height - 1)
        self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._wheel(_WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._wheel(-_WHEEL)

    def _wheel(self, by: int) -> None:
        if self.window.scroll(by):
            self.refresh()
            self.on_move()
        self._ask()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor, open the entry on a double click, or sort by a column. The mouse never acts on an entry."""
        event.stop()
        if event.y == 0 and (title := column_at(event.x, self.size.width, self.kind)) is not None:
            self.post_message(self.Titled(title))
        at = self.window.top + event.y - 1
        if event.y < 1 or at >= len(self.window.spots):
            return
        self.move_to(at)
        if event.chain == 2:
            self.post_message(self.Opened())


def _is_after(place: RowKey, seen: RowKey) -> bool:
    try:
        return tuple(place) > tuple(seen)
    except TypeError:
        return False

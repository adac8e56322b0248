"""The part of the queue held in memory: its spots, the cursor and what is in view. Pure; reads no store.

A window grows at its ends and drops what is far from the cursor, so memory use does not depend on the store's size.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from console.services.browse.queue_order import ListedEntry, QueueMark, QueueSection

PAGE = 200  # spots read at once
MOST = 600  # spots held
EDGE = 80  # distance from an end at which more is read ahead


@dataclass(slots=True)
class Window:
    spots: list[ListedEntry] = field(default_factory=list)
    at_top: bool = True
    at_end: bool = True
    cursor: int = 0
    top: int = 0  # the first spot in view
    height: int = 1
    first: int | None = 0  # number of spots before the window; None if unknown
    low: QueueMark | None = None  # how far down the store was read, if further than the last spot
    high: QueueMark | None = None

    @property
    def current(self) -> ListedEntry | None:
        return self.spots[self.cursor] if self.spots else None

    @property
    def position(self) -> int | None:
        """The cursor's position in the whole queue, from 1."""
        return None if self.first is None or not self.spots else self.first + self.cursor + 1

    @property
    def in_view(self) -> list[ListedEntry]:
        return self.spots[self.top : self.top + self.height]

    @property
    def wants_below(self) -> bool:
        return not self.at_end and self.cursor + self.height + EDGE > len(self.spots)

    @property
    def wants_above(self) -> bool:
        return not self.at_top and self.cursor - self.height < EDGE

    @property
    def below(self) -> QueueMark | None:
        return self.low or (self.spots[-1].mark if self.spots else None)

    @property
    def above(self) -> QueueMark | None:
        return self.high or (self.spots[0].mark if self.spots else None)

    def find(self, entry_id: str) -> int | None:
        return next((n for n, spot in enumerate(self.spots) if spot.entry.id == entry_id), None)

    def move(self, to: int) -> bool:
        """Moves the cursor, within the window, and the view with it. True if anything moved."""
        before = (self.cursor, self.top)
        self.cursor = max(0, min(to, len(self.spots) - 1))
        if self.cursor < self.top:
            self.top = self.cursor
        elif self.cursor >= self.top + self.height:
            self.top = self.cursor - self.height + 1
        self._settle()
        return (self.cursor, self.top) != before

    def scroll(self, by: int) -> bool:
        """Moves the view, and the cursor only as far as needed to keep it in view."""
        before = self.top
        self.top += by
        self._settle()
        self.cursor = max(self.top, min(self.cursor, self.top + self.height - 1))
        self.cursor = max(0, min(self.cursor, len(self.spots) - 1))
        return self.top != before

    def resize(self, height: int) -> None:
        self.height = max(1, height)
        self.move(self.cursor)

    def start(self, stretch: QueueSection) -> None:
        """Shows the first section of the queue."""
        self.spots, self.first = list(stretch.spots), 0
        self.at_top, self.at_end = True, not stretch.more
        self.low, self.high = stretch.reached, None
        self.cursor = self.top = 0

    def finish(self, stretch: QueueSection, total: int | None) -> None:
        """Shows the last section of the queue."""
        self.spots = list(stretch.spots)
        self.at_top, self.at_end = not stretch.more, True
        self.low, self.high = None, stretch.reached
        self.first = 0 if self.at_top else None if total is None else max(0, total - len(self.spots))
        self.move(len(self.spots) - 1)

    def grow_below(self, stretch: QueueSection) -> None:
        self.spots += stretch.spots
        self.at_end, self.low = not stretch.more, stretch.reached
        if (surplus := len(self.spots) - MOST) > 0:
            spare = max(0, min(surplus, self.cursor - self.height - EDGE))
            self._drop_above(spare)

    def grow_above(self, stretch: QueueSection) -> None:
        more = len(stretch.spots)
        self.spots[:0] = stretch.spots
        self.cursor, self.top = self.cursor + more, self.top + more
        self.at_top, self.high = not stretch.more, stretch.reached
        self.first = 0 if self.at_top else None if self.first is None else max(0, self.first - more)
        if (surplus := len(self.spots) - MOST) > 0:
            keep = max(len(self.spots) - surplus, self.cursor + 2 * self.height + EDGE)
            if keep < len(self.spots):
                del self.spots[keep:]
                self.at_end, self.low = False, None

    def renew(self, before: QueueSection, after: QueueSection) -> None:
        """Takes the same section read again; the cursor stays on its entry and the entry on its screen line."""
        held, line = self.current, self.cursor - self.top
        self.spots = [*before.spots, *after.spots]
        self.at_top, self.at_end = not before.more, not after.more
        self.high, self.low = before.reached, after.reached
        self.first = 0 if self.at_top else None
        found = self.find(held.entry.id) if held is not None else None
        self.cursor = len(before.spots) if found is None else found
        self.cursor = max(0, min(self.cursor, len(self.spots) - 1))
        self.top = self.cursor - line
        self._settle()

    def place(self, stretch: QueueSection, first: int, held: ListedEntry | None) -> None:
        """Shows a section that begins at a known position; the cursor stays on its entry and screen line."""
        line = self.cursor - self.top
        self.spots, self.first = list(stretch.spots), first
        self.at_top, self.at_end = first == 0, not stretch.more
        self.low = self.high = None
        found = self.find(held.entry.id) if held is not None else None
        self.cursor = max(0, min(self.cursor if found is None else found, len(self.spots) - 1))
        self.top = self.cursor - line
        self._settle()

    def replace(self, spots: list[ListedEntry], held: ListedEntry | None) -> None:
        """Takes the same section without removed entries; the cursor stays on its entry, or on its position."""
        line = self.cursor - self.top
        self.spots = spots
        found = self.find(held.entry.id) if held is not None else None
        self.cursor = max(0, min(self.cursor if found is None else found, len(spots) - 1))
        self.top = self.cursor - line
        self._settle()

    def _drop_above(self, count: int) -> None:
        if count <= 0:
            return
        del self.spots[:count]
        self.cursor, self.top = self.cursor - count, max(0, self.top - count)
        self.at_top, self.high = False, None
        self.first = None if self.first is None else self.first + count

    def _settle(self) -> None:
        self.top = max(0, min(self.top, len(self.spots) - self.height))

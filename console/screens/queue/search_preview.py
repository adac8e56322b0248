"""Lists first results while a filter is typed. Esc restores the list; Enter keeps the results and the cursor.

Shows a window of its own in the table and pauses the loader meanwhile.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from textual.timer import Timer

from console.render.line import line, trusted
from console.services.browse.filter_syntax import FIELDS, ExpressionError, parse_expression
from console.services.browse.filter_words import UnclosedQuote, words
from console.services.browse.queue_order import QueueSection, View
from console.services.browse.queue_window import Window
from console.services.triage.triage import Query

if TYPE_CHECKING:
    from console.screens.queue.screen import QueueScreen
    from console.services.browse.incremental_search import IncrementalSearch

_PAUSE_SECONDS = 0.04  # longer than the gap between two keys of a fast typist
_PAGE = 100


class Preview:
    def __init__(self, screen: QueueScreen) -> None:
        self._screen = screen
        self._text: str | None = None  # the text whose results are listed
        self._found: IncrementalSearch | None = None
        self._timer: Timer | None = None
        self._due: str | None = None  # the text that waits for its search; None once the line is left

    def typed(self, text: str) -> None:
        if self._timer is not None:
            self._timer.stop()
        if self._screen.loader.ready():
            self._due = text
            self._timer = self._screen.set_timer(_PAUSE_SECONDS, lambda: self._search(text))

    def _search(self, text: str) -> None:
        if text == self._due:  # a timer that was stopped may have fired already
            self._screen.start(lambda: self._find(text), group="preview", exclusive=True)

    async def _find(self, text: str) -> None:
        """Run one step of the search. Filters without words wait for Enter."""
        screen = self._screen
        loader, query = screen.loader, _searched(text, screen.console.now())
        search = await loader.search_for(View(query, loader.newest_first)) if query is not None else None
        if search is None:
            self._put_back()
            return
        spots = await search.step(_PAGE)
        if not loader.is_paused:
            screen.workers.cancel_group(screen, "search")
            loader.is_paused = True
            screen.table.window = Window(height=loader.window.height)
        self._text, self._found = text, search
        screen.seek(text)
        screen.table.blank = line(trusted("   nothing found", "dim"))
        screen.table.window.start(QueueSection(spots, not search.is_over))
        screen.table.renewed()
        more = () if search.is_over else line(trusted("; enter goes on", "dim"))
        screen.show_notice((*screen.searched(search), *more))

    def take(self, text: str) -> bool:
        """Keep the listed results on Enter; False where they are not of this text."""
        self._stop()
        search = self._found
        if search is None or self._text != text:
            return False
        screen = self._screen
        self._forget()
        screen.loader.adopt(text, search, screen.table.window)
        if search.is_over:
            screen.show_blank("unmatched")
            screen.table.refresh()
        screen.show_notice(())
        screen.read(self._look)
        screen.search_on()
        return True

    async def _look(self) -> None:
        loader = self._screen.loader
        await loader.look(loader.view)
        self._screen.table.seen = loader.seen
        await self._screen.hint_at_settled()

    def give_up(self) -> None:
        """Restore the list and its cursor on Esc, then read what changed meanwhile."""
        self._stop()
        self._put_back()

    def _put_back(self) -> None:
        screen = self._screen
        if not screen.loader.is_paused:
            return
        self._uncover()
        screen.show_notice(())
        screen.table.renewed()
        screen.changed()
        screen.search_on()

    def drop(self) -> None:
        """End the preview without reading anything: the store is about to change."""
        self._stop()
        if self._screen.loader.is_paused:
            self._uncover()

    def _uncover(self) -> None:
        table, loader = self._screen.table, self._screen.loader
        loader.window.resize(table.window.height)
        table.window = loader.window
        self._screen.seek(loader.text)
        self._forget()

    def _stop(self) -> None:
        self._due = None
        if self._timer is not None:
            self._timer.stop()
        self._screen.workers.cancel_group(self._screen, "preview")

    def _forget(self) -> None:
        self._text = self._found = None
        self._screen.loader.is_paused = False


def _searched(text: str, now: datetime) -> Query | None:
    """The query of a text; None while its last word is a field's, half of its name included."""
    try:
        found = words(text)
        query = parse_expression(text, now)
    except (UnclosedQuote, ExpressionError):
        return None  # Enter reports what is wrong
    if not found or found[-1].name or any(name.startswith(found[-1].raw.lower()) for name in FIELDS):
        return None
    return None if query.by_class else query

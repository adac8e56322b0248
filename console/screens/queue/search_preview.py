"""What is found while a filter is being typed. Given up, the list is as it was; taken over, nothing moves."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from textual.timer import Timer

from console.render.line import line, trusted
from console.services.browse.filter_syntax import FIELDS, ExpressionError, parse_expression
from console.services.browse.queue_order import QueueSection, View
from console.services.browse.queue_window import Window
from console.services.triage.triage import Query

if TYPE_CHECKING:
    from console.screens.queue.screen import QueueScreen
    from console.services.browse.incremental_search import IncrementalSearch

_PAUSE_SECONDS = 0.04  # between two keys of a quick hand nothing is searched
_PAGE = 100


class Preview:
    def __init__(self, screen: QueueScreen) -> None:
        self._screen = screen
        self._text: str | None = None  # what the list shows the results of
        self._kept: Window | None = None  # the list as it was before
        self._pursuit: IncrementalSearch | None = None
        self._timer: Timer | None = None

    def typed(self, text: str) -> None:
        if self._timer is not None:
            self._timer.stop()
        if self._screen.loader.ready():
            self._timer = self._screen.set_timer(_PAUSE_SECONDS, lambda: self._search(text))

    def _search(self, text: str) -> None:
        self._screen.start(lambda: self._find(text), group="preview", exclusive=True)

    async def _find(self, text: str) -> None:
        """One step, in its time; only words are searched for before they are handed over."""
        screen = self._screen
        query = _searched(text, screen.console.now())
        pursuit = await screen.loader.pursue(View(query, screen.loader.newest_first)) if query is not None else None
        if pursuit is None:
            self._put_back()
            return
        spots = await pursuit.step(_PAGE)
        if self._kept is None:
            screen.workers.cancel_group(screen, "hunt")
            self._kept, screen.loader.is_paused = screen.table.window, True
            screen.table.window = Window(height=self._kept.height)
        self._text, self._pursuit = text, pursuit
        screen.table.blank = line(trusted("   nothing found", "dim"))
        screen.table.window.start(QueueSection(spots, not pursuit.is_over))
        screen.table.renewed()
        more = () if pursuit.is_over else line(trusted("; enter goes on", "dim"))
        screen.show_notice((*screen.loader.searched(pursuit), *more))

    def take(self, text: str) -> bool:
        """Enter: what is listed stays listed. False where that is something else than was typed."""
        self._stop()
        pursuit, is_it = self._pursuit, self._text == text
        if pursuit is None or not is_it:
            return False
        screen, loader = self._screen, self._screen.loader
        self._forget()
        loader.text, loader.pursuit, loader.matching = text, pursuit, pursuit.found if pursuit.is_over else None
        if pursuit.is_over:
            screen.say_empty(filtered=True)
            screen.table.refresh()
        screen.show_notice(())
        screen.read(lambda: loader.look(loader.view))
        loader.hunt()
        return True

    def give_up(self) -> None:
        """Esc: the list as it was, cursor and all, and what happened to it meanwhile."""
        self._stop()
        self._put_back()

    def _put_back(self) -> None:
        screen = self._screen
        if self._kept is None:
            return
        self._kept.resize(screen.table.window.height)
        screen.table.window = self._kept
        self._forget()
        screen.show_notice(())
        screen.table.renewed()
        screen.changed()
        screen.loader.hunt()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._screen.workers.cancel_group(self._screen, "preview")

    def _forget(self) -> None:
        self._text = self._kept = self._pursuit = None
        self._screen.loader.is_paused = False


def _searched(text: str, now: datetime) -> Query | None:
    """None where there is nothing to look for yet: no words, or half of a field's name."""
    words = text.split()
    if not words or any(name.startswith(words[-1]) for name in (*FIELDS, "age")):
        return None
    try:
        query = parse_expression(text, now)
    except ExpressionError:
        return None  # enter will say what is wrong
    return query if query.where.terms else None

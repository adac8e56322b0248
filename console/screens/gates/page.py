"""A gate whose page has rows that can be opened: ↑ ↓ choose one, Enter shows it in full, esc comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from console.render.line import Line, line, trusted, untrusted
from console.render.plan import PageRow
from console.screens.error_dialog import Dialog
from console.screens.gates.gate import Gate
from console.widgets.row_pane import RowPane

Answer = TypeVar("Answer")
_PAGE = 5


class RowDialog(Dialog):
    """One row in full, only to be read."""

    def __init__(self, title: Line, shown: Sequence[Line], *, dead_seconds: float) -> None:
        super().__init__(title, "", dead_seconds=dead_seconds)
        self._shown = list(shown)

    def lines(self) -> list[Line]:
        return self._shown


class PageGate(Gate[Answer]):
    def __init__(self, title: Line, *, live: bool = False) -> None:
        super().__init__(title, live=live)
        self._pane = RowPane(id="gate-text")
        self._text = self._pane
        self._ids: dict[int, str] = {}  # which entry a line stands for

    def row_lines(self, entry_id: str) -> Sequence[Line]:
        """Everything that is known of this row."""
        raise NotImplementedError

    def may_open(self) -> bool:
        """Whether Enter opens the chosen row now."""
        return True

    def put(self, lines: Sequence[Line]) -> None:
        self._ids = {}
        super().put(lines)

    def put_page(self, page: Sequence[PageRow], *, keep_place: bool = False) -> None:
        lines = [row.line for row in page]
        if keep_place:
            self._pane.put(lines, keep_place=True)
        else:
            self.put(lines)
        self._ids = {at: row.entry_id for at, row in enumerate(page) if row.entry_id is not None}

    def moved(self, step: int, *, page: bool) -> None:
        """Move the cursor among the rows; above the first one the page scrolls to its head, from there to the last."""
        at = self._pane.chosen
        rows = sorted(self._ids)
        if not rows:
            super().moved(step, page=page)
            return
        place = rows.index(at) if at in self._ids else -1 if step > 0 else len(rows) + _PAGE
        place += step * (_PAGE if page else 1)
        if place < 0:
            self._pane.choose(None)
            self._pane.scroll_to_line(0)
        else:
            self._pane.choose(rows[min(place, len(rows) - 1)])

    def opens_row(self) -> bool:
        """Open the chosen row where nothing is typed; whether there is one."""
        at = self._pane.chosen
        entry_id = None if at is None else self._ids.get(at)
        if entry_id is None or self.typed.strip() or not self.may_open():
            return False
        title = line(trusted("As it is planned · "), untrusted(entry_id, limit=60))
        dead_seconds = self.console.setup.dead_seconds
        self.app.push_screen(RowDialog(title, self.row_lines(entry_id), dead_seconds=dead_seconds))
        return True

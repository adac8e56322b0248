"""A dialog that is only read: after a failed act, what failed, why, and what to do. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual._time import get_time
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from console.render.line import Line, block, line, trusted
from console.text.untrusted import safe_block
from console.widgets.text_pane import TextPane

_CLOSING = ("escape", "enter", "q", "space", "ctrl+c", "ctrl+q")


class Dialog(ModalScreen[None], inherit_bindings=False):
    AUTO_FOCUS = None

    def __init__(self, title: Line, cause: str, *, dead_seconds: float) -> None:
        super().__init__()
        self._dead_seconds = dead_seconds
        self._open_from = float("inf")
        self._title = title
        self._cause = cause
        self._text = TextPane(id="gate-text")
        self._box = Vertical(id="gate")

    def compose(self) -> ComposeResult:
        with self._box:
            yield self._text

    def on_mount(self) -> None:
        self._box.border_title = Content(" " + "".join(cell.text for cell in self._title) + " ")
        self._box.border_subtitle = Content(" esc closes ")
        self.put(self.lines())

    def lines(self) -> list[Line]:
        hint = line(trusted("What was done before this is on record; dlq doctor says more about the store.", "dim"))
        return [*block(safe_block(self._cause, 20_000)), (), hint]

    def put(self, lines: Sequence[Line]) -> None:
        """Show these lines; until they could have been read, only esc closes."""
        self._open_from = float("inf")
        self._text.put(lines)
        self.call_after_refresh(self._seen)

    def _seen(self) -> None:
        self._open_from = get_time() + self._dead_seconds

    def take_key(self, event: events.Key) -> None:
        """Keys typed before a dialog is readable are discarded; esc closes it at any time."""
        if event.key == "escape" or (event.key in _CLOSING and event.time >= self._open_from):
            self.dismiss(None)
        elif event.key in _CLOSING:
            self._open_from = max(self._open_from, event.time + self._dead_seconds)
        elif event.key in ("j", "down", "pagedown"):
            self._text.scroll_lines(1 if event.key != "pagedown" else 10)
        elif event.key in ("k", "up", "pageup"):
            self._text.scroll_lines(-1 if event.key != "pageup" else -10)

    def take_paste(self, text: str) -> None:
        """Ignore pastes."""

"""A list to choose from, one line each, with a cursor. Acts on nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.message import Message
from textual.strip import Strip

from console.render.line import Line
from console.widgets.canvas import Canvas


class ChoiceList(Canvas):
    class Opened(Message):
        """The line under the cursor was clicked twice."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._choices: Sequence[tuple[str, Line]] = ()
        self._cursor = 0
        self._top = 0
        self.on_move: Callable[[], None] = lambda: None

    def put(self, choices: Sequence[tuple[str, Line]]) -> None:
        """Replace the choices; the cursor stays on its choice."""
        held = self.chosen
        self._choices = choices
        at = next((n for n, (name, _) in enumerate(choices) if name == held), min(self._cursor, len(choices) - 1))
        self.move_to(at)
        self.refresh()

    @property
    def chosen(self) -> str | None:
        return self._choices[self._cursor][0] if self._cursor < len(self._choices) else None

    def move_by(self, delta: int) -> None:
        self.move_to(self._cursor + delta)

    def page(self, direction: int) -> None:
        self.move_by(direction * max(1, self.size.height - 1))

    def move_to(self, index: int) -> None:
        self._cursor = max(0, min(index, len(self._choices) - 1))
        height = max(1, self.size.height)
        self._top = max(self._cursor - height + 1, min(self._top, self._cursor))
        self.refresh()
        self.on_move()

    def on_resize(self, _: events.Resize) -> None:
        self.move_to(self._cursor)

    def render_line(self, y: int) -> Strip:
        at = self._top + y
        if at >= len(self._choices):
            return self.strip(())
        return self.strip(self._choices[at][1], cursor=at == self._cursor)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if self._top + event.y < len(self._choices):
            self.move_to(self._top + event.y)
            if event.chain == 2:
                self.post_message(self.Opened())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move_by(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move_by(-1)

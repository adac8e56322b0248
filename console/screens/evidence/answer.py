"""The panel that asks the venue: opens at once, looks up what is known, then shows the answer. Writes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from backends.store import StoreError
from console.render.line import Line, line, trusted, untrusted
from console.screens.error_dialog import Dialog

Find = Callable[[Callable[[str], None]], Awaitable[Sequence[Line] | None]]


class AnswerDialog(Dialog):
    """`find` says what it is doing and returns the lines to show; None: something else goes on, and this closes."""

    def __init__(self, title: Line, find: Find, *, dead_seconds: float) -> None:
        super().__init__(title, "", dead_seconds=dead_seconds)
        self._find = find

    def lines(self) -> list[Line]:
        return [line(trusted("looking …", "dim"))]

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._look(), group="ask", exclusive=True)

    def _say(self, text: str) -> None:
        self._text.put([line(untrusted(text, "dim", limit=300))])

    async def _look(self) -> None:
        try:
            found = await self._find(self._say)
        except StoreError as problem:
            found = [line(untrusted(str(problem), "warning", limit=500))]
        if found is None:
            self.dismiss(None)
        else:
            self.put(found)

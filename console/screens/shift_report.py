"""The screen of the shift report: what `dlq report --since 8h` prints, to be read inside. Changes nothing."""

from __future__ import annotations

from datetime import timedelta

from console.render.line import line, trusted
from console.render.markdown import markdown_lines
from console.screens.frame import ReadingScreen

_SHIFT = timedelta(hours=8)


class ShiftReportScreen(ReadingScreen):
    key_context = "shift"
    FOOTER = ("back", "down", "up", "page-down", "refresh")

    def __init__(self) -> None:
        super().__init__()
        self._text: str | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self.head.show(line(trusted("Shift report", "strong"), trusted("   the last 8 hours, reading …", "dim")))
        self.do_refresh()

    def header_changed(self) -> None:
        super().header_changed()
        self._paint()

    def do_refresh(self) -> None:
        self.start(self._read, group="report", exclusive=True)

    async def _read(self) -> None:
        session = self.console.session
        if session is not None:
            self._text = await session.shift_report(self.console.now() - _SHIFT)
            self._paint()

    def _paint(self) -> None:
        if self.is_mounted and self._text is not None:
            told = "   the last 8 hours; dlq report --since TIME prints it"
            self.head.show(line(trusted("Shift report", "strong"), trusted(told, "dim")))
            self.text.put(markdown_lines(self._text, max(20, self.size.width - 4)), keep_place=True)

"""A screen that is one long text, to be moved in: help, the audit trail and a batch's report are such."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget

from console.screens.frame import FramedScreen
from console.widgets.canvas import Canvas
from console.widgets.text_pane import TextPane


class ReadingScreen(FramedScreen):
    def __init__(self) -> None:
        super().__init__()
        self.head = Canvas(id="head")
        self.text = TextPane(id="text")

    def body(self) -> Iterable[Widget]:
        yield self.head
        yield self.text

    def do_down(self) -> None:
        self.text.scroll_lines(1)

    def do_up(self) -> None:
        self.text.scroll_lines(-1)

    def do_page_down(self) -> None:
        self.text.scroll_lines(self.text.size.height - 1)

    def do_page_up(self) -> None:
        self.text.scroll_lines(1 - self.text.size.height)

    def do_top(self) -> None:
        self.text.scroll_to_line(0)

    def do_bottom(self) -> None:
        self.text.scroll_to_line(1 << 30)

"""A line to type in: Enter hands it over, esc gives it up, the arrows bring back what was typed before."""

from __future__ import annotations

from typing import Literal

from textual import events
from textual.message import Message
from textual.widgets import Input

Purpose = Literal["filter", "command"]


class PromptLine(Input):
    class Given(Message):
        def __init__(self, purpose: Purpose, text: str) -> None:
            super().__init__()
            self.purpose = purpose
            self.text = text

    class GivenUp(Message):
        pass

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id, select_on_focus=False, compact=True, max_length=500)
        self.cursor_blink = False  # an idle screen stays silent
        self.purpose: Purpose = "filter"
        self._past: dict[Purpose, list[str]] = {"filter": [], "command": []}
        self._at = 0

    def ask(self, purpose: Purpose, text: str) -> None:
        self.purpose = purpose
        self.value = text
        self.cursor_position = len(text)
        self._at = len(self._past[purpose])
        self.add_class("-asking")
        self.focus()

    def rest(self) -> None:
        self.remove_class("-asking")

    async def _on_key(self, event: events.Key) -> None:
        match event.key:
            case "escape" | "ctrl+c":
                event.stop()
                event.prevent_default()
                self.post_message(self.GivenUp())
            case "enter":
                event.stop()
                event.prevent_default()
                self._hand_over()
            case "up" | "down":
                event.stop()
                event.prevent_default()
                self._remember(-1 if event.key == "up" else 1)
            case _:
                await super()._on_key(event)

    def _hand_over(self) -> None:
        text = self.value.strip()
        past = self._past[self.purpose]
        if text and text not in past[-1:]:
            past.append(text)
        self.post_message(self.Given(self.purpose, text))

    def _remember(self, step: int) -> None:
        past = self._past[self.purpose]
        self._at = max(0, min(len(past), self._at + step))
        self.value = past[self._at] if self._at < len(past) else ""
        self.cursor_position = len(self.value)

"""The help screen: every key of the screen below, from the registry."""

from __future__ import annotations

from console import keymap as keys
from console.render.help import help_lines
from console.render.line import line, trusted
from console.screens.frame import ReadingScreen


class HelpScreen(ReadingScreen):
    key_context = "help"
    FOOTER = ("back", "down", "up", "page-down")

    def __init__(self, about: keys.KeyContext) -> None:
        super().__init__()
        self._about = about

    def on_mount(self) -> None:
        super().on_mount()
        self.head.show(
            line(trusted("Keys", "strong"), trusted("   remap them in the config: [keymap] id = key", "dim"))
        )

    def header_changed(self) -> None:
        super().header_changed()
        if self.is_mounted:
            state, there = self.console.header_state, self.console.keys_at(self._about)
            size = max(20, self.size.width - 4)
            self.text.put(help_lines(there, state.layout, size, read_only=state.read_only), keep_place=True)

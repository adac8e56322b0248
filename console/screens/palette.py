"""The command palette: every key of the screen by its name. Nothing else is in it, above all no screenshot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider

from console.keys import Key
from console.screens.framed import FramedScreen

if TYPE_CHECKING:
    from console.app import ConsoleApp


class KeyProvider(Provider):
    def _commands(self) -> list[tuple[Key, Callable[[], None]]]:
        screen = self.screen
        if not isinstance(screen, FramedScreen):
            return []
        console = cast("ConsoleApp", self.app)
        there = console.keys_at(screen.place)
        return [(key, partial(_press, screen, key)) for key in there if hasattr(screen, f"do_{key.action}")]

    async def discover(self) -> Hits:
        for key, press in self._commands():
            yield DiscoveryHit(f"{key.id}   {key.shown}", press, text=key.id, help=key.tooltip)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for key, press in self._commands():
            name = f"{key.id} {key.label}"
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), press, text=key.id, help=key.tooltip)


def _press(screen: FramedScreen, key: Key) -> None:
    screen.press(key)


def open_palette(app: ConsoleApp) -> None:
    app.push_screen(CommandPalette(providers=[KeyProvider], placeholder="a command by its name"))

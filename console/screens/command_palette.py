"""The command palette: the keys of the screen by name, and the saved views.

Offers none of Textual's own commands: a screenshot would write entries to a file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider

from console.keymap import Key
from console.screens.frame import FramedScreen
from console.text.untrusted import safe

if TYPE_CHECKING:
    from console.app import ConsoleApp


# Keys for moving around, which nobody looks up by name.
_BY_HAND = ("down", "up", "top", "bottom", "page-up", "page-down", "palette", "back")


class KeyProvider(Provider):
    def _commands(self) -> list[tuple[Key, Callable[[], None]]]:
        screen = self.screen
        if not isinstance(screen, FramedScreen):
            return []
        console = cast("ConsoleApp", self.app)
        there = {key.id: key for key in console.keys_at(screen.key_context) if hasattr(screen, f"do_{key.action}")}
        useful = dict.fromkeys((*screen.hints(), *there))
        wanted = [there[name] for name in useful if name in there and name not in _BY_HAND]
        return [(key, partial(_press, screen, key)) for key in wanted if not (key.dangerous and screen.is_small)]

    async def discover(self) -> Hits:
        for key, press in self._commands():
            yield DiscoveryHit(_named(key), press, text=key.id, help=key.tooltip)

    async def search(self, query: str) -> Hits:
        """Match the name first, then the description."""
        matcher = self.matcher(query)
        for key, press in self._commands():
            score = max(matcher.match(key.id), matcher.match(key.label))
            score = score or (0.1 if query.lower() in key.tooltip.lower() else 0.0)
            if score > 0:
                yield Hit(score, _named(key), press, text=key.id, help=key.tooltip)


def _named(key: Key) -> str:
    return f"{key.id}   {key.shown}"


class ViewProvider(Provider):
    """The config's `[views]`, offered on the queue alone."""

    def _views(self) -> list[tuple[str, str, Callable[[], None]]]:
        console = cast("ConsoleApp", self.app)
        if self.screen is not console.queue:
            return []
        views = console.setup.config.views
        return [(_inert(name), _inert(text), partial(console.queue.filter_by, text)) for name, text in views.items()]

    async def discover(self) -> Hits:
        for name, text, apply in self._views():
            yield DiscoveryHit(f"view {name}", apply, text=name, help=text)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, text, apply in self._views():
            score = matcher.match(f"view {name}")
            if score > 0:
                yield Hit(score, matcher.highlight(f"view {name}"), apply, text=name, help=text)


def _inert(text: str) -> str:
    """Escape the text: the palette parses markup."""
    return safe(text, 200).replace("[", "\\[")


def _press(screen: FramedScreen, key: Key) -> None:
    screen.press(key)


def open_palette(app: ConsoleApp) -> None:
    below = app.screen

    def closed(_: object) -> None:
        """Discard keys typed right after a choice, which takes a moment to run: they are not for the screen below."""
        if isinstance(below, FramedScreen):
            below.ignore_keys("*")

    providers: list[type[Provider]] = [KeyProvider, ViewProvider]
    app.push_screen(CommandPalette(providers=providers, placeholder="a command by its name"), closed)

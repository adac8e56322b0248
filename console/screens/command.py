"""`:` commands: every key by its id, and a few that take a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.keys import named

if TYPE_CHECKING:
    from console.app import ConsoleApp

_ALIASES = {"q": "quit", "wq": "quit", "h": "help", "e": "open", "store": "stores", "all": "mark-all"}
_WITH_WORD = ("filter WORDS", "open ID", "view NAME", "store NAME", "theme dark|light|contrast")


def run_command(app: ConsoleApp, text: str) -> None:
    word, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    queue = app.queue
    if not word:
        return
    match word:
        case "filter" if rest:
            queue.filter_by(rest)
        case "open" if rest:
            queue.open_id(rest)
        case "view":
            _view(app, rest)
        case "store" if rest in app.setup.config.stores:
            app.attach(app.setup.config.stores[rest])
        case "theme" if rest:
            if not app.use_theme(rest):
                queue.complain("there are the themes dark, light and contrast")
        case _:
            _press(app, _ALIASES.get(word, word))


def _view(app: ConsoleApp, name: str) -> None:
    views = app.setup.config.views
    if name in views:
        app.queue.filter_by(views[name])
    else:
        known = " ".join(sorted(views)) or "none: write [views] in the config"
        app.queue.complain(f"no view of that name; there are: {known}")


def _press(app: ConsoleApp, word: str) -> None:
    there = {key.id for key in app.keys_at("queue")}
    if word in there:
        app.queue.press(named(word, app.setup.keys))
    else:
        app.queue.complain(f"no such command; there are: {', '.join(_WITH_WORD)} and every key's id (? lists them)")

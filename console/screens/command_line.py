"""Runs `:` commands: every key by its id, and a few commands with an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.keymap import at, named, why_not
from console.render.line import line, trusted, untrusted

if TYPE_CHECKING:
    from console.app import ConsoleApp

_ALIASES = {"q": "quit", "wq": "quit", "h": "help", "e": "open", "store": "stores", "all": "mark-all"}


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
        case "sort" if rest:
            queue.sort_by(rest)
        case "view":
            _view(app, rest)
        case "store" if rest:
            _store(app, rest)
        case "theme" if rest:
            if not app.use_theme(rest):
                queue.warn("the themes are dark, light and contrast")
        case _:
            _press(app, _ALIASES.get(word, word))


def _store(app: ConsoleApp, name: str) -> None:
    stores = app.setup.config.stores
    if name in stores:
        app.queue.show_notice(line(trusted("attaching to "), untrusted(name, limit=40), trusted(" …")))
        app.attach(stores[name])
    else:
        known = " ".join(sorted(stores)) or "none: write [stores.NAME] in the config, or press o and type one"
        app.queue.warn(f"no store of that name; there are: {known}")


def _view(app: ConsoleApp, name: str) -> None:
    views = app.setup.config.views
    if name in views:
        app.queue.filter_by(views[name])
    else:
        known = " ".join(sorted(views)) or "none: write [views] in the config"
        app.queue.warn(f"no view of that name; there are: {known}")


def _press(app: ConsoleApp, word: str) -> None:
    there = {key.id for key in app.keys_at("queue")}
    if word in there:
        app.queue.press(named(word, app.setup.keys))
    elif word in {key.id for key in at("queue", app.setup.keys)}:
        app.queue.warn(why_not(named(word, app.setup.keys)))
    else:
        app.queue.warn("no such command: ? lists them; also filter, open, sort, view, store, theme")

"""Which function runs which verb; each room is imported only when one of its verbs is said."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

from console.cli.context import Context

Verb = Callable[[Context], int | Coroutine[Any, Any, int]]
_ROOMS = {
    "browse": ("list", "show", "export", "doctor", "audit"),
    "triage": ("dismiss", "restore", "halt", "resume"),
    "setup_commands": ("init", "completions", "demo", "practice"),
    "secrets": ("secrets",),
    "serve": ("serve",),
    "stats": ("groups", "check", "metrics", "report", "index"),
    "archive": ("archive",),
    "replay": ("replay", "reconcile", "approve"),
}


def _lazy(room: str, name: str) -> Verb:
    def run(context: Context) -> int | Coroutine[Any, Any, int]:
        verb: Verb = getattr(import_module(f"console.cli.{room}"), f"{name}_verb")
        return verb(context)

    return run


VERBS: dict[str, Verb] = {name: _lazy(room, name) for room, names in _ROOMS.items() for name in names}

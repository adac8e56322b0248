"""The list of recently opened stores: a file without passwords that only its owner can read.

Keeps only what can be opened again: paths as absolute ones, and databases by their strings.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from dlq_sink.error import BadTarget

from backends.target import PostgresTarget, parse_target

_MOST = 8


class Recent:
    def __init__(self, environ: Mapping[str, str]) -> None:
        home = environ.get("XDG_STATE_HOME")
        self._path = (Path(home) if home else Path.home() / ".local" / "state") / "dlq-console" / "recent.json"

    def read(self) -> tuple[str, ...]:
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        names = [name for name in kept if isinstance(name, str)] if isinstance(kept, list) else []
        return tuple(name for name in names if _opens_again(name))[:_MOST]

    def add(self, target: str) -> None:
        """Ignores failures to write: the list is a convenience."""
        shown = _without_password(target)
        if shown is None:
            return
        kept = [shown, *(name for name in self.read() if name != shown)][:_MOST]
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(kept, file)
        except OSError:
            return


def _without_password(target: str) -> str | None:
    try:
        parsed = parse_target(target)
    except BadTarget:
        return None
    return parsed.dsn if isinstance(parsed, PostgresTarget) else str(Path(parsed.path).absolute())


def _opens_again(target: str) -> bool:
    """Whether it is a database's string, or a file that is still there; a bare name of some config is neither."""
    try:
        parsed = parse_target(target)
    except BadTarget:
        return False
    if isinstance(parsed, PostgresTarget):
        return True
    path = Path(parsed.path)
    try:
        return path.is_absolute() and path.is_file()
    except (OSError, ValueError):
        return False

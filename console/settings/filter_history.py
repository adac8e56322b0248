"""The filters typed lately: a file without credentials that only its owner can read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from backends.layouts.mask import masked_error

_MOST = 50
_LONGEST = 500


class FilterHistory:
    def __init__(self, environ: Mapping[str, str]) -> None:
        home = environ.get("XDG_STATE_HOME")
        self._path = (Path(home) if home else Path.home() / ".local" / "state") / "dlq-console" / "filters.json"

    def read(self) -> tuple[str, ...]:
        """Oldest first."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return ()
        if not isinstance(kept, list):
            return ()
        return tuple(text for text in kept if isinstance(text, str) and text.isprintable() and len(text) <= _LONGEST)

    def add(self, text: str) -> None:
        """Leaves out a text with a credential in it. Ignores failures to write: the list is a convenience."""
        if not text or len(text) > _LONGEST or not text.isprintable() or masked_error(text) != text:
            return
        kept = [*(one for one in self.read() if one != text), text][-_MOST:]
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(kept, file)
        except OSError:
            return

"""Is somebody there? A standard stream that was closed before we began is none at all."""

from __future__ import annotations

import sys
from typing import TextIO


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def on_terminal() -> bool:
    """Can somebody be asked?"""
    return is_terminal(sys.stdin)

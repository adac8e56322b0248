"""Describes a crash by type, place and reference. Leaves out values, source lines and messages."""

from __future__ import annotations

import traceback
import uuid
from pathlib import Path

CRASHED = 70
_FRAMES = 4


def describe(bug: BaseException) -> str:
    inner = getattr(bug, "error", None)  # a failed worker holds the error it failed with
    if isinstance(inner, BaseException):
        bug = inner
    frames = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(bug.__traceback__)]
    where = " < ".join(reversed(frames[-_FRAMES:])) or "unknown"
    reference = uuid.uuid4().hex[:8]
    return (
        f"this is a bug ({type(bug).__name__}, reference {reference})\n"
        "  Acts are complete or undone; what was being sent is brought to its end and recorded.\n"
        f"  At: {where}"
    )

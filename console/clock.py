"""The current time. The only module of the console that asks for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def now() -> datetime:
    return datetime.now(UTC)

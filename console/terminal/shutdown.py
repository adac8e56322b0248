"""Leaving when told to from outside: SIGTERM, SIGHUP, SIGINT. What runs comes to its end, the terminal is given back.

Works also where the screen is stuck on a terminal that reads nothing: the last steps have a thread of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_PATIENCE_SECONDS = 3.0
# Mouse, paste, focus and keyboard modes off; the main screen and the cursor back.
_RESET = (
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?2004l\x1b[?2048l\x1b[?1004l\x1b[<u\x1b[?7h"
    "\x1b[0m\x1b[?1049l\x1b[?25h"
)


class ShutdownSteps(NamedTuple):
    """How to end: `stop` what runs between entries, `drain` it, `close` the app."""

    stop: Callable[[], None]
    drain: Callable[[], None]
    close: Callable[[int], None]


class ShutdownHandler:
    """Installed around the app; `settings` are the terminal's from before, where they have been changed already."""

    def __init__(self, end: ShutdownSteps, settings: list[Any] | None = None) -> None:
        self._end = end
        self._before: dict[int, Any] = {}
        self._terminal = settings or _terminal_settings()
        self._over = threading.Event()
        self.signal: int | None = None

    def __enter__(self) -> ShutdownHandler:
        self._before = {number: signal.signal(number, self._told) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _told(self, number: int, _: FrameType | None) -> None:
        # Nothing is done in the handler itself: it may have interrupted a holder of any lock.
        if self.signal is None:
            self.signal = number
            threading.Thread(target=self._leave, args=(number,), name="dlq-departure", daemon=True).start()

    def _leave(self, number: int) -> None:
        self._end.stop()
        self._end.close(128 + number)
        self._end.drain()
        if not self._over.wait(_PATIENCE_SECONDS):
            # The app cannot end: its terminal takes nothing any more.
            give_back(self._terminal)
            os._exit(128 + number)


def _terminal_settings() -> list[Any] | None:
    try:
        return termios.tcgetattr(sys.__stdin__.fileno()) if sys.__stdin__ is not None else None
    except (termios.error, ValueError, OSError):
        return None


def give_back(settings: list[Any] | None) -> None:
    """The terminal as it was, as far as it listens; never waits for it."""
    if settings is not None and sys.__stdin__ is not None:
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(sys.__stdin__.fileno(), termios.TCSANOW, settings)
    if sys.__stderr__ is None:
        return
    with contextlib.suppress(OSError, ValueError):
        number = sys.__stderr__.fileno()
        fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_NONBLOCK)
        os.write(number, _RESET.encode())

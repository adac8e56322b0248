"""Ends the console on SIGTERM, SIGHUP, SIGINT and a closed terminal: finishes running sends, restores the terminal.

Runs in a thread of its own, because the event loop may be blocked by a terminal that reads nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_PATIENCE_SECONDS = 3.0
# Switch mouse, paste, focus and keyboard modes off, and back to the main screen and cursor.
_RESET = (
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?2004l\x1b[?2048l\x1b[?1004l\x1b[<u\x1b[?7h"
    "\x1b[0m\x1b[?1049l\x1b[?25h"
)


class ShutdownSteps(NamedTuple):
    """How to end: `stop` between entries, `drain` what was sent, `close` the app."""

    stop: Callable[[], None]
    drain: Callable[[], None]
    close: Callable[[int], None]


class ShutdownHandler:
    """Handles signals while the app runs. `settings`: the terminal's original ones, where they were changed already."""

    def __init__(self, end: ShutdownSteps, settings: list[Any] | None = None) -> None:
        self._end = end
        self._before: dict[int, Any] = {}
        self._terminal = settings or _terminal_settings()
        self._over = threading.Event()
        self.signal: int | None = None

    def __enter__(self) -> ShutdownHandler:
        self._before = {number: signal.signal(number, self._told) for number in SIGNALS}
        threading.Thread(target=self._watch_terminal, name="dlq-terminal", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _watch_terminal(self) -> None:
        """A program that runs the console, as make, may be the only one that is told of a closed terminal."""
        if _is_closed_in_the_end() and not self._over.is_set():
            self._told(signal.SIGHUP, None)

    def _told(self, number: int, _: FrameType | None) -> None:
        # Only start a thread: the handler may have interrupted code that holds a lock.
        if self.signal is None:
            self.signal = number
            threading.Thread(target=self._leave, args=(number,), name="dlq-departure", daemon=True).start()

    def _leave(self, number: int) -> None:
        self._end.stop()
        self._end.close(128 + number)
        self._end.drain()
        if not self._over.wait(_PATIENCE_SECONDS):
            # The app is blocked by a terminal that reads nothing.
            give_back(self._terminal)
            os._exit(128 + number)


def _is_closed_in_the_end() -> bool:
    """Wait for the end of the terminal, without looking at what is typed; False where there is nothing to wait for."""
    try:
        if sys.__stdin__ is None or not sys.__stdin__.isatty():
            return False
        watched = select.poll()
        watched.register(sys.__stdin__.fileno(), 0)
        return any(seen & select.POLLHUP for _, seen in watched.poll())
    except (OSError, ValueError):
        return False


def _terminal_settings() -> list[Any] | None:
    try:
        return termios.tcgetattr(sys.__stdin__.fileno()) if sys.__stdin__ is not None else None
    except (termios.error, ValueError, OSError):
        return None


def give_back(settings: list[Any] | None) -> None:
    """Restore the terminal without ever waiting for it."""
    if settings is not None and sys.__stdin__ is not None:
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcsetattr(sys.__stdin__.fileno(), termios.TCSANOW, settings)
    if sys.__stderr__ is None:
        return
    with contextlib.suppress(OSError, ValueError):
        number = sys.__stderr__.fileno()
        fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) | os.O_NONBLOCK)
        os.write(number, _RESET.encode())

"""One line of progress at the foot of a terminal, for whatever takes longer than a second. Silent elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from console.cli.printing.table import cut

_AFTER_SECONDS = 1.0  # what is done sooner needs no progress
_BETWEEN_SECONDS = 0.1
_BAR = 20
_ERASE = "\r\x1b[2K"
T = TypeVar("T")


class StatusLine:
    """A line of stderr that is drawn over. Shows nothing if stderr is not a terminal."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._shows = not is_quiet and _is_terminal()
        self._is_drawn = False

    def put(self, text: str) -> None:
        if not self._shows:
            return
        with suppress(OSError):
            room = shutil.get_terminal_size().columns - 1
            sys.stderr.write(_ERASE + cut(text, room))
            sys.stderr.flush()
            self._is_drawn = True

    def clear(self) -> None:
        if not self._is_drawn:
            return
        with suppress(OSError):
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
        self._is_drawn = False


class ProgressBar:
    """`dismissing  [#####     ] 31,000 of 50,000  5,100/s`, from the first second on; erased at the end.

    `beside_rows`: rows go to stdout meanwhile, which show progress by themselves where stdout is the terminal.
    """

    def __init__(self, what: str, *, beside_rows: bool = False) -> None:
        self._what = what
        self._line = StatusLine(is_quiet=beside_rows and sys.stdout.isatty())
        self._began = time.monotonic()
        self._next = self._began + _AFTER_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._line.clear()

    def __call__(self, done: int, total: int | None = None) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _BETWEEN_SECONDS
        self._line.put(progress_text(self._what, done, total, now - self._began))


async def counted(rows: AsyncIterator[T], bar: ProgressBar, total: int | None = None) -> AsyncIterator[T]:
    """The rows, with progress for each."""
    done = 0
    async for row in rows:
        yield row
        done += 1
        bar(done, total)


def progress_text(what: str, done: int, total: int | None, seconds: float) -> str:
    rate = f"{done / seconds:,.0f}/s" if seconds > 0 else ""
    if not total:
        return f"{what}  {done:,}  {rate}"
    filled = min(_BAR, _BAR * done // total)
    return f"{what}  [{'#' * filled}{' ' * (_BAR - filled)}] {done:,} of {total:,}  {rate}"


def _is_terminal() -> bool:
    with suppress(OSError, ValueError):
        return sys.stderr.isatty()
    return False

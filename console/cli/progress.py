"""A running batch on the command line: results as they land, a progress line on a terminal, signals that stop it.

The batch has a thread of its own: a terminal that stops reading holds up only what is shown.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from console.cli.notice import say
from console.cli.results import json_result, owner_sql, plain_result
from console.services.replay.background_run import BackgroundRun, Work
from console.services.replay.outcome import EntryOutcome, exit_code

if TYPE_CHECKING:
    from rich.console import Console

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TICK_SECONDS = 0.2


def run_batch(work: Work, *, as_json: bool, dry_run: bool = False) -> int:
    """Runs to the end and returns the exit code; the first signal stops it between entries."""
    batch = BackgroundRun(work)
    show = json_result if as_json else plain_result
    with _stopping(batch.stop), ProgressLine() as line:
        batch.start()
        for ended in _events(batch, line):
            _write(show(ended))
            line.count(ended)
        results = batch.join()
    if sql := next(filter(None, map(owner_sql, results)), None):
        say(f"an owner would run:\n{sql}")
    if len(results) > 1:
        say(tally(results))
    return exit_code(results, dry_run=dry_run)


def tally(results: tuple[EntryOutcome, ...]) -> str:
    words = Counter(result.outcome.replace("_", " ").replace("unknown", "in doubt") for result in results)
    return f"{len(results)} entries: " + ", ".join(f"{count} {word}" for word, count in words.items())


def _events(batch: BackgroundRun, line: ProgressLine) -> Iterator[EntryOutcome]:
    while True:
        try:
            ended = batch.handle.events.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            line.show(batch.handle.total, stopping=batch.handle.stopping)
            continue
        line.clear()
        if ended is None:
            return
        yield ended
        line.show(batch.handle.total, stopping=batch.handle.stopping)


class ProgressLine:
    """How far it is and how fast, in one line at the bottom of a terminal; elsewhere nothing."""

    def __init__(self) -> None:
        self._console: Console | None = None
        self._done = 0
        self._words: Counter[str] = Counter()
        self._since = time.monotonic()
        self._shown = False

    def __enter__(self) -> ProgressLine:
        with suppress(OSError, ValueError):
            if sys.stderr.isatty():
                from rich.console import Console

                self._console = Console(stderr=True, highlight=False, markup=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def count(self, ended: EntryOutcome) -> None:
        self._done += 1
        self._words[ended.outcome] += 1

    def show(self, total: int, *, stopping: bool) -> None:
        if self._console is None or total < 2 or self._done >= total:
            return
        from rich.text import Text

        self.clear()
        rate = self._done / max(time.monotonic() - self._since, 0.001)
        words = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in self._words.items())
        text = f"{self._done}/{total}  {rate:.1f}/s  {words}{'  stopping' if stopping else ''}"
        with suppress(OSError):
            self._console.print(Text(text, no_wrap=True, overflow="ellipsis"), end="", soft_wrap=True)
            self._shown = True

    def clear(self) -> None:
        if self._console is None or not self._shown:
            return
        from rich.control import Control
        from rich.segment import ControlType

        erase = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
        with suppress(OSError):
            self._console.control(erase)
        self._shown = False


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    def on_signal(_: int, __: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(line: str) -> None:
    """Once nobody reads any more the rest goes nowhere, and the batch goes on."""
    try:
        print(line, flush=True)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)

"""Turns signals into a request to stop between two steps, and says how to go on or back. Ends nothing itself."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from backends.store import BadTarget
from backends.target import PostgresTarget, parse_target

if TYPE_CHECKING:
    from console.cli.context import Context

INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Whether somebody asked to stop, and whether by Ctrl-C."""

    def __init__(self, stop: Callable[[], None] = lambda: None) -> None:
        self._stop = stop
        self.is_set = False
        self.by_key = False

    def __call__(self) -> bool:
        return self.is_set

    def take(self, number: int, _: FrameType | None) -> None:
        self.is_set = True
        self.by_key = self.by_key or number == signal.SIGINT
        self._stop()


@contextmanager
def stoppable(stop: Callable[[], None] = lambda: None) -> Iterator[StopRequest]:
    request = StopRequest(stop)
    before = {number: signal.signal(number, request.take) for number in _SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def command_line(context: Context, *words: str) -> str:
    """A command on the same store, ready to be pasted. A target with a password is left out: it is never printed."""
    args = context.args
    given = ["dlq", *words]
    is_hidden = bool(args.db) and args.db not in context.config.stores and _has_password(args.db)
    if args.db and not is_hidden:
        given += ["--db", str(args.db)]
    for name in ("config", "table"):
        if value := getattr(args, name):
            given += [f"--{name}", str(value)]
    return shlex.join(given) + (", with the same --db" if is_hidden else "")


def _has_password(target: str) -> bool:
    """Also where that cannot be told."""
    if "password" in target.lower():
        return True
    try:
        parsed = parse_target(target)
    except BadTarget:
        return "@" in target
    return isinstance(parsed, PostgresTarget) and parsed.password is not None

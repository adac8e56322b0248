"""Repaints a terminal whenever a store changes, until Ctrl-C. Knows lines and news; reads no entries itself."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from backends.store import Change, Store, StoreError
from console import clock
from console.cli.context import is_terminal
from console.cli.parser import UsageError
from console.cli.printing.table import cut
from console.text.untrusted import safe

Paint = Callable[[int], Awaitable[list[str]]]  # rows that fit → lines
_AGES_SECONDS = 15.0  # repaint without news, so that ages stay true
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"


def check_watchable() -> None:
    if not is_terminal(sys.stdout):
        raise UsageError(
            "--watch repaints a terminal, and stdout is not one: leave it out, or use dlq metrics --listen"
        )


async def watch(store: Store, paint: Paint) -> None:
    """Ends by KeyboardInterrupt only."""
    news = asyncio.Event()
    lost = ""

    async def listen() -> None:
        nonlocal lost
        async with aclosing(store.changes()) as signs:  # type: ignore[type-var]  # every store's is a generator
            async for sign in signs:
                lost = _lost(sign)
                news.set()

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number, event in ((signal.SIGINT, stopped), (signal.SIGTERM, stopped), (signal.SIGWINCH, news)):
        loop.add_signal_handler(number, _set, event, news)
    listening = asyncio.create_task(listen())
    sys.stdout.write(_ENTER)
    kept: list[str] = []
    try:
        while not stopped.is_set():
            news.clear()
            try:
                kept = await paint(max(1, shutil.get_terminal_size().lines - 2))
            except StoreError as problem:
                lost = str(problem)
            _draw(kept, lost)
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), _AGES_SECONDS)
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        listening.cancel()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGWINCH):
            loop.remove_signal_handler(number)
        await asyncio.gather(listening, return_exceptions=True)
    raise KeyboardInterrupt


def _set(event: asyncio.Event, news: asyncio.Event) -> None:
    event.set()
    news.set()


def _lost(sign: Change) -> str:
    return sign.detail or "the store cannot be reached" if sign.kind == "lost" else ""


def _draw(lines: list[str], lost: str) -> None:
    size = shutil.get_terminal_size()
    at = clock.now().strftime("%H:%M:%SZ")
    status = f"{at}  not current: {safe(lost, 200)}" if lost else f"{at}  repaints on change, Ctrl-C ends"
    body = [*lines[: size.lines - 2], "", status]
    painted = "\n".join(cut(line, size.columns) + _CLEAR_LINE for line in body)
    sys.stdout.write(_HOME + painted + _CLEAR_REST)
    sys.stdout.flush()

"""Lets an engine on the same machine go first: which verbs step back, and how a process does. Loads nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

# Verbs that go through whole stores and that no order waits for.
_READING = frozenset({"index", "audit", "groups", "export", "archive", "report", "check", "metrics"})
# On a server no engine waits for a lock of theirs; a file would be held the longer, the less its holder runs.
_ACTING = frozenset({"dismiss", "restore"})
_STEPS, _LAST = 10, 19
_BEFORE = os.getpriority(os.PRIO_PROCESS, 0)
_THREADS = Path("/proc/self/task")
_ALLOWED = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
_QUIET_SECONDS = 1.0  # without a write of others, until a build takes every processor
_LOOK_SECONDS = 0.25


def give_way_early(argv: Sequence[str]) -> None:
    """As far as the words alone tell, before the program loads: that takes much of the processor time of a verb."""
    target = next((held for word, held in pairwise(argv) if word == "--db"), None) or os.environ.get("DLQ_DB", "")
    if "--with-parent" not in argv:
        give_way(argv[0] if argv else None, lambda: target.startswith(("postgres://", "postgresql://")))


def give_way(verb: str | None, is_on_server: Callable[[], bool]) -> None:
    """A second time changes nothing."""
    if verb not in _READING and not (verb in _ACTING and is_on_server()):
        return
    with suppress(OSError):  # where that is forbidden, the verb runs like any other
        os.setpriority(os.PRIO_PROCESS, 0, min(_LAST, _BEFORE + _STEPS))
    leave_one_processor()


def leave_one_processor() -> None:
    """To an engine and its server: who wakes up where this process runs waits for milliseconds, whatever its priority.

    Every verb leaves the same one, so that several of them do not share out all there are.
    """
    if len(_ALLOWED) > 1:
        _run_on(_ALLOWED - {max(_ALLOWED)})


def _run_on(processors: set[int]) -> None:
    """This and every other thread there is; those to come take after the one that starts them."""
    with suppress(OSError):  # a thread that has just ended, or a system that forbids it
        for thread in _THREADS.iterdir():
            os.sched_setaffinity(int(thread.name), processors)


async def leave_one_beside(changes: AsyncIterator[object]) -> None:
    """Until cancelled: leaves a processor while somebody writes to the store, as `changes` tells, and then takes it."""
    import asyncio  # the console shows its first rows before it needs a loop

    last = time.monotonic()

    async def listen() -> None:
        nonlocal last
        async for _ in changes:
            last = time.monotonic()

    listening = asyncio.create_task(listen())
    taken = False
    leave_one_processor()
    try:
        while True:
            quiet = time.monotonic() - last > _QUIET_SECONDS
            if quiet is not taken:
                taken = quiet
                _run_on(_ALLOWED) if quiet else leave_one_processor()
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

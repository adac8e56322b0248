"""Verbs that go through whole stores leave a processor to the engine beside them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console import priority

ROOT = Path(__file__).parents[2]
EVERY = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
pytestmark = pytest.mark.skipif(len(EVERY) < 2, reason="with one processor there is none to leave")

_TELL = """
import json, os, threading
from console.priority import give_way
give_way({verb!r}, lambda: {on_server})
told = []
later = threading.Thread(target=lambda: told.append(sorted(os.sched_getaffinity(0))))
later.start()
later.join()
print(json.dumps([sorted(os.sched_getaffinity(0)), *told]))
"""


def processors(verb: str, *, on_server: bool = False, allowed: set[int] = EVERY) -> list[set[int]]:
    """Those of the program's own thread, and of one that it starts later."""
    words = [sys.executable, "-c", _TELL.format(verb=verb, on_server=on_server)]
    told = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, allowed)
    )
    return [set(one) for one in json.loads(told.stdout)]


@pytest.mark.parametrize("verb", ["index", "audit", "groups"])
def test_a_verb_that_reads_the_whole_store_leaves_one(verb: str) -> None:
    assert processors(verb) == [EVERY - {max(EVERY)}] * 2


def test_an_act_leaves_one_where_no_engine_waits_for_its_lock() -> None:
    assert processors("dismiss", on_server=True) == [EVERY - {max(EVERY)}] * 2
    assert processors("dismiss") == [EVERY] * 2, "who holds the file that an engine writes is to be done soon"


def test_who_may_use_one_only_keeps_it() -> None:
    assert processors("index", allowed={max(EVERY)}) == [{max(EVERY)}] * 2


async def test_a_build_takes_every_processor_while_nobody_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_QUIET_SECONDS", 0.2)
    monkeypatch.setattr(priority, "_LOOK_SECONDS", 0.01)
    writes: asyncio.Queue[int] = asyncio.Queue()

    async def changes() -> AsyncIterator[int]:
        while True:
            yield await writes.get()

    over = threading.Event()
    thread = threading.Thread(target=over.wait, args=(90,))
    thread.start()
    try:
        working = asyncio.create_task(priority.leave_one_beside(changes()))
        for expected in (EVERY - {max(EVERY)}, EVERY, EVERY - {max(EVERY)}, EVERY):
            if expected != EVERY:
                writes.put_nowait(1)
            async with asyncio.timeout(60):
                while {frozenset(os.sched_getaffinity(one)) for one in (0, thread.native_id or 0)} != {
                    frozenset(expected)
                }:
                    await asyncio.sleep(0.005)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    finally:
        over.set()
        thread.join()
        os.sched_setaffinity(0, EVERY)

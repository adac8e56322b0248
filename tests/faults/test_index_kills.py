"""The index's builder killed -9 at random moments, and the process that keeps an index going when its console goes."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from backends import open_store
from backends.index import Reader
from backends.store import Store
from console.services.index.keeper import IndexProcess, cache_of
from tests.support.index import Indexed
from tests.support.orders import row, sqlite_store

KILLS = int(os.environ.get("DLQ_KILLS", "4"))
ROOT = Path(__file__).parent.parent.parent
ENTRIES = 12_000


@pytest.fixture
def target(tmp_path: Path) -> str:
    rng = random.Random(3)
    errors = [f"{kind}Error: code {code} for {{}}" for kind in ("Value", "Runtime", "OS") for code in (1001, 1002)]
    return sqlite_store(
        tmp_path / "orders.db",
        (
            row(n, error=rng.choice(errors).format(n), venue_name=rng.choice("abc"), dismissed=rng.random() < 0.1)
            for n in range(ENTRIES)
        ),
    )


@pytest.fixture
async def store(target: str) -> AsyncIterator[Store]:
    opened = await open_store(target, read_only=True)
    yield opened
    await opened.aclose()


def environment(tmp_path: Path, target: str) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "DLQ_DB": target, "XDG_CONFIG_HOME": str(tmp_path)}


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 600.0) -> None:
    """A keeper gives way to everything else: where the machine is busy, it takes its time."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


async def test_kills_during_the_build_leave_a_true_index(tmp_path: Path, target: str, store: Store) -> None:
    rng = random.Random(8)
    cache = await cache_of(store, tmp_path / "dlq-console")
    index = Indexed(store, cache, Reader(cache))
    unfinished = 0
    for _ in range(KILLS):
        builder = subprocess.Popen(
            [sys.executable, "-m", "console", "index", "--json"],
            cwd=ROOT,
            env=environment(tmp_path, target),
            stdout=subprocess.PIPE,
        )
        assert builder.stdout is not None
        assert builder.stdout.readline()  # it has begun
        try:
            builder.wait(rng.random() * 0.6)
        except subprocess.TimeoutExpired:
            builder.send_signal(signal.SIGKILL)
        builder.wait(60)
        builder.stdout.close()
        progress = await index.reader.progress()
        assert progress is not None
        # Whatever is filed is summed up, however far it got.
        assert sum(progress.states.values()) == progress.filed <= ENTRIES
        unfinished += not progress.complete
    assert unfinished, "every build was done before it could be killed"
    assert await index.settle()
    assert await index.seen() == await index.recount()
    await index.reader.aclose()


async def test_a_keeper_builds_follows_and_stops(tmp_path: Path, target: str, store: Store) -> None:
    cache = await cache_of(store, tmp_path / "dlq-console")
    reader = Reader(cache)
    keeper = IndexProcess((), environment(tmp_path, target))
    await keeper.start()

    async def complete() -> bool:
        progress = await reader.progress()
        return progress is not None and progress.complete

    try:
        await until(complete)
        assert keeper.running
    finally:
        await keeper.stop()
    assert not keeper.running
    with cache.writing():
        pass  # the lock is free again
    await reader.aclose()


def test_a_keeper_goes_when_its_console_is_killed(tmp_path: Path, target: str) -> None:
    console = """
import asyncio, os, sys
from console.services.index.keeper import IndexProcess
async def main():
    keeper = IndexProcess((), os.environ)
    await keeper.start()
    print(keeper._process.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", console], cwd=ROOT, env=environment(tmp_path, target), stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(60)
    parent.stdout.close()

    async def gone() -> bool:
        return not _is_running(child)

    asyncio.run(until(gone))


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"

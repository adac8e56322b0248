"""kill -9 at random moments of a bulk dismiss: never an act without its audit event, nor an event without its act.

`DLQ_KILLS` is the number of kills an engine; the suite itself makes do with a few.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.store import ACTOR, PostgresRig, Rig, events_of, pick, sqlite_rig, verdict, why

KILLS = int(os.environ.get("DLQ_KILLS", "6"))
ROWS, CHUNK = 1200, 120
ROOT = Path(__file__).parent.parent.parent

# Dismisses all there is in chunks, then restores it, then again: until it is killed.
CHILD = """
import asyncio, sys
from datetime import datetime, UTC
from backends import open_store
from backends.records import Actor, Filter, Selection, ActContext
ACTOR = Actor("ann", "ops", "desk1", "child")
async def main(target, chunk):
    store = await open_store(target)
    print("ready", flush=True)
    while True:
        for state, act in (("pending", store.dismiss), ("dismissed", store.restore)):
            entries = (await store.page(Filter(states=frozenset({state})), limit=100_000)).entries
            for start in range(0, len(entries), chunk):
                selection = Selection.of(entries[start : start + chunk])
                await act(selection, ACTOR, ActContext(datetime.now(UTC), "bulk", "test"))
                print("chunk", flush=True)
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""

# Dismisses what it is given, in chunks, and says what became of each.
RACER = """
import asyncio, json, sys
from datetime import datetime, UTC
from backends import open_store
from backends.records import Actor, Filter, Selection, ActContext
async def main(target, name):
    store = await open_store(target)
    entries = (await store.page(Filter(), limit=100_000)).entries
    print("ready", flush=True)
    sys.stdin.readline()
    done, changed = [], []
    for start in range(0, len(entries), 125):
        result = await store.dismiss(
            Selection.of(entries[start : start + 125]),
            Actor(name, name, "desk", "child"),
            ActContext(datetime.now(UTC), name),
        )
        done += result.done
        changed += result.changed
    await store.aclose()
    print(json.dumps([done, changed]), flush=True)
asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made: Rig = (
        sqlite_rig(tmp_path) if request.param == "sqlite" else PostgresRig(request.getfixturevalue("postgres_db"))
    )
    yield made
    await made.aclose()


def start(script: str, *args: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill_after(process: subprocess.Popen[str], chunks: int, seconds: float) -> None:
    """Somewhere in the chunk after these."""
    assert process.stdout is not None
    for _ in range(chunks):
        assert process.stdout.readline() == "chunk\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


async def settled(rig: Rig) -> None:
    """The server may still be at work on what a killed client sent last."""
    if not rig.on_postgres:
        return
    sessions = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dlq-console' AND datname = current_database()"
    )
    async with asyncio.timeout(30):
        while await rig.sql(sessions) != [(0,)]:
            pass


async def check(rig: Rig) -> int:
    """Each event moved exactly the rows it names, and the rows are where the chain leaves them. → moves in all"""
    await settled(rig)
    store = await rig.open()
    assert (await verdict(store))[0] is None
    dismissed: dict[str, bool] = {}
    flips = 0
    for event in await events_of(store):
        body = json.loads(event.body)
        goes = body["kind"] == "dismiss"
        for entry_id, _, was in body["entries"]:
            assert dismissed.get(entry_id, False) is bool(was) is not goes, "each event starts where the last one ended"
            dismissed[entry_id] = goes
            flips += 1
    rows = await rig.sql("SELECT dlq_id, dismissed FROM order_dlq")
    assert {entry_id: bool(flag) for entry_id, flag in rows if flag or entry_id in dismissed} == dismissed
    if not rig.on_postgres:
        assert await rig.sql("PRAGMA integrity_check") == [("ok",)]
    await store.aclose()
    rig.stores.remove(store)
    return flips


async def test_killed_at_random_moments(rig: Rig) -> None:
    await rig.make(ROWS)
    dice = random.Random(4711)
    moves = []
    for _ in range(KILLS):
        child = await asyncio.to_thread(start, CHILD, rig.target, str(CHUNK))
        await asyncio.to_thread(kill_after, child, dice.randrange(12), dice.uniform(0.0, 0.02))
        moves.append(await check(rig))
    assert moves == sorted(moves)
    assert moves[-1] > ROWS, "the work went on after the kills"
    assert any(count % ROWS for count in moves), "not one kill came in the middle of a bulk"


async def test_two_processes_dismiss_the_same_entries_once(rig: Rig) -> None:
    await rig.make(1000)
    racers = [await asyncio.to_thread(start, RACER, rig.target, name) for name in ("ann", "bob")]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [json.loads((await asyncio.to_thread(racer.communicate))[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    done = Counter(entry_id for moved, _ in said for entry_id in moved)
    assert len(done) == 1000
    assert set(done.values()) == {1}
    for (moved, changed), (theirs, _) in zip(said, reversed(said), strict=True):
        assert len(moved) + len(changed) == 1000
        assert {entry_id for entry_id, now in changed if now == "dismissed"} == set(theirs)
    assert await check(rig) == 1000


async def test_the_check_itself_finds_what_it_is_for(rig: Rig) -> None:
    """An act without its event, and an event without its act, planted by hand."""
    await rig.make(40)
    store = await rig.open()
    await store.dismiss(await pick(store, 0, 1), ACTOR, why())
    await store.aclose()
    assert await check(rig) == 2
    for number, flag in ((5, True), (0, False)):
        flip = f"UPDATE order_dlq SET dismissed = {{}} WHERE dlq_id = 'dlq_{number:016x}'"
        await rig.sql(flip.format(rig.flag(flag)))
        with pytest.raises(AssertionError):
            await check(rig)
        await rig.stores.pop().aclose()
        await rig.sql(flip.format(rig.flag(not flag)))
        assert await check(rig) == 2

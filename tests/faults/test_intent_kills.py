"""kill -9 of a console that settles what an engine left open: intent, entry and event together, or none of them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends.ledger.examination import examine
from backends.store import Result
from console.services.browse.engine_intent import engine_send
from tests.support.intent import intent_row, make_intents, resolution
from tests.support.store import ACTOR, EVERYTHING, PostgresRig, Rig, events_of, ids, sqlite_rig, why

ROOT = Path(__file__).parent.parent.parent
ABSENT = Result("not_sent", error="not there", evidence="not there")

# Settles the first intent, then is killed at its point while it settles the second.
CHILD = """
import asyncio, os, signal, sys
from backends import open_store
from backends.records import Filter
from backends.sql.writer import Transaction
from console.services.browse.engine_intent import engine_send
from tests.faults.test_intent_kills import ABSENT
from tests.support.store import ACTOR, why
async def main(target, point):
    store = await open_store(target)
    first, second = await store.intents(Filter())
    assert await store.settle(engine_send(first, "paper"), ABSENT, ACTOR, why("first"))
    before = Transaction.audit
    async def audit(self, *given, **more):
        if point == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await before(self, *given, **more)
        os.kill(os.getpid(), signal.SIGKILL)
    Transaction.audit = audit
    await store.settle(engine_send(second, "paper"), ABSENT, ACTOR, why("second"))
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made: Rig = (
        sqlite_rig(tmp_path) if request.param == "sqlite" else PostgresRig(request.getfixturevalue("postgres_db"))
    )
    yield made
    await made.aclose()


@pytest.mark.parametrize("point", ["before", "after"])
async def test_a_kill_beside_the_event_leaves_nothing_half_done(rig: Rig, point: str) -> None:
    await rig.make(1)
    make_intents(rig.target, intent_row(21, captured=-300), intent_row(22))
    command = [sys.executable, "-c", CHILD, rig.target, point]
    ended = subprocess.run(command, cwd=ROOT, timeout=120, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    store = await rig.open()
    first, second = (f"dlq_{number:016x}" for number in (21, 22))
    assert Counter(await ids(store, EVERYTHING))[first] == 1
    assert second not in await ids(store, EVERYTHING)
    assert (resolution(rig.target, 21)[0], resolution(rig.target, 22)[0]) == (True, False)
    (left,) = await store.intents(EVERYTHING)
    assert await store.settle(engine_send(left, "paper"), ABSENT, ACTOR, why("again"))
    assert sorted(await ids(store, EVERYTHING)) == ["dlq_0000000000000000", first, second]
    told = [json.loads(event.body)["entries"] for event in await events_of(store)]
    assert told == [[first], [second]]
    assert (await examine(store)).differences == ()

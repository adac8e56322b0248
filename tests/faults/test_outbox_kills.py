"""kill -9 at every step of an outbox's replay: handled or still listed, never lost, never twice in the outbox."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends.records import Filter
from tests.support.outbox import Consumer, OutboxRig, broker, dead_row, requeue, settled_rows
from tests.support.store import ids, only, verdict

ROOT = Path(__file__).parent.parent.parent
# Each child replays one entry and is killed before its n-th statement, before its commit, or just behind it.
_KILLED = """
import asyncio, os, signal, sys
from backends import open_store
from backends.sql.writer import Transaction
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.outbox import requeue

def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def replay(target, entry_id, step, deletes):
    store = await open_store(target, options={"delete_after_replay": deletes})
    execute, commit, seen = Transaction.execute, AsyncConnection.commit, [0]

    async def counted(self, *args):
        if seen[0] == step:
            die()
        seen[0] += 1
        return await execute(self, *args)

    async def committed(self):
        if step == -2:
            die()
        await commit(self)
        if step == -1:
            die()

    Transaction.execute, AsyncConnection.commit = counted, committed
    await requeue(store, entry_id)
    print(f"{step} {seen[0]}", flush=True)
    await store.aclose()

target, deletes = sys.argv[1], sys.argv[2] == "True"
for entry_id, step in (part.split(":") for part in sys.argv[3:]):
    child = os.fork()
    if child == 0:
        asyncio.run(replay(target, entry_id, int(step), deletes))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(entry_id, "killed" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}", flush=True)
"""


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


def _run(rig: OutboxRig, steps: dict[str, int], *, deletes: bool) -> list[str]:
    """Child by child; → what became of each."""
    told = [f"{entry_id}:{step}" for entry_id, step in steps.items()]
    command = [sys.executable, "-c", _KILLED, rig.target, str(deletes), *told]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("deletes", [False, True])
async def test_killed_at_every_step_it_is_handled_or_still_listed(rig: OutboxRig, deletes: bool) -> None:
    await rig.dead(dead_row(0, queue="measure"))
    measured = _run(rig, {"1": 999}, deletes=deletes)  # makes the ledger, and counts the statements
    assert measured[-1] == "1 ended 0"
    again = _run(rig, {(await rig.dead(dead_row(0, queue="measure")))[0]: 999}, deletes=deletes)
    steps = int(again[0].split()[1])
    assert steps >= 6
    points = [*range(steps), -2, -1]
    made = await rig.dead(*range(1, len(points) + 1))
    ended = _run(rig, dict(zip(made, points, strict=True)), deletes=deletes)
    assert all(line.endswith("killed") for line in ended), ended

    store = await rig.store(delete_after_replay=deletes)
    listed = set(await ids(store, Filter()))
    in_outbox = [row for row in await rig.outbox_rows() if row["queue"] == "orders"]
    bodies = {entry_id: b'{"n": %d}' % number for number, entry_id in enumerate(made, 1)}
    for entry_id, body in bodies.items():
        copies = sum(row["payload"] == body for row in in_outbox)
        assert copies == (0 if entry_id in listed else 1), f"killed at {points[made.index(entry_id)]}"
    assert made[-1] not in listed, "what was committed stands"
    assert listed == set(made[:-1]), "nothing else does"

    consumer = Consumer()
    async with broker(rig, consumer, "orders", "measure"):
        for entry_id in sorted(listed):
            await requeue(store, entry_id)
        await consumer.until(len(made) + 2)
    handled = sorted(body for body, _ in consumer.handled if body != b'{"n": 0}')
    assert handled == sorted(bodies.values())
    assert len(await settled_rows(rig.target)) == len(made) + 2
    assert len(await ids(store, only("replayed"))) == (0 if deletes else len(made) + 2)
    assert (await verdict(store))[0] is None

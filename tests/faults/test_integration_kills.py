"""kill -9 at every step of an integration's replay: no byte without its intent, nothing lost; recovery never sends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends.records import Filter
from backends.sql.other.store import IntegrationStore
from console.services.resend.orphans import OrphanedCalls
from tests.support.http_server import Loopback, reply
from tests.support.integration import IntegrationRig, clock, entries, entry_id, failed_row, providers, redelivery
from tests.support.store import ACTOR, ids, only, verdict

ROOT = Path(__file__).parent.parent.parent
# Each child sends one entry and is killed before its n-th statement, its n-th commit, or just behind that.
_KILLED = """
import asyncio, os, signal, sys
from backends import open_store
from backends.sql.writer import Transaction
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.integration import entries, providers, redelivery

def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def send(target, url, entry_id, what, step):
    store = await open_store(target, options={"on_success": "delete"})
    seen = await entries(store, entry_id)
    execute, commit, counts = Transaction.execute, AsyncConnection.commit, {"statement": 0, "commit": 0}

    def reached(kind):
        if what == kind and counts[kind.partition("-")[0]] == step:
            die()

    async def counted(self, *args):
        reached("statement")
        counts["statement"] += 1
        return await execute(self, *args)

    async def committed(self):
        reached("commit")
        await commit(self)
        reached("commit-behind")
        counts["commit"] += 1

    Transaction.execute, AsyncConnection.commit = counted, committed
    there = providers(url)
    await redelivery(store, there).run(seen)
    print(counts["statement"], counts["commit"], flush=True)
    await there.aclose()
    await store.aclose()

target, url = sys.argv[1:3]
for told in sys.argv[3:]:
    entry_id, what, step = told.split(":")
    child = os.fork()
    if child == 0:
        asyncio.run(send(target, url, entry_id, what, int(step)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}", flush=True)
"""


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[IntegrationRig]:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


async def _run(rig: IntegrationRig, url: str, *told: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _KILLED, rig.target, url, *told, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0
    return out.decode().splitlines()


async def test_killed_at_every_step_nothing_is_lost_and_nothing_sent_unseen(rig: IntegrationRig) -> None:
    def request(number: int) -> dict[str, object]:
        return failed_row(number, originalRequest=f'{{"method": "POST", "path": "/{number}", "body": {number}}}')

    async with Loopback(lambda _: reply(200)) as server:
        await rig.failed(request(1), request(2))
        assert (await _run(rig, server.url, f"{entry_id(1)}:none:0"))[-1] == "ended 0"  # makes the ledger
        statements, commits = map(int, (await _run(rig, server.url, f"{entry_id(2)}:none:0"))[0].split())
        assert (statements > 10, commits) == (True, 4)
        points = [("statement", n) for n in range(statements)]
        points += [(kind, n) for kind in ("commit", "commit-behind") for n in range(commits)]
        await rig.failed(*(request(n) for n in range(10, 10 + len(points))))
        told = [f"{entry_id(n)}:{what}:{step}" for n, (what, step) in enumerate(points, 10)]
        assert await _run(rig, server.url, *told) == ["killed"] * len(points)

        store = await rig.store(on_success="delete")
        sent = {int(got.path[1:]): got.headers["idempotency-key"] for got in server.requests}
        assert len(sent) == len(server.requests), "no entry was sent twice"
        listed = set(await ids(store, Filter()))
        for number in range(10, 10 + len(points)):
            kept = [one.client_order_id for one in await store.attempts(entry_id(number))]
            assert number not in sent or kept == [sent[number]], "the intent came first"
            assert entry_id(number) in listed or await _is_accepted(store, entry_id(number)), points[number - 10]
        before = len(server.requests)
        await rig.sql("UPDATE dlq_console.claim SET expires_at = 0")
        settled = await OrphanedCalls(store, ACTOR, clock).run(())
        assert len(server.requests) == before, "recovery sends nothing"
        yes = {entry_id(number) for number in sent}
        doubted = set(await ids(store, only("in_flight", "in_doubt")))
        assert {one.entry_id for one in settled if one.outcome == "unknown"} == doubted
        assert yes <= doubted | {one for one in yes if await _is_accepted(store, one)}, (
            "a yes is never free to go again"
        )
        assert await store.unfinished(()) == {}, "what was left of an accepted row is done"
        there = providers(server.url)
        left = await ids(store, only("pending"))
        results = await redelivery(store, there).run(await entries(store, *left))
        await there.aclose()
    assert {one.outcome for one in results} == {"accepted"}
    again = [int(got.path[1:]) for got in server.requests[before:]]
    assert not set(again) & set(sent), "no call is sent again after a yes"
    assert await ids(store, only("pending")) == []
    assert (await verdict(store))[0] is None


async def _is_accepted(store: IntegrationStore, entry_id: str) -> bool:
    return [one.outcome for one in await store.attempts(entry_id)] == ["accepted"]

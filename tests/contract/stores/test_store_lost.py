"""A server that goes and comes back, and commits whose answer is lost: what happened is found out and said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from backends.records import Filter
from backends.sql import writer
from backends.sql.store import SQLStore
from backends.store import CommitUnknown, Result, Unreachable
from tests.support.commit_proxy import Mode, Proxy
from tests.support.postgres import Postgres
from tests.support.store import (
    ACTOR,
    EVERYTHING,
    PostgresRig,
    attempt_on,
    entry_of,
    events_of,
    ids,
    order_row,
    pick,
    verdict,
    why,
)
from tests.support.watch import listening

FIRST = "dlq_0000000000000000"


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A server of its own, to be stopped and started."""
    own = Postgres().start()
    yield own
    own.stop()


async def rig_on(server: Postgres, rows: int) -> PostgresRig:
    rig = PostgresRig(server.dsn("postgres"))
    await rig.make(rows)
    return rig


@pytest.mark.parametrize("listens", [True, False])
async def test_a_server_that_goes_and_comes_back(server: Postgres, listens: bool) -> None:
    rig = await rig_on(server, 5)
    if not listens:
        await rig.sql("DROP TRIGGER order_dlq_notify ON order_dlq")
    store = await rig.open()
    selection = await pick(store, 0, 1)
    await store.note(FIRST, ACTOR, why(note="the writer is connected"))
    async with listening(store) as ear:
        await asyncio.to_thread(server.down)
        lost = await ear.until("lost")
        assert "127.0.0.1" in lost.detail
        with pytest.raises(Unreachable, match="cannot be reached: is the server up"):
            await store.page(Filter(), limit=5)
        with pytest.raises(Unreachable, match="cannot be reached: is the server up"):
            await store.dismiss(selection, ACTOR, why())
        await asyncio.to_thread(server.up)
        await ear.until("back")
        assert len(await ids(store)) == 5
        assert len((await store.dismiss(selection, ACTOR, why())).done) == 2
        await rig.insert(order_row(9))
        await ear.until("changed")
        assert len(await ids(store)) == 6
    assert (await verdict(store))[0] is None
    await rig.aclose()


async def test_a_restart_between_two_acts_is_not_even_noticed(server: Postgres) -> None:
    rig = await rig_on(server, 3)
    store = await rig.open()
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done
    await asyncio.to_thread(server.down)
    await asyncio.to_thread(server.up)
    selection = await pick(store, 1)
    assert (await store.dismiss(selection, ACTOR, why())).done == selection.ids
    assert (await store.counts(EVERYTHING)).by_state == {"pending": 1, "dismissed": 2}
    assert (await verdict(store))[0] is None
    await rig.aclose()


@asynccontextmanager
async def behind_proxy(rig: PostgresRig) -> AsyncIterator[tuple[SQLStore, Proxy]]:
    await rig.make(4)
    proxy = Proxy(rig.target)
    store = await rig.open(target=await proxy.start())
    await store.note(FIRST, ACTOR, why(note="the ledger is made"))
    yield store, proxy
    await store.aclose()
    await proxy.stop()


async def test_a_commit_whose_answer_is_lost_took_place(postgres_store: PostgresRig) -> None:
    async with behind_proxy(postgres_store) as (store, proxy):
        selection = await pick(store, 0, 1)
        proxy.mode = "lose-answer"
        result = await store.dismiss(selection, ACTOR, why())
        assert proxy.struck.is_set()
        assert sorted(result.done) == sorted(selection.ids)
        assert len(await events_of(store)) == 2
        assert (await entry_of(store, 1)).state == "dismissed"
        assert (await verdict(store))[0] is None


@pytest.mark.parametrize("mode", ["lose-commit", "swallow-commit"])
async def test_a_commit_that_never_arrived_did_not_take_place(postgres_store: PostgresRig, mode: Mode) -> None:
    async with behind_proxy(postgres_store) as (store, proxy):
        selection = await pick(store, 0, 1)
        proxy.mode = mode
        with pytest.raises(Unreachable, match="was lost before the act was committed: nothing was changed"):
            await store.dismiss(selection, ACTOR, why())
        assert proxy.struck.is_set()
        assert (await entry_of(store, 1)).state == "pending"
        assert len(await events_of(store)) == 1
        assert len((await store.dismiss(selection, ACTOR, why())).done) == 2, "and it can be done again"
        assert (await verdict(store))[0] is None


@pytest.mark.parametrize("mode", ["lose-answer", "lose-commit"])
async def test_each_kind_of_act_is_resolved(postgres_store: PostgresRig, mode: Mode) -> None:
    async with behind_proxy(postgres_store) as (store, proxy):
        claim = await attempt_on(store)
        proxy.mode = mode
        if mode == "lose-answer":
            assert await store.conclude(claim, Result("accepted", "v-1"), ACTOR, why()) is True
            assert (await entry_of(store)).state == "replayed"
            return
        with pytest.raises(Unreachable, match="nothing was changed"):
            await store.conclude(claim, Result("accepted", "v-1"), ACTOR, why())
        assert (await entry_of(store)).state == "in_flight"
        assert await store.conclude(claim, Result("accepted", "v-1"), ACTOR, why()) is True


async def test_a_server_that_stays_away_leaves_it_unknown(
    postgres_store: PostgresRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_RESOLVE_SECONDS", 0.5)
    monkeypatch.setattr(writer, "_RECONNECT_SECONDS", 0.02)
    async with behind_proxy(postgres_store) as (store, proxy):
        selection = await pick(store, 0)
        proxy.mode, proxy.accepting = "lose-answer", False
        with pytest.raises(CommitUnknown, match="whether the act took place is not known: look again"):
            await store.dismiss(selection, ACTOR, why())
        proxy.accepting = True
        assert (await entry_of(store)).state == "dismissed", "looking again tells"


async def test_a_claim_whose_commit_is_lost_is_only_retried(postgres_store: PostgresRig) -> None:
    async with behind_proxy(postgres_store) as (store, proxy):
        entry = await entry_of(store)
        proxy.mode = "lose-commit"
        with pytest.raises(Unreachable, match="was lost while it committed: try again"):
            await store.claim(entry.id, entry.version, ACTOR, 30)
        claim = await store.claim(entry.id, entry.version, ACTOR, 30)
        assert not hasattr(claim, "why")


async def test_killed_sessions_do_not_hurt(postgres_store: PostgresRig) -> None:
    await postgres_store.make(3)
    store = await postgres_store.open()
    await store.note(FIRST, ACTOR, why(note="n"))
    await ids(store)
    kill = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'dlq-console' AND datname = current_database()"
    )
    assert len(await postgres_store.sql(kill)) >= 2
    assert len(await ids(store)) == 3
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done == (FIRST,)

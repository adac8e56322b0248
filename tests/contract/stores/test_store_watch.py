"""Noticing change on both engines; a server that goes and comes back; a commit whose answer is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backends.layouts import orders
from backends.records import Filter
from backends.sql import watch, writer
from backends.sql.store import SQLStore
from backends.store import Change, CommitUnknown, Result, Unreachable
from tests.postgres import Postgres
from tests.proxy import Mode, Proxy
from tests.store import (
    ACTOR,
    EVERYTHING,
    PostgresRig,
    Rig,
    SQLiteRig,
    attempt_on,
    entry_of,
    events_of,
    ids,
    order_row,
    pick,
    verdict,
    why,
)

FIRST = "dlq_0000000000000000"


class Ear:
    """What `changes()` says, one word at a time, each within a generous bound."""

    def __init__(self, store: SQLStore) -> None:
        self._changes = store.changes()

    async def next(self, seconds: float = 20) -> Change:
        async with asyncio.timeout(seconds):
            return await anext(self._changes)

    async def until(self, kind: str) -> Change:
        while (change := await self.next()).kind != kind:
            pass
        return change

    async def nothing(self, seconds: float) -> None:
        with pytest.raises(TimeoutError):
            await self.next(seconds)

    async def aclose(self) -> None:
        await self._changes.aclose()  # type: ignore[attr-defined]  # it is an async generator


@asynccontextmanager
async def listening(store: SQLStore) -> AsyncIterator[Ear]:
    ear = Ear(store)
    assert (await ear.next()).kind == "changed", "the first word: what came before is not known"
    yield ear
    await ear.aclose()


async def test_new_rows_foreign_dismissals_and_acts_are_noticed(store_rig: Rig) -> None:
    await store_rig.make(3)
    store, other = await store_rig.open(), await store_rig.open()
    async with listening(store) as ear:
        await store_rig.insert(order_row(7))
        assert (await ear.next()).kind == "changed"
        assert len(await ids(store)) == 4
        await store_rig.sql(f"UPDATE order_dlq SET dismissed = {store_rig.flag(True)} WHERE dlq_id LIKE '%1'")
        assert (await ear.next()).kind == "changed"
        assert (await entry_of(store, 1)).state == "dismissed"
        await other.note(FIRST, ACTOR, why(note="n"))
        assert (await ear.next()).kind == "changed"
        assert len(await store.notes(FIRST)) == 1
        await attempt_on(other, 2, Result("unknown"))
        assert (await ear.next()).kind == "changed"


async def test_sqlite_notices_within_one_poll(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(1)
    store = await sqlite_store.open(read_only=True)
    loop = asyncio.get_running_loop()
    async with listening(store) as ear:
        for n in range(5, 10):
            await sqlite_store.insert(order_row(n))
            began = loop.time()
            await ear.next()
            assert loop.time() - began < 10 * watch.SQLITE_POLL_SECONDS
            assert len(await ids(store)) == n - 3


async def test_sqlite_says_nothing_while_nothing_changes(
    sqlite_store: SQLiteRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SQLITE_POLL_SECONDS", 0.01)
    await sqlite_store.make(1)
    store = await sqlite_store.open()
    ear = Ear(store)
    await ear.next()
    await ids(store)
    await store.counts(Filter())
    await ear.nothing(0.3)


async def test_postgres_listens_where_a_trigger_tells(postgres_store: PostgresRig) -> None:
    await postgres_store.make(2)
    store = await postgres_store.open()
    assert store._attached.channel == "dlq_order_dlq"
    async with listening(store) as ear:
        await postgres_store.insert(order_row(7))
        await ear.next()
        await postgres_store.sql("UPDATE order_dlq SET retry_count = 1")
        await ear.next()


async def test_postgres_says_nothing_of_other_tables_where_it_listens(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    store = await postgres_store.open()
    ear = Ear(store)
    await ear.next()
    await postgres_store.sql("CREATE TABLE elsewhere (a int)")
    await postgres_store.sql("INSERT INTO elsewhere VALUES (1)")
    await ear.nothing(0.5)


@pytest.mark.parametrize("listens", [True, False])
async def test_commits_out_of_order_are_not_missed(postgres_store: PostgresRig, listens: bool) -> None:
    await postgres_store.make(1)
    if not listens:
        await postgres_store.sql("DROP TRIGGER order_dlq_notify ON order_dlq")
    store = await postgres_store.open()
    assert (store._attached.channel is not None) is listens
    names, insert = (
        ", ".join(orders.COLUMNS),
        "INSERT INTO order_dlq SELECT '{}', {} FROM order_dlq WHERE dlq_id = '{}'",
    )
    rest = names.removeprefix("dlq_id, ")
    async with postgres_store.connect() as early, postgres_store.connect() as late, listening(store) as ear:
        await early.execute("BEGIN")
        await early.execute(insert.format("early", rest, FIRST))
        await late.execute("BEGIN")
        await late.execute(insert.format("late", rest, FIRST))
        await late.execute("COMMIT")
        while "late" not in await ids(store):
            await ear.next()
        assert await ids(store) == [FIRST, "late"]
        await early.execute("COMMIT")
        while "early" not in await ids(store):
            await ear.next()
        assert sorted(await ids(store)) == [FIRST, "early", "late"]


async def test_a_replaced_file_is_lost(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(1)
    store = await sqlite_store.open()
    ear = Ear(store)
    await ear.next()
    await sqlite_store.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    Path(sqlite_store.target).unlink()
    lost = await ear.until("lost")
    assert "was replaced or removed" in lost.detail
    await ear.aclose()


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

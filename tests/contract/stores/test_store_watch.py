"""Noticing change on both engines; a server that goes and comes back; a commit whose answer is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from backends.layouts import orders
from backends.records import Filter
from backends.sql import watch
from backends.store import Result
from tests.support.store import (
    ACTOR,
    PostgresRig,
    Rig,
    SQLiteRig,
    attempt_on,
    entry_of,
    ids,
    order_row,
    why,
)
from tests.support.watch import Ear, listening

FIRST = "dlq_0000000000000000"


async def test_new_rows_dismissals_by_others_and_acts_are_noticed(store_rig: Rig) -> None:
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


async def test_a_connection_that_is_gone_is_no_longer_listened_on() -> None:
    """asyncpg may call it an error of its own where the server's answer comes at the wrong moment."""

    class Gone:
        async def remove_listener(self, *_: object) -> None:
            raise asyncpg.InternalClientError("got result for unknown protocol state 3")

    await watch._unlisten(Gone(), ("a", "b"), print)

"""The breaker that every console of a store shares: what it learnt of each venue, account and mode."""

from __future__ import annotations

import asyncio

from tests.support.store import ACTOR, PostgresRig, Rig, events_of, verdict, why

KEY = ("alpaca", "main", "live")
FIRST = "dlq_0000000000000000"


async def test_failures_in_a_row_open_it_for_every_console(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    assert await store.breakers() == {}
    for count in range(1, 5):
        learnt = await store.breaker_learns(KEY, good=False)
        assert (learnt.failures, learnt.opened_ago) == (count, None)
    assert (await other.breaker_learns(KEY, good=False)).opened_ago is not None
    (seen,) = (await store.breakers()).items()
    assert seen[0] == KEY
    assert seen[1].failures == 5
    assert 0 <= (seen[1].opened_ago or 0) < 60


async def test_a_success_ends_the_row_of_failures(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    for good in (False, False, False, False, True, False):
        await store.breaker_learns(KEY, good=good)
    row = (await store.breakers())[KEY]
    assert (row.failures, row.successes, row.opened_ago) == (1, 0, None)


async def test_two_successes_close_it_and_a_failure_between_opens_it_anew(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    for _ in range(5):
        await store.breaker_learns(KEY, good=False)
    await store_rig.sql(f"UPDATE {store_rig.ledger('breaker')} SET opened_at = opened_at - 100")
    half = await store.breaker_learns(KEY, good=True)
    assert (half.successes, (half.opened_ago or 0) >= 100) == (1, True)
    again = await store.breaker_learns(KEY, good=False)
    assert (again.successes, (again.opened_ago or 0) < 60) == (0, True)
    for _ in range(2):
        closed = await store.breaker_learns(KEY, good=True)
    assert (closed.failures, closed.successes, closed.opened_ago) == (0, 0, None)


async def test_each_account_and_mode_has_its_own_and_none_is_lost(store_rig: Rig) -> None:
    await store_rig.make(1)
    stores = [await store_rig.open() for _ in range(3)]
    keys = [KEY, ("alpaca", "", "live"), ("alpaca", "main", "paper")]
    await asyncio.gather(*(store.breaker_learns(key, good=False) for store in stores for key in keys))
    assert {key: row.failures for key, row in (await stores[0].breakers()).items()} == dict.fromkeys(keys, 3)
    assert await events_of(stores[0]) == [], "it is no act of a person"
    await stores[0].note(FIRST, ACTOR, why(note="n"))
    assert (await verdict(stores[0]))[0] is None


async def test_a_ledger_without_it_gets_it_with_the_next_act(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    await (await postgres_store.open()).note(FIRST, ACTOR, why(note="n"))
    await postgres_store.sql("DROP TABLE dlq_console.breaker")
    store = await postgres_store.open()
    assert await store.breakers() == {}
    assert (await store.breaker_learns(KEY, good=False)).failures == 1
    assert (await store.breakers())[KEY].failures == 1

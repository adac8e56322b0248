"""The figures that only an outbox has: reasons, returns, and the rows and leases of the outbox itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backends import open_store
from backends.records import Selection
from backends.sql.other.store import OutboxStore
from console.services.stats.metrics import Family
from console.services.stats.own_metrics import own_families
from tests.support.orders import row, sqlite_store
from tests.support.outbox import OutboxRig, dead_row, entry, requeue
from tests.support.outbox_desk import Desk
from tests.support.store import ACTOR, why

LOADS = ("dlq_outbox_depth", "dlq_outbox_leased", "dlq_outbox_leases_expired", "dlq_outbox_oldest_lease_seconds")


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


async def figures(store: OutboxStore) -> dict[str, dict[tuple[str, ...], float]]:
    return {one.name: _samples(one) for one in await own_families(store)}


def _samples(family: Family) -> dict[tuple[str, ...], float]:
    return {tuple(labels.values()): value for labels, value in family.samples}


async def test_open_messages_are_counted_by_queue_and_reason(rig: OutboxRig) -> None:
    await rig.dead(1, 2, 3, dead_row(4, queue="mail", failure_reason="rejected"), dead_row(5, queue="mail"))
    store = await rig.store()
    assert (await figures(store))["dlq_open_by_reason"] == {
        ("mail", "rejected"): 1,
        ("mail", "retry_terminal"): 1,
        ("orders", "retry_terminal"): 3,
    }
    await store.dismiss(Selection.of([await entry(store, "5")]), ACTOR, why())
    await requeue(store, "1")
    await rig.fail_again()
    counted = await figures(store)
    assert counted["dlq_open_by_reason"] == {("mail", "rejected"): 1, ("orders", "retry_terminal"): 3}
    assert counted["dlq_came_back"] == {(): 1}


async def test_rows_and_leases_of_the_outbox_are_counted(rig: OutboxRig) -> None:
    await rig.sql(
        "INSERT INTO outbox (queue, payload, acquired_at, acquired_token) VALUES ('orders', '', NULL, NULL), "
        "('orders', '', now(), gen_random_uuid()), ('orders', '', now() - interval '5 min', gen_random_uuid()), "
        "('mail', '', NULL, NULL)"
    )
    depth, leased, expired, oldest = [(await figures(await rig.store()))[name] for name in LOADS]
    assert (depth, leased) == ({("orders",): 3, ("mail",): 1}, {("orders",): 2, ("mail",): 0})
    assert expired == {("orders",): 1, ("mail",): 0}
    assert oldest[("orders",)] >= 300
    assert oldest[("mail",)] == 0


@pytest.mark.parametrize("rights", [("SELECT (id) ON outbox",), ("SELECT (queue, acquired_token) ON outbox",)])
async def test_an_outbox_that_this_role_may_not_read_has_no_figures(rig: OutboxRig, rights: tuple[str, ...]) -> None:
    await rig.sql("INSERT INTO outbox (queue, payload) VALUES ('orders', '')")
    looker = await rig.role("looker", "SELECT ON outbox_dlq", *rights)
    counted = await figures(await rig.store(target=looker))
    assert counted["dlq_outbox_readable"] == {(): 0}
    assert [counted[name] for name in LOADS] == [{}] * 4
    assert (await figures(await rig.store()))["dlq_outbox_readable"] == {(): 1}


async def test_an_outbox_in_a_schema_that_is_closed_or_not_chosen_has_no_figures(rig: OutboxRig) -> None:
    await rig.tables(outbox="events", dlq=None, schema="shop")
    assert (await figures(await rig.store()))["dlq_outbox_readable"] == {(): 0}
    looker = await rig.role("looker", "SELECT ON outbox_dlq")
    chosen = await rig.store(target=looker, outbox_table="shop.events")
    assert (await figures(chosen))["dlq_outbox_readable"] == {(): 0}


async def test_what_the_ledger_tells_is_left_out_where_it_cannot_be_read(rig: OutboxRig) -> None:
    await rig.dead(1, 2)
    await requeue(await rig.store(), "1")
    looker = await rig.role("looker", "SELECT ON outbox_dlq")
    counted = await figures(await rig.store(target=looker))
    assert (counted["dlq_open_by_reason"], counted["dlq_came_back"]) == ({}, {})


async def test_orders_have_no_such_figures(tmp_path: Path) -> None:
    store = await open_store(sqlite_store(tmp_path / "orders.db", [row(1)]))
    assert await own_families(store) == ()
    await store.aclose()


def test_the_exporter_prints_them(postgres_db: str, tmp_path: Path) -> None:
    desk = Desk.made(postgres_db, tmp_path)
    desk.replay("1")
    found = {one.name: one for one in text_string_to_metric_families(desk("metrics").out)}
    assert found["dlq_came_back"].samples[0].value == 1
    assert found["dlq_outbox_readable"].samples[0].value == 1

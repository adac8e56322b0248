"""An outbox's dead letters are found by their columns, and what is odd about them is named."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from backends import BadTarget, NotADLQ, open_store
from backends.layouts import orders
from backends.records import Filter, Selection
from backends.store import ActRefused
from tests.support.outbox import OutboxRig, dead_row, requeue
from tests.support.store import ACTOR, EVERYTHING, ids, table_findings, walk, why


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    yield rig
    await rig.aclose()


async def test_found_by_its_columns_whatever_its_name(rig: OutboxRig) -> None:
    await rig.tables(outbox="events", dlq="Graveyard of events", schema="shop")
    store = await rig.store()
    assert (store.info.layout, store.info.table) == ("outbox", "shop.Graveyard of events")
    assert table_findings(store) == ()
    assert store.check_requeue() == "shop.events"


async def test_an_outbox_alone_is_no_dead_letter_queue(rig: OutboxRig) -> None:
    await rig.tables(dlq=None)
    with pytest.raises(NotADLQ, match="no dead-letter queue"):
        await rig.store()


async def test_beside_a_queue_of_orders_one_must_be_chosen(rig: OutboxRig) -> None:
    await rig.tables()
    for statement in orders.postgres_ddl("order_dlq"):
        await rig.sql(statement)
    with pytest.raises(BadTarget, match=r"several .*--table .*order_dlq, outbox_dlq"):
        await rig.store()
    assert (await rig.store(table="outbox_dlq")).info.layout == "outbox"
    chosen = await open_store(rig.target, table="order_dlq")
    assert chosen.info.layout == "orders"
    await chosen.aclose()


async def test_a_table_without_timers_is_read_and_replayed(rig: OutboxRig) -> None:
    await rig.tables()
    await rig.sql("ALTER TABLE outbox_dlq DROP COLUMN timer_id")
    row = dead_row(1)
    del row["timer_id"]
    await rig.dead(row)
    store = await rig.store()
    assert [finding.code for finding in table_findings(store)] == ["missing-column"]
    assert "timer_id" in table_findings(store)[0].text
    assert "timer_id" not in store.info.columns
    await requeue(store, "1")
    assert [made["timer_id"] for made in await rig.outbox_rows()] == [None]


async def test_a_partitioned_table_is_one_queue(rig: OutboxRig) -> None:
    await rig.tables(dlq=None)
    await rig.partitioned()
    await rig.dead(*range(6))
    store = await rig.store(delete_after_replay=True)
    assert store.info.table == "outbox_dlq"
    assert [one.id for one in await walk(store, Filter(), limit=4)] == ["1", "2", "3", "4", "5", "6"]
    await requeue(store, "2")
    await requeue(store, "6")
    assert await ids(store, Filter()) == ["1", "3", "4", "5"]
    assert [row["payload"] for row in await rig.outbox_rows()] == [b'{"n": 1}', b'{"n": 5}']


async def test_drift_is_named(rig: OutboxRig) -> None:
    await rig.tables()
    await rig.sql("ALTER TABLE outbox_dlq ALTER COLUMN headers TYPE json, ADD COLUMN shard int DEFAULT 0")
    await rig.sql("ALTER TABLE outbox ALTER COLUMN next_attempt_at DROP DEFAULT")
    await rig.sql("DROP INDEX outbox_timer_id_uq")
    await rig.dead(1)
    store = await rig.store()
    found = {finding.code: finding.text for finding in store.info.findings}
    assert "outbox_dlq.headers is json" in found["changed-type"]
    assert "shard" in found["extra-column"]
    assert "(queue, timer_id)" in found["outbox-timers"]
    await requeue(store, "1")
    assert (await rig.outbox_rows())[0]["next_attempt_at"] is not None


async def test_what_the_packages_own_tables_have_is_missed_and_made_by_the_finding(rig: OutboxRig) -> None:
    await rig.tables()
    for index in ("outbox_dlq_queue_failed_idx", "outbox_pending_idx", "outbox_leased_idx"):
        await rig.sql(f"DROP INDEX {index}")
    await rig.sql("ALTER TABLE outbox DROP CONSTRAINT outbox_lease_ck")
    found = table_findings(await rig.store())
    assert [one.code for one in found] == ["no-queue-index", "no-lease-check", "no-fetch-index", "no-lease-index"]
    for finding in found:
        await rig.sql(finding.sql)
    assert table_findings(await rig.store()) == ()


async def test_an_index_of_a_partitioned_table_is_made_as_postgres_can(rig: OutboxRig) -> None:
    await rig.tables(dlq=None)
    await rig.partitioned()
    (finding,) = [one for one in table_findings(await rig.store()) if one.sql]
    assert finding.code == "no-queue-index"
    await rig.sql(finding.sql)
    assert [one.code for one in table_findings(await rig.store())] == ["ids-may-repeat"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("ALTER TABLE outbox DROP COLUMN headers", "no column headers"),
        ("ALTER TABLE outbox ADD COLUMN shard int NOT NULL", "shard needs a value"),
        ("DROP TABLE outbox", "no table has an outbox's columns"),
    ],
)
async def test_an_outbox_that_drifted_too_far_takes_no_replay(rig: OutboxRig, change: str, says: str) -> None:
    await rig.tables()
    await rig.dead(1)
    await rig.sql(change)
    store = await rig.store()
    assert any(says in finding.text for finding in store.info.findings)
    with pytest.raises(ActRefused, match=says):
        await requeue(store, "1")
    assert await ids(store, Filter()) == ["1"]


async def test_of_several_outboxes_the_config_names_one(rig: OutboxRig) -> None:
    await rig.tables()
    await rig.tables(outbox="outbox", dlq=None, schema="other")
    await rig.tables(outbox="events", dlq=None)
    await rig.dead(1, 2)
    undecided = await rig.store()
    assert [finding.code for finding in table_findings(undecided)] == ["several-outboxes"]
    with pytest.raises(ActRefused, match=r"several outboxes .*outbox_table"):
        await requeue(undecided, "1")
    nowhere = await rig.store(outbox_table="nowhere")
    assert [finding.code for finding in table_findings(nowhere)] == ["no-outbox"]
    with pytest.raises(ActRefused, match="there is no such outbox"):
        await requeue(nowhere, "1")
    decided = await rig.store(outbox_table="events")
    assert table_findings(decided) == ()
    await requeue(decided, "1")
    await requeue(await rig.store(outbox_table="public.outbox"), "2")
    assert [row["payload"] for row in await rig.outbox_rows("events")] == [b'{"n": 1}']
    assert [row["payload"] for row in await rig.outbox_rows("public.outbox")] == [b'{"n": 2}']
    assert await rig.outbox_rows("other.outbox") == []


async def test_columns_that_may_not_be_read_are_said(rig: OutboxRig) -> None:
    await rig.tables()
    stranger = await rig.role("stranger")
    with pytest.raises(NotADLQ, match="may not read it"):
        await rig.store(target=stranger)
    partly = await rig.role("partly", "SELECT (id, original_id, queue, failed_at, failure_reason) ON outbox_dlq")
    with pytest.raises(NotADLQ, match="may not read its columns payload"):
        await rig.store(target=partly)


async def test_read_only_is_enforced_by_the_database_where_nothing_could_be_written(rig: OutboxRig) -> None:
    await rig.tables()
    looker = await rig.role("looker", "SELECT ON outbox_dlq")
    assert (await rig.store(target=looker, read_only=True)).info.read_only_enforced_by == "database"
    sender = await rig.role("sender", "SELECT ON outbox_dlq", "INSERT ON outbox")
    assert (await rig.store(target=sender, read_only=True)).info.read_only_enforced_by == "client"
    with pytest.raises(ActRefused, match="read-only"):
        await (await rig.store(read_only=True)).requeue("1", ("",), ACTOR, why())


async def test_looking_makes_nothing(rig: OutboxRig) -> None:
    await rig.tables()
    await rig.dead(1)
    before = await rig.schema()
    store = await rig.store()
    await walk(store)
    await store.counts(Filter())
    await store.attempts("1")
    assert await rig.schema() == before


@pytest.mark.parametrize(("name", "value"), [("delete_after_replay", "yes"), ("replay_header", 1), ("outbox_table", 3)])
async def test_a_setting_of_the_wrong_kind_is_said(rig: OutboxRig, name: str, value: Any) -> None:
    await rig.tables()
    with pytest.raises(BadTarget, match=name):
        await rig.store(**{name: value})


async def test_names_that_need_quoting_are_quoted_everywhere(rig: OutboxRig) -> None:
    odd = "we\"ird:%s' $1 tbl"
    await rig.tables(outbox="out:%s'box", dlq=odd, schema="s1:x")
    quoted = odd.replace('"', '""')
    await rig.dead(1, 2, table=f'"s1:x"."{quoted}"')
    store = await rig.store(delete_after_replay=True)
    assert store.info.table == f"s1:x.{odd}"
    await requeue(store, "1")
    found = (await store.page(Filter(terms=("bad",), venue="orders"), limit=5)).entries
    assert [one.id for one in found] == ["2"]
    assert (await store.dismiss(Selection.of(found), ACTOR, why())).done == ("2",)
    assert dict((await store.counts(EVERYTHING)).by_state) == {"pending": 0, "dismissed": 1}
    (row,) = await rig.outbox_rows('"s1:x"."out:%s\'box"')
    assert row["headers"].endswith(f'"x-dlq-replay-of": {json.dumps(odd + ":1")}}}')

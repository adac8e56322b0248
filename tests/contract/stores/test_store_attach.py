"""Attaching: the layout is found by its columns, drift is reported, degraded or refused."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from backends.layouts import orders
from backends.records import Finding, malformed, number
from backends.sql.store import SQLStore
from backends.store import BadTarget, NotADLQ
from tests.store import ACTOR, BASE, EVERYTHING, PostgresRig, Rig, SQLiteRig, attempt_on, entry_of, ids, order_row, pick, walk, why
from backends.store import Result


def codes(store: SQLStore) -> set[str]:
    return {finding.code for finding in store.info.findings} - {"busy-timeout"}


def finding(store: SQLStore, code: str) -> Finding:
    return next(found for found in store.info.findings if found.code == code)


async def test_found_by_its_columns_whatever_its_name(store_rig: Rig) -> None:
    await store_rig.make(3, table="Odd name: of a 'queue'")
    await store_rig.sql("CREATE TABLE order_dlq (id integer, payload text)")
    store = await store_rig.open()
    assert store.info.table == "Odd name: of a 'queue'"
    assert store.info.layout == "orders"
    assert store.info.columns == orders.COLUMNS
    assert len(await ids(store)) == 3
    done = await store.dismiss(await pick(store, 1), ACTOR, why())
    assert done.done == ("dlq_0000000000000001",)
    assert codes(store) == set()


async def test_two_queues_need_a_table(store_rig: Rig) -> None:
    await store_rig.make(2, table="first")
    await store_rig.make(1, table="second")
    with pytest.raises(BadTarget, match=r"--table \(first, second\)"):
        await store_rig.open()
    assert len(await ids(await store_rig.open(table="first"))) == 2
    assert len(await ids(await store_rig.open(table="second"))) == 1
    with pytest.raises(BadTarget, match="no dead-letter queue named third; there are: first, second"):
        await store_rig.open(table="third")


async def test_two_queues_of_one_database_keep_their_ledgers_apart(store_rig: Rig) -> None:
    await store_rig.make(2, table="first")
    await store_rig.make(2, table="second")
    first, second = await store_rig.open(table="first"), await store_rig.open(table="second")
    await attempt_on(first, 0, Result("unknown"))
    assert (await entry_of(first)).state == "in_doubt"
    assert (await entry_of(second)).state == "pending"
    assert await second.attempts("dlq_0000000000000000") == ()
    assert await second.events("dlq_0000000000000000") == ()
    assert (await second.dismiss(await pick(second, 0), ACTOR, why())).done == ("dlq_0000000000000000",)
    assert (await entry_of(first)).state == "in_doubt"


async def test_a_schema_chooses_on_postgres(postgres_store: PostgresRig) -> None:
    await postgres_store.make(2)
    await postgres_store.sql("CREATE SCHEMA desk")
    for statement in orders.postgres_ddl("order_dlq", "desk"):
        await postgres_store.sql(statement)
    with pytest.raises(BadTarget, match=r"desk\.order_dlq, order_dlq"):
        await postgres_store.open()
    desk = await postgres_store.open(table="desk.order_dlq")
    assert desk.info.table == "desk.order_dlq"
    assert await ids(desk) == []
    assert len(await ids(await postgres_store.open(table="order_dlq"))) == 2
    assert len(await ids(await postgres_store.open(table="public.order_dlq"))) == 2


async def test_no_queue_inside(store_rig: Rig) -> None:
    await store_rig.sql("CREATE TABLE something (dlq_id text, other text)")
    with pytest.raises(NotADLQ, match="no dead-letter queue: no table with the columns action_json, dismissed, dlq_id"):
        await store_rig.open()


async def test_a_required_column_missing_is_refused(store_rig: Rig) -> None:
    await store_rig.sql("CREATE TABLE q (dlq_id text, action_json text, dismissed integer, captured_at text, error text)")
    with pytest.raises(NotADLQ, match="q lacks the column market_id, quantity, side, venue_name"):
        await store_rig.open()


async def test_known_columns_missing_degrade_and_are_named(store_rig: Rig) -> None:
    kind = "timestamptz" if store_rig.on_postgres else "text"
    await store_rig.sql(
        f"CREATE TABLE q (dlq_id text PRIMARY KEY, captured_at {kind}, venue_name text, market_id text, side text, "
        "quantity double precision, error text, dismissed integer NOT NULL DEFAULT 0, action_json text, added text)"
    )
    row = order_row(0, dismissed=0)
    for name in ("account_id", "order_type", "price", "client_order_id", "retry_count"):
        del row[name]
    await store_rig.insert(row | {"added": "x"}, "q")
    store = await store_rig.open()
    missing = [found.text for found in store.info.findings if found.code == "missing-column"]
    assert len(missing) == 5
    assert "q has no column retry_count: retries are counted in the ledger alone" in missing
    assert finding(store, "extra-column").text == "q has further columns, left alone: added"
    entry = await entry_of(store)
    assert entry.names == store.info.columns
    assert entry.get("price") is None
    assert entry.version == (0,)
    await attempt_on(store, 0, Result("rejected", error="no"))
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done == (entry.id,)
    assert (await store.restore(await pick(store, 0), ACTOR, why())).done == (entry.id,)
    assert (await store_rig.sql("SELECT added FROM q")) == [("x",)]


async def test_changed_types_on_postgres_are_read_as_they_are(postgres_store: PostgresRig) -> None:
    await postgres_store.sql(
        "CREATE TABLE q (dlq_id varchar(40) PRIMARY KEY, captured_at text NOT NULL, venue_name text, account_id text, "
        "market_id text, side text, quantity numeric(30, 12), order_type text, price real, client_order_id uuid, "
        "error text, retry_count numeric, dismissed integer NOT NULL, action_json jsonb)"
    )
    await postgres_store.sql(
        "INSERT INTO q VALUES ('b', '2026-04-18T14:00:00Z', 'alpaca', null, 'AAPL', 'buy', 0.300000000000, 'limit', 0.1, "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'boom', 2, 0, '{\"b\": 1.50, \"a\": [1, 2]}'), "
        "('a', 'yesterday', 'alpaca', null, 'AAPL', 'buy', 'NaN', 'limit', null, null, 'boom', null, 1, null)"
    )
    store = await postgres_store.open()
    changed = [found.text for found in store.info.findings if found.code == "changed-type"]
    assert [text.split(" ")[0] for text in changed] == [
        "q.captured_at",
        "q.quantity",
        "q.price",
        "q.client_order_id",
        "q.retry_count",
        "q.dismissed",
        "q.action_json",
    ]
    assert "pages follow its spelling" in changed[0]
    first, second = await walk(store, limit=1)
    assert first.get("quantity") == Decimal("0.300000000000")
    assert number(first.get("price")) == Decimal("0.1")
    assert first.get("client_order_id") == "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    assert first.get("action_json") == '{"a": [1, 2], "b": 1.50}'
    assert (first.state, second.state) == ("pending", "dismissed")
    assert "captured_at: not a time" in malformed(second)
    assert "quantity: not a finite number" in malformed(second)
    claim = await store.claim(first.id, first.version, ACTOR, 30)
    assert not hasattr(claim, "why"), claim
    done = await store.restore((await pick_all(store, second.id)), ACTOR, why())
    assert done.done == ("a",)


async def pick_all(store: SQLStore, *wanted: str):  # type: ignore[no-untyped-def]  # replaced below
    raise NotImplementedError

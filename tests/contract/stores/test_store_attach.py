"""Attaching: the layout is found by its columns, drift is reported, degraded or refused."""

from __future__ import annotations

import pytest

from backends import open_store
from backends.layouts import orders
from backends.records import Finding
from backends.sql.store import SQLStore
from backends.store import ActRefused, BadTarget, ClaimRefused, NotADLQ, Result
from tests.support.store import (
    ACTOR,
    PostgresRig,
    Rig,
    attempt_on,
    entry_of,
    ids,
    pick,
    table_findings,
    walk,
    why,
)


def codes(store: SQLStore) -> set[str]:
    return {finding.code for finding in table_findings(store)} - {"busy-timeout"}


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
    with pytest.raises(BadTarget, match=r"desk\.order_dlq, public\.order_dlq"):
        await postgres_store.open(table="order_dlq")
    assert len(await ids(await postgres_store.open(table="public.order_dlq"))) == 2


async def test_only_schemas_that_this_role_may_use_count(postgres_store: PostgresRig) -> None:
    await postgres_store.make(2)
    role = f"clerk_{postgres_store.target.rpartition('/')[2]}"
    await postgres_store.sql(f"CREATE ROLE {role} LOGIN")
    for schema in ("desk", "vault"):
        await postgres_store.sql(f"CREATE SCHEMA {schema}")
        await postgres_store.sql(f"CREATE TABLE {schema}.dead AS TABLE order_dlq")
        await postgres_store.sql(f"GRANT SELECT ON {schema}.dead TO {role}")
    await postgres_store.sql(f"GRANT USAGE ON SCHEMA desk TO {role}")
    clerk = postgres_store.target.replace("//postgres@", f"//{role}@")
    store = await open_store(clerk, table="dead")
    assert store.info.table == "desk.dead"
    await store.aclose()
    with pytest.raises(NotADLQ, match=r"vault\.dead is a dead-letter queue, but this role may not read it"):
        await open_store(clerk, table="vault.dead")
    with pytest.raises(BadTarget, match=r"desk\.dead, order_dlq\)"):
        await open_store(clerk)
    await postgres_store.sql(f"DROP OWNED BY {role}")
    await postgres_store.sql(f"DROP ROLE {role}")


async def test_no_queue_inside(store_rig: Rig) -> None:
    await store_rig.sql("CREATE TABLE something (dlq_id text, other text)")
    with pytest.raises(NotADLQ, match="no dead-letter queue: no table with the columns action_json, dismissed, dlq_id"):
        await store_rig.open()


async def test_a_required_column_missing_is_refused(store_rig: Rig) -> None:
    await store_rig.sql(
        "CREATE TABLE q (dlq_id text, action_json text, dismissed integer, captured_at text, error text)"
    )
    with pytest.raises(NotADLQ, match="q lacks the column market_id, quantity, side, venue_name"):
        await store_rig.open()


async def test_a_view_can_be_read_but_not_acted_on(store_rig: Rig) -> None:
    await store_rig.make(3)
    await store_rig.sql("CREATE VIEW seen AS SELECT * FROM order_dlq")
    assert (await store_rig.open()).info.table == "order_dlq", "a table goes before a view"
    store = await store_rig.open(table="seen")
    assert codes(store) == {"view"}
    assert len(await walk(store, limit=2)) == 3
    with pytest.raises(ActRefused, match="seen is a view"):
        await store.dismiss(await pick(store, 0), ACTOR, why())


async def test_several_rows_of_one_id_are_not_acted_on(store_rig: Rig) -> None:
    await store_rig.make(1)
    await store_rig.sql("CREATE TABLE q AS SELECT * FROM order_dlq UNION ALL SELECT * FROM order_dlq")
    store = await store_rig.open(table="q")
    assert "no-unique-id" in codes(store)
    with pytest.raises(ActRefused, match="several rows of one dlq_id"):
        await store.dismiss(await pick(store, 0), ACTOR, why())
    entry = await entry_of(store)
    taken = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert isinstance(taken, ClaimRefused)
    assert "several rows" in taken.why
    assert await store_rig.sql(f"SELECT count(*) FROM q WHERE dismissed = {store_rig.flag(True)}") == [(0,)]


async def test_not_readable_is_said(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    blind = await postgres_store.role("blind")
    with pytest.raises(NotADLQ, match="order_dlq is a dead-letter queue, but this role may not read it"):
        await postgres_store.open(target=blind)
    partly = await postgres_store.role("partly", "SELECT (dlq_id, captured_at, dismissed) ON order_dlq")
    with pytest.raises(NotADLQ, match="may not read its columns action_json, error, market_id, quantity"):
        await postgres_store.open(target=partly)
    most = ", ".join(name for name in orders.COLUMNS if name != "price")
    column_wise = await postgres_store.role("columnwise", f"SELECT ({most}) ON order_dlq")
    store = await postgres_store.open(target=column_wise)
    assert "price" not in store.info.columns
    assert len(await ids(store)) == 1

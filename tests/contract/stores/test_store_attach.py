"""Attaching: the layout is found by its columns, drift is reported, degraded or refused."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from backends.layouts import orders
from backends.records import Attempt, Finding, malformed, number
from backends.sql.store import SQLStore
from backends.store import ActRefused, BadTarget, Claim, NotADLQ, Result, Taken
from tests.store import (
    ACTOR,
    BASE,
    EVERYTHING,
    INTENT,
    PostgresRig,
    Rig,
    SQLiteRig,
    attempt_on,
    choose,
    entry_of,
    ids,
    order_row,
    pick,
    walk,
    why,
)


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
    await store_rig.sql(
        "CREATE TABLE q (dlq_id text, action_json text, dismissed integer, captured_at text, error text)"
    )
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
        "INSERT INTO q VALUES ('b', '2026-04-18T14:00:00Z', 'alpaca', null, 'AAPL', 'buy', 0.300000000000, 'limit', "
        "0.1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'boom', 2, 0, '{\"b\": 1.50, \"a\": [1, 2]}'), "
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
    await attempt(store, first.id)
    assert (await store.restore(await choose(store, second.id), ACTOR, why())).done == ("a",)
    assert (await store.dismiss(await choose(store, second.id), ACTOR, why())).done == ("a",)


async def attempt(store: SQLStore, entry_id: str) -> None:
    """Claimed, sent and rejected: the retry count goes up by one where it can."""
    entry = (await store.many((entry_id,)))[entry_id]
    claim = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert isinstance(claim, Claim), claim
    assert isinstance(await store.intend(claim, INTENT, ACTOR, why()), Attempt)
    assert await store.conclude(claim, Result("rejected", error="no"), ACTOR, why())
    after = (await store.many((entry_id,)))[entry_id]
    before = entry.get("retry_count")
    if store._attached.counts_retries:
        assert after.get("retry_count") == (before or 0) + 1  # type: ignore[operator]  # whatever number the column holds


async def test_a_dismissed_that_cannot_be_understood_is_refused(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    await postgres_store.sql("DROP TRIGGER order_dlq_worm_upd ON order_dlq")
    await postgres_store.sql("DROP INDEX order_dlq_open")
    await postgres_store.sql("ALTER TABLE order_dlq ALTER dismissed DROP DEFAULT")
    await postgres_store.sql("ALTER TABLE order_dlq ALTER dismissed TYPE text")
    with pytest.raises(NotADLQ, match="dismissed is text: cannot tell what is open"):
        await postgres_store.open()


async def test_a_retry_count_that_is_text_on_postgres_is_left_alone(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    await postgres_store.sql("ALTER TABLE order_dlq ALTER retry_count DROP DEFAULT")
    await postgres_store.sql("ALTER TABLE order_dlq ALTER retry_count TYPE text USING 'many'")
    store = await postgres_store.open()
    assert "order_dlq.retry_count is text, not integer: read as stored" in {f.text for f in store.info.findings}
    await attempt(store, "dlq_0000000000000000")
    assert (await entry_of(store)).get("retry_count") == "many"
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done == ("dlq_0000000000000000",)


async def test_declared_types_drift_on_sqlite(sqlite_store: SQLiteRig) -> None:
    columns = ", ".join(f"{name} TEXT" if name == "retry_count" else name for name in orders.COLUMNS)
    await sqlite_store.sql(f"CREATE TABLE q ({columns})")
    await sqlite_store.insert(order_row(0, dismissed=0, retry_count="2"), "q")
    store = await sqlite_store.open()
    changed = {found.text for found in store.info.findings if found.code == "changed-type"}
    assert "q.retry_count is text, not integer: read as stored" in changed
    assert "q.error is blob, not text: read as stored" in changed
    assert codes(store) == {
        "changed-type",
        "no-update-trigger",
        "no-delete-trigger",
        "replace-hole",
        "no-unique-id",
        "no-open-index",
    }
    entry = await entry_of(store)
    assert entry.get("retry_count") == "2"
    assert malformed(entry) == ("retry_count: not a count",)
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done == (entry.id,)


async def test_every_column_may_be_null(store_rig: Rig) -> None:
    kinds = {"captured_at": "timestamptz", "quantity": "double precision", "price": "double precision"}
    kinds |= {"retry_count": "integer", "dismissed": "boolean" if store_rig.on_postgres else "integer"}
    if not store_rig.on_postgres:
        kinds["captured_at"] = "text"
    await store_rig.sql("CREATE TABLE q (" + ", ".join(f"{c} {kinds.get(c, 'text')}" for c in orders.COLUMNS) + ")")
    await store_rig.insert(dict.fromkeys(orders.COLUMNS) | {"dlq_id": "nothing"}, "q")
    await store_rig.insert(dict.fromkeys(orders.COLUMNS), "q")
    await store_rig.insert(order_row(1), "q")
    store = await store_rig.open()
    entries = {entry.id: entry for entry in await walk(store, limit=1)}
    assert set(entries) == {"nothing", "NULL", "dlq_0000000000000001"}
    assert entries["nothing"].state == "pending"
    assert set(malformed(entries["nothing"])) == {
        f"{name}: missing" for name in ("captured_at", "venue_name", "market_id", "side", "quantity", "error")
    }
    assert "dlq_id: missing" in malformed(entries["NULL"])
    assert (await store.counts(EVERYTHING)).by_state["pending"] == 3
    await attempt(store, "nothing")
    assert (await store.dismiss(await choose(store, "nothing"), ACTOR, why())).done == ("nothing",)
    assert (await store.counts(EVERYTHING)).by_state["pending"] == 2
    assert (await store.restore(await choose(store, "nothing"), ACTOR, why())).done == ("nothing",)


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
    assert isinstance(taken, Taken)
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


async def test_sqlite_views_of_time_without_rowid(sqlite_store: SQLiteRig) -> None:
    columns = ", ".join("dlq_id TEXT PRIMARY KEY" if name == "dlq_id" else name for name in orders.COLUMNS)
    await sqlite_store.sql(f"CREATE TABLE q ({columns}) WITHOUT ROWID")
    times = [BASE + timedelta(seconds=n) for n in (3, 1, 2, 2)]
    await sqlite_store.fill([order_row(n, captured_at=time) for n, time in enumerate(times)], "q")
    store = await sqlite_store.open()
    assert store.info.order == "captured_at"
    assert [entry.id[-1] for entry in await walk(store, limit=1)] == ["1", "2", "3", "0"]
    for found in store.info.findings:
        if found.sql:
            await sqlite_store.sql(found.sql)
    assert codes(await sqlite_store.open()) == {"changed-type"}

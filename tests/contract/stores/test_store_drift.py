"""Drift: columns missing, more, of another type or NULL are named, degraded or refused, and acted on rightly."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from backends.layouts import orders
from backends.records import Attempt, Finding, malformed, number
from backends.sql.store import SQLStore
from backends.store import Claim, NotADLQ, Result
from tests.support.store import (
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
    order_row,
    pick,
    table_findings,
    walk,
    why,
)


def codes(store: SQLStore) -> set[str]:
    return {finding.code for finding in table_findings(store)} - {"busy-timeout"}


def finding(store: SQLStore, code: str) -> Finding:
    return next(found for found in store.info.findings if found.code == code)


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


async def test_a_flag_kept_as_text_can_be_set_on_sqlite(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.sql(
        "CREATE TABLE q (dlq_id text PRIMARY KEY, captured_at text, venue_name text, market_id text, side text, "
        "quantity real, error text, dismissed text, action_json text)"
    )
    row = order_row(0, dismissed="0")
    for name in ("account_id", "order_type", "price", "client_order_id", "retry_count"):
        del row[name]
    await sqlite_store.insert(row, "q")
    store = await sqlite_store.open()
    identity = row["dlq_id"]
    assert malformed(await entry_of(store)) == ()
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done == (identity,)
    assert (await entry_of(store)).state == "dismissed"
    assert (await store.restore(await pick(store, 0), ACTOR, why())).done == (identity,)
    assert (await sqlite_store.sql("SELECT dismissed FROM q")) == [("0",)]


async def test_numbers_kept_as_text_are_numbers(store_rig: Rig) -> None:
    kind = "timestamptz" if store_rig.on_postgres else "text"
    await store_rig.sql(
        f"CREATE TABLE q (dlq_id text PRIMARY KEY, captured_at {kind}, venue_name text, market_id text, side text, "
        "quantity text, price text, error text, dismissed integer NOT NULL DEFAULT 0, action_json text)"
    )
    row = order_row(0, dismissed=0, quantity="100.00", price="1e-9")
    for name in ("account_id", "order_type", "client_order_id", "retry_count"):
        del row[name]
    await store_rig.insert(row, "q")
    entry = await entry_of(await store_rig.open())
    assert (entry.get("quantity"), entry.get("price")) == ("100.00", "1e-9")
    assert (number(entry.get("quantity")), number(entry.get("price"))) == (Decimal(100), Decimal("1e-9"))
    assert malformed(entry) == ()


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


@pytest.mark.parametrize("kind", ["uuid", "bigint"])
async def test_ids_that_are_not_text_on_postgres(postgres_store: PostgresRig, kind: str) -> None:
    await postgres_store.make(3)
    number = (
        "right(dlq_id, 8)::bigint"
        if kind == "bigint"
        else "('00000000-0000-0000-' || right(dlq_id, 4) || '-000000000000')::uuid"
    )
    await postgres_store.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    await postgres_store.sql(f"ALTER TABLE q ALTER dlq_id TYPE {kind} USING {number}")
    store = await postgres_store.open(table="q")
    assert f"q.dlq_id is {kind}, not text: finding an entry reads the whole table" in {
        f.text for f in store.info.findings
    }
    first, second, third = [entry.id for entry in await walk(store, limit=1)]
    await attempt(store, first)
    assert (await store.dismiss(await choose(store, second), ACTOR, why())).done == (second,)
    assert len(await store.events(second)) == 1
    assert [entry.state for entry in await walk(store)] == ["pending", "dismissed", "pending"]
    assert (await store.counts(EVERYTHING)).by_state == {"pending": 2, "dismissed": 1}
    assert await store.get("no such id") is None
    assert third in {entry.id for entry in (await store.page(EVERYTHING, limit=9)).entries}


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

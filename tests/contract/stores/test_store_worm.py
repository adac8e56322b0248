"""The triggers of `dlq init` keep rows unchanged; a store without them gets findings with SQL that adds them."""

from __future__ import annotations

import pytest

from backends.layouts import orders
from backends.layouts.create import make_store
from backends.sql.store import SQLStore
from backends.store import BadTarget
from tests.support.store import ACTOR, PostgresRig, Rig, SQLiteRig, entry_of, ids, order_row, pick, table_findings, why


def holes(store: SQLStore) -> set[str]:
    return {finding.code for finding in table_findings(store)} - {"busy-timeout", "journal-mode"}


async def refused(rig: Rig, statement: str, *args: object) -> None:
    with pytest.raises(Exception, match="WORM"):
        await rig.sql(statement, *args)


async def contents(rig: Rig) -> list[tuple[object, ...]]:
    return await rig.sql("SELECT * FROM order_dlq ORDER BY dlq_id")


@pytest.mark.parametrize("column", orders.IDENTITY)
async def test_no_identity_column_can_be_changed(store_rig: Rig, column: str) -> None:
    await store_rig.make(2)
    before = await contents(store_rig)
    value = {"captured_at": "'2020-01-01'", "quantity": "999", "price": "999"}.get(column, "'x'")
    await refused(store_rig, f"UPDATE order_dlq SET {column} = {value} WHERE dlq_id LIKE '%1'")
    await refused(store_rig, f"UPDATE order_dlq SET dismissed = dismissed, {column} = {value}")
    if not store_rig.on_postgres:
        await refused(store_rig, f"UPDATE OR IGNORE order_dlq SET {column} = {value}")
        await refused(store_rig, f"UPDATE OR REPLACE order_dlq SET {column} = {value}")
    assert await contents(store_rig) == before


@pytest.mark.parametrize("name", ["rowid", "_rowid_", "OID"])
async def test_no_row_can_be_moved_onto_another_on_sqlite(sqlite_store: SQLiteRig, name: str) -> None:
    await sqlite_store.make(2)
    before = await contents(sqlite_store)
    await refused(sqlite_store, f"UPDATE OR REPLACE order_dlq SET {name} = 1 WHERE rowid = 2")
    await refused(sqlite_store, f"UPDATE order_dlq SET {name} = 7")
    assert await contents(sqlite_store) == before


async def test_rows_cannot_be_deleted_replaced_or_upserted(store_rig: Rig) -> None:
    await store_rig.make(2)
    before = await contents(store_rig)
    names = ", ".join(orders.COLUMNS)
    replaced = names.replace("quantity", "quantity + 998")
    await refused(store_rig, "DELETE FROM order_dlq")
    await refused(store_rig, "DELETE FROM order_dlq WHERE dlq_id LIKE '%1'")
    await refused(
        store_rig,
        f"INSERT INTO order_dlq ({names}) SELECT {replaced} FROM order_dlq WHERE true "
        "ON CONFLICT (dlq_id) DO UPDATE SET quantity = excluded.quantity",
    )
    if store_rig.on_postgres:
        await refused(store_rig, "TRUNCATE order_dlq")
    else:
        await refused(store_rig, f"INSERT OR REPLACE INTO order_dlq ({names}) SELECT {replaced} FROM order_dlq")
        await refused(store_rig, f"REPLACE INTO order_dlq ({names}) SELECT {replaced} FROM order_dlq")
        fresh = replaced.replace("dlq_id", "dlq_id || 'x'")
        await refused(
            store_rig, f"INSERT OR REPLACE INTO order_dlq (rowid, {names}) SELECT rowid, {fresh} FROM order_dlq"
        )
    assert await contents(store_rig) == before


@pytest.mark.parametrize(
    "statement", ["UPDATE order_dlq SET quantity = 9", "DELETE FROM order_dlq", "TRUNCATE order_dlq"]
)
async def test_replication_role_does_not_help(postgres_store: PostgresRig, statement: str) -> None:
    await postgres_store.make(2)
    async with postgres_store.connect() as connection:
        await connection.execute("SET session_replication_role = replica")
        with pytest.raises(Exception, match="WORM"):
            await connection.execute(statement)
    assert len(await contents(postgres_store)) == 2


async def test_what_may_change_does(store_rig: Rig) -> None:
    await store_rig.make(1)
    await store_rig.sql(f"UPDATE order_dlq SET retry_count = 5, dismissed = {store_rig.flag(True)}")
    await store_rig.insert(order_row(1))
    assert len(await contents(store_rig)) == 2


async def test_init_makes_a_store_without_holes(store_rig: Rig) -> None:
    target = store_rig.target
    label = await make_store(target)
    store = await store_rig.open()
    assert store.info.label == label
    assert holes(store) == set()
    assert store.info.columns == orders.COLUMNS
    with pytest.raises(BadTarget, match="already has order_dlq: nothing was made"):
        await make_store(target)


async def test_init_with_a_long_name(store_rig: Rig) -> None:
    await make_store(store_rig.target, table="q" * 63)
    await store_rig.insert(order_row(0), "q" * 63)
    store = await store_rig.open()
    assert holes(store) == set()
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done


async def other_store(rig: Rig) -> None:
    """The same columns, made by somebody who guards nothing."""
    await rig.make(3)
    await rig.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    if rig.on_postgres:
        await rig.sql("ALTER TABLE q ALTER dlq_id SET NOT NULL")


async def test_the_holes_of_another_owners_store_are_named_and_their_sql_closes_them(store_rig: Rig) -> None:
    await other_store(store_rig)
    store = await store_rig.open(table="q")
    common = {"no-update-trigger", "no-delete-trigger", "no-unique-id"}
    expected = common | (
        {"no-truncate-trigger", "no-captured-index"} if store_rig.on_postgres else {"replace-hole", "no-open-index"}
    )
    assert holes(store) == expected
    assert len(await ids(store)) == 3
    pending = [finding for finding in store.info.findings if finding.sql]
    for finding in pending:
        again = {one.code: one for one in (await store_rig.open(table="q")).info.findings}
        if finding.code in again:
            await run_script(store_rig, again[finding.code].sql)
        now = holes(await store_rig.open(table="q"))
        assert finding.code not in now
    assert holes(await store_rig.open(table="q")) == set()
    for statement in ("UPDATE q SET quantity = 9", "DELETE FROM q"):
        await refused(store_rig, statement)
    if not store_rig.on_postgres:
        await refused(store_rig, "INSERT OR REPLACE INTO q SELECT * FROM q")
    store = await store_rig.open(table="q")
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done
    assert (await entry_of(store)).state == "dismissed"


async def run_script(rig: Rig, sql: str) -> None:
    if isinstance(rig, PostgresRig):
        async with rig.connect() as connection:
            await connection.execute(sql)
    else:
        await rig.sql(sql)


async def test_looking_at_another_owners_store_changes_nothing_of_it(store_rig: Rig) -> None:
    await other_store(store_rig)
    before = await store_rig.schema()
    await store_rig.open(table="q")
    assert await store_rig.schema() == before


async def test_horizons_own_triggers_leave_the_replace_hole(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(1)
    await sqlite_store.sql("DROP TRIGGER order_dlq_worm_ins")
    store = await sqlite_store.open()
    assert holes(store) == {"replace-hole"}
    (finding,) = [one for one in store.info.findings if one.code == "replace-hole"]
    await sqlite_store.sql(finding.sql)
    assert holes(await sqlite_store.open()) == set()
    await refused(sqlite_store, "INSERT OR REPLACE INTO order_dlq SELECT * FROM order_dlq")


async def test_a_trigger_over_some_columns_leaves_the_others_open(store_rig: Rig) -> None:
    await store_rig.make(1)
    if store_rig.on_postgres:
        await store_rig.sql("DROP TRIGGER order_dlq_worm_upd ON order_dlq")
        await store_rig.sql(
            "CREATE TRIGGER mine BEFORE UPDATE OF quantity, price ON order_dlq "
            "FOR EACH ROW EXECUTE FUNCTION order_dlq_worm()"
        )
    else:
        await store_rig.sql("DROP TRIGGER order_dlq_worm_upd")
        await store_rig.sql(
            'create trigger "my own" update of quantity, [price], "side" on order_dlq '
            "begin select raise(abort, 'WORM'); end"
        )
    store = await store_rig.open()
    (finding,) = [one for one in store.info.findings if one.code == "no-update-trigger"]
    if not store_rig.on_postgres:
        assert "dlq_id, captured_at, venue_name, account_id, market_id, order_type, client_order_id" in finding.text
        assert "quantity" not in finding.text
    await run_script(store_rig, finding.sql)
    assert holes(await store_rig.open()) == set()
    await refused(store_rig, "UPDATE order_dlq SET market_id = 'x'")


async def test_a_validation_trigger_is_not_taken_for_a_guard(sqlite_store: SQLiteRig) -> None:
    await sqlite_store.make(1)
    await sqlite_store.sql("DROP TRIGGER order_dlq_worm_ins")
    await sqlite_store.sql(
        "CREATE TRIGGER positive BEFORE INSERT ON order_dlq WHEN NEW.quantity <= 0 BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    assert holes(await sqlite_store.open()) == {"replace-hole"}


async def test_triggers_that_do_not_always_fire_are_named(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    await postgres_store.sql("ALTER TABLE order_dlq ENABLE TRIGGER order_dlq_worm_del")
    store = await postgres_store.open()
    assert holes(store) == {"trigger-not-always"}
    (finding,) = [one for one in store.info.findings if one.code == "trigger-not-always"]
    await run_script(postgres_store, finding.sql)
    assert holes(await postgres_store.open()) == set()
    await postgres_store.sql("ALTER TABLE order_dlq DISABLE TRIGGER ALL")
    assert {"no-update-trigger", "no-delete-trigger", "no-truncate-trigger"} <= holes(await postgres_store.open())


async def test_the_sql_for_a_json_column_runs(postgres_store: PostgresRig) -> None:
    await postgres_store.make(1)
    await postgres_store.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    await postgres_store.sql('ALTER TABLE q ALTER action_json TYPE json USING \'{"a": 1, "a": 2}\'')
    store = await postgres_store.open(table="q")
    (finding,) = [one for one in store.info.findings if one.code == "no-update-trigger"]
    await run_script(postgres_store, finding.sql)
    await refused(postgres_store, "UPDATE q SET action_json = '{}'")
    await postgres_store.sql("UPDATE q SET retry_count = 3")
    assert (await entry_of(store)).get("action_json") == '{"a": 1, "a": 2}'

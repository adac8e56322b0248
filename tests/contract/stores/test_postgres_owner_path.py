"""Acts write the owner's table as its engine does: under the role's own search_path, with the server's operators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from backends import PostgresDLQ, open_store
from backends.layouts import orders
from backends.records import DeadLetteredOrder, Filter, Selection
from backends.store import Result
from tests.support.hostile_catalog import HostileCatalog, function, operator
from tests.support.store import ACTOR, INTENT, PostgresRig, order_row, pick, why

_SHADOWS = (
    *operator("=", "text", "text"), *operator("=", "varchar", "text"), *operator("=", "integer", "integer"),
    *operator("=", "integer", "bigint"), *operator(">", "double precision", "numeric"),
    *operator("+", "integer", "integer", "a", "integer"),
    function("evil.unnest", "a text[]", "text", "a[1]"),
    function("evil.clock_timestamp", "", "timestamptz", "pg_catalog.now()"),
    function("evil.fine", "a varchar", "boolean", "true", kind="IMMUTABLE"),
    "CREATE DOMAIN evil.text AS varchar CHECK (evil.fine(VALUE))",
)  # fmt: skip
_OWNERS = (
    "CREATE TABLE shop.told (what pg_catalog.text)",
    # It names neither the table's schema nor the function's: only the role's search_path makes it work.
    "CREATE FUNCTION shop.on_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "INSERT INTO told VALUES (pg_catalog.concat(TG_OP, ' ', TG_WHEN)); RETURN NEW; END $$",
    "CREATE TRIGGER told BEFORE UPDATE OR INSERT ON shop.order_dlq FOR EACH ROW EXECUTE FUNCTION shop.on_row()",
    "CREATE CONSTRAINT TRIGGER told_late AFTER UPDATE ON shop.order_dlq DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION shop.on_row()",
)


@pytest.fixture
async def catalog(postgres_db: str) -> AsyncIterator[HostileCatalog]:
    made = HostileCatalog(postgres_db)
    await made.prepare()
    await made.plant([])
    await made.tell("SET search_path = pg_catalog", *_OWNERS, "GRANT ALL ON shop.told TO PUBLIC")
    await made.tell("SET search_path = pg_catalog", f"SET ROLE {made.mallory}", *_SHADOWS)
    await made.tell("SELECT pg_catalog.pg_stat_reset()")
    yield made
    await made.restore()


async def told(catalog: HostileCatalog) -> list[str]:
    rows = await PostgresRig(catalog.admin).sql("SELECT what FROM shop.told ORDER BY what")
    return [row[0] for row in rows]


async def test_acts_fire_the_owners_triggers_and_nobody_elses_operators(catalog: HostileCatalog) -> None:
    store = await open_store(catalog.admin, table="order_dlq")
    first, second = [entry.id for entry in (await store.page(Filter(), limit=2)).entries]
    entries = await store.many((first, second))
    assert (await store.dismiss(Selection.of([entries[first]]), ACTOR, why())).done == (first,)
    claim = await store.claim(second, entries[second].version, ACTOR, 60)
    attempt = await store.intend(claim, INTENT, ACTOR, why())  # type: ignore[arg-type]  # nobody else claims it
    assert attempt is not None
    assert await store.conclude(claim, Result("rejected", error="no"), ACTOR, why())  # type: ignore[arg-type]
    counted = await store.get(second)
    assert counted is not None
    assert counted.get("retry_count") == 1
    await store.aclose()
    assert await told(catalog) == ["UPDATE AFTER", "UPDATE AFTER", "UPDATE BEFORE", "UPDATE BEFORE"]
    assert await catalog.calls() == {}


async def test_the_sink_too(catalog: HostileCatalog) -> None:
    def work() -> int:
        with PostgresDLQ(catalog.admin, table="shop.order_dlq") as sink:
            row = {name: value for name, value in order_row(77).items() if name in orders.COLUMNS}
            sink.write(DeadLetteredOrder(**row))  # type: ignore[arg-type]  # an ordinary row
            assert sink.get("dlq_000000000000004d") is not None
            assert sink.mark_dismissed("dlq_000000000000004d")
            assert sink.bump_retry("dlq_000000000000004d") == 1
            return sink.depth()

    assert await asyncio.to_thread(work) == 3
    assert await told(catalog) == ["INSERT BEFORE", *["UPDATE AFTER"] * 2, *["UPDATE BEFORE"] * 2]
    assert await catalog.calls() == {}


async def test_what_we_make_sets_its_own_path(postgres_db: str) -> None:
    rig = PostgresRig(postgres_db)
    await rig.make(1)
    store = await rig.open()
    await store.dismiss(await pick(store, 0), ACTOR, why())
    made = await rig.sql(
        "SELECT p.proname::text, array_to_string(p.proconfig, ' ') FROM pg_proc p "
        "JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname IN ('public', 'dlq_console')"
    )
    await rig.aclose()
    assert {name for name, _ in made} >= {"order_dlq_worm", "order_dlq_notify", "worm"}
    assert all("search_path=pg_catalog" in (config or "") for _, config in made), made

"""Looking at a Postgres store runs nobody's code, whatever another role planted there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from backends import engine, guarded_connection, open_store
from backends.layouts.orders import COLUMNS
from backends.postgres_session import ANSWER_SECONDS, BEGIN_READING
from backends.records import Filter
from backends.sql import connection
from backends.sql.store import SQLStore
from backends.store import RunsForeignCode, Unreachable
from tests.support.hostile_catalog import PLAIN_VIEW, ROWS, TABLE, TRAPS, HostileCatalog, Trap, function
from tests.support.store import EVERYTHING, PostgresRig


@pytest.fixture
async def catalog(postgres_db: str) -> AsyncIterator[HostileCatalog]:
    made = HostileCatalog(postgres_db)
    await made.prepare()
    yield made
    await made.restore()


async def looked(target: str) -> int:
    """Reads everything that verbs and screens read. Returns how many entries there are."""
    store = await open_store(target, read_only=True, table="order_dlq")
    try:
        page = await store.page(EVERYTHING, limit=100)
        await store.page(Filter(terms=("429", "überall"), venue="alpaca"), limit=100)
        await store.page(EVERYTHING, limit=1, after=page.entries[0].row_key)
        for entry in page.entries[:1]:
            await store.get(entry.id)
            await store.attempts(entry.id)
            await store.events(entry.id)
        await store.counts(EVERYTHING)
        await store.origins()
        await store.store_id()
        await store.halted()
        await store.clock()
        return len(page.entries)
    finally:
        await store.aclose()


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
async def test_no_planted_function_runs(catalog: HostileCatalog, trap: Trap) -> None:
    await catalog.plant([trap])
    if trap.refused:
        with pytest.raises(RunsForeignCode, match="would run code of another role") as refused:
            await looked(catalog.looking)
        assert "foreign-code" in {finding.code for finding in refused.value.info.findings}
    else:
        assert await looked(catalog.looking) == ROWS
    assert await catalog.calls() == {}


_FIXED = function("evil.fixed9", "a integer", "boolean", "true", kind="IMMUTABLE")
_BESIDE = (
    Trap("an heir's index", (
        _FIXED, f"CREATE TABLE shop.heir () INHERITS ({TABLE})", "CREATE INDEX ON shop.heir ((evil.fixed9(1)))",
    )),
    Trap("a constraint's index", (
        _FIXED, f"ALTER TABLE {TABLE} ADD EXCLUDE USING btree ((evil.fixed9(1)) WITH =) WHERE (false)",
    )),
    Trap("an heir's policy", (
        function("evil.may9", "a text", "boolean", "true"), f"CREATE TABLE shop.heir () INHERITS ({TABLE})",
        "CREATE POLICY mine ON shop.heir USING (evil.may9(error))", "ALTER TABLE shop.heir ENABLE ROW LEVEL SECURITY",
    )),
    Trap("a cast in an index", (
        "CREATE TYPE evil.grade AS ENUM ('a')", function("evil.told", "a evil.grade", "text", "'a'", kind="IMMUTABLE"),
        "CREATE CAST (evil.grade AS text) WITH FUNCTION evil.told(evil.grade)",
        f"ALTER TABLE {TABLE} ADD grade evil.grade", f"CREATE INDEX ON {TABLE} (dlq_id) WHERE grade = 'a'",
    )),
)  # fmt: skip


@pytest.mark.parametrize("trap", _BESIDE, ids=lambda trap: trap.name)
async def test_what_runs_beside_the_table_itself_is_found(catalog: HostileCatalog, trap: Trap) -> None:
    await catalog.plant([trap])
    with pytest.raises(RunsForeignCode, match="would run code of another role"):
        await looked(catalog.looking)
    assert await catalog.calls() == {}


async def test_the_witness_tells_of_a_call(catalog: HostileCatalog) -> None:
    """Without this the test above could not fail."""
    await catalog.plant([trap for trap in TRAPS if trap.name == "octet_length"])
    await catalog.tell("SELECT evil.octet_length('x'::varchar)")
    assert await catalog.calls() == {"octet_length": 1}


@pytest.mark.parametrize("name", ["view", "query in a view"])
async def test_a_superuser_is_told_too(catalog: HostileCatalog, name: str) -> None:
    await catalog.plant([trap for trap in TRAPS if trap.name == name])
    with pytest.raises(RunsForeignCode):
        await looked(catalog.admin)
    assert await catalog.calls() == {}


async def test_a_read_cannot_be_turned_into_a_write(postgres_store: PostgresRig) -> None:
    """A function of the role's own, which may run, neither writes nor leaves a setting behind."""
    await postgres_store.make(1)
    await postgres_store.sql("CREATE TABLE witness (a integer)")
    body = (
        "BEGIN BEGIN SET TRANSACTION READ WRITE; EXCEPTION WHEN OTHERS THEN NULL; END; "
        "BEGIN PERFORM set_config('transaction_read_only', 'off', false); EXCEPTION WHEN OTHERS THEN NULL; END; "
        "PERFORM set_config('search_path', 'public', false); "
        "PERFORM set_config('default_transaction_read_only', 'off', false); "
        "BEGIN INSERT INTO public.witness VALUES (1); EXCEPTION WHEN OTHERS THEN NULL; END; RETURN a; END"
    )
    await postgres_store.sql(f"CREATE FUNCTION tell(a text) RETURNS text LANGUAGE plpgsql AS $$ {body} $$")
    names = ", ".join(name for name in COLUMNS if name != "error")
    await postgres_store.sql(f"CREATE VIEW mine AS SELECT {names}, tell(error) AS error FROM order_dlq")
    store = await open_store(postgres_store.target, table="mine")
    assert len((await store.page(EVERYTHING, limit=10)).entries) == 1
    assert isinstance(store, SQLStore)
    assert await store._quick.run(lambda link: link.scalar("SHOW search_path")) == "pg_catalog, pg_temp"
    assert await store._quick.run(lambda link: link.scalar("SHOW search_path"), bare=True) == '"$user", public'
    await store.aclose()
    assert await postgres_store.sql("SELECT count(*) FROM witness") == [(0,)]


async def test_a_result_that_never_comes_ends_in_time(
    postgres_store: PostgresRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BEGIN_READING", BEGIN_READING.replace("14000", "500"))
    await postgres_store.make(1)
    names = ", ".join(f"o.{name}" for name in COLUMNS)
    await postgres_store.sql(
        "CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) "
        f"SELECT {names} FROM order_dlq o, n"
    )
    store = await open_store(postgres_store.target, table="endless")
    with pytest.raises(Unreachable, match="took too long"):
        await store.page(EVERYTHING, limit=10)
    await store.aclose()


async def test_a_server_that_stops_answering_is_given_up(
    postgres_store: PostgresRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "ANSWER_SECONDS", 0.5)
    await postgres_store.make(1)
    store = await postgres_store.open()
    with pytest.raises(Unreachable, match="in time"):
        await store._quick.run(lambda link: link.scalar("SELECT pg_sleep(30)"))
    assert len((await store.page(EVERYTHING, limit=10)).entries) == 1, "and the next read has a new connection"


def test_both_limits_leave_time_before_twenty_seconds() -> None:
    assert "statement_timeout = 14000" in BEGIN_READING
    assert ANSWER_SECONDS < 17
    assert guarded_connection.QUIET_SECONDS <= 14


async def test_doctor_names_what_an_operator_must_know(catalog: HostileCatalog) -> None:
    chosen = [trap for trap in TRAPS if trap.name in ("trigger", "rule", "policy")]
    await catalog.plant(chosen)
    with pytest.raises(RunsForeignCode) as refused:
        await open_store(catalog.looking)
    codes = {finding.code: finding for finding in refused.value.info.findings}
    assert {"foreign-trigger", "rules", "row-security", "foreign-code"} <= codes.keys()
    assert catalog.mallory in codes["foreign-trigger"].text
    assert "evil.on_row" in codes["foreign-trigger"].text
    store = await open_store(catalog.admin)
    assert "superuser" in {finding.code for finding in store.info.findings}
    await store.aclose()
    await catalog.tell(f"GRANT pg_write_all_data TO {catalog.ops}", "DROP POLICY mine ON shop.order_dlq")
    store = await open_store(catalog.looking)
    assert "mighty-role" in {finding.code for finding in store.info.findings}
    await store.aclose()


async def test_doctor_names_a_view_of_another_owner_that_runs_nothing(catalog: HostileCatalog) -> None:
    await catalog.plant([Trap("plain view", PLAIN_VIEW)])
    store = await open_store(catalog.looking, read_only=True, table="order_dlq")
    assert "foreign-view" in {finding.code for finding in store.info.findings}
    assert store.info.read_only_enforced_by == "client"
    assert len((await store.page(EVERYTHING, limit=10)).entries) == ROWS
    await store.aclose()
    assert await catalog.calls() == {}

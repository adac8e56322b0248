"""What the sink sets in its Postgres session, directly and through a real pgbouncer in transaction mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dlq_sink import PostgresDLQ, intent

from tests.support.pgbouncer import PROGRAM, PgBouncer
from tests.support.sink import entry, in_postgres

ORDER = {"symbol": "AAPL", "side": "buy", "qty": 1, "type": "market", "client_order_id": "c-1"}
_NAMES = ("synchronous_commit", "transaction_isolation", "statement_timeout", "lock_timeout")
_SEEN = (
    "CREATE TABLE seen (place text, {columns})",
    "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN INSERT INTO public.seen VALUES (tg_op || ' ' || tg_table_name, {values}); RETURN new; END $$",
    "CREATE TRIGGER see AFTER INSERT OR UPDATE ON order_dlq FOR EACH ROW EXECUTE FUNCTION see()",
    "CREATE TRIGGER see AFTER INSERT OR UPDATE ON order_dlq_intent FOR EACH ROW EXECUTE FUNCTION see()",
)


@pytest.fixture(params=["direct", "pooled"])
def way(request: pytest.FixtureRequest, postgres_db: str) -> Iterator[str]:
    if request.param == "direct":
        yield postgres_db
        return
    if PROGRAM is None:
        pytest.skip("pgbouncer is not installed (Debian: apt install pgbouncer)")
    pool = PgBouncer(postgres_db).start()
    yield pool.dsn(postgres_db)
    pool.stop()


def look_on(dsn: str) -> None:
    columns = ", ".join(f"{name} text" for name in _NAMES)
    shown = ", ".join(f"current_setting('{name}')" for name in _NAMES)
    in_postgres(dsn, *(statement.format(columns=columns, values=shown) for statement in _SEEN))


def test_entries_and_witnesses_are_synced_whatever_the_role_has_set(way: str, postgres_db: str) -> None:
    with PostgresDLQ(postgres_db) as first:
        first.intents()
    look_on(postgres_db)
    name = postgres_db.rpartition("/")[2]
    for setting in ("synchronous_commit = off", "default_transaction_isolation = 'serializable'"):
        in_postgres(postgres_db, f'ALTER DATABASE "{name}" SET {setting}')
    with PostgresDLQ(way, timeout=8) as sink:
        sink.write(one := entry())
        sink.mark_dismissed(one.dlq_id)
        with pytest.raises(ValueError, match="no"), intent(sink, dict(ORDER), venue="alpaca"):
            raise ValueError("no")
        with intent(sink, dict(ORDER), venue="alpaca") as i:
            i.ok("ord_1")
    found = {tuple(row) for row in in_postgres(postgres_db, "SELECT * FROM seen")}
    assert found == {
        (place, commit, "read committed", "8s", "4s")
        for place, commit in (
            *(("INSERT order_dlq", "on"), ("UPDATE order_dlq", "on"), ("INSERT order_dlq_intent", "on")),
            *(("UPDATE order_dlq_intent", "on"), ("UPDATE order_dlq_intent", "off")),  # the failure; the note
        )
    }


@pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed (Debian: apt install pgbouncer)")
def test_the_next_client_of_a_pooled_session_finds_nothing_set(postgres_db: str) -> None:
    shown = "SELECT " + ", ".join(f"current_setting('{name}')" for name in (*_NAMES, "search_path"))
    pool = PgBouncer(postgres_db, size=1).start()
    try:
        before = in_postgres(postgres_db, shown)
        with PostgresDLQ(pool.dsn(postgres_db), timeout=8) as sink:
            sink.write(entry())
            with intent(sink, dict(ORDER), venue="alpaca") as i:
                i.ok("ord_1")
            assert sink.depth() == 1
            assert in_postgres(pool.dsn(postgres_db), shown) == before
    finally:
        pool.stop()


def test_a_table_that_is_altered_beside_an_engine_loses_no_entry(way: str, postgres_db: str) -> None:
    with PostgresDLQ(way) as sink:
        for kind in ("bigint", "integer"):
            sink.write(entry())  # so that its statement is known to the session
            in_postgres(postgres_db, f"ALTER TABLE order_dlq ALTER retry_count TYPE {kind}")
        sink.write(entry())
        assert sink.depth() == 3

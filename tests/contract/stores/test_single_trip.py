"""A read of Postgres is one trip to the server and still a READ ONLY transaction; through a pooler it is three."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from dlq_sink.libpq.wire import OutgoingTransport

from backends import open_store
from backends.postgres_session import BEGIN_READING, END_READING, PREPARED_BEGIN
from backends.records import Filter
from backends.sql.connection import UndecodableValue
from backends.sql.store import SQLStore
from backends.sql.text.query import CompiledQuery
from backends.store import ActRefused
from tests.support.pgbouncer import PROGRAM, PgBouncer
from tests.support.store import EVERYTHING, PostgresRig
from tests.support.wire_log import Message, WireLog, spoken, trips

_NEEDS_POOLER = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed (Debian: apt install pgbouncer)")
_SETTINGS = CompiledQuery(
    "SELECT current_setting('transaction_read_only'), current_setting('search_path'), "
    "current_setting('statement_timeout'), current_setting('constraint_exclusion')",
    (),
    {},
)
_IN_A_READ = ("on", "pg_catalog, pg_temp", "14s", "off")
_TELL = CompiledQuery("SELECT public.tell(CAST($1 AS text))", ("what",), {})
_TELL_BODY = (
    "BEGIN IF what = 'write' THEN INSERT INTO public.witness VALUES (1); END IF; "
    "IF what = 'set' THEN PERFORM pg_catalog.set_config('search_path', 'public', false), "
    "pg_catalog.set_config('statement_timeout', '0', false), "
    "pg_catalog.set_config('default_transaction_read_only', 'off', false); END IF; RETURN what; END"
)


@pytest.fixture
async def log(postgres_store: PostgresRig) -> AsyncIterator[WireLog]:
    await postgres_store.make(5)
    proxy = WireLog(postgres_store.target)
    yield proxy
    await proxy.stop()


@pytest.fixture
async def direct(log: WireLog) -> AsyncIterator[SQLStore]:
    store = await open_store(await log.start(), read_only=True)
    assert isinstance(store, SQLStore)
    yield store
    await store.aclose()


@pytest.fixture(params=["another pid", pytest.param("pgbouncer", marks=_NEEDS_POOLER)])
async def pooled(log: WireLog, postgres_store: PostgresRig, request: pytest.FixtureRequest) -> AsyncIterator[SQLStore]:
    """Behind a real pooler; and behind something that, like one, tells another process than the one that answers."""
    target = await log.start()
    pool = PgBouncer(postgres_store.target).start() if request.param == "pgbouncer" else None
    log.tells_own_pid = pool is None
    if pool is not None:
        log.lead_to(pool.port)
    store = await open_store(target, read_only=True)
    assert isinstance(store, SQLStore)
    assert "pooler" in {finding.code for finding in store.info.findings}
    yield store
    await store.aclose()
    if pool is not None:
        pool.stop()


async def asked(log: WireLog, store: SQLStore, where: Filter) -> list[Message]:
    """What one page asks once the like of it has been read before."""
    for _ in range(2):
        await store.page(where, limit=3, newest_first=True)
    mark = len(log.messages)
    assert len((await store.page(where, limit=3, newest_first=True)).entries) == 3
    return log.since(mark)


async def read(store: SQLStore, query: CompiledQuery, **given: object) -> Sequence[Any]:
    return await store._quick.run(lambda link: link.fetch(query, given))


@pytest.mark.parametrize("where", [EVERYTHING, Filter(venue="Alpaca")], ids=["all", "venue"])
async def test_a_page_is_one_trip_and_a_transaction(log: WireLog, direct: SQLStore, where: Filter) -> None:
    messages = await asked(log, direct, where)
    assert trips(messages) == 1
    names = spoken(messages)
    texts = {
        body.split(b"\0")[0].decode(): body.split(b"\0")[1].decode() for kind, body in log.messages if kind == b"P"
    }
    assert [texts[name] for name in names if name.startswith("dlq_console_")] == [*PREPARED_BEGIN, END_READING]
    assert texts[names[len(PREPARED_BEGIN)]].startswith("SELECT"), "the page stands between them"


async def test_a_page_that_an_owners_index_answers_is_one_trip_too(log: WireLog, postgres_store: PostgresRig) -> None:
    await postgres_store.sql("CREATE INDEX by_venue ON order_dlq (venue_name)")
    store = await open_store(await log.start(), read_only=True)
    assert isinstance(store, SQLStore)
    messages = await asked(log, store, Filter(venue="Alpaca"))
    await store.aclose()
    assert trips(messages) == 1, "what the column holds is not asked for again"


async def test_through_a_pooler_a_page_is_a_transaction_in_steps(log: WireLog, pooled: SQLStore) -> None:
    messages = await asked(log, pooled, EVERYTHING)
    assert spoken(messages) == [BEGIN_READING, "", END_READING], "between them one statement, without a name"
    assert [kind for kind, _ in messages][-1] == b"Q"


async def test_a_read_is_read_only_under_a_safe_path(direct: SQLStore) -> None:
    for _ in range(3):
        assert [tuple(row) for row in await read(direct, _SETTINGS)] == [_IN_A_READ]


async def test_through_a_pooler_too(pooled: SQLStore) -> None:
    for _ in range(3):
        assert [tuple(row) for row in await read(pooled, _SETTINGS)] == [_IN_A_READ]


async def test_a_write_is_refused_by_the_database(direct: SQLStore, postgres_store: PostgresRig) -> None:
    await check_that_writes_are_refused(direct, postgres_store)


async def test_a_write_through_a_pooler_is_refused_by_the_database(
    pooled: SQLStore, postgres_store: PostgresRig
) -> None:
    await check_that_writes_are_refused(pooled, postgres_store)


async def check_that_writes_are_refused(store: SQLStore, postgres_store: PostgresRig) -> None:
    await postgres_store.sql("CREATE TABLE witness (a integer)")
    await postgres_store.sql(f"CREATE FUNCTION tell(what text) RETURNS text LANGUAGE plpgsql AS $$ {_TELL_BODY} $$")
    for _ in range(2):  # known from now on
        await read(store, _TELL, what="nothing")
    with pytest.raises(ActRefused, match="is read-only"):
        await read(store, _TELL, what="write")
    for what in ("nothing", "set", "set"):
        await read(store, _TELL, what=what)
    assert [tuple(row) for row in await read(store, _SETTINGS)] == [_IN_A_READ]
    with pytest.raises(ActRefused, match="is read-only"):
        await read(store, _TELL, what="write")
    assert await postgres_store.sql("SELECT count(*) FROM witness") == [(0,)]


async def test_no_setting_outlives_a_read(direct: SQLStore, postgres_store: PostgresRig) -> None:
    await postgres_store.sql(f"CREATE FUNCTION tell(what text) RETURNS text LANGUAGE plpgsql AS $$ {_TELL_BODY} $$")
    for _ in range(3):
        await read(direct, _TELL, what="set")
    shown = CompiledQuery("SELECT current_setting('search_path'), current_setting('statement_timeout')", (), {})
    left = await direct._quick.run(lambda link: link.fetch(shown, {}), bare=True)
    assert [tuple(row) for row in left] == [('"$user", public', "0")]


async def test_a_value_that_cannot_be_read_leaves_no_transaction_open(log: WireLog, direct: SQLStore) -> None:
    moment = CompiledQuery("SELECT CAST(CAST($1 AS text) AS timestamptz)", ("at",), {})
    for _ in range(2):
        assert len(await read(direct, moment, at="2026-04-18T00:00:00Z")) == 1
    with pytest.raises(UndecodableValue):
        await read(direct, moment, at="20000-01-01T00:00:00Z")
    mark = len(log.messages)
    assert len(await read(direct, moment, at="2026-04-18T00:00:00Z")) == 1
    assert trips(log.since(mark)) == 1, "on the same connection"


@pytest.mark.parametrize("writes", [[b"Q\0\0\0\5\0"], [b"P" + b"S\0\0\0\4"], [b"B" + b"S\0\0\0\4"] * 2])
def test_only_one_statement_goes_out_between_ours(writes: list[bytes]) -> None:
    class Sink:
        def __init__(self) -> None:
            self.written: list[bytes] = []

        def write(self, data: bytes) -> None:
            self.written.append(data)

    sink = Sink()
    transport = OutgoingTransport(sink)
    transport.put(b"<", b">")
    for data in writes[:-1]:
        transport.write(memoryview(data))
    with pytest.raises(ConnectionError):
        transport.write(memoryview(writes[-1]))
    transport.put_no_more()
    assert sink.written == [b"<B>S\0\0\0\4"] * (len(writes) - 1), "what is refused is not sent"
    transport.write(b"Q")
    assert sink.written[-1] == b"Q"

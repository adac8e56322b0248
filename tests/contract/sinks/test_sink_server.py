"""PostgresDLQ on a server that restarts, locks, hangs or drops the line: bounded, honest, nothing lost or doubled."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import asyncpg
import pytest
from dlq_sink import SinkClosed
from dlq_sink import postgres_connection as line

from backends import CommitUnknown, DeadLetteredOrder, DuplicateEntry, PostgresDLQ, Unreachable
from tests.support.postgres import Postgres
from tests.support.sink import Relay, entry, with_parts


@pytest.fixture
def server() -> Iterator[Postgres]:
    made = Postgres(durable=True).start()
    try:
        yield made
    finally:
        made.stop()


def test_a_restart_of_postgres_loses_nothing(server: Postgres) -> None:
    orders = [entry(n) for n in range(6)]
    with PostgresDLQ(server.dsn("postgres"), timeout=60) as sink:
        sink.write(orders[0])
        for n, how in enumerate((signal.SIGQUIT, signal.SIGINT), 1):
            server.down(how)
            server.up()
            sink.write(orders[n])
        # Down while the engine writes: the write waits for the server, within its timeout.
        server.down()
        waiting = threading.Thread(target=sink.write, args=(orders[3],))
        waiting.start()
        server.up()
        waiting.join(90)
        assert not waiting.is_alive()
        assert sink.list() == orders[:4]
        assert sink.bump_retry(orders[0].dlq_id) == 1


def test_a_server_that_stays_down_is_told_within_the_timeout(server: Postgres) -> None:
    with PostgresDLQ(server.dsn("postgres"), timeout=4.0) as sink:
        order = entry()
        sink.write(order)
        server.down()
        before = time.monotonic()
        with pytest.raises((Unreachable, CommitUnknown)):
            sink.write(entry(1))
        for act in (sink.depth, lambda: sink.bump_retry(order.dlq_id)):
            with pytest.raises(Unreachable):
                act()
        assert time.monotonic() - before < 30
        server.up()
        assert sink.list() == [order]


async def _locked(dsn: str, held: threading.Event, release: threading.Event) -> None:
    connection = await asyncpg.connect(dsn)
    async with connection.transaction():
        await connection.execute("LOCK TABLE order_dlq IN ACCESS EXCLUSIVE MODE")
        held.set()
        await asyncio.to_thread(release.wait, 60)
    await connection.close()


def test_a_locked_table_does_not_hang_the_engine(postgres_db: str) -> None:
    held, release = threading.Event(), threading.Event()
    with PostgresDLQ(postgres_db, timeout=3.0) as sink:
        locker = threading.Thread(target=lambda: asyncio.run(_locked(postgres_db, held, release)))
        locker.start()
        assert held.wait(30)
        order = entry()
        with pytest.raises(Unreachable, match="nothing was written"):
            sink.write(order)
        release.set()
        locker.join(30)
        assert sink.depth() == 0
        sink.write(order)
        assert sink.list() == [order]


def _shut_out(sink: PostgresDLQ, postgres_db: str, order: DeadLetteredOrder) -> None:
    """Ends the sink's session as an administrator would, in the middle of an update that waits for a row's lock."""

    async def run() -> None:
        async with asyncio.timeout(30):
            holder, admin = await asyncpg.connect(postgres_db), await asyncpg.connect(postgres_db)
            await holder.execute("BEGIN")
            await holder.execute("UPDATE order_dlq SET retry_count = 5 WHERE dlq_id = $1", order.dlq_id)
            dismissing = asyncio.create_task(asyncio.to_thread(sink.mark_dismissed, order.dlq_id))
            ended = None
            while ended is None:
                ended = await admin.fetchval(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                    "AND application_name = 'dlq-sink' AND wait_event_type = 'Lock'"
                )
            await holder.execute("COMMIT")
            assert await dismissing is True
            await holder.close()
            await admin.close()

    asyncio.run(run())


def test_a_session_ended_by_an_administrator_is_begun_again(postgres_db: str) -> None:
    order = entry()
    with PostgresDLQ(postgres_db) as sink:
        sink.write(order)
        _shut_out(sink, postgres_db, order)
        found = sink.get(order.dlq_id)
    assert found is not None
    assert (found.retry_count, found.dismissed) == (5, True)


@pytest.fixture
def relay(postgres_db: str) -> Iterator[tuple[Relay, str]]:
    """A relay to a fresh database, and the DSN through it."""
    parts = urlsplit(postgres_db)
    with Relay(parts.hostname or "127.0.0.1", parts.port or 5432) as made:
        yield made, with_parts(postgres_db, port=made.port)


def test_an_answer_lost_after_the_commit_is_found_out(relay: tuple[Relay, str]) -> None:
    between, dsn = relay
    with PostgresDLQ(dsn) as sink:
        order = entry()
        between.cut_answer_to = b"COMMIT"
        sink.write(order)
        assert between.cuts == 1
        assert sink.list() == [order]
        with pytest.raises(DuplicateEntry):
            sink.write(order)


def test_a_line_lost_before_the_commit_is_written_once(relay: tuple[Relay, str]) -> None:
    between, dsn = relay
    with PostgresDLQ(dsn) as sink:
        order = entry()
        between.cut_answer_to = b"INSERT"
        sink.write(order)
        assert between.cuts == 1
        assert sink.list() == [order]


def test_a_bump_whose_answer_is_lost_is_not_repeated(relay: tuple[Relay, str]) -> None:
    between, dsn = relay
    with PostgresDLQ(dsn) as sink:
        order = entry()
        sink.write(order)
        sink.bump_retry(order.dlq_id)  # prepares the statement: the next one is one message and one answer
        between.cut_answer_to = order.dlq_id.encode()
        with pytest.raises(CommitUnknown):
            sink.bump_retry(order.dlq_id)
        assert between.cuts == 1
        found = sink.get(order.dlq_id)
        assert found is not None
        assert found.retry_count in (1, 2)
        assert sink.bump_retry(order.dlq_id) == found.retry_count + 1


def test_a_dismissal_whose_answer_is_lost_is_repeated(relay: tuple[Relay, str]) -> None:
    between, dsn = relay
    with PostgresDLQ(dsn) as sink:
        order = entry()
        sink.write(order)
        between.cut_answer_to = b"UPDATE"
        assert sink.mark_dismissed(order.dlq_id) is True
        assert between.cuts == 1
        assert sink.depth() == 0


def test_a_line_that_falls_silent_ends_in_an_unknown_not_in_a_hang(relay: tuple[Relay, str]) -> None:
    between, dsn = relay
    with PostgresDLQ(dsn, timeout=4.0) as sink:
        order = entry()
        sink.write(entry(1))
        between.silent.set()
        before = time.monotonic()
        with pytest.raises(CommitUnknown):
            sink.write(order)
        with pytest.raises(Unreachable):
            sink.depth()
        assert time.monotonic() - before < 30
        between.silent.clear()
        sink.write(order)
        assert sink.depth() == 2


def test_a_line_that_died_while_idle_is_replaced_first(
    relay: tuple[Relay, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    between, dsn = relay
    with PostgresDLQ(dsn, timeout=4.0) as sink:
        order = entry()
        sink.write(order)
        monkeypatch.setattr(line, "IDLE_SECONDS", 0.0)
        between.mute_open_lines()
        assert sink.bump_retry(order.dlq_id) == 1


def test_a_server_that_never_answers_is_unreachable(relay: tuple[Relay, str]) -> None:
    between, dsn = relay
    between.silent.set()
    before = time.monotonic()
    with pytest.raises(Unreachable):
        PostgresDLQ(dsn, timeout=0.5)
    assert time.monotonic() - before < 30


def test_closing_while_others_write_leaves_no_thread_waiting(postgres_db: str) -> None:
    sink = PostgresDLQ(postgres_db)
    running = threading.Barrier(5)
    counts: list[int] = []

    def write() -> None:
        written = 0
        running.wait(30)
        try:
            while True:
                sink.write(entry())
                written += 1
        except SinkClosed:
            counts.append(written)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    running.wait(30)
    sink.close()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    with PostgresDLQ(postgres_db) as again:
        assert len(counts) == 4
        assert again.depth() == sum(counts)


def test_a_call_that_was_torn_off_in_the_middle_costs_a_connection_and_nothing_else(postgres_db: str) -> None:
    """As a Ctrl-C may do that meets the driver at any of its steps."""
    with PostgresDLQ(postgres_db) as sink:
        sink.write(entry())
        sink._line._loop.call_soon(sink._line._loop.stop)
        with pytest.raises(RuntimeError, match="stopped before"):
            sink.write(entry())
        sink.write(entry())
        assert sink.depth() == 2

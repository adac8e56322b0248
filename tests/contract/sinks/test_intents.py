"""The witness, on every sink: on disk before the send, resolved or an entry after it, open when its owner dies."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from dlq_sink import NotADLQ, StoreError, dead_letters, intent, submit_or_dead_letter
from dlq_sink.capture.report import Reporter
from dlq_sink.witness import lease
from dlq_sink.witness.table import COLUMNS, LEASE_SECONDS

from backends import DLQSink, InMemoryDLQ, PostgresDLQ, SQLiteDLQ
from tests.support.sink import in_postgres, in_sqlite

ORDER = {"symbol": "AAPL", "side": "buy", "qty": 10, "type": "limit", "limit_price": 180.5, "tif": "day"}


@dataclass
class Ground:
    """A sink, and its intent table as any other program sees it."""

    sink: SQLiteDLQ | PostgresDLQ
    ask: Callable[..., list[tuple[Any, ...]]]
    table: str

    def row(self, dlq_id: str) -> dict[str, Any]:
        self.sink.intents().flush()
        (found,) = self.ask(f"SELECT {', '.join(COLUMNS)} FROM {self.table} WHERE dlq_id = '{dlq_id}'")
        return dict(zip(COLUMNS, found, strict=True))


@pytest.fixture(params=["sqlite", "postgres"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        path = tmp_path / "orders.db"

        with SQLiteDLQ(path) as sink:
            yield Ground(sink, lambda sql: in_sqlite(path, sql), "order_dlq_intent")
    else:
        dsn = request.getfixturevalue("postgres_db")
        with PostgresDLQ(dsn) as sink:
            yield Ground(sink, lambda sql: [tuple(row) for row in in_postgres(dsn, sql)], "public.order_dlq_intent")


def time_of(value: Any) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def test_the_order_is_on_disk_before_it_is_sent_and_resolved_after(ground: Ground) -> None:
    with intent(ground.sink, dict(ORDER), venue="alpaca", account="main") as i:
        row = ground.row(i.dlq_id)
        i.ok("ord_1")
    assert (row["venue_name"], row["account_id"], row["market_id"], row["side"]) == ("alpaca", "main", "AAPL", "buy")
    assert (row["quantity"], row["order_type"], row["price"], row["error"]) == (10, "limit", 180.5, "")
    assert (row["retry_count"], bool(row["dismissed"]), row["resolved_at"]) == (0, False, None)
    assert row["client_order_id"] == i.client_order_id
    assert 0 < (time_of(row["lease_until"]) - datetime.now(UTC)).total_seconds() <= LEASE_SECONDS
    after = ground.row(i.dlq_id)
    assert (after["venue_order_id"], ground.sink.list()) == ("ord_1", [])
    assert abs(time_of(after["resolved_at"]) - datetime.now(UTC)) < timedelta(seconds=LEASE_SECONDS)


def test_a_failure_is_an_entry_of_the_same_id_and_goes_on_its_way(ground: Ground) -> None:
    with pytest.raises(RuntimeError), intent(ground.sink, dict(ORDER), venue="alpaca") as i:
        raise RuntimeError("HTTP 422 apiKey=abcdefgh12345678")
    entry = ground.sink.get(i.dlq_id)
    assert entry is not None
    assert entry == i.entry
    assert (entry.error, entry.client_order_id) == ("RuntimeError: HTTP 422 apiKey=[masked]", i.client_order_id)
    assert ground.row(i.dlq_id)["resolved_at"] is not None


def test_an_end_without_an_answer_is_an_unknown_outcome(ground: Ground) -> None:
    with intent(ground.sink, dict(ORDER), venue="alpaca") as i:
        pass
    assert i.entry is not None
    assert "unknown outcome" in i.entry.error


def test_an_interrupt_before_the_send_leaves_an_entry_and_no_open_intent(ground: Ground) -> None:
    """Its owner may live on, and would renew it for ever."""

    def interrupted(kind: str, _: object) -> None:
        if kind == "intent":
            raise KeyboardInterrupt

    order = dict(ORDER)
    one = intent(ground.sink, order, venue="alpaca", reporter=Reporter(on_event=interrupted))
    with pytest.raises(KeyboardInterrupt), one:
        raise AssertionError("nothing may be sent")
    (entry,) = ground.sink.list()
    assert entry.error == "KeyboardInterrupt: interrupted before the send; nothing was sent"
    assert ground.row(entry.dlq_id)["resolved_at"] is not None
    assert order == ORDER


async def test_a_task_cancelled_twice_before_the_send_leaves_no_open_intent(tmp_path: Path) -> None:
    path, busy = tmp_path / "orders.db", sqlite3.connect(tmp_path / "orders.db", isolation_level=None)
    with SQLiteDLQ(path) as sink, closing(busy):
        sink.intents()
        busy.execute("BEGIN IMMEDIATE")

        async def place() -> None:
            async with intent(sink, dict(ORDER), venue="alpaca"):
                raise AssertionError("nothing may be sent")

        task = asyncio.create_task(place())
        for _ in range(2):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        busy.execute("COMMIT")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [entry.error.partition(":")[0] for entry in sink.list()] == ["CancelledError"]
    assert in_sqlite(path, "SELECT count(*) FROM order_dlq_intent WHERE resolved_at IS NULL") == [(0,)]


async def test_async_with_works_alike_and_a_cancellation_leaves_an_entry(ground: Ground) -> None:
    async with intent(ground.sink, dict(ORDER), venue="alpaca") as i:
        assert (await asyncio.to_thread(ground.row, i.dlq_id))["resolved_at"] is None
        i.ok({"id": "ord_2"})
    assert (await asyncio.to_thread(ground.row, i.dlq_id))["venue_order_id"] == "ord_2"
    entered = asyncio.Event()

    async def stuck() -> None:
        async with intent(ground.sink, dict(ORDER), venue="alpaca"):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(stuck())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (entry,) = ground.sink.list()
    assert entry.error == "CancelledError: unknown outcome: the submit was interrupted"


def test_the_decorator_and_submit_take_a_witness(ground: Ground) -> None:
    seen: list[dict[str, Any]] = []

    @dead_letters(ground.sink, venue="alpaca", witness=True)
    def submit(order: dict[str, Any]) -> str:
        ground.sink.intents().flush()
        (open_id,) = ground.ask(f"SELECT client_order_id FROM {ground.table} WHERE resolved_at IS NULL")
        seen.append(order)
        assert open_id == (order["client_order_id"],)
        return "ord_3"

    class Venue:
        name = "alpaca"

        def submit(self, order: dict[str, Any]) -> str:
            return submit.__wrapped__(order)  # type: ignore[attr-defined,no-any-return]

    kept = dict(ORDER)
    assert submit(kept) == "ord_3"
    assert submit_or_dead_letter(Venue(), kept, ground.sink, witness=True) == "ord_3"
    assert kept == ORDER
    assert (len(seen), ground.sink.depth()) == (2, 0)
    ground.sink.intents().flush()
    assert ground.ask(f"SELECT count(*) FROM {ground.table} WHERE venue_order_id = 'ord_3'") == [(2,)]


def test_the_table_allows_its_own_changes_and_nothing_else(ground: Ground) -> None:
    one = intent(ground.sink, dict(ORDER), venue="alpaca").begin()
    table = ground.table
    for forbidden in (
        f"UPDATE {table} SET quantity = 1",
        f"UPDATE {table} SET client_order_id = 'x'",
        f"UPDATE {table} SET host = 'x'",
        f"DELETE FROM {table}",
    ):
        with pytest.raises((sqlite3.IntegrityError, asyncpg.IntegrityConstraintViolationError)):
            ground.ask(forbidden)
    ground.ask(f"UPDATE {table} SET lease_until = lease_until, owner = 'x', venue_order_id = 'y'")
    one.ok("ord")
    ground.sink.intents().flush()
    ground.ask(f"DELETE FROM {table}")
    assert ground.ask(f"SELECT count(*) FROM {table}") == [(0,)]


def test_a_lease_is_renewed_while_the_order_is_open(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.05)
    renewed = threading.Event()
    keeper = ground.sink.intents()
    renew = keeper.rows.renew

    def noted(owner: str) -> None:
        renew(owner)
        renewed.set()

    monkeypatch.setattr(keeper.rows, "renew", noted)
    one = intent(ground.sink, dict(ORDER), venue="alpaca").begin()
    first = ground.row(one.dlq_id)["lease_until"]
    assert renewed.wait(60)
    assert time_of(ground.row(one.dlq_id)["lease_until"]) > time_of(first)
    one.ok("ord")


def test_old_resolved_intents_are_cleaned_and_open_ones_never(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = []
    for _ in range(5):
        with intent(ground.sink, dict(ORDER), venue="alpaca") as i:
            i.ok("ord")
        ids.append(i.dlq_id)
    left = intent(ground.sink, dict(ORDER), venue="alpaca").begin()
    ground.sink.intents().flush()
    old = "'2020-01-01T00:00:00.000000+00:00'"
    ground.ask(f"UPDATE {ground.table} SET resolved_at = {old} WHERE dlq_id IN ({', '.join(map(repr, ids[:4]))})")
    rows = ground.sink.intents().rows
    assert (rows.clean(3), rows.clean(3), rows.clean(3)) == (3, 1, 0)
    found = {row[0] for row in ground.ask(f"SELECT dlq_id FROM {ground.table}")}
    assert found == {ids[4], left.dlq_id}
    left.ok("ord")


def test_an_order_that_was_taken_for_dead_and_placed_after_all_leaves_no_open_entry(ground: Ground) -> None:
    one = intent(ground.sink, dict(ORDER), venue="alpaca").begin()
    table, own = ground.table, f"'{datetime.now(UTC).isoformat()}'"
    columns = ", ".join(COLUMNS[:14])
    ground.ask(f"INSERT INTO order_dlq ({columns}) SELECT {columns} FROM {table}")
    ground.ask(f"UPDATE {table} SET resolved_at = {own}")
    assert ground.sink.depth() == 1
    one.ok("ord_9")
    ground.sink.intents().flush()
    assert (ground.sink.depth(), ground.row(one.dlq_id)["venue_order_id"]) == (0, "ord_9")
    again = intent(ground.sink, dict(ORDER), venue="alpaca").begin()
    ground.ask(f"INSERT INTO order_dlq ({columns}) SELECT {columns} FROM {table} WHERE dlq_id = '{again.dlq_id}'")
    again.failed(RuntimeError("HTTP 422"))
    assert ground.sink.depth() == 1


FORBIDDEN = {  # any new entry, and how it is allowed again
    "sqlite": (
        "CREATE TRIGGER no_entry BEFORE INSERT ON order_dlq BEGIN SELECT RAISE(ABORT, 'full'); END",
        "DROP TRIGGER no_entry",
    ),
    "postgres": (
        "ALTER TABLE order_dlq ADD CONSTRAINT no_entry CHECK (false) NOT VALID",
        "ALTER TABLE order_dlq DROP CONSTRAINT no_entry",
    ),
}


def unkept(ground: Ground) -> None:
    """An order that failed while no entry could be written, as its engine hears; entries can be written again."""
    forbid, allow = FORBIDDEN["sqlite" if isinstance(ground.sink, SQLiteDLQ) else "postgres"]

    @dead_letters(ground.sink, venue="alpaca", witness=True)
    def submit(order: object) -> str:
        ground.ask(forbid)
        raise RuntimeError("HTTP 422")

    with pytest.raises(StoreError):
        submit(dict(ORDER))
    assert ground.sink.depth() == 0
    ground.ask(allow)


def test_an_entry_that_could_not_be_written_is_tried_again_with_the_leases(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.05)
    keeper, kept = ground.sink.intents(), threading.Event()
    forget = keeper._forget

    def noted(dlq_id: str) -> None:
        forget(dlq_id)
        kept.set()

    monkeypatch.setattr(keeper, "_forget", noted)
    unkept(ground)
    assert kept.wait(60)
    (entry,) = ground.sink.list()
    assert (entry.error, ground.row(entry.dlq_id)["resolved_at"] is None) == ("RuntimeError: HTTP 422", False)


def test_an_entry_that_could_not_be_written_is_tried_again_at_the_end(ground: Ground) -> None:
    unkept(ground)
    ground.sink.intents().end()
    (entry,) = ground.sink.list()
    assert (entry.error, ground.row(entry.dlq_id)["resolved_at"] is None) == ("RuntimeError: HTTP 422", False)


@pytest.mark.parametrize("odd", ["ord\udcff", "ord\0"], ids=["bytes", "nul"])
def test_an_odd_order_id_keeps_no_other_order_s_note_from_being_written(ground: Ground, odd: str) -> None:
    with intent(ground.sink, dict(ORDER), venue="alpaca") as first:
        first.ok(odd)
    with intent(ground.sink, dict(ORDER), venue="alpaca") as second:
        second.ok("ord_2")
    assert ground.row(second.dlq_id)["venue_order_id"] == "ord_2"
    assert ground.row(first.dlq_id)["venue_order_id"].startswith("ord\\x")


def test_a_second_sink_finds_the_table_of_entries_and_not_that_of_intents(ground: Ground) -> None:
    with intent(ground.sink, dict(ORDER), venue="alpaca") as i:
        i.ok("ord")
    with type(ground.sink)(ground.sink._dsn()) as second:
        assert second.table == ground.sink.table


def test_a_witness_that_cannot_be_written_sends_nothing(tmp_path: Path) -> None:
    sent: list[object] = []
    with SQLiteDLQ(tmp_path / "orders.db") as sink:

        @dead_letters(sink, venue="alpaca", witness=True)
        def submit(order: object) -> str:
            sent.append(order)
            return "id"

        assert submit(dict(ORDER)) == "id"
        in_sqlite(tmp_path / "orders.db", "DROP TABLE order_dlq_intent")
        with pytest.raises(NotADLQ):
            submit(dict(ORDER))
    assert len(sent) == 1


@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_a_fork_inside_leaves_the_intent_to_the_parent(tmp_path: Path, where: str) -> None:
    sink: DLQSink = InMemoryDLQ() if where == "memory" else SQLiteDLQ(tmp_path / "orders.db")
    with intent(sink, dict(ORDER), venue="alpaca") as i:
        child = os.fork()
        if child == 0:
            i.__exit__(None, None, None)
            os._exit(0 if i.entry is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        i.ok("ord")
    assert sink.depth() == 0
    sink.close()


def test_many_threads_share_a_sink(tmp_path: Path) -> None:
    def work() -> None:
        for n in range(10):
            with intent(sink, dict(ORDER), venue="alpaca") as i:
                i.ok(f"ord_{n}")

    with SQLiteDLQ(tmp_path / "orders.db") as sink:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    with sqlite3.connect(tmp_path / "orders.db") as link:
        counts = link.execute(
            "SELECT count(*), count(resolved_at), count(DISTINCT client_order_id) FROM order_dlq_intent"
        )
        assert counts.fetchone() == (80, 80, 80)
    link.close()

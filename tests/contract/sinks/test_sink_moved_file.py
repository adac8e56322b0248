"""What becomes of an engine's orders when its SQLite file is moved, deleted or replaced while the sink is open."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from dlq_sink import intent

from backends import SQLiteDLQ, StoreError
from tests.support.sink import child, entry, in_sqlite

# Writes an entry for each line it is given, and ends with the lines.
ENGINE = """
import sys
from backends import SQLiteDLQ
from tests.support.sink import entry
sink = SQLiteDLQ(sys.argv[1])
for n, line in enumerate(sys.stdin):
    order = entry(n)
    sink.write(order)
    print(order.dlq_id, flush=True)
if sys.argv[2] == "close":
    sink.close()
"""


def written(engine: subprocess.Popen[str]) -> str:
    assert engine.stdin is not None
    assert engine.stdout is not None
    engine.stdin.write("\n")
    engine.stdin.flush()
    return engine.stdout.readline().strip() or (engine.stderr and engine.stderr.read()) or ""


def ids_in(path: Path) -> list[str]:
    return [row[0] for row in in_sqlite(path, "SELECT dlq_id FROM order_dlq ORDER BY rowid")]


def test_after_a_move_each_file_has_what_was_written_while_it_was_in_place(tmp_path: Path) -> None:
    path, old = tmp_path / "orders.db", tmp_path / "orders.old"
    with closing(SQLiteDLQ(path)) as sink:
        before, after = entry(1), entry(2)
        sink.write(before)
        path.rename(old)  # and not its log, which holds all of it
        sink.write(after)
        assert [one.dlq_id for one in sink.list()] == [after.dlq_id]
    assert ids_in(old) == [before.dlq_id]
    assert ids_in(path) == [after.dlq_id]


@pytest.mark.parametrize("tails", [("",), ("", "-wal", "-shm")])
def test_after_a_deletion_entries_go_to_a_new_file(tmp_path: Path, tails: tuple[str, ...]) -> None:
    path = tmp_path / "orders.db"
    with closing(SQLiteDLQ(path)) as sink:
        sink.write(entry(1))
        for tail in tails:
            Path(f"{path}{tail}").unlink()
        order = entry(2)
        sink.write(order)
        assert ids_in(path) == [order.dlq_id]
        assert sink.depth() == 1


def test_a_witness_goes_to_the_new_file_too(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    with closing(SQLiteDLQ(path)) as sink:
        with intent(sink, {"symbol": "AAPL", "side": "buy", "qty": 1}, venue="alpaca") as first:
            path.rename(tmp_path / "orders.old")
            first.ok("ord_1")  # of an order whose intent is in the other file
        with intent(sink, {"symbol": "MSFT", "side": "buy", "qty": 1}, venue="alpaca") as second:
            open_intents = "SELECT market_id FROM order_dlq_intent WHERE resolved_at IS NULL"
            assert in_sqlite(path, open_intents) == [("MSFT",)]
            second.ok("ord_2")


def test_a_restored_file_is_taken_as_it_is(tmp_path: Path) -> None:
    path, backup = tmp_path / "orders.db", tmp_path / "backup.db"
    earlier, order = entry(1), entry(2)
    with closing(SQLiteDLQ(backup)) as sink:
        sink.write(earlier)
    with closing(SQLiteDLQ(path)) as sink:
        backup.replace(path)
        sink.write(order)
        assert [one.dlq_id for one in sink.list()] == [earlier.dlq_id, order.dlq_id]


def test_what_is_no_store_is_refused_and_the_sink_goes_on_once_it_is_gone(tmp_path: Path) -> None:
    path, odd, order = tmp_path / "orders.db", tmp_path / "odd", entry(1)
    odd.write_text("not a database, but long enough to be taken for one at a first glance" * 20)
    with closing(SQLiteDLQ(path)) as sink:
        odd.replace(path)
        with pytest.raises(StoreError):
            sink.write(order)
        path.unlink()
        sink.write(order)
        assert ids_in(path) == [order.dlq_id]


@pytest.mark.parametrize("how", ["close", "forget"])
def test_an_engine_that_leaves_a_moved_file_takes_nothing_from_the_one_in_its_place(tmp_path: Path, how: str) -> None:
    path = tmp_path / "orders.db"
    with child(ENGINE, str(path), how) as engine:
        first = written(engine)
        for tail in ("", "-wal", "-shm"):
            Path(f"{path}{tail}").rename(tmp_path / f"orders.old{tail}")
        with closing(SQLiteDLQ(path)) as other:
            orders = [entry(n) for n in range(10, 13)]
            other.write(orders[0])
            second = written(engine)
            other.write(orders[1])
            engine.communicate(timeout=60)
            assert engine.returncode == 0
            other.write(orders[2])
            expected = [orders[0].dlq_id, second, orders[1].dlq_id, orders[2].dlq_id]
            assert ids_in(path) == expected
    assert ids_in(path) == expected
    assert ids_in(tmp_path / "orders.old") == [first]

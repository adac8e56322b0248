"""What a sink holds through: kill -9, several processes, a fork, an engine that forgets to close it."""

from __future__ import annotations

import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from dlq_sink import intent

from backends import SQLiteDLQ
from tests.support.sink import WRITER, Kind, child, entry, in_postgres, in_sqlite, opened


def start(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    writer.stdin.write("go\n")
    writer.stdin.flush()


def wait_ready(writer: subprocess.Popen[str]) -> None:
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n", writer.stderr and writer.stderr.read()


@pytest.mark.parametrize("heard", [1, 9, 60])
def test_every_write_that_returned_survives_kill_9(place: tuple[Kind, str], heard: int) -> None:
    with child(WRITER, *place, "100000") as writer:
        wait_ready(writer)
        start(writer)
        assert writer.stdout is not None
        printed = [writer.stdout.readline().strip() for _ in range(heard)]
        writer.send_signal(signal.SIGKILL)
        printed += writer.stdout.read().splitlines()
        assert writer.wait(30) == -signal.SIGKILL
    with closing(opened(*place)) as sink:
        kept = [order.dlq_id for order in sink.list()]
        assert kept[: len(printed)] == printed
        assert len(kept) - len(printed) <= 1
        sink.write(entry())
        assert sink.depth() == len(kept) + 1


def test_processes_that_start_on_nothing_share_one_table(place: tuple[Kind, str]) -> None:
    writers = [child(WRITER, *place, "50") for _ in range(4)]
    for writer in writers:
        wait_ready(writer)
    for writer in writers:
        start(writer)
    printed: set[str] = set()
    for writer in writers:
        out, err = writer.communicate(timeout=60)
        assert (writer.returncode, err) == (0, "")
        printed |= set(out.split())
    with closing(opened(*place)) as sink:
        assert len(printed) == sink.depth() == 200
        assert {order.dlq_id for order in sink.list()} == printed


FORKING = """
import os, sys
from dlq_sink import SinkClosed, intent
from tests.support.sink import entry, opened
sink = opened(*sys.argv[1:])
sink.write(entry())
with intent(sink, {"symbol": "AAPL", "side": "buy", "qty": 1, "type": "market"}, venue="alpaca") as parents:
    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            parents.ok("not the child's to say")
            try:
                parents.failed("nor this")
            except SinkClosed:
                pass
            else:
                os._exit(8)
            for _ in range(5):
                sink.write(entry())
            with intent(sink, {"symbol": "AAPL", "side": "buy", "qty": 2, "type": "market"}, venue="alpaca") as own:
                own.ok("child's")
            sink.close()
            os._exit(7)
        pids.append(pid)
        sink.write(entry())  # at the same time
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [7] * 3
    parents.ok("parent's")
assert sink.depth() == 1 + 3 * 5 + 3, sink.depth()
sink.close()
"""


def test_a_forked_child_has_a_connection_of_its_own_and_the_parent_goes_on(place: tuple[Kind, str]) -> None:
    # Python warns of forks beside threads; that it is answered, not that it is wise, is what is looked at here.
    code = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n" + FORKING
    with child(code, *place) as forking:
        _, err = forking.communicate(timeout=60)
    assert (forking.returncode, err) == (0, "")
    ask = in_postgres if "://" in place[1] else lambda path, sql: in_sqlite(Path(path), sql)
    told = ask(place[1], "SELECT venue_order_id FROM order_dlq_intent WHERE resolved_at IS NOT NULL")
    assert sorted(row[0] for row in told) == ["child's", "child's", "child's", "parent's"]


def test_an_engine_that_forgets_to_close_still_exits_quietly(place: tuple[Kind, str]) -> None:
    code = "import sys; from tests.support.sink import entry, opened; sink = opened(*sys.argv[1:]); sink.write(entry())"
    with child(code, *place) as forgetful:
        _, err = forgetful.communicate(timeout=60)
    assert forgetful.returncode == 0, err
    assert "Traceback" not in err


def test_sqlite_is_made_with_wal_and_writes_reach_the_disk(tmp_path: Path) -> None:
    with SQLiteDLQ(tmp_path / "a.db") as sink:
        reading = sink._connection
        assert reading is not None
        assert reading.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert reading.execute("PRAGMA synchronous").fetchone() == (2,)
        assert reading.execute("PRAGMA busy_timeout").fetchone() == (30_000,)


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_only_a_write_ahead_log_is_ever_written_unsynced(tmp_path: Path, journal: str) -> None:
    in_sqlite(tmp_path / "a.db", f"PRAGMA journal_mode = {journal}", "CREATE TABLE engines_own (a)")
    ran: list[str] = []
    with SQLiteDLQ(tmp_path / "a.db") as sink:
        sink.intents()
        assert sink._connection is not None
        sink._connection.set_trace_callback(ran.append)
        with intent(sink, {"symbol": "AAPL", "side": "buy", "qty": 1, "type": "market"}, venue="alpaca") as i:
            i.ok("ord_1")
    assert any("ord_1" in sql for sql in ran)
    assert ("PRAGMA synchronous = NORMAL" in ran) == (journal == "wal")

"""What a sink holds through: kill -9, several processes, a fork, an engine that forgets to close it."""

from __future__ import annotations

import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from backends import SQLiteDLQ
from tests.support.sink import WRITER, Kind, child, entry, opened


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
from backends.sink import SinkClosed
from tests.support.sink import entry, opened
sink = opened(*sys.argv[1:])
sink.write(entry())
pid = os.fork()
if pid == 0:
    try:
        sink.write(entry())
    except SinkClosed as problem:
        sink.close()
        os._exit(7 if "fork" in str(problem) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
sink.write(entry())
assert sink.depth() == 2
sink.close()
"""


def test_a_forked_child_is_told_so_and_the_parent_goes_on(place: tuple[Kind, str]) -> None:
    # Python warns of forks beside threads; that it is answered, not that it is wise, is what is looked at here.
    code = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n" + FORKING
    with child(code, *place) as forking:
        _, err = forking.communicate(timeout=60)
    assert (forking.returncode, err) == (0, "")


def test_an_engine_that_forgets_to_close_still_exits_quietly(place: tuple[Kind, str]) -> None:
    code = "import sys; from tests.support.sink import entry, opened; sink = opened(*sys.argv[1:]); sink.write(entry())"
    with child(code, *place) as forgetful:
        _, err = forgetful.communicate(timeout=60)
    assert forgetful.returncode == 0, err
    assert "Traceback" not in err


def test_sqlite_is_made_with_wal_and_writes_reach_the_disk(tmp_path: Path) -> None:
    with SQLiteDLQ(tmp_path / "a.db") as sink:
        reading = sink._connection
        assert reading.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert reading.execute("PRAGMA synchronous").fetchone() == (2,)
        assert reading.execute("PRAGMA busy_timeout").fetchone() == (30_000,)

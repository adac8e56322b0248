"""What the file system allows, as users that are not root: who could write, and that no attach harms an engine."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.layouts import orders
from tests.support.other_user import ATTACH, CONSOLE, ENGINE, needs_root, run_as
from tests.support.store import order_row


@pytest.fixture
def folder() -> Iterator[Path]:
    """Reachable by every user, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="dlq-users-"))
    made.chmod(0o777)
    yield made
    made.chmod(0o777)
    shutil.rmtree(made)


def store_file(folder: Path, *, journal: str, owner: int = 0) -> Path:
    file = folder / "engine.db"
    connection = sqlite3.connect(file)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    for statement in orders.sqlite_ddl("order_dlq"):
        connection.execute(statement)
    row = order_row(0)
    values = [str(value) if index == 1 else value for index, value in enumerate(row.values())]
    connection.execute(f"INSERT INTO order_dlq VALUES ({', '.join('?' * 14)})", values)
    connection.commit()
    connection.close()
    os.chown(file, owner, owner)
    return file


ENGINE_WRITES = """
connection = sqlite3.connect(sys.argv[2])
with connection:
    connection.execute("UPDATE order_dlq SET retry_count = retry_count + 1")
say(connection.execute("SELECT retry_count FROM order_dlq").fetchone()[0])
"""


@needs_root
@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "owner", "expected"),
    [
        (0o444, 0o555, 0, "database"),
        (0o644, 0o755, 0, "database"),
        (0o666, 0o555, 0, "client"),
        (0o444, 0o777, 0, "client"),
        (0o444, 0o555, CONSOLE, "client"),
    ],
)
def test_enforced_by_the_file_system(folder: Path, file_mode: int, folder_mode: int, owner: int, expected: str) -> None:
    file = store_file(folder, journal="delete", owner=owner)
    file.chmod(file_mode)
    folder.chmod(folder_mode)
    said = run_as(CONSOLE, ATTACH, file)
    assert said["rows"] == 1
    assert said["by"] == expected


@needs_root
def test_a_live_wal_store_is_followed_by_another_user(folder: Path) -> None:
    file = store_file(folder, journal="wal")
    folder.chmod(0o755)
    engine = sqlite3.connect(file)
    engine.execute("UPDATE order_dlq SET retry_count = 5")
    engine.commit()
    said = run_as(CONSOLE, ATTACH, file)
    assert (said["rows"], said["by"]) == (1, "database")
    engine.close()


@needs_root
def test_a_closed_wal_store_of_another_user_is_refused_and_its_engine_not_harmed(folder: Path) -> None:
    file = store_file(folder, journal="wal", owner=ENGINE)
    said = run_as(CONSOLE, ATTACH, file)
    assert said["refused"] == "Unreachable"
    assert "is a closed WAL store of user nobody: opening it as uid 65533 would leave files" in said["text"]
    assert "\n" not in said["text"]
    assert sorted(path.name for path in folder.iterdir()) == ["engine.db"]
    assert run_as(ENGINE, ENGINE_WRITES, file) == 1


@needs_root
def test_a_closed_wal_store_that_anyone_may_write_is_open_to_another_user(folder: Path) -> None:
    """What SQLite leaves beside it may be written by anyone too: a second person can act on it without the engine."""
    file = store_file(folder, journal="wal", owner=ENGINE)
    file.chmod(0o666)
    assert run_as(CONSOLE, ATTACH, file)["rows"] == 1
    code = """
    os.umask(0o077)
    connection = sqlite3.connect(f"file:{sys.argv[2]}?mode=ro", uri=True)
    connection.execute("SELECT count(*) FROM order_dlq").fetchone()
    say([oct(os.stat(sys.argv[2] + tail).st_mode & 0o777) for tail in ("-shm", "-wal")])
    os._exit(0 if sys.stdout.flush() is None else 1)
    """
    assert run_as(CONSOLE, code, file) == ["0o666", "0o666"], "left open, as by a kill"
    assert run_as(ENGINE, ENGINE_WRITES, file) == 1


@needs_root
def test_what_the_refusal_prevents(folder: Path) -> None:
    """The control: plain SQLite, read-only, as another user, does break the engine."""
    file = store_file(folder, journal="wal", owner=ENGINE)
    code = """
    connection = sqlite3.connect(f"file:{sys.argv[2]}?mode=ro", uri=True)
    say(connection.execute("SELECT count(*) FROM order_dlq").fetchone()[0])
    """
    assert run_as(CONSOLE, code, file) == 1
    left = folder / "engine.db-shm"
    assert left.stat().st_uid == CONSOLE
    with pytest.raises(AssertionError, match="attempt to write a readonly database"):
        run_as(ENGINE, ENGINE_WRITES, file)


@needs_root
def test_a_closed_wal_store_in_a_read_only_folder(folder: Path) -> None:
    file = store_file(folder, journal="wal", owner=CONSOLE)
    folder.chmod(0o555)
    said = run_as(CONSOLE, ATTACH, file)
    assert said["refused"] == "Unreachable"
    assert "is a closed WAL store in a directory that cannot be written" in said["text"]
    url = said["text"].rpartition(" ")[2]
    assert url == f"sqlite:///{file}?immutable=1"
    opened = run_as(CONSOLE, ATTACH, url)
    assert opened["rows"] == 1
    assert "immutable" in opened["codes"]
    assert sorted(path.name for path in folder.iterdir()) == ["engine.db"]


@needs_root
def test_root_may_open_an_engines_closed_wal_store(folder: Path) -> None:
    file = store_file(folder, journal="wal", owner=ENGINE)
    assert run_as(0, ATTACH, file)["rows"] == 1
    for path in folder.iterdir():
        assert path.stat().st_uid == ENGINE, path
    assert run_as(ENGINE, ENGINE_WRITES, file) == 1


@needs_root
def test_no_permission_is_one_clear_line(folder: Path) -> None:
    file = store_file(folder, journal="delete")
    file.chmod(stat.S_IRUSR)
    said = run_as(CONSOLE, ATTACH, file)
    assert said == {"refused": "Unreachable", "text": f"no permission to read {file}"}
    file.chmod(0o644)
    folder.chmod(0o700)
    said = run_as(CONSOLE, ATTACH, file)
    assert said == {"refused": "Unreachable", "text": f"no permission to read {file}"}


OPENS_A_SINK = """
from dlq_sink import ActRefused, SQLiteDLQ
try:
    SQLiteDLQ(sys.argv[2]).close()
except ActRefused as refused:
    say(str(refused))
else:
    say("opened")
"""


@needs_root
def test_an_engine_hears_at_its_start_that_it_may_not_write_the_file(folder: Path) -> None:
    """Its folder would let SQLite open the file, and refuse the first entry."""
    file = store_file(folder, journal="wal")
    file.chmod(0o444)
    assert run_as(ENGINE, OPENS_A_SINK, file).endswith("cannot be written by this user")
    file.chmod(0o666)
    assert run_as(ENGINE, OPENS_A_SINK, file) == "opened"

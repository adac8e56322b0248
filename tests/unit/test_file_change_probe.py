"""A file counts as still only when nothing can have been written since the last look."""

from __future__ import annotations

import os
from pathlib import Path

from backends.sqlite_file import FileChangeProbe


def looks(still: FileChangeProbe, count: int) -> list[bool]:
    return [still() for _ in range(count)]


def test_a_file_is_still_after_two_looks_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"x")
    assert looks(FileChangeProbe(path), 4) == [False, False, True, True]


def test_every_trace_ends_it(tmp_path: Path) -> None:
    path, wal = tmp_path / "a.db", tmp_path / "a.db-wal"
    path.write_bytes(b"x")
    still = FileChangeProbe(path)
    for change in (
        lambda: wal.write_bytes(b"made"),
        lambda: wal.write_bytes(b"made longer"),
        lambda: os.utime(wal, ns=(1, 1)),
        lambda: os.utime(path, ns=(2, 2)),
        lambda: wal.unlink(),
    ):
        assert looks(still, 3)[-1]
        change()
        assert not still()


def test_the_wal_of_a_link_lies_beside_the_file_it_leads_to(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.db").write_bytes(b"x")
    link = tmp_path / "link.db"
    link.symlink_to(home / "a.db")
    still = FileChangeProbe(link)
    assert looks(still, 3)[-1]
    (home / "a.db-wal").write_bytes(b"x")
    assert not still()


def test_now_and_then_the_store_is_asked_all_the_same(tmp_path: Path) -> None:
    """A file system may keep no times."""
    path = tmp_path / "a.db"
    path.write_bytes(b"x")
    assert looks(FileChangeProbe(path), 30)[3:].count(False) >= 2

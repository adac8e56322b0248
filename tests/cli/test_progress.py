"""Progress: drawn on a terminal for whatever takes long, erased at the end, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from threading import Thread

import pytest

from console.cli.main import run
from console.cli.printing import progress
from tests.support.orders import row, sqlite_store

MANY = 1200  # more than one transaction, one page and one block of events
DRAWN = {
    "dismiss --venue alpaca --reason test --yes --expect 1200": "dismissing  [",
    "restore --venue alpaca --expect 1200": "restoring  [",
    "export --format csv": "exporting  1,200",
    "audit verify": "verifying events  ",
    "audit export": "exporting events  ",
    "archive --before 1h --out old.zip": "archiving  ",
    "archive --verify old.zip": "verifying lines  ",
    "index": "indexing ",
}


@pytest.fixture(autouse=True)
def _everything_takes_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress, "_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(progress, "_BETWEEN_SECONDS", 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return sqlite_store(tmp_path / "orders.db", [row(n) for n in range(MANY)])


class Screen:
    """A terminal that somebody reads: a thread keeps what is written to it."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.file = os.fdopen(slave, "w", encoding="utf-8", buffering=1)
        self._got = b""
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # the other end is closed
            while got := os.read(self._master, 65536):
                self._got += got

    def seen(self) -> str:
        """All of it, once nothing more can come."""
        self.file.close()
        self._reader.join(60)
        os.close(self._master)
        return self._got.decode()


def test_a_terminal_sees_how_far_it_is_and_a_clean_line_afterwards(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words, text in DRAWN.items():
        screen = Screen()
        with redirect_stderr(screen.file), redirect_stdout(io.StringIO()):
            assert run([*words.split(), "--db", store]) == 0
        seen = screen.seen()
        assert f"\r\x1b[2K{text}" in seen, (words, seen)
        *_, last = seen.split("\r\x1b[2K")
        assert not last or last.startswith("dlq: "), (words, last)


def test_elsewhere_nothing_of_it_is_written(store: str) -> None:
    for words in DRAWN:
        err = io.StringIO()
        with redirect_stderr(err), redirect_stdout(io.StringIO()):
            assert run([*words.split(), "--db", store]) == 0
        assert not {"\r", "\x1b"} & set(err.getvalue()), words
        assert all(line.startswith("dlq: ") for line in err.getvalue().splitlines()), words


def test_what_is_done_within_a_second_draws_nothing(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(progress, "_AFTER_SECONDS", 3600.0)
    with redirect_stderr(screen.file), redirect_stdout(io.StringIO()):
        assert run(["export", "--format", "csv", "--db", store]) == 0
    assert screen.seen() == ""

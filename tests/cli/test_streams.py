"""Streams that are closed, full or no longer read: no traceback, no message among the results, an honest exit code."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cli.conftest import Dlq
from tests.support.forked_command import Started
from tests.support.orders import row, sqlite_store

ROOT = Path(__file__).parent.parent.parent
LAST = f"dlq_{2000:016x}"


def shell(line: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`line` in a shell, where "$@" is the command."""
    command = ["bash", "-c", line, "sh", sys.executable, "-m", "console", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    """More rows than a pipe holds."""
    return sqlite_store(tmp_path_factory.mktemp("store") / "orders.db", [row(number) for number in range(1, 2001)])


@pytest.mark.parametrize("words", [("list",), ("doctor",), ("dismiss", LAST, "--reason", "test")])
def test_a_closed_stdout_is_no_crash(target: str, words: tuple[str, ...]) -> None:
    ran = shell('"$@" >&-', *words, "--db", target)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_with_a_closed_stderr_no_message_lands_among_the_results(tmp_path: Path) -> None:
    ran = shell('"$@" 2>&-', "list", "--db", str(tmp_path / "none.db"))
    assert (ran.returncode, ran.stdout) == (5, "")


@pytest.mark.parametrize("words", [("list",), ("list", "--limit", "1"), ("export", "--format", "csv")])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_said(target: str, words: tuple[str, ...], unbuffered: str) -> None:
    ran = shell(f'PYTHONUNBUFFERED={unbuffered} "$@" >/dev/full', *words, "--db", target)
    assert ran.returncode == 74
    assert ran.stderr == "dlq: the output could not be written: No space left on device\n"


def test_a_reader_that_has_seen_enough_ends_the_list(target: str) -> None:
    ran = shell('"$@" | head -1; echo ${PIPESTATUS[0]}', "list", "--db", target)
    first, code = ran.stdout.splitlines()
    assert first.startswith("dlq_0000000000000001 ")
    assert (code, ran.stderr) == ("141", "")


def test_a_broken_socket_does_not_end_the_process(dlq: Dlq, target: str) -> None:
    assert dlq("list", "--limit", "1", "--db", target).code == 0
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN


def test_a_scraper_that_hangs_up_leaves_the_next_one_its_numbers(tmp_path: Path) -> None:
    small = sqlite_store(tmp_path / "small.db", [row(1)])
    with Started(["metrics", "--db", small, "--listen", "0"], os.environ, cwd=ROOT) as exporter:
        assert exporter.stdout is not None
        assert exporter.stderr is not None
        url = exporter.stdout.readline().strip()
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)) as impatient:
                impatient.sendall(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert answer.status == 200
        exporter.send_signal(signal.SIGINT)
        try:
            assert exporter.wait(60) == 130
        finally:
            exporter.kill()  # leaving the block waits for it, however long it takes
        assert exporter.stderr.read() == "dlq: stopped\n"

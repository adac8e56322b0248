"""The metrics server drops clients that are slow, odd or too many, and still answers the scraper."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.support.forked_command import Started
from tests.support.orders import row, sqlite_store

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Started]]:
    store = sqlite_store(tmp_path_factory.mktemp("metrics") / "orders.db", [row(1)])
    words = ["metrics", "--db", store, "--listen", "127.0.0.1:0"]
    with Started(words, os.environ, cwd=ROOT) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip(), server
        server.terminate()


def connected(url: str) -> socket.socket:
    where = urlsplit(url)
    assert where.hostname
    assert where.port
    return socket.create_connection((where.hostname, where.port), timeout=30)


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def held_by(pid: int) -> int:
    """How many sockets that process has."""
    found = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found += str(one.readlink()).startswith("socket:")
    return found


def test_slow_clients_are_dropped(served: tuple[str, Started]) -> None:
    url, server = served
    before = held_by(server.pid)
    clients = [connected(url) for _ in range(300)]
    ends = time.monotonic() + 60
    try:
        while any(map(is_open, clients)):
            assert time.monotonic() < ends, "still held"
            for client in clients:
                with suppress(OSError):
                    client.send(b"G")  # each byte begins a new wait of the server's reading
            time.sleep(0.3)
    finally:
        for client in clients:
            client.close()
    with urlopen(url, timeout=30) as answer:
        assert answer.status == 200
    while held_by(server.pid) > before:
        assert time.monotonic() < ends + 30, "its own ends are still open"
        time.sleep(0.1)


def test_a_head_without_end_is_refused(served: tuple[str, Started]) -> None:
    with closing(connected(served[0])) as client:
        with suppress(OSError):
            client.sendall(b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 20_000)
        with suppress(ConnectionError):
            assert b" 431 " in client.recv(100)


@pytest.mark.parametrize(
    ("request_made", "status"),
    [
        ({"method": "POST", "data": b"x"}, 405),
        ({"method": "TRACE"}, 405),
        ({"method": "HACK"}, 405),
        ({"headers": {"Host": "evil.example"}}, 421),
        ({"headers": {"Host": "127.0.0.1.evil.example:9"}}, 421),
    ],
)
def test_only_a_scraper_is_answered(served: tuple[str, Started], request_made: dict[str, object], status: int) -> None:
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(served[0], **request_made), timeout=30)  # type: ignore[arg-type]  # told by the cases
    with refused.value as answer:
        assert answer.code == status
    with urlopen(Request(served[0], headers={"Host": "localhost:1"}), timeout=30) as served_there:
        assert served_there.status == 200

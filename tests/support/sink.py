"""What the suites of the sinks share: entries, the three kinds, a child that writes, and a relay that can misbehave."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from backends import DeadLetteredOrder, DLQSink, InMemoryDLQ, PostgresDLQ, SQLiteDLQ, new_dlq_id
from backends.layouts import orders
from tests.support.owner_session import in_session_apart

Kind = Literal["memory", "sqlite", "postgres"]
ROOT = Path(__file__).parents[2]
SQLITE_DDL = orders.sqlite_ddl("failed")[0]  # a table without triggers, of an owner's own name
POSTGRES_DDL = orders.postgres_ddl("failed")[0]
START = datetime(2026, 4, 18, 14, 32, 15, 123456, tzinfo=UTC)


def entry(n: int = 0, **changes: Any) -> DeadLetteredOrder:
    order = DeadLetteredOrder(
        dlq_id=new_dlq_id(),
        captured_at=START + timedelta(seconds=n),
        venue_name="alpaca",
        account_id="acct-1",
        market_id="AAPL",
        side="buy",
        quantity=100.0,
        order_type="limit",
        price=180.1,
        client_order_id=f"coid-{n}",
        error="RuntimeError: HTTP 429 after 3 attempts",
        action_json='{"action":"new","quantity":"100"}',
    )
    return replace(order, **changes)


def opened(kind: Kind, target: str, **options: Any) -> DLQSink:
    match kind:
        case "memory":
            return InMemoryDLQ()
        case "sqlite":
            return SQLiteDLQ(target, **options)
        case "postgres":
            return PostgresDLQ(target, **options)


def with_parts(dsn: str, *, login: str | None = None, port: int | None = None) -> str:
    """The same database, as another `user:password` or through a port of this machine."""
    parts = urlsplit(dsn)
    before, _, address = parts.netloc.rpartition("@")
    address = address if port is None else f"127.0.0.1:{port}"
    return parts._replace(netloc=f"{before if login is None else login}@{address}").geturl()


def in_sqlite(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [row for statement in statements for row in connection.execute(statement)]


def in_postgres(dsn: str, *statements: str) -> list[Any]:
    async def work(connection: Any) -> list[Any]:
        return [row for statement in statements for row in await connection.fetch(statement)]

    return in_session_apart(dsn, work)


def child(code: str, *args: str) -> subprocess.Popen[str]:
    """Runs the code in a process of its own, with the arguments in sys.argv[1:]."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *args],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# Opens once a line came, so that several start at the same moment; prints an id only once its write has returned.
WRITER = """
import sys
from tests.support.sink import entry, opened
kind, target, count = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
sink = opened(kind, target)
for n in range(int(count)):
    order = entry(n)
    sink.write(order)
    print(order.dlq_id, flush=True)
sink.close()
"""


class Relay:
    """Between a sink and a server: passes everything on, falls silent, or cuts the line in the server's answer."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._mutes: list[threading.Event] = []
        self.silent = threading.Event()
        self.cut_answer_to: bytes | None = None  # once: what the client says before its answer is cut off
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                cut, mute = threading.Event(), threading.Event()
                self._mutes.append(mute)
                threading.Thread(target=self._up, args=(client, server, cut, mute), daemon=True).start()
                threading.Thread(target=self._down, args=(client, server, cut), daemon=True).start()

    def mute_open_lines(self) -> None:
        for mute in self._mutes:
            mute.set()

    def _up(self, client: socket.socket, server: socket.socket, cut: threading.Event, mute: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self.silent.is_set() or mute.is_set():
                    continue
                if self.cut_answer_to is not None and self.cut_answer_to in data:
                    self.cut_answer_to = None
                    cut.set()
                server.sendall(data)
        self._end(client, server)

    def _down(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if cut.is_set():
                    self.cuts += 1
                    break
                if not self.silent.is_set():
                    client.sendall(data)
        self._end(client, server)

    def _end(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._end(*self._sockets)
        for one in self._sockets:
            one.close()

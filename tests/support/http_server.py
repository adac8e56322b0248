"""A raw HTTP server on loopback whose answers are scripted byte by byte, and which keeps all it receives."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import parse_qsl

from tests.support.talks import Talks


@dataclass(frozen=True, slots=True)
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def params(self) -> dict[str, str]:
        return dict(parse_qsl(self.target.partition("?")[2]))

    def json(self) -> object:
        return json.loads(self.body)


Answer = bytes | None  # None: hang up without a word
Handler = Callable[[Received], Answer | Awaitable[Answer]]


def reply(status: int, body: object = None, **headers: str) -> bytes:
    """A whole response; `body` is sent as JSON unless it is bytes already."""
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


@contextmanager
def full_port() -> Iterator[str]:
    """The URL of a port that neither takes nor refuses a connection: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        yield f"http://127.0.0.1:{address[1]}"
        for filler in fillers:
            filler.close()


async def settle() -> None:
    """Lets every other task run until it waits for something outside."""
    for _ in range(50):
        await asyncio.sleep(0)


async def never(_: Received) -> Answer:
    """Takes the request and says nothing, for as long as the connection lives."""
    await asyncio.Event().wait()
    return None


class Loopback:
    """`async with Loopback(handler) as server`: `server.url`, `server.requests`, `server.connections`."""

    def __init__(self, handler: Handler, *, name: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self.requests: list[Received] = []
        self.connections = 0
        self.received_bytes = 0
        self.arrived = asyncio.Event()
        self._name = name
        self._tls = tls
        self._server: asyncio.Server | None = None
        self.url = ""
        self._talks = Talks()

    async def __aenter__(self) -> Loopback:
        self._server = await asyncio.start_server(self._talks.held_by(self._serve), "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://{self._name}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._talks.end(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while (request := await self._read(reader)) is not None:
            self.requests.append(request)
            self.arrived.set()
            answer = self.handler(request)
            content = await answer if isinstance(answer, Awaitable) else answer
            if content is None:
                break
            writer.write(content)
            await writer.drain()
            if request.headers.get("connection") == "close":
                break

    async def _read(self, reader: asyncio.StreamReader) -> Received | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            self.received_bytes += len(error.partial)
            return None
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.received_bytes += len(head) + len(body)
        method, target, _ = first.split(" ", 2)
        return Received(method, target, headers, body)

"""A loopback TCP proxy before Postgres that keeps what clients ask, message by message."""

from __future__ import annotations

import asyncio

from tests.support.commit_proxy import Proxy

_ENDS = (b"S", b"Q")  # after these a client waits for the server
Message = tuple[bytes, bytes]  # its kind and its body


class WireLog(Proxy):
    """Passes everything on. `since` is what was asked after a moment, by whichever connection."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.messages: list[Message] = []
        self.tells_own_pid = False  # as poolers do: not the process that answers

    async def start(self) -> str:
        return f"{await super().start()}?sslmode=disable"  # it reads along

    def lead_to(self, port: int) -> None:
        """Connections from now on go to this port instead."""
        self._port = port

    def since(self, mark: int) -> list[Message]:
        return self.messages[mark:]

    async def _questions(self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter) -> bool:
        size = await reader.readexactly(4)  # of the startup message, which has no kind
        upstream.write(size + await reader.readexactly(int.from_bytes(size, "big") - 4))
        while kind := await reader.read(1):
            size = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(size, "big") - 4)
            self.messages.append((kind, body))
            upstream.write(kind + size + body)
            await upstream.drain()
        return False

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kind = b""
        while self.tells_own_pid and kind != b"Z":
            kind, size = await reader.readexactly(1), await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(size, "big") - 4)
            if kind == b"K":
                body = (int.from_bytes(body[:4], "big") ^ 1).to_bytes(4, "big") + body[4:]
            writer.write(kind + size + body)
        await super()._answers(reader, writer)


def trips(messages: list[Message]) -> int:
    return sum(kind in _ENDS for kind, _ in messages)


def spoken(messages: list[Message]) -> list[str]:
    """The texts of simple queries, and the names of the statements that are run otherwise."""
    texts = {b"Q": lambda body: body, b"B": lambda body: body.split(b"\0", 2)[1] + b"\0"}
    return [texts[kind](body)[:-1].decode() for kind, body in messages if kind in texts]

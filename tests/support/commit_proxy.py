"""A loopback TCP proxy before Postgres that can lose a COMMIT, or only the answer to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal
from urllib.parse import urlsplit

from tests.support.talks import Talks

Mode = Literal["pass", "lose-commit", "lose-answer", "swallow-commit"]


class Proxy:
    """`lose-commit`: cut before it reaches the server. `lose-answer`: cut once the server has answered it.
    `swallow-commit`: cut the client only, the server is left waiting. Each strikes once, then it passes again."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._host, self._port = str(parts.hostname), int(parts.port or 5432)
        self._target = target
        self.mode: Mode = "pass"
        self.struck = asyncio.Event()
        self.accepting = True
        self._server: asyncio.Server | None = None
        self._talks = Talks()
        self._left: list[asyncio.StreamWriter] = []

    async def start(self) -> str:
        """→ the target through the proxy."""
        self._server = await asyncio.start_server(self._talks.held_by(self._serve), "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return self._target.replace(f":{self._port}/", f":{port}/")

    async def stop(self) -> None:
        assert self._server is not None
        await self._talks.end(self._server)
        for writer in self._left:
            writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.accepting:
            return
        upstream_reader, upstream = await asyncio.open_connection(self._host, self._port)
        self._left.append(upstream)
        answers = asyncio.ensure_future(self._answers(upstream_reader, writer))
        with suppress(OSError, asyncio.IncompleteReadError):
            keep_server = await self._questions(reader, upstream)
            if not keep_server:
                upstream.close()
        answers.cancel()
        with suppress(asyncio.CancelledError):
            await answers
        writer.close()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.mode == "lose-answer" and b"COMMIT\0" in data:
                    self._strike()
                    writer.close()
                    return
                writer.write(data)
                await writer.drain()
            writer.close()

    async def _questions(self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter) -> bool:
        """→ whether the server's end stays open."""
        while data := await reader.read(65536):
            if self.mode in ("lose-commit", "swallow-commit") and b"COMMIT" in data:
                keep = self.mode == "swallow-commit"
                self._strike()
                return keep
            upstream.write(data)
            await upstream.drain()
        return False

    def _strike(self) -> None:
        self.mode = "pass"
        self.struck.set()

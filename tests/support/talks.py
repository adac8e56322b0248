"""The connections of a server on loopback: each is closed when its talk ends, and all end with the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Talks:
    """`asyncio.start_server(talks.held_by(talk), …)`, then `await talks.end(server)`.

    A task that is cancelled before its first step runs no line of its own: its connection would stay open.
    """

    def __init__(self) -> None:
        self._going: set[asyncio.Task[None]] = set()

    def held_by(self, talk: Talk) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError, asyncio.IncompleteReadError):  # the client went
                await talk(reader, writer)

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(whole(reader, writer))
            self._going.add(task)
            task.add_done_callback(self._going.discard)
            task.add_done_callback(lambda _: writer.close())

        return connected

    async def end(self, server: asyncio.Server) -> None:
        server.close()
        await asyncio.sleep(0)  # what was just accepted is known after one turn of the loop
        going = tuple(self._going)
        for task in going:
            task.cancel()
        for ended in await asyncio.gather(*going, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

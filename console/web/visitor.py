"""Connections of those who have not come in yet: few at a time, and none for long."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from console.web.door import WRONG_HOST
from console.web.page import protections

OUTSIDE_SECONDS = 10.0
OUTSIDE_MOST = 64
KEPT_SECONDS = 75.0  # between two requests of somebody inside


class Visitor(web.RequestHandler):
    """One connection. Until a request of it passes the door, its time is short, and a newer one may take its place."""

    def __init__(self, server: Any, outside: dict[Visitor, None], **options: Any) -> None:
        super().__init__(server, **options)
        self._outside = outside
        self._ends: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self._outside) >= OUTSIDE_MOST:
            next(iter(self._outside)).turn_away()
        self._outside[self] = None
        self._ends = asyncio.get_running_loop().call_later(OUTSIDE_SECONDS, self.turn_away)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.admit()
        super().connection_lost(exc)

    def admit(self) -> None:
        """Somebody with the secret speaks: the connection is theirs."""
        self._outside.pop(self, None)
        if self._ends is not None:
            self._ends.cancel()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answers what the parser refuses; a request without its one Host is a wrong Host like any other."""
        if isinstance(exc, BadHttpMessage) and "'Host' header" in str(exc):
            status, message = 421, WRONG_HOST
        answer = super().handle_error(request, status, exc, message)
        answer.headers.update(protections("127.0.0.1"))
        return answer

    def turn_away(self) -> None:
        self.admit()
        if self.transport is not None:
            self.transport.abort()


def visitors(runner: web.AppRunner) -> Any:
    """Makes the protocol of each connection that a listening socket accepts."""
    server, loop = runner.server, asyncio.get_running_loop()
    assert server is not None, "the runner is set up"
    outside: dict[Visitor, None] = {}
    return lambda: Visitor(server, outside, loop=loop, **server._kwargs)

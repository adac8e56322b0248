"""Serves the page on loopback behind the door, and joins each page's socket with a console process of its own."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from aiohttp import WSMsgType, web

from console.web.child import ConsoleProcess
from console.web.door import COOKIE, WRONG_HOST, Door, is_our_host, is_our_target, is_own_origin
from console.web.page import PAGE, STYLE, protections
from console.web.visitor import KEPT_SECONDS, Visitor, visitors

_LARGEST_MESSAGE = 4_000_000  # of a page: a paste
_STATIC = Path(str(files("textual_serve"))) / "static"


class WebServer:
    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], *, consoles: int, say: Callable[[str], None]
    ) -> None:
        self._command = command
        self._environ = environ
        self._most = consoles
        self._say = say
        self._running = 0
        self._door = Door()
        self._sockets: set[web.WebSocketResponse] = set()

    async def serve(self, host: str, port: int, told: Callable[[str], None]) -> None:
        """Serve until told to end. Calls `told` with the address, secret included. Raises OSError."""
        quiet = logging.getLogger("dlq-console.web")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self._say(f"web: {context.get('message', 'failed')}"))
        runner = web.AppRunner(
            self._app(),
            access_log=None,
            logger=quiet,
            handle_signals=False,
            keepalive_timeout=KEPT_SECONDS,
            shutdown_timeout=1.0,
        )
        await runner.setup()
        listening: asyncio.Server | None = None
        try:
            listening = await loop.create_server(visitors(runner), host, port)
            bound = listening.sockets[0].getsockname()[1]
            told(f"http://{f'[{host}]' if ':' in host else host}:{bound}/?token={self._door.token}")
            await _until_signal(loop)
        finally:
            if listening is not None:
                listening.close()
            for socket in list(self._sockets):
                await socket.close()
            await runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        path = self._door.path
        app.router.add_get("/", self._enter)
        app.router.add_get(path, self._page)
        app.router.add_get(f"{path}page.css", self._style)
        app.router.add_get(f"{path}ws", self._socket)
        app.router.add_static(f"{path}static", _STATIC)
        app.on_response_prepare.append(_protect)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Callable[[web.Request], object]) -> web.StreamResponse:
        """Judges every request, also one that no route takes: who is outside learns nothing of what is inside."""
        if not is_our_host(request.headers.getall("Host", [])) or not is_our_target(request.raw_path):
            raise web.HTTPMisdirectedRequest(text=WRONG_HOST)
        inside = self._door.is_inside(request.path, request.cookies.get(COOKIE))
        if not inside and not (request.path == "/" and self._door.is_token(request.query.getall("token", []))):
            raise web.HTTPForbidden(text="open the whole address that dlq serve printed\n")
        if isinstance(request.protocol, Visitor):
            request.protocol.admit()
        answer = await handler(request)  # type: ignore[misc]  # aiohttp's handlers are coroutines
        assert isinstance(answer, web.StreamResponse)
        return answer

    async def _enter(self, _: web.Request) -> web.Response:
        answer = web.Response(status=303, headers={"Location": self._door.path})
        answer.set_cookie(COOKIE, self._door.cookie, path=self._door.path, httponly=True, samesite="Strict")
        return answer

    async def _page(self, request: web.Request) -> web.Response:
        text = PAGE.replace("{host}", request.host).replace("{path}", self._door.path)
        return web.Response(text=text, content_type="text/html")

    async def _style(self, _: web.Request) -> web.Response:
        return web.Response(text=STYLE, content_type="text/css")

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if not is_own_origin(request.headers.getall("Origin", []), request.host):
            raise web.HTTPForbidden(text="not from the page of this address\n")
        if self._running >= self._most:
            raise web.HTTPServiceUnavailable(text=f"{self._most} consoles are open: close one\n")
        self._running += 1
        try:
            return await self._console(request)
        finally:
            self._running -= 1

    async def _console(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=15, max_msg_size=_LARGEST_MESSAGE)
        await socket.prepare(request)
        width, height = (_number(request.query.get(name, ""), usual) for name, usual in (("width", 80), ("height", 24)))
        try:
            console = await ConsoleProcess.start(self._command, self._environ, width=width, height=height)
        except OSError as problem:
            self._say(f"web: no console can be started: {problem.strerror}")
            await socket.close(code=1013)
            return socket
        self._sockets.add(socket)
        drawing = asyncio.create_task(self._drawn(console, socket))
        try:
            async for message in socket:
                if message.type == WSMsgType.TEXT and (answer := await console.take(message.data)) is not None:
                    await socket.send_str(answer)
        finally:
            self._sockets.discard(socket)
            await console.end()
            await drawing
        return socket

    async def _drawn(self, console: ConsoleProcess, socket: web.WebSocketResponse) -> None:
        await console.draw(socket.send_bytes)
        await socket.close()


async def _protect(request: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(protections(request.host if is_our_host([request.host]) else "127.0.0.1"))


async def _until_signal(loop: asyncio.AbstractEventLoop) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    await ended.wait()


def _number(text: str, usual: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else usual

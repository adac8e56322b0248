"""Metrics over HTTP: one small server for Prometheus. Loopback, unless another host is said."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from concurrent.futures import Future
from contextlib import aclosing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from backends.index import IndexUnavailable, Reader
from backends.index.filing import EVERYTHING
from backends.index.reader import NoIndex
from backends.store import Store, StoreError
from console import clock
from console.cli.context import DONE, Context
from console.cli.parser import UsageError
from console.cli.stats import SMALL, keeper_of, scrape
from console.services.index.keeper import IndexProcess, reader_of
from console.services.stats import tally
from console.services.stats.activity import ShiftActivity
from console.services.stats.metrics import CONTENT_TYPE

_KEPT_SECONDS = 1.0  # two scrapes at once count once
_LONGEST_SECONDS = 60.0
_NEAR = 500  # entries by which an index may be behind what is being written


class NotReady(Exception):
    """There is no true answer yet; `str()` says why."""


async def listen(context: Context) -> int:
    host, port = address(context.args.listen)
    async with context.store() as store:
        reader = await reader_of(store)
        exporter = Exporter(context, store, reader)
        try:
            await exporter.serve(host, port)
        finally:
            await exporter.aclose()
            await reader.aclose()
    return DONE


def address(text: str) -> tuple[str, int]:
    found = re.fullmatch(r"(?:(?P<host>[^:\[\]]*|\[[0-9A-Fa-f:.]+\]):)?(?P<port>[0-9]{1,5})", text)
    if found is None or int(found["port"]) > 65535:
        raise UsageError("--listen takes HOST:PORT, or a port alone on 127.0.0.1")
    return (found["host"] or "127.0.0.1").strip("[]"), int(found["port"])


class Exporter:
    def __init__(self, context: Context, store: Store, reader: Reader) -> None:
        self._context = context
        self._store = store
        self._reader = reader
        self._activity = ShiftActivity(store.info.table)
        self._lock = asyncio.Lock()
        self._kept: tuple[float, str] | None = None
        self._keeper: IndexProcess | None = None

    async def serve(self, host: str, port: int) -> None:
        """Until cancelled; the first line of stdout says where."""
        loop = asyncio.get_running_loop()

        def answer() -> Future[str]:
            return asyncio.run_coroutine_threadsafe(self.text(), loop)

        try:
            server = _Server((host, port), answer)
        except OSError as problem:
            raise UsageError(f"cannot listen on {host}:{port}: {problem.strerror}") from None
        thread = Thread(target=server.serve_forever, daemon=True, name="metrics")
        thread.start()
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{server.server_address[1]}/metrics", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(server.shutdown)
            server.server_close()

    async def aclose(self) -> None:
        if self._keeper is not None:
            await self._keeper.stop()

    async def text(self) -> str:
        async with self._lock:
            if self._kept is not None and time.monotonic() < self._kept[0]:
                return self._kept[1]
            await self._look()
            text = await scrape(self._context, self._store, self._activity, await self._count())
            self._kept = (time.monotonic() + _KEPT_SECONDS, text)
            return text

    async def _look(self) -> None:
        """A file that was removed or replaced can still be read, and would be told of for ever."""
        if self._store.info.dialect == "sqlite":
            async with aclosing(self._store.changes()) as signs:  # type: ignore[type-var]  # every store's is a generator
                if (sign := await anext(signs)).kind == "lost":
                    raise NotReady(sign.detail)

    async def _count(self) -> tally.Tally:
        seen = await self._store.counts(EVERYTHING)
        if sum(seen.by_state.values()) <= SMALL:
            return await tally.counted(self._store, clock.now())
        if self._keeper is None or not self._keeper.running:
            self._keeper = keeper_of(self._context)
            await self._keeper.start()
        progress = await self._reader.progress()
        if progress is None or not progress.built:
            share = 0 if progress is None or not progress.expected else progress.filed / progress.expected
            raise NotReady(f"the index is being built: {share:.0%}")
        behind = sum(abs(seen.by_state.get(state, 0) - count) for state, count in progress.states.items())
        if behind > _NEAR:
            raise NotReady(f"the index is {behind} changes behind")
        try:
            return await tally.indexed(self._reader, clock.now())
        except NoIndex:
            raise NotReady("the index is being built") from None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, where: tuple[str, int], answer: object) -> None:
        self.answer = answer
        if ":" in where[0]:
            import socket

            self.address_family = socket.AF_INET6
        super().__init__(where, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server_version = "dlq-console"
    sys_version = ""
    timeout = 10.0  # a client that says nothing is let go

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in ("/metrics", "/"):
            self._send(404, "metrics are at /metrics\n")
            return
        future: Future[str] = self.server.answer()  # type: ignore[attr-defined]  # _Server has it
        try:
            self._send(200, future.result(_LONGEST_SECONDS))
        except (StoreError, IndexUnavailable, NotReady, TimeoutError) as problem:
            self._send(503, f"{problem}\n")

    do_HEAD = do_GET  # noqa: N815  http.server's name

    def _refuse(self) -> None:
        self._send(405, "metrics are read by GET\n", allow="GET, HEAD")

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _refuse  # noqa: N815  http.server's names

    def _send(self, status: int, text: str, *, allow: str = "") -> None:
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE if status == 200 else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if allow:
            self.send_header("Allow", allow)
        with suppress(OSError):  # who has hung up needs no answer
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  http.server's name
        """A line for every scrape would bury what matters."""

    def log_error(self, format: str, *args: object) -> None:  # noqa: A002  http.server's name
        print(f"dlq: {format % args}", file=sys.stderr)

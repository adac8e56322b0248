"""The verbs check, metrics (with its HTTP server), report and index.

Read the index of a large store if it is current; otherwise they count.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any

from backends.index import IndexUnavailable, Reader
from backends.index.reader import NoIndex
from backends.index.writer import EVERYTHING
from backends.store import Store, StoreError
from console import clock
from console.cli.context import DONE, REJECTED, Context, keeper_of
from console.cli.parser import UsageError
from console.cli.printing.listing import document_list, form_of
from console.cli.printing.table import TextColumn
from console.services.index.keeper import is_current, reader_of
from console.services.stats import tally
from console.services.stats.alerts import Alert, alerts
from console.services.stats.metrics import CONTENT_TYPE, Numbers, render
from console.services.stats.own_metrics import own_families
from console.services.stats.report import ShiftActivity, as_json, as_markdown, gather
from console.services.stats.trend import depth_trends
from console.settings.reasons import reasons_for
from console.text.durations import parse_moment
from console.text.untrusted import safe
from console.web.door import is_our_host

if TYPE_CHECKING:
    from console.services.index.keeper import IndexProcess

SMALL = 20_000  # up to this many entries are counted: quick, and always current


async def check_verb(context: Context) -> int:
    async with context.store() as store:
        raised = alerts(await numbers(context, store, closed=False, groups="none"), context.config.alerts)
    form = form_of(context.args)
    if form == "plain":
        for alert in raised:
            print(f"{alert.rule}: {safe(alert.text)}")
    else:
        for line in document_list(form, [_alert_document(alert) for alert in raised], _ALERT_COLUMNS):
            print(line)
    return REJECTED if raised else DONE


_ALERT_COLUMNS = {
    "rule": TextColumn("RULE"),
    "subject": TextColumn("SUBJECT", least=10),
    "value": TextColumn("VALUE", right=True),
    "limit": TextColumn("LIMIT", right=True),
    "text": TextColumn("TEXT", least=20),
}


def _alert_document(alert: Alert) -> dict[str, object]:
    figures = {"value": alert.value, "limit": alert.limit, "text": alert.text}
    return {"rule": alert.rule, "subject": alert.subject, **figures}


async def metrics_verb(context: Context) -> int:
    if context.args.listen:
        return await listen(context)
    async with context.store() as store:
        activity = ShiftActivity(store.info.table)
        sys.stdout.write(await scrape(context, store, activity, await numbers(context, store, groups="sizes")))
    return DONE


async def scrape(context: Context, store: Store, activity: ShiftActivity, counted: tally.Tally) -> str:
    """The Prometheus text. Feeds `activity` the audit events since the last call."""
    async for block in store.audit(after=activity.seq):
        activity.feed(block)
    return render(
        Numbers(
            info=store.info,
            tally=counted,
            activity=activity,
            alerts=alerts(counted, context.config.alerts),
            halted=await store.halted() is not None,
            reasons=reasons_for(store.info.layout, context.config.reasons),
            trends=await depth_trends(store, counted, activity.moves),
            more=await own_families(store),
        )
    )


async def report_verb(context: Context) -> int:
    since = moment(context, context.args.since)
    if since > context.now():  # an empty report would read as a quiet shift
        raise UsageError(f"--since {safe(context.args.since, 80)} is in the future: nothing can be reported yet")
    async with context.triage() as triage:
        counted = await numbers(context, triage.store, groups="none")
        report = await gather(triage, since, counted, alerts(counted, context.config.alerts))
    if context.args.json:
        print(json.dumps(as_json(report)))
    else:
        sys.stdout.write(as_markdown(report))
    return DONE


def moment(context: Context, text: str) -> datetime:
    try:
        return parse_moment(text, context.now())
    except ValueError as problem:
        raise UsageError(str(problem)) from None


async def numbers(context: Context, store: Store, *, closed: bool = True, groups: tally.Detail) -> tally.Tally:
    """From the index if it is current, otherwise counted; `closed` and `groups` as in `tally.counted`."""
    async with index_of(context, store) as reader:
        if reader is not None:
            with contextlib.suppress(IndexUnavailable, NoIndex):  # damage that only reading it shows
                return await tally.indexed(store, reader, clock.now(), context.config)
        return await tally.counted(store, clock.now(), context.config, closed=closed, groups=groups)


@asynccontextmanager
async def index_of(context: Context, store: Store) -> AsyncIterator[Reader | None]:
    """The index, if the store is large and the index is current; otherwise None."""
    reader = await reader_of(store, types=context.config.venue_types)
    try:
        yield reader if await _is_worth_it(store, reader) else None
    finally:
        await reader.aclose()


async def _is_worth_it(store: Store, reader: Reader) -> bool:
    try:
        progress = await reader.progress()
    except IndexUnavailable:
        return False
    if progress is None or sum(progress.states.values()) <= SMALL:
        return False
    return await is_current(store, progress)


_KEPT_SECONDS = 1.0  # scrapes within this time share one answer
_LONGEST_SECONDS = 60.0
_LEDGER_SECONDS = 60.0  # between two looks whether the ledger can be read
_MOST_CLIENTS = 32
_HEAD_SECONDS = 8.0  # for the whole of a request's head
_NEAR = 500  # changes by which the index may lag behind the store


class NotReady(Exception):
    """The figures are not available yet; `str()` says why."""


async def listen(context: Context) -> int:
    host, port = address(context.args.listen)
    async with context.store() as store:
        reader = await reader_of(store, types=context.config.venue_types)
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
        self._is_readable = tally.ledger_is_readable(store.info)
        self._look_again = time.monotonic() + _LEDGER_SECONDS

    async def serve(self, host: str, port: int) -> None:
        """Serves until cancelled. Prints its URL as the first line of stdout."""
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
            await _until_interrupted(loop)
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
            counted = replace(await self._count(), is_readable=await self._ledger())
            text = await scrape(self._context, self._store, self._activity, counted)
            self._kept = (time.monotonic() + _KEPT_SECONDS, text)
            return text

    async def _look(self) -> None:
        """Raises NotReady if the SQLite file was removed or replaced: the open one still gives its old figures."""
        if self._store.info.dialect == "sqlite":
            async with aclosing(self._store.changes()) as signs:  # type: ignore[type-var]  # every store's is a generator
                if (sign := await anext(signs)).kind == "lost":
                    raise NotReady(sign.detail)

    async def _ledger(self) -> bool:
        """Whether the ledger can be read. A right may come and go, and the open store knows what it found at first."""
        if self._store.info.dialect == "postgresql" and time.monotonic() >= self._look_again:
            async with self._context.store() as fresh:
                self._is_readable = tally.ledger_is_readable(fresh.info)
            self._look_again = time.monotonic() + _LEDGER_SECONDS
        return self._is_readable

    async def _count(self) -> tally.Tally:
        seen = await self._store.counts(EVERYTHING)
        if sum(seen.by_state.values()) <= SMALL:
            return await tally.counted(self._store, clock.now(), self._context.config, groups="sizes")
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
            return await tally.indexed(self._store, self._reader, clock.now(), self._context.config)
        except NoIndex:
            raise NotReady("the index is being built") from None


async def _until_interrupted(loop: asyncio.AbstractEventLoop) -> None:
    """Waits for Ctrl-C by the loop's own means: just before the loop waits, Python's handler of it goes unheard."""
    stopped = asyncio.Event()
    with suppress(ValueError, RuntimeError):  # only the main thread hears signals
        loop.add_signal_handler(signal.SIGINT, stopped.set)
    try:
        await stopped.wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    raise KeyboardInterrupt


class _Server(ThreadingHTTPServer):
    """At most so many clients at a time, each for a limited time: a slow one holds up nobody for long."""

    daemon_threads = True
    request_queue_size = 128  # with five, the default, a client in a crowd waits a second before it is tried again

    def __init__(self, where: tuple[str, int], answer: object) -> None:
        self.answer = answer
        self._free: SimpleQueue[None] = SimpleQueue()  # a place for each client
        for _ in range(_MOST_CLIENTS):
            self._free.put(None)
        if ":" in where[0]:
            self.address_family = socket.AF_INET6
        super().__init__(where, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            self._free.get_nowait()
        except Empty:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no further thread can be started
            self._free.put(None)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.put(None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: a client that went away or was dropped is nobody's fault, and a traceback would hold values."""


def _hang_up(request: socket.socket) -> None:
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server_version = "dlq-console"
    sys_version = ""
    timeout = 10.0  # seconds before a silent client is disconnected

    def setup(self) -> None:
        super().setup()
        # The time limit above counts anew with each byte; this one ends whoever sends them one by one.
        self._late = Timer(_HEAD_SECONDS, _hang_up, (self.request,))
        self._late.daemon = True
        self._late.start()

    def finish(self) -> None:
        self._late.cancel()
        with suppress(OSError):  # the client hung up
            super().finish()

    def parse_request(self) -> bool:
        """Refuses what no scraper sends: another method, or, on loopback, a name that a web page made a browser use."""
        if not super().parse_request():
            return False
        self._late.cancel()
        if self.command not in ("GET", "HEAD"):
            self._send(405, "use GET to read the metrics\n", allow="GET, HEAD")
            return False
        hosts = self.headers.get_all("Host", [])
        if ip_address(self.request.getsockname()[0]).is_loopback and hosts and not is_our_host(hosts):
            self._send(421, "this host name is not served here\n")
            return False
        return True

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

    def _send(self, status: int, text: str, *, allow: str = "") -> None:
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE if status == 200 else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if allow:
            self.send_header("Allow", allow)
        self.send_header("Connection", "close")
        with suppress(OSError):  # the client hung up
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  http.server's name
        """Silent: a line for every scrape would hide what matters."""

    log_error = log_message  # what a client sent wrong is told to that client

"""Replaces the `fetch` of a ccxt exchange object, so that every request leaves through `venues.http`.

The current task decides what a request may do: read, rehearse, capture, or send what was captured. Must not
retry, follow redirects or log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from venues.ccxt.request import Captured, Wire, aims_at_nothing, bare_path, mentions
from venues.http import Headers, Reply, Result, Transport

# ccxt calls these unasked: they approve a fee for ccxt or name it as the referrer.
UNASKED = ("initialize_client", "handle_builder_fee_approval", "approve_builder_fee", "set_ref")
_MARKET_LIST = 64 << 20  # bytes; some exchanges list all their markets in one answer
_NEVER_READ = re.compile(r"approve|authorize_?builder|referr|withdraw|transfer|leverage", re.IGNORECASE)
_LOGIN = re.compile(r"/(?:log-?in|sign-?in|auth|authenticate|sessions?|tokens?)/?(?:\?|$)", re.IGNORECASE)


@dataclass(slots=True)
class Reading:
    """A look-up. With `about`, the id asked for, any HTTP method may be sent: ccxt documents the call as a read."""

    about: str | None = None
    asked: bool = False  # a request that names the id was answered
    own: bool = False  # ccxt found an error in the exchange's own answer
    text: str = ""  # the answer to the last request that names the id
    path: str = ""  # of that request, without its query


@dataclass(slots=True)
class Rehearsing:
    """Sends the reads that an order needs first; captures the order itself, known by `token`."""

    token: str


@dataclass(slots=True)
class Capturing:
    """Sends nothing."""


@dataclass(slots=True)
class Sending:
    """Sends the captured request, once; any other request ends the call."""

    wire: Wire
    begun: bool = False
    result: Result | None = None
    own: bool = False  # ccxt found an error in the exchange's own answer


Task = Reading | Rehearsing | Capturing | Sending
_TASK: ContextVar[Task | None] = ContextVar("ccxt_task", default=None)
_T = TypeVar("_T", Reading, Rehearsing, Capturing, Sending)


class Lost(BaseException):
    """Ends a ccxt call without an answer. A BaseException, because ccxt swallows Exceptions."""


@contextmanager
def at(task: _T) -> Iterator[_T]:
    token = _TASK.set(task)
    try:
        yield task
    finally:
        _TASK.reset(token)


class Line:
    def __init__(
        self, exchange: Any, errors: Any, *, timeout: float, guard: Callable[[Wire, bool], str | None]
    ) -> None:
        """`guard(request, public)` is asked about every request and returns why it may not be sent."""
        self._exchange = exchange
        self._errors = errors
        self._timeout = timeout
        self._guard = guard
        self._transports: dict[str, Transport] = {}
        self._sign = exchange.sign
        self._public = False
        exchange.fetch = self._fetch
        exchange.sign = self._signed
        for name in UNASKED:
            if hasattr(exchange, name):
                setattr(exchange, name, _nothing)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()
        self._transports.clear()

    def _signed(self, path: str, api: object = "public", *rest: object, **named: object) -> object:
        # ccxt calls `fetch` next without awaiting anything, so this flag belongs to that request.
        self._public = "public" in str(api).lower()
        return self._sign(path, api, *rest, **named)

    async def _fetch(self, url: str, method: str = "GET", headers: Any = None, body: Any = None) -> object:
        # Replaces ccxt's `fetch`, so it has the same parameters.
        wire, public = self._wire(url, method, headers=headers, body=body), self._public
        task = _TASK.get()
        match task:
            case Capturing():
                raise Captured(wire)
            case Rehearsing() if mentions(wire, task.token):
                raise Captured(wire)
            case Sending():
                return await self._send(task, wire)
            case _:
                return await self._read(task if isinstance(task, Reading) else Reading(), wire, public=public)

    async def _send(self, task: Sending, wire: Wire) -> object:
        """Send the captured request; `wire`, which ccxt made this time, only shows that the call is the same."""
        same = (wire.method, wire.origin) == (task.wire.method, task.wire.origin)
        if task.begun or not same or self._guard(task.wire, False) is not None:
            raise Lost
        task.begun = True
        sent = task.wire
        task.result = await self._transport(sent).request(sent.method, sent.path, headers=sent.headers, body=sent.body)
        if not isinstance(task.result, Reply):
            raise Lost
        try:
            return self._understood(sent, task.result)
        except self._errors.BaseError:
            task.own = self._blames(sent, task.result)
            raise

    async def _read(self, task: Reading, wire: Wire, *, public: bool) -> object:
        if (why := self._forbidden(task, wire, public=public) or self._guard(wire, public)) is not None:
            raise self._errors.NotSupported(why)
        result = await self._transport(wire).ask(wire.method, wire.path, headers=wire.headers, body=wire.body)
        if not isinstance(result, Reply):
            raise self._errors.NetworkError(result.why)
        if task.about is not None and mentions(wire, task.about):
            task.asked, task.text, task.path = True, result.body.decode(errors="replace"), bare_path(wire)
        try:
            return self._understood(wire, result)
        except self._errors.BaseError:
            task.own = self._blames(wire, result)
            raise

    def _forbidden(self, task: Reading, wire: Wire, *, public: bool) -> str | None:
        if aims_at_nothing(wire):
            return "ccxt would ask for an order without an id"
        if wire.method == "GET" or public:
            return None
        if _NEVER_READ.search(wire.path) or _NEVER_READ.search(wire.body.decode(errors="replace")):
            return "ccxt would change something that nobody asked for"
        if task.about is None and not _LOGIN.search(wire.path):
            return f"ccxt would send a {wire.method} that is not known to be a read"
        return None

    def _understood(self, wire: Wire, reply: Reply) -> object:
        """Let ccxt read an answer: the exchange's errors first, then those of HTTP."""
        exchange, headers = self._exchange, dict(reply.headers)
        text = exchange.on_rest_response(
            reply.status, "", wire.url, wire.method, headers, reply.body.decode(errors="replace"), {}, ""
        )
        parsed = exchange.parse_json(text)
        self._own_errors(wire, reply, text=text, parsed=parsed)
        exchange.handle_http_status_code(reply.status, "", wire.url, wire.method, text)
        return text if parsed is None else parsed

    def _own_errors(self, wire: Wire, reply: Reply, *, text: str, parsed: object) -> None:
        request = wire.body.decode(errors="replace")
        self._exchange.handle_errors(
            reply.status, "", wire.url, wire.method, dict(reply.headers), text, parsed, {}, request
        )

    def _blames(self, wire: Wire, reply: Reply) -> bool:
        """Tell whether the exchange's own body is an error, not only the HTTP status, which a proxy may have set."""
        text = reply.body.decode(errors="replace").strip()
        parsed = self._exchange.parse_json(text)
        if reply.status >= 500 or not isinstance(parsed, dict | list):
            return False
        try:
            self._own_errors(wire, reply, text=text, parsed=parsed)
        except self._errors.BaseError:
            return True
        return False

    def _wire(self, url: str, method: str, *, headers: Any, body: Any) -> Wire:
        if body is not None and not isinstance(body, str | bytes):
            raise self._errors.NotSupported("a request with a multipart body cannot be stored")
        given = self._exchange.prepare_request_headers(dict(headers or {}))
        kept = {str(k): str(v) for k, v in given.items() if k.lower() not in ("accept-encoding", "connection")}
        encoded = body if isinstance(body, bytes) else (body or "").encode()
        return Wire(method, url, Headers(kept), encoded)

    def _transport(self, wire: Wire) -> Transport:
        if wire.origin not in self._transports:
            self._transports[wire.origin] = Transport(wire.origin, self._timeout, max_reply=_MARKET_LIST)
        return self._transports[wire.origin]


async def _nothing(*_: object, **__: object) -> bool:
    return False

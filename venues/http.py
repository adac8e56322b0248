"""The one way an HTTP request leaves for a venue; the only importer of httpx.

One request per call: no retries, redirects or cookies, nothing from the environment, one deadline over all of it.
Says for certain whether a byte of the request can have left. Knows no venue.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import ssl
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import cast

import certifi
import httpx

from venues.orders import NotSent, Unknown

MAX_REPLY = 1 << 20
_LONGEST_WAIT = 86_400.0
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class Headers(Mapping[str, str]):
    """Request headers that show their names only, so that no traceback or log shows a key."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str]) -> None:
        self._items = tuple(items.items())

    def __getitem__(self, name: str) -> str:
        return dict(self._items)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Headers({', '.join(self)})"


NO_HEADERS = Headers({})


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer, as it came. Header names are lower-case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    def json(self) -> dict[str, object] | None:
        """The body as one JSON object with exact numbers; None if it is anything else."""
        try:
            value = json.loads(
                self.body,
                parse_float=Decimal,
                parse_int=Decimal,
                parse_constant=_refuse,
                object_pairs_hook=_unique,
            )
        except (ValueError, ArithmeticError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def date(self) -> datetime | None:
        """The venue's clock, from the Date header."""
        return _http_date(self.headers.get("date", ""))

    def retry_after(self) -> float | None:
        """Seconds to wait, by Retry-After or X-RateLimit-Reset, where they say something sensible."""
        now = self.date() or datetime.fromtimestamp(time.time(), UTC)
        asked = self.headers.get("retry-after", "")
        if (when := _http_date(asked)) is not None:
            return _sensible((when - now).total_seconds())
        if (seconds := _seconds(asked)) is not None:
            return _sensible(seconds)
        reset = _seconds(self.headers.get("x-ratelimit-reset", ""))
        return None if reset is None else _sensible(reset - now.timestamp())


Result = Reply | NotSent | Unknown


@dataclass(slots=True)
class _Wire:
    """What is known of one request's bytes: `begun` is set before the first one is handed to the socket."""

    begun: bool = False

    async def trace(self, event: str, _info: Mapping[str, object]) -> None:
        if event.endswith("send_request_headers.started"):
            self.begun = True

    def lost(self, why: str) -> NotSent | Unknown:
        return Unknown(why) if self.begun else NotSent(f"{why}, before a byte of the request left")


class _TooLongError(Exception):
    pass


class Transport:
    """Requests to one base URL: `request` for what changes an order, `ask` for what only looks."""

    def __init__(self, base_url: str, timeout: float) -> None:
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._tls = _tls(self._base_url)
        self._kept: httpx.AsyncHTTPTransport | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Headers = NO_HEADERS,
        body: bytes = b"",
        params: Mapping[str, str] | None = None,
    ) -> Result:
        """Send once, on a connection of its own: a kept one may be dead, and a dead one leaves doubt.

        A cancelled call does not raise: it returns NotSent if no byte left, else Unknown, so that the outcome
        is not lost with the task (whose `cancelling()` still tells). CancelledError escapes only if the call had
        not begun. To let a request run to its answer instead, the caller makes it a task and shields that.
        """
        if (problem := _unsendable(headers)) is not None:
            return NotSent(problem)
        wire = _Wire()
        call = self._build(method, path, headers=headers, body=body, params=params)
        call.headers["connection"] = "close"
        call.extensions["trace"] = wire.trace
        result = await self._guarded(self._alone(call), wire)
        return wire.lost("cancelled") if result is None else result

    async def ask(
        self,
        method: str,
        path: str,
        *,
        headers: Headers = NO_HEADERS,
        body: bytes = b"",
        params: Mapping[str, str] | None = None,
    ) -> Result:
        """A look-up: once, too, but connections are kept, and a cancelled one is cancelled."""
        if (problem := _unsendable(headers)) is not None:
            return NotSent(problem)
        wire = _Wire()
        call = self._build(method, path, headers=headers, body=body, params=params)
        call.extensions["trace"] = wire.trace
        if self._kept is None:
            self._kept = self._pool()
        result = await self._guarded(_exchange(self._kept, call), wire)
        if result is None:
            # Raised anew: the first one's frames hold the request's bytes.
            raise asyncio.CancelledError
        return result

    async def aclose(self) -> None:
        if self._kept is not None:
            await self._kept.aclose()
            self._kept = None

    def _pool(self) -> httpx.AsyncHTTPTransport:
        return httpx.AsyncHTTPTransport(
            verify=self._tls,
            trust_env=False,
            retries=0,
            http2=False,
            limits=httpx.Limits(max_keepalive_connections=2, keepalive_expiry=5.0),
        )

    def _build(
        self, method: str, path: str, *, headers: Headers, body: bytes, params: Mapping[str, str] | None
    ) -> httpx.Request:
        sent = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "dlq-console"}
        if body:
            sent["content-type"] = "application/json"
        request = httpx.Request(
            method, self._base_url + path, params=params or None, headers=sent, content=body or None
        )
        request.headers.update(headers)
        return request

    async def _alone(self, call: httpx.Request) -> Reply:
        async with self._pool() as pool:
            return await _exchange(pool, call)

    async def _guarded(self, exchange: Coroutine[object, object, Reply], wire: _Wire) -> Result | None:
        """The exchange's result within the deadline; None when cancelled. Error texts may repeat a header: unused."""
        try:
            async with asyncio.timeout(self._timeout):
                return await exchange
        except asyncio.CancelledError:
            return None
        except TimeoutError:
            return wire.lost(f"no answer within {self._timeout:g} s")
        except httpx.ConnectError as error:
            return wire.lost(f"no connection ({str(error)[:120] or type(error).__name__})")
        except httpx.TransportError as error:
            return wire.lost(_WORDS.get(type(error), "the connection failed"))
        except _TooLongError:
            return wire.lost(f"the answer is longer than {MAX_REPLY} bytes")


_WORDS: Mapping[type[httpx.TransportError], str] = {
    httpx.ReadError: "the connection was lost while waiting for the answer",
    httpx.WriteError: "the connection was lost while sending",
    httpx.RemoteProtocolError: "the answer broke off or is not HTTP",
    httpx.LocalProtocolError: "the request could not be written as HTTP",
}


async def _exchange(pool: httpx.AsyncHTTPTransport, call: httpx.Request) -> Reply:
    response = await pool.handle_async_request(call)
    try:
        body = bytearray()
        async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > MAX_REPLY:
                    raise _TooLongError
    finally:
        await response.aclose()
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, bytes(body))


def _tls(base_url: str) -> ssl.SSLContext:
    """Verifying, and deaf to SSL_CERT_FILE and SSLKEYLOGFILE; without authorities where no TLS is spoken."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if base_url.startswith("https:"):
        context.load_verify_locations(certifi.where())
    return context


def _unsendable(headers: Headers) -> str | None:
    for name in headers:
        if not _HEADER_VALUE.fullmatch(headers[name]):
            return f"the value for header {name} is empty or has characters that cannot be sent"
    return None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)


def _refuse(token: str) -> object:
    raise ValueError(token)


def _http_date(text: str) -> datetime | None:
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _sensible(seconds: float) -> float | None:
    return min(max(seconds, 0.0), _LONGEST_WAIT) if math.isfinite(seconds) else None

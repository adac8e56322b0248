"""Sends every HTTP request to a venue, and is the only importer of httpx.

One request per call, under one deadline: no retries, redirects or cookies, nothing from the environment. Tells
for certain whether a byte of the request can have left. Must not know a venue.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import urlsplit

import certifi
import httpx

from venues.message import NO_HEADERS, Headers, Reply, Result
from venues.orders import NotSent, Unknown

__all__ = ["MAX_REPLY", "Headers", "Reply", "Result", "Transport"]

MAX_REPLY = 1 << 20


class _Stream(Protocol):
    async def aclose(self) -> None: ...


@dataclass(slots=True)
class _Wire:
    """What is known about the bytes of one request.

    None have left while httpx has only reported that it connects. No report, or an unknown one, counts as sent, so
    that a change in httpx leads to doubt and not to a second order.
    """

    connecting: bool = False
    further: bool = False  # httpx has begun something after connecting
    half_open: _Stream | None = None  # connected, but TLS is not set up yet
    answer: Reply | None = None  # its status, once that has come

    @property
    def begun(self) -> bool:
        return self.further or not self.connecting

    async def trace(self, event: str, info: Mapping[str, object]) -> None:
        match event:
            case "connection.connect_tcp.started":
                self.connecting = True
            case "connection.connect_tcp.complete":
                self.half_open = cast("_Stream", info["return_value"])
            case "connection.start_tls.complete":
                self.half_open = None
            case _ if not event.startswith("connection."):
                self.further = True

    async def aclose(self) -> None:
        """Close a connection that was cancelled in its TLS handshake; httpx's pool forgets it open."""
        if self.half_open is not None and not self.begun:
            await self.half_open.aclose()

    def lost(self, why: str) -> NotSent | Unknown:
        return Unknown(why) if self.begun else NotSent(f"{why}, before a byte of the request left")


class _TooLongError(Exception):
    pass


class Transport:
    """Sends requests to one base URL: `request` for what changes an order, `ask` for what only reads."""

    def __init__(
        self,
        base_url: str,
        timeout: float,
        *,
        max_reply: int = MAX_REPLY,
        says_json: bool = True,
        status_counts: bool = False,
    ) -> None:
        """`says_json` adds the JSON headers to a request that does not set its own.

        `status_counts`: an answer whose body does not come whole is still the answer, with what came of it.
        """
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._max_reply = max_reply
        self._says_json = says_json
        self._status_counts = status_counts
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
        """Send once, on a new connection: a kept one may be dead, and that would leave doubt.

        A cancelled call does not raise: it returns NotSent if no byte left, else Unknown, so that the outcome is not
        lost with the task (`cancelling()` still shows it). CancelledError escapes only if the call had not begun.
        To let a request run to its answer, make it a task and shield that.
        """
        if (problem := headers.unsendable()) is not None:
            return NotSent(problem)
        wire = _Wire()
        call = self._build(method, path, headers=headers, body=body, params=params)
        call.headers["connection"] = "close"
        call.extensions["trace"] = wire.trace
        return self._answered(await self._guarded(self._alone(call, wire), wire), wire)

    async def exactly(
        self, method: str, target: str, *, headers: Sequence[tuple[str, str]], body: bytes = b""
    ) -> Result:
        """Send once like `request`, with this very target and these lines of headers; adds only what HTTP demands."""
        wire = _Wire()
        call = httpx.Request(method, self._base_url, headers=[*headers, ("Connection", "close")], content=body or None)
        path = urlsplit(self._base_url).path
        call.extensions |= {"trace": wire.trace, "target": (path + target).encode("ascii")}
        return self._answered(await self._guarded(self._alone(call, wire), wire), wire)

    def _answered(self, result: Result | None, wire: _Wire) -> Result:
        if self._status_counts and wire.answer is not None and not isinstance(result, Reply):
            return wire.answer
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
        """Look something up, once. Keeps connections, and raises CancelledError when cancelled."""
        if (problem := headers.unsendable()) is not None:
            return NotSent(problem)
        wire = _Wire()
        call = self._build(method, path, headers=headers, body=body, params=params)
        call.extensions["trace"] = wire.trace
        if self._kept is None:
            self._kept = self._pool()
        result = await self._guarded(_exchange(self._kept, call, self._max_reply, wire), wire)
        if result is None:
            # Raise a new one, because the frames of the first hold the request's bytes.
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
        sent = {"accept-encoding": "identity", "user-agent": "dlq-console"}
        if self._says_json:
            sent |= {"accept": "application/json"} | ({"content-type": "application/json"} if body else {})
        request = httpx.Request(
            method, self._base_url + path, params=params or None, headers=sent, content=body or None
        )
        request.headers.update(headers)
        return request

    async def _alone(self, call: httpx.Request, wire: _Wire) -> Reply:
        async with self._pool() as pool:
            return await _exchange(pool, call, self._max_reply, wire)

    async def _guarded(self, exchange: Coroutine[object, object, Reply], wire: _Wire) -> Result | None:
        """Return the result within the deadline; None if cancelled. Leaves out error texts that may repeat a header."""
        try:
            async with asyncio.timeout(self._timeout), aclosing(wire):
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
            return wire.lost(f"the answer is longer than {self._max_reply} bytes")


_WORDS: Mapping[type[httpx.TransportError], str] = {
    httpx.ReadError: "the connection was lost while waiting for the answer",
    httpx.WriteError: "the connection was lost while sending",
    httpx.RemoteProtocolError: "the answer broke off or is not HTTP",
    httpx.LocalProtocolError: "the request could not be written as HTTP",
}


async def _exchange(pool: httpx.AsyncHTTPTransport, call: httpx.Request, most: int, wire: _Wire) -> Reply:
    response = await pool.handle_async_request(call)
    headers = {name.lower(): value for name, value in response.headers.items()}
    body = bytearray()
    try:
        async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) > most:
                    raise _TooLongError
    finally:
        wire.answer = Reply(response.status_code, headers, bytes(body[:most]))
        await response.aclose()
    return Reply(response.status_code, headers, bytes(body))


def _tls(base_url: str) -> ssl.SSLContext:
    """Verify certificates and ignore SSL_CERT_FILE and SSLKEYLOGFILE; load no authorities for plain http."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if base_url.startswith("https:"):
        context.load_verify_locations(certifi.where())
    return context

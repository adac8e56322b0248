"""Calls of real HTTP clients, stored as a hub stores them and sent again: equal on the wire, or refused by name."""

from __future__ import annotations

import asyncio
import base64
import gzip
import itertools
import json
import uuid
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl

import aiohttp
import httpx
import pytest
import requests

from tests.support.http_server import Loopback, Received, reply
from venues.credentials import Credentials
from venues.integration.call import read_call
from venues.integration.provider import Delivered, Provider, ProviderRoute
from venues.integration.stored_json import Unsendable

PATHS = (
    "/v1/charges", "/v1/x%2Fy", "/v1/a%20b", "/v1/%C3%BC/", "/v1/~a.b_c-d", "/v1/a;b=c", "/v1/a:b@c", "/v1/a,b$c!'()*",
)  # fmt: skip
QUERIES: tuple[Any, ...] = (
    None, {"a": "1"}, {"a": "1 2", "b": "ü&="}, {"a": ["1", "2"]}, {"t": "2026-04-18T14:32:15+00:00"}, {"e": ""},
    {"mail": "a@b.example", "path": "x/y"}, {"q": "100%", "plus": "a+b"},
)  # fmt: skip
TEXT, BINARY = "größe 100 % <a&b>", bytes(range(256))
BODIES: dict[str, tuple[dict[str, str], Any]] = {
    "none": ({}, None),
    "json": (
        {"Content-Type": "application/json"},
        json.dumps({"n": 1.10, "text": "ü", "deep": [{"a": None}]}).encode(),
    ),
    "compact json": ({"Content-Type": "application/json; charset=utf-8"}, '{"b":2,"a":"ü"}'.encode()),
    "json list": ({"Content-Type": "application/vnd.api+json"}, b"[1, 2.50, 12345678901234567890]"),
    "json string": ({"Content-Type": "application/json"}, b'"hello"'),
    "form": ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=1&b=2+3&c=%C3%BC&a=4&d="),
    "text": ({"Content-Type": "text/plain; charset=utf-8"}, TEXT.encode()),
    "latin": ({"Content-Type": "text/plain; charset=iso-8859-1"}, TEXT.encode("latin-1")),
    "xml": ({"Content-Type": "text/xml"}, b"<?xml version='1.0'?><order id='1'/>"),
    "binary": ({"Content-Type": "application/octet-stream"}, BINARY),
    "gzip": ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, gzip.compress(b'{"a": 1}')),
    "deflate": ({"Content-Type": "text/plain", "Content-Encoding": "deflate"}, zlib.compress(b"abc" * 50)),
    "parts": (
        {"Content-Type": "multipart/form-data; boundary=xyz"},
        b'--xyz\r\nContent-Disposition: form-data; name="f"\r\n\r\n\x00\xff\r\n--xyz--\r\n',
    ),
}
HEADERS = ({"X-Trace": "t-1", "Accept": "application/json"}, {"Accept-Language": "de, en;q=0.5", "X-N": "1.50"})
CLIENTS = ("httpx", "requests", "aiohttp")
# Not the stored call's: of the connection, of the provider, and of the fresh key.
OURS = {"host", "connection", "content-length", "authorization", "idempotency-key", "cookie"}


def _cases() -> Iterator[tuple[str, str, str, Any, str]]:
    """(client, method, path, query, body) in turns: every client with every body, method, path and query."""
    methods = itertools.cycle(("POST", "PUT", "PATCH", "DELETE", "POST", "GET", "OPTIONS"))
    paths, queries = itertools.cycle(PATHS), itertools.cycle(QUERIES)
    for client, body, _ in itertools.product(CLIENTS, BODIES, range(7)):
        yield client, next(methods), next(paths), next(queries), body


CASES = tuple(_cases())


def _pairs(query: Any) -> list[tuple[str, str]]:
    return [(name, one) for name, held in (query or {}).items() for one in (held if isinstance(held, list) else [held])]


async def _capture() -> list[Received]:
    async with (
        Loopback(lambda _: reply(200)) as server,
        httpx.AsyncClient() as first,
        aiohttp.ClientSession() as third,
    ):
        second = requests.Session()
        for number, (client, method, path, query, body) in enumerate(CASES):
            own, content = BODIES[body]
            url, headers = server.url + path, HEADERS[number % 2] | own
            match client:
                case "httpx":
                    await first.request(method, url, params=query, headers=headers, content=content)
                case "requests":
                    given: dict[str, Any] = {"params": query, "headers": headers, "data": content, "timeout": 10}
                    await asyncio.to_thread(second.request, method, url, **given)
                case _:
                    await third.request(method, url, params=_pairs(query) or None, headers=headers, data=content)
        second.close()
        return list(server.requests)


@pytest.fixture(scope="module")
def captured() -> list[Received]:
    """Made once, on a loop of its own."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_capture())).result()


def _text_of(got: Received) -> str | None:
    """The body as a text, in its charset; None where it is none."""
    charset = "latin-1" if "iso-8859-1" in got.headers.get("content-type", "") else "utf-8"
    try:
        return got.body.decode(charset)
    except UnicodeDecodeError:
        return None


def verbatim(got: Received) -> dict[str, Any]:
    """As a hub stores it that keeps bytes: the target whole, what is no text in base64."""
    text = _text_of(got)
    stored: dict[str, Any] = {"method": got.method, "path": got.target, "headers": dict(got.headers)}
    if not got.body:
        return stored
    if text is None or "content-encoding" in got.headers:
        return stored | {"body": base64.b64encode(got.body).decode(), "bodyEncoding": "base64"}
    return stored | {"body": text}


def parsed(got: Received) -> dict[str, Any]:
    """As a hub stores it that understands: the query as an object, JSON and forms as values, without the length."""
    stored = verbatim(got) | {"path": got.path, "query": _grouped(got.target.partition("?")[2])}
    stored["headers"] = {name: value for name, value in got.headers.items() if name != "content-length"}
    kind = got.headers.get("content-type", "")
    if "json" in kind and "content-encoding" not in got.headers:
        stored["body"] = json.loads(got.body)
    if "urlencoded" in kind and got.body:
        stored["body"] = _grouped(got.body.decode())
    return stored


def _grouped(text: str) -> dict[str, Any]:
    grouped: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        grouped.setdefault(name, []).append(value)
    return {name: held if len(held) > 1 else held[0] for name, held in grouped.items()}


def naive(got: Received) -> dict[str, Any]:
    """As a careless hub stores it: what is no text is read as one, the encodings are not said."""
    return {**verbatim(got), "body": got.body.decode("utf-8", "replace"), "bodyEncoding": None}


def _wire(got: Received) -> tuple[Any, ...]:
    headers = {name: value for name, value in got.headers.items() if name not in OURS}
    return got.method, got.target, headers, got.body


def _meaning(got: Received) -> tuple[Any, ...]:
    """What a provider understands: pairs of a query and a form, the value of JSON."""
    headers = {name: value for name, value in got.headers.items() if name not in OURS}
    body: Any = got.body
    kind = headers.get("content-type", "")
    if "json" in kind and "content-encoding" not in headers and got.body:
        body = json.loads(got.body)
    elif "urlencoded" in kind:
        body = sorted(parse_qsl(got.body.decode(), keep_blank_values=True))
    return got.method, got.path, parse_qsl(got.target.partition("?")[2], keep_blank_values=True), headers, body


async def _again(stored: list[dict[str, Any]]) -> list[Received | str]:
    """What each stored call puts on the wire, or the code by which it is refused."""
    results: list[Received | str] = []
    async with Loopback(lambda _: reply(200)) as server:
        provider = Provider("p", ProviderRoute(server.url), Credentials({"authorization": "Bearer fresh"}))
        for one in stored:
            try:
                call = read_call(json.dumps(one))
            except Unsendable as problem:
                results.append(problem.code)
                continue
            key = str(uuid.uuid4())
            assert isinstance(await provider.send(call, key), Delivered)
            got = server.requests[-1]
            assert (got.headers["authorization"], got.headers["idempotency-key"]) == ("Bearer fresh", key)
            results.append(got)
        await provider.aclose()
    return results


async def test_stored_with_its_bytes_every_call_is_equal_on_the_wire(captured: list[Received]) -> None:
    assert len(captured) == len(CASES) >= 200
    results = await _again([verbatim(got) for got in captured])
    assert not [one for one in results if isinstance(one, str)]
    different = [
        (a, b) for a, b in zip(captured, results, strict=True) if isinstance(b, Received) and _wire(a) != _wire(b)
    ]
    assert different == []


async def test_stored_as_values_a_call_means_the_same_or_is_refused(captured: list[Received]) -> None:
    results = await _again([parsed(got) for got in captured])
    codes = {one for one in results if isinstance(one, str)}
    assert codes <= {"unsent-terms"}
    assert sum(isinstance(one, Received) for one in results) > 200
    pairs = [(a, b) for a, b in zip(captured, results, strict=True) if isinstance(b, Received)]
    assert [(a, b) for a, b in pairs if _meaning(a) != _meaning(b)] == []


async def test_stored_carelessly_nothing_else_is_sent(captured: list[Received]) -> None:
    results = await _again([naive(got) for got in captured])
    pairs = [(a, b) for a, b in zip(captured, results, strict=True) if isinstance(b, Received)]
    assert [(a, b) for a, b in pairs if _wire(a) != _wire(b)] == []
    assert len(pairs) < len(captured)

"""Reads a stored HTTP call: method, path, headers and body, without the headers that must not be sent again.

Keeps the body's characters as stored. Pure; must not know a provider or a transport.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from venues.message import NO_HEADERS, Headers
from venues.orders import Refused

_METHOD = re.compile(r"[A-Z]{1,20}")
_PATH = re.compile(r"/(?!/)[\x21-\x7e]*")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
# They belong to one connection, or the transport sets them for every request.
_HOP = frozenset(
    ("host", "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect",
     "content-length", "accept-encoding")
)  # fmt: skip
# Authorization comes from the keyring, never from a stored request.
_LETS_IN = frozenset(
    ("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token",
     "x-access-token", "x-csrf-token", "x-amz-security-token")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredCall:
    method: str
    path: str
    headers: Headers = field(default_factory=lambda: NO_HEADERS)
    body: bytes = field(default=b"", repr=False)
    dropped: tuple[str, ...] = ()  # names of stored authorization headers, which are not sent again


def read_call(text: str) -> StoredCall | Refused:
    """Read `{method, path, headers, body}`; refuse what could reach another host or say something else."""
    try:
        parts = dict(_members(text))
    except (ValueError, IndexError, RecursionError):
        return Refused("the stored request is not a JSON object")
    method, path = (_decoded(parts.get(name, "null")) for name in ("method", "path"))
    if not isinstance(method, str) or not _METHOD.fullmatch(method.upper()):
        return Refused("the stored request has no HTTP method")
    if not isinstance(path, str) or not _PATH.fullmatch(path) or "\\" in path:
        return Refused("the stored request's path is not one: it must begin with a single / and be plain")
    headers = _headers(_decoded(parts.get("headers", "null")))
    if isinstance(headers, Refused):
        return headers
    kept = {name: value for name, value in headers.items() if name.lower() not in _HOP | _LETS_IN}
    dropped = tuple(name for name in headers if name.lower() in _LETS_IN)
    body, is_json = _body(parts.get("body", "null"))
    if is_json and not any(name.lower() == "content-type" for name in kept):
        kept["Content-Type"] = "application/json"
    sent = Headers(kept)
    if (problem := sent.unsendable()) is not None:
        return Refused(problem)
    return StoredCall(method.upper(), path, sent, body, dropped)


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of an object's members, each with the text of its value."""
    decoder = json.JSONDecoder()
    at = _skip(text, 0)
    if text[at] != "{":
        raise ValueError("not an object")
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if not isinstance(name, str) or text[at] != ":":
            raise ValueError("not a member")
        start = _skip(text, at + 1)
        _, end = decoder.raw_decode(text, start)
        yield name, text[start:end]
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        elif text[at] != "}":
            raise ValueError("not a member")


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _decoded(raw: str) -> object:
    value: object = json.loads(raw)
    return value


def _headers(value: object) -> dict[str, str] | Refused:
    if value is None:
        return {}
    if not isinstance(value, dict):
        return Refused("the stored request's headers are not an object")
    headers: dict[str, str] = {}
    for name, held in value.items():
        if held is None:
            continue
        texts = held if isinstance(held, list) else [held]
        if not _NAME.fullmatch(name) or not all(isinstance(one, str | int | float) for one in texts):
            return Refused("the stored request has a header that cannot be sent")
        headers[name] = ", ".join(str(one) for one in texts)
    return headers


def _body(raw: str) -> tuple[bytes, bool]:
    """Return the bytes and whether they are JSON: a string is sent as it is, all else as its stored JSON."""
    value = _decoded(raw)
    if value is None:
        return b"", False
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), False
    return raw.encode(), True

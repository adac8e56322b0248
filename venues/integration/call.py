"""Reads a stored HTTP call, so that what is sent again equals it, or refuses it by name.

Only authorization, and what belongs to one connection, is not sent as stored. Pure; must not know a provider or a
transport.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from venues.integration.stored_body import read_body
from venues.integration.stored_json import Unsendable, decoded, is_set, lines, members, unsent, urlencoded

_METHOD = re.compile(r"[A-Z][A-Z_-]{0,19}")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_MOST_ENCODINGS = 5
_PATH = re.compile(r"/(?!/)[\x21-\x7e]*")
_QUERY = re.compile(r"\??[\x21-\x7e]*")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_KNOWN = ("method", "path", "query", "headers", "body", "bodyEncoding")
# They belong to one connection: the transport sets them for every request.
_HOP = frozenset(("host", "connection", "keep-alive", "proxy-connection", "content-length"))
_FRAMING = {"transfer-encoding": "chunked", "expect": "100-continue", "te": "trailers"}  # likewise, with this value
_UNSENT = frozenset(("upgrade", "trailer", "http2-settings"))
# Authorization comes from the keyring, never from a stored request.
_LETS_IN = frozenset(
    ("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "apikey", "x-auth-token",
     "x-access-token", "x-csrf-token", "x-amz-security-token")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredCall:
    method: str
    path: str  # with its query, as it goes on the wire
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    dropped: tuple[str, ...] = ()  # names of stored authorization headers, which are not sent again


def read_call(text: str) -> StoredCall:
    """Read `{method, path, query, headers, body, bodyEncoding}`. Raises Unsendable."""
    parts = _known(members(text))
    method = decoded(parts.get("method", "null"))
    if type(method) is not str or not _METHOD.fullmatch(method.upper()):
        raise Unsendable("the stored request has no HTTP method")
    if method.upper() not in _METHODS:
        raise unsent(f"{method.upper()} is not sent to a provider")
    path = _path(decoded(parts.get("path", "null")), decoded(parts.get("query", "null")))
    headers = _headers(decoded(parts.get("headers", "null")))
    told = {name.lower(): value for name, value in headers}
    body, is_json = read_body(parts.get("body", "null"), decoded(parts.get("bodyEncoding", "null")), told)
    sent = [(name, value) for name, value in headers if name.lower() not in _HOP | _LETS_IN | _FRAMING.keys()]
    if is_json:
        sent.append(("Content-Type", "application/json"))
    dropped = tuple(name for name, _ in headers if name.lower() in _LETS_IN)
    return StoredCall(method.upper(), path, tuple(sent), body, dropped)


def _known(parts: dict[str, str]) -> dict[str, str]:
    """The members by the names we know, however they are spelt."""
    names = {_spelling(name): name for name in _KNOWN}
    found: dict[str, str] = {}
    strange = []
    for name, raw in parts.items():
        known = names.get(_spelling(name))
        if known is None:
            strange += [name] if is_set(decoded(raw)) else []
        elif known in found:
            raise Unsendable(f"the stored request has {known} twice")
        else:
            found[known] = raw
    if strange:
        raise Unsendable(f"the stored request has unknown parts: {', '.join(sorted(strange))[:200]}", "unmapped-terms")
    return found


def _spelling(name: str) -> str:
    return name.replace("_", "").lower()


def _path(path: object, query: object) -> str:
    if type(path) is not str or not _PATH.fullmatch(path) or "\\" in path:
        raise Unsendable("the stored request's path is not valid: it must begin with a single / and be plain")
    if "#" in path:
        raise unsent("its path has a fragment, which is never sent")
    if _climbs(path.partition("?")[0]):
        raise unsent("its path has dot segments, which do not reach a provider as they are stored")
    if not is_set(query):
        return path
    if type(query) is str:
        if not _QUERY.fullmatch(query) or "#" in query:
            raise unsent("its query is not plain")
        text = query.removeprefix("?")
    else:
        text = urlencoded(query, "its query")
    if "?" not in path:
        return f"{path}?{text}" if text else path
    if parse_qsl(path.partition("?")[2], keep_blank_values=True) != parse_qsl(text, keep_blank_values=True):
        raise unsent("it has a query in its path and another one beside it")
    return path


def _climbs(path: str) -> bool:
    """Whether some server would read a segment as `.` or `..`: encoded once or several times, or before a `;`."""
    for _ in range(_MOST_ENCODINGS):
        segments = path.replace("\\", "/").split("/")
        if {".", ".."} & {segment.partition(";")[0] for segment in segments}:
            return True
        decoded_once = unquote(path)
        if decoded_once == path:
            return False
        path = decoded_once
    return True


def _headers(value: object) -> list[tuple[str, str]]:
    if value is None:
        return []
    if not isinstance(value, dict):
        raise Unsendable("the stored request's headers are not an object")
    if len({name.lower() for name in value}) != len(value):
        raise Unsendable("the stored request has a header twice")
    headers = lines(value, "the headers")
    for name, text in headers:
        lower = name.lower()
        if not _NAME.fullmatch(name) or "\r" in text or "\n" in text:
            raise Unsendable("the stored request has a header that cannot be sent")
        if not _VALUE.fullmatch(text):
            raise unsent(f"header {name}: its value is empty or has characters that cannot be sent")
        if lower in _UNSENT or (lower in _FRAMING and text.strip().lower() != _FRAMING[lower]):
            raise unsent(f"header {name} is not sent")
    return headers

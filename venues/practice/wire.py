"""HTTP/1.1 messages of the practice exchange, and the JSON values inside them.

Must not know a venue or socket options.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from email.utils import format_datetime
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote, urlsplit

MAX_BODY = 1 << 20
MAX_HEAD = 1 << 16
LARGEST, FINEST = 14, -12  # powers of ten within which arithmetic with steps and ticks is exact


class MessageError(Exception):
    """A request that this server cannot read; it answers `status` and closes the connection."""

    def __init__(self, status: int) -> None:
        super().__init__(HTTPStatus(status).phrase)
        self.status = status


@dataclass(frozen=True, slots=True)
class WireRequest:
    method: str
    path: str  # percent-decoded, without the query
    query: str  # as sent
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""
    keep_alive: bool = True

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(part for part in self.path.split("/") if part)

    @property
    def params(self) -> dict[str, str]:
        """The fields of the query and of a form in the body."""
        fields = dict(parse_qsl(self.query, keep_blank_values=True))
        if "x-www-form-urlencoded" in self.headers.get("content-type", ""):
            fields |= dict(parse_qsl(self.text, keep_blank_values=True))
        return fields

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "backslashreplace")

    def object(self) -> dict[str, object] | None:
        """Return the body as a JSON object; None if it is anything else."""
        try:
            value = json.loads(self.body, parse_float=Decimal)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class WireReply:
    """An answer before it is encoded. `payload` becomes JSON, unless `raw` holds the body."""

    status: int
    payload: object = None
    raw: bytes | None = None
    content_type: str = "application/json; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        if self.raw is not None:
            return self.raw
        return json.dumps(self.payload, separators=(",", ":"), default=str).encode()


def decimal(value: object) -> Decimal | None:
    """Return the number in a JSON number or string; None for anything else, and for absurd sizes."""
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < FINEST or number.adjusted() > LARGEST:
        return None
    return number


def text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def plain(number: Decimal) -> str:
    """Return the digits without exponent or trailing zeros, as venues write them."""
    return format(number.normalize(), "f")


def millis(at: datetime) -> int:
    """Return the milliseconds since 1970."""
    return int(at.timestamp() * 1000)


async def read_request(reader: asyncio.StreamReader) -> WireRequest | None:
    """Return the next request; None if the client has closed. Raises MessageError."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise MessageError(431) from error
    request, length = parse_head(head)
    if length == 0:
        return request
    try:
        body = await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None
    return WireRequest(request.method, request.path, request.query, request.headers, body, request.keep_alive)


def parse_head(head: bytes) -> tuple[WireRequest, int]:
    """Return request line and headers, and the length of the body that follows."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise MessageError(400)
    headers = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon:
            raise MessageError(400)
        headers[name.strip().lower()] = value.strip()
    if "transfer-encoding" in headers:
        raise MessageError(411)
    size = headers.get("content-length", "0")
    if not (size.isascii() and size.isdigit()):
        raise MessageError(400)
    if len(size) > 9 or int(size) > MAX_BODY:
        raise MessageError(413)
    wish = headers.get("connection", "").lower()
    keep = wish == "keep-alive" if words[2] == "HTTP/1.0" else wish != "close"
    target = urlsplit(words[1])
    return WireRequest(words[0].upper(), unquote(target.path), target.query, headers, b"", keep), int(size)


def encode(reply: WireReply, date: datetime, *, keep_alive: bool) -> tuple[bytes, bytes]:
    """Return head and body as bytes."""
    body = b"" if reply.status == 204 else reply.body
    lines = [
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
        f"Date: {format_datetime(date, usegmt=True)}",
        "Server: practice",
        *(f"{name}: {value}" for name, value in reply.headers.items()),
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
    ]
    if reply.status != 204:
        lines += [f"Content-Type: {reply.content_type}", f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), body

"""What an entry of any layout says: its error, when and where it failed, what its columns mean to a person. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from backends.layouts.columns import spelling
from backends.layouts.integration import RETENTION_DAYS
from backends.layouts.mask import masked_fields
from backends.records import Entry, parse_time, readable, utc_time

ORDERS, OUTBOX, INTEGRATION = "orders", "outbox", "integration"
_MOMENT = {ORDERS: "captured_at", OUTBOX: "failed_at", INTEGRATION: "createdAt"}
_VARIES = {
    ORDERS: ("account_id", "market_id", "client_order_id", "dlq_id"),
    OUTBOX: ("id", "original_id", "timer_id"),
    INTEGRATION: ("id", "tenantId"),
}
DOCUMENTS = frozenset({"headers", "originalrequest"})  # columns that are JSON, by their plain spelling
_HEX_WIDTH = 16
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def value(entry: Entry, name: str) -> object:
    """The column as stored, however this store spells its name."""
    try:
        return entry.values[entry.names.index(name)]
    except ValueError:
        wanted = spelling(name)
    own = next((one for one in entry.names if spelling(one) == wanted), None)
    return None if own is None else entry.get(own)


def text(entry: Entry, name: str) -> str:
    held = value(entry, name)
    return "" if held is None else readable(held)


def error_text(entry: Entry) -> str:
    """What went wrong, in the words of whoever wrote the entry."""
    if entry.layout != OUTBOX:
        return text(entry, "error")
    # A message that was rejected by hand, or never handed out, has no exception.
    return text(entry, "last_exception") or text(entry, "failure_reason")


def varying(entry: Entry) -> tuple[str, ...]:
    """What of an error tells one entry from another of the same failure."""
    return tuple(filter(None, (text(entry, name) for name in _VARIES.get(entry.layout, ()))))


def occurred_at(entry: Entry) -> datetime | None:
    return _instant(entry, _MOMENT.get(entry.layout, "captured_at"))


def _instant(entry: Entry, name: str) -> datetime | None:
    """Others' tables may keep times without a zone: UTC, as the filters compare them."""
    read = parse_time if entry.layout == ORDERS else utc_time
    return read(value(entry, name))


def origin(entry: Entry) -> str:
    """Venue, queue or provider."""
    match entry.layout:
        case "outbox":
            return text(entry, "queue")
        case "integration":
            return text(entry, "providerName") or text(entry, "providerId")
        case _:
            return text(entry, "venue_name")


def correlation_id(entry: Entry) -> str:
    headers = document(entry, "headers")
    found = headers.get("correlation_id") if isinstance(headers, dict) else None
    return found if isinstance(found, str) else ""


def time_to_failure(entry: Entry) -> timedelta | None:
    """From when a message was put into the outbox until it was given up."""
    began, ended = _instant(entry, "created_at"), _instant(entry, "failed_at")
    return ended - began if entry.layout == OUTBOX and began and ended else None


def days_left(entry: Entry, now: datetime) -> int | None:
    """Until the hub's retention takes the entry; 0 where it is due."""
    began = occurred_at(entry) if entry.layout == INTEGRATION else None
    if began is None:
        return None
    return max(0, -((now - began - timedelta(days=RETENTION_DAYS)) // timedelta(days=1)))


def request_line(entry: Entry) -> str:
    """`POST /v1/charges`"""
    request = document(entry, "originalRequest")
    parts = (request.get("method"), request.get("path")) if isinstance(request, dict) else ()
    return " ".join(part for part in parts if isinstance(part, str))


def document(entry: Entry, name: str) -> object:
    """A JSON column, read; None where it is none, or cut."""
    try:
        found: object = json.loads(text(entry, name))
    except (ValueError, RecursionError):
        return None
    return found


def stored_credentials(entry: Entry) -> tuple[str, ...]:
    """Which fields of the stored request were masked."""
    found = (masked_fields(text(entry, name)) for name in entry.names if spelling(name) in DOCUMENTS)
    return tuple(field for fields in found for field in fields)


def bytes_text(held: bytes) -> str:
    """As text where it is text; else as Postgres writes it."""
    try:
        shown = held.decode("utf-8")
    except UnicodeDecodeError:
        return f"\\x{held.hex()}"
    return shown if "\0" not in shown else f"\\x{held.hex()}"


@dataclass(frozen=True, slots=True)
class Payload:
    kind: Literal["json", "text", "hex", "empty"]
    text: str


def payload(raw: object) -> Payload:
    """Bytes or text as a person reads them; nothing of it is ever run."""
    if raw is None or raw in (b"", ""):
        return Payload("empty", "")
    if isinstance(raw, bytes | bytearray | memoryview):
        try:
            shown = bytes(raw).decode("utf-8")
        except UnicodeDecodeError:
            return Payload("hex", hex_lines(bytes(raw)))
        if "\0" in shown:
            return Payload("hex", hex_lines(bytes(raw)))
    else:
        shown = readable(raw)
    pretty = pretty_json(shown)
    return Payload("text", shown) if pretty is None else Payload("json", pretty)


def pretty_json(source: str) -> str | None:
    """Indented, every value spelled as it was; None where it is no JSON object or array."""
    if not source.lstrip().startswith(("{", "[")):
        return None
    try:
        json.loads(source)
    except (ValueError, RecursionError):
        return None
    return "".join(_indented(source))


def _indented(source: str) -> Iterator[str]:
    depth, opened = 0, False
    for match in _PIECE.finditer(source):
        piece = match[0]
        if opened and piece not in ("}", "]"):
            yield f"\n{'  ' * depth}"
        was_opened, opened = opened, piece in ("{", "[")
        if opened:
            depth += 1
            yield piece
        elif piece in ("}", "]"):
            depth -= 1
            yield piece if was_opened else f"\n{'  ' * depth}{piece}"
        else:
            yield f",\n{'  ' * depth}" if piece == "," else ": " if piece == ":" else piece


def hex_lines(raw: bytes) -> str:
    """`00000000  7b 22 61 …  {"a…`"""
    lines = []
    for start in range(0, len(raw), _HEX_WIDTH):
        part = raw[start : start + _HEX_WIDTH]
        plain = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{_HEX_WIDTH * 3 - 1}}  {plain}")
    return "\n".join(lines)

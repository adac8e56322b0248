"""The one table of what the layouts have in common and where they differ, and how to read an entry by it.

Everybody else looks a layout up here by its name. Pure: reads no store and knows no screen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from dlq_sink.values import parse_time, readable, utc_time

from backends.entry import Entry
from backends.layouts.columns import spelling
from backends.layouts.integration import RETENTION_DAYS
from backends.layouts.mask import masked_error, masked_fields
from backends.layouts.roles import TableMemory

ORDERS, OUTBOX, INTEGRATION = "orders", "outbox", "integration"
DOCUMENTS = frozenset({"headers", "originalrequest"})  # columns that are JSON, by their plain spelling
_HEX_WIDTH = 16
_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_SUBJECT_LENGTH = 200  # characters of a message that say what it is about


class ListColumn(NamedTuple):
    """A column of the queue. `sizes`: (width of the list, width of the column from there on); 0 leaves it out."""

    title: str
    sizes: tuple[tuple[int, int], ...]  # empty: all the room that the others leave
    right: bool = False

    def size(self, room: int) -> int:
        return next((size for least, size in reversed(self.sizes) if room >= least), 0)


class LayoutWords(NamedTuple):
    """What a layout's entries, and what they have to do with, are called."""

    one: str  # an entry: what is sent
    origin: str  # the kind of name that its failures are counted by; also a filter's field
    counterpart: str  # who gets it
    whose: str  # the kind of name whose credentials send it; empty: none
    split: tuple[str, ...]  # titles of a group's split: the origin, then whose it is, then what it is about
    example: str  # a filter by the origin
    filters: str  # the other filters that only such entries have
    searched: str  # where a text is looked for


class LayoutFields(NamedTuple):
    """What the console has to know of a layout to show, group, export and settle its entries."""

    words: LayoutWords
    failed_at: str
    origin: tuple[str, ...]  # columns of the venue, queue or provider: the first that is filled
    errors: tuple[str, ...]  # columns of the error: the first that is filled
    varies: tuple[str, ...]  # columns that tell apart entries of the same failure
    tries: str
    columns: tuple[ListColumn, ...]
    wide_from: int  # width from which the list has two spaces between columns
    tabs: tuple[str, ...]
    read_time: Callable[[object], datetime | None]
    subject: Callable[[Entry], str] | None = None  # None: an order, which its own columns describe
    created_at: str | None = None
    retention_days: int | None = None
    no_error: str = ""  # shown where the first column of the error is empty
    again: str = ""  # what to do with a pending entry, where the error does not decide that
    result: str = "row"  # what a replay makes at the other end
    replay_key: str = "key"  # what a replay is recognised by there
    has_modes: bool = False  # replays go out on paper or live; else every replay is real
    has_worth: bool = False  # entries have a price and a quantity
    has_dlq_id: bool = False  # the row itself has the entry's id
    says_dismissed: bool = False  # the row itself says that it is dealt with; else only the ledger knows
    comes_back: bool = False  # what was replayed may fail again, as a new entry


def layout_of(entry: Entry) -> LayoutFields:
    return LAYOUTS[entry.layout]


def value(entry: Entry, name: str) -> object:
    """The column as stored, however this store spells its name."""
    place = _place(entry.names, name)
    return None if place < 0 else entry.values[place]


def _place(names: tuple[str, ...], name: str) -> int:
    """Where the column stands; -1 where there is none."""
    if name in names:
        return names.index(name)
    wanted = spelling(name)
    return next((place for place, one in enumerate(names) if spelling(one) == wanted), -1)


def _standing(names: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(place for name in wanted if (place := _place(names, name)) >= 0)


# Found once for each table: groups and categories are asked for of every entry.
_ERRORS = TableMemory(lambda layout, names: _standing(names, LAYOUTS[layout].errors))
_VARYING = TableMemory(lambda layout, names: _standing(names, LAYOUTS[layout].varies))


def text(entry: Entry, name: str) -> str:
    held = value(entry, name)
    return "" if held is None else readable(held)


def error_text(entry: Entry) -> str:
    """What went wrong, in the words of whoever wrote the entry, without credentials."""
    return without_credentials(entry.layout, stored_error(entry))


def without_credentials(layout: str, stored: str) -> str:
    return masked_error(stored) if layout == ORDERS else stored  # other layouts are masked as they are read


def stored_error(entry: Entry) -> str:
    for place in _ERRORS.of(entry.layout, entry.names):
        held = entry.values[place]
        if held is not None and (told := readable(held)):
            return told
    return ""


def shown_values(entry: Entry) -> tuple[object, ...]:
    """The columns as they may leave the store: as stored, but for credentials in an order's error."""
    if entry.layout != ORDERS or "error" not in entry.names:
        return entry.values
    place = entry.names.index("error")
    told = readable(entry.values[place])
    shown = masked_error(told)
    return entry.values if shown == told else (*entry.values[:place], shown, *entry.values[place + 1 :])


def _first(entry: Entry, names: tuple[str, ...]) -> str:
    return next(filter(None, (text(entry, name) for name in names)), "")


def varying(entry: Entry) -> tuple[str, ...]:
    """The values in an error that tell apart entries of the same failure."""
    shown: list[str] = []
    values = entry.values
    for place in _VARYING.of(entry.layout, entry.names):
        held = values[place]
        if type(held) is str and held.isascii():  # nearly all are, and an index asks this of a million entries
            told = held
        else:
            told = "" if held is None else readable(held)
        if told:
            shown.append(told)
    return tuple(shown)


def occurred_at(entry: Entry) -> datetime | None:
    layout = layout_of(entry)
    return layout.read_time(value(entry, layout.failed_at))


def origin(entry: Entry) -> str:
    """The venue, queue or provider."""
    return _first(entry, layout_of(entry).origin)


def tries(entry: Entry) -> object:
    """How often the entry was tried; None where its store does not say."""
    return value(entry, layout_of(entry).tries)


def correlation_id(entry: Entry) -> str:
    headers = document(entry, "headers")
    found = headers.get("correlation_id") if isinstance(headers, dict) else None
    return found if isinstance(found, str) else ""


def time_to_failure(entry: Entry) -> timedelta | None:
    """From the message's arrival in the outbox until its queue gave up."""
    layout = layout_of(entry)
    if layout.created_at is None:
        return None
    began, ended = layout.read_time(value(entry, layout.created_at)), occurred_at(entry)
    return ended - began if began and ended else None


def days_left(entry: Entry, now: datetime) -> int | None:
    """Days until the hub deletes the entry; 0 where that is due."""
    kept, began = layout_of(entry).retention_days, occurred_at(entry)
    if kept is None or began is None:
        return None
    return max(0, -((now - began - timedelta(days=kept)) // timedelta(days=1)))


def request_line(entry: Entry) -> str:
    """`POST /v1/charges`"""
    request = document(entry, "originalRequest")
    parts = (request.get("method"), request.get("path")) if isinstance(request, dict) else ()
    return " ".join(part for part in parts if isinstance(part, str))


def document(entry: Entry, name: str) -> object:
    """A parsed JSON column; None where it is not JSON or was cut."""
    try:
        found: object = json.loads(text(entry, name))
    except (ValueError, RecursionError):
        return None
    return found


def stored_credentials(entry: Entry) -> tuple[str, ...]:
    """The fields of the stored request that were masked."""
    found = (masked_fields(text(entry, name)) for name in entry.names if spelling(name) in DOCUMENTS)
    return tuple(field for fields in found for field in fields)


def bytes_text(held: bytes) -> str:
    """The bytes as text; as Postgres writes bytes where they are not text."""
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
    """Bytes or text as a person reads them."""
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
    """The source indented, with every value spelled as before; None where it is no JSON object or array."""
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


def exported(entry: Entry) -> dict[str, object]:
    """The columns for an export, with id and layout where the row itself does not have them."""
    if layout_of(entry).has_dlq_id:
        return dict(zip(entry.names, shown_values(entry), strict=True))
    texts = {name: bytes_text(held) for name, held in entry.columns.items() if isinstance(held, bytes)}
    return {"dlq_id": entry.id, "layout": entry.layout, **entry.columns, **texts}


def _message_subject(entry: Entry) -> str:
    shown = payload(value(entry, "payload"))
    return " ".join(shown.text[:_SUBJECT_LENGTH].split()) if shown.kind in ("json", "text") else entry.id


def _call_subject(entry: Entry) -> str:
    return request_line(entry) or entry.id


_AGE, _ERROR = ListColumn("AGE", ((0, 4),), right=True), ListColumn("ERROR", ())
# What the operator judges by stands on the left; columns come and go with the width of the list.
LAYOUTS: Mapping[str, LayoutFields] = {
    ORDERS: LayoutFields(
        words=LayoutWords(
            one="order",
            origin="venue",
            counterpart="the venue",
            whose="account",
            split=("VENUE", "ACCOUNT", "MARKET"),
            example="venue:alpaca",
            filters="account: market: side:",
            searched="the error or the market; an id where it is one",
        ),
        failed_at="captured_at",
        origin=("venue_name",),
        errors=("error",),
        varies=("account_id", "market_id", "client_order_id", "dlq_id"),
        tries="retry_count",
        columns=(
            _AGE,
            ListColumn("VENUE", ((64, 8), (110, 11), (150, 14))),
            ListColumn("ACCOUNT", ((100, 8), (150, 14))),
            ListColumn("ORDER", ((0, 22), (64, 27), (110, 34), (150, 44))),
            ListColumn("VALUE", ((64, 7), (150, 11)), right=True),
            _ERROR,
            ListColumn("TRY", ((0, 3),), right=True),
        ),
        wide_from=110,
        tabs=("Error", "Order", "History", "Audit", "Notes"),
        read_time=parse_time,
        result="order",
        replay_key="id",
        has_modes=True,
        has_worth=True,
        has_dlq_id=True,
        says_dismissed=True,
    ),
    # Tables of other systems may keep times without a zone: UTC, as the filters compare them.
    OUTBOX: LayoutFields(
        words=LayoutWords(
            one="message",
            origin="queue",
            counterpart="the outbox",
            whose="",
            split=("QUEUE",),
            example="queue:payments",
            filters="failure:",
            searched="the error; an id where it is one",
        ),
        failed_at="failed_at",
        origin=("queue",),
        errors=("last_exception", "failure_reason"),  # a message rejected by hand or never delivered has no exception
        varies=("id", "original_id", "timer_id"),
        tries="deliveries_count",
        columns=(
            _AGE,
            ListColumn("QUEUE", ((0, 11), (104, 16))),
            ListColumn("REASON", ((0, 14),)),
            ListColumn("MESSAGE", ((140, 30), (180, 60))),
            _ERROR,
            ListColumn("DELIV", ((0, 5), (104, 0)), right=True),
            ListColumn("TOOK", ((104, 5),), right=True),
            ListColumn("DELIVERIES", ((104, 10),), right=True),
        ),
        wide_from=104,
        tabs=("Error", "Payload", "Headers", "History", "Audit", "Notes"),
        read_time=utc_time,
        subject=_message_subject,
        created_at="created_at",
        no_error="no exception",
        comes_back=True,
        again="fix what failed, then replay (R) puts it into its queue again; or dismiss (D)",
    ),
    INTEGRATION: LayoutFields(
        words=LayoutWords(
            one="call",
            origin="provider",
            counterpart="the provider",
            whose="tenant",
            split=("PROVIDER", "TENANT"),
            example="provider:prov-1",
            filters="tenant:",
            searched="the error; an id where it is one",
        ),
        failed_at="createdAt",
        origin=("providerName", "providerId"),
        errors=("error",),
        varies=("id", "tenantId"),
        tries="attempts",
        columns=(
            _AGE,
            ListColumn("PROVIDER", ((0, 9), (104, 14))),
            ListColumn("TENANT", ((90, 10),)),
            ListColumn("REQUEST", ((0, 16), (104, 28), (160, 48))),
            _ERROR,
            ListColumn("TRIES", ((0, 5),), right=True),
            ListColumn("LEFT", ((0, 4), (104, 0)), right=True),
            ListColumn("DAYS LEFT", ((104, 9),), right=True),
        ),
        wide_from=104,
        tabs=("Error", "Request", "History", "Audit", "Notes"),
        read_time=utc_time,
        subject=_call_subject,
        retention_days=RETENTION_DAYS,
        again="replay (R) sends the request to its provider again; or dismiss (D)",
    ),
}

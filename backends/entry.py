"""One row of a dead-letter queue as a record, its states, and what is odd about its values. No I/O.

A module of its own, as the first page is made of entries and waits for no other record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dlq_sink.values import is_encodable, is_naive, number, parse_time, readable

CLIP = 4096  # characters or bytes of a value that a page carries; `get` gives it whole
State = Literal["pending", "in_flight", "in_doubt", "replayed", "dismissed"]
STATES: tuple[State, ...] = ("pending", "in_flight", "in_doubt", "replayed", "dismissed")
OPEN_STATES: frozenset[State] = frozenset({"pending", "in_flight", "in_doubt"})
Origin = Literal["entry", "intent"]
ENGINE_SEND = 0  # the number of an attempt that the engine made itself, known by its intent
Version = tuple[object, ...]  # the mutable columns of a row as last seen
RowKey = tuple[object, ...]  # where a row stands in insertion order


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of any layout: its columns as stored, and the state that the ledger adds."""

    layout: str
    id: str
    state: State
    version: Version
    row_key: RowKey
    names: tuple[str, ...]
    values: tuple[object, ...]
    clipped: bool = False  # some long text is cut here; `get` gives it whole
    origin: Origin = "entry"  # or an engine's intent that nobody resolved, or that was found at its venue
    sender: tuple[str, str] = ("", "")  # of an intent: the engine that was about to send it, and its host

    def get(self, name: str) -> object:
        """The column as stored; None where the layout or this store has no such column."""
        try:
            return self.values[self.names.index(name)]
        except ValueError:
            return None

    def text(self, name: str) -> str:
        value = self.get(name)
        return "" if value is None else readable(value)

    @property
    def columns(self) -> Mapping[str, object]:
        return dict(zip(self.names, self.values, strict=True))


class UnfrozenEntry:
    """An entry while it is made, for who makes thousands: a frozen dataclass sets each field by a call.

    Both classes have the same slots: once all are set, `__class__ = Entry` makes it an entry.
    """

    __slots__ = Entry.__slots__


def stored_entry(
    layout: str, entry_id: str, state: State, version: Version, row_key: RowKey, *,
    names: tuple[str, ...], values: tuple[object, ...], clipped: bool,
) -> Entry:  # fmt: skip
    """The same as `Entry(…)`, made faster."""
    made: Any = UnfrozenEntry()
    made.layout = layout
    made.id = entry_id
    made.state = state
    made.version = version
    made.row_key = row_key
    made.names = names
    made.values = values
    made.clipped = clipped
    made.origin = "entry"
    made.sender = ("", "")
    made.__class__ = Entry
    entry: Entry = made
    return entry


_TEXT_COLUMNS = frozenset(
    {"dlq_id", "venue_name", "account_id", "market_id", "side", "order_type", "client_order_id", "error", "action_json"}
)
_MAY_BE_NULL = frozenset(
    {"account_id", "order_type", "price", "client_order_id", "retry_count", "dismissed", "action_json"}
)


def malformed(entry: Entry) -> tuple[str, ...]:
    """The columns of an order row that hold an unexpected value, each with the reason."""
    found = (f"{name}: {_oddity(name, value)}" for name, value in zip(entry.names, entry.values, strict=True))
    return tuple(text for text in found if not text.endswith(": "))


def _oddity(name: str, value: object) -> str:
    if value is None:
        return "" if name in _MAY_BE_NULL else "missing"
    if isinstance(value, bytes):
        return "binary"
    if isinstance(value, str) and not is_encodable(value):
        return "invalid UTF-8"
    if isinstance(value, str) and "\0" in value:
        return "holds a NUL"
    match name:
        case "captured_at":
            return "" if parse_time(value) else "no time zone" if is_naive(readable(value)) else "not a time"
        case "quantity" | "price":
            return "" if number(value) is not None else "not a finite number"
        case "retry_count":
            return "" if isinstance(value, int) and value >= 0 else "not a count"
        case "dismissed":
            return "" if value in (0, 1, "0", "1") else "neither yes nor no"
        case _:
            return "" if isinstance(value, str) or name not in _TEXT_COLUMNS else "not text"

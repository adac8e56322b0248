"""Converts a dead-lettered order to column values and back without loss, and picks a sink's table. Knows no driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import cast

from dlq_sink import order_table as orders
from dlq_sink.error import BadEntry, BadTarget, NotADLQ
from dlq_sink.record import DeadLetteredOrder
from dlq_sink.values import parse_time

Value = str | int | None
Values = tuple[Value, ...]  # in the order of the layout's columns; floats as their repr

_TEXTS = frozenset(orders.COLUMNS) - {"captured_at", "quantity", "price", "retry_count", "dismissed"}
_OPTIONAL = frozenset({"account_id", "price", "client_order_id"})
_COUNT_LIMIT = 2**31  # what a Postgres integer holds


def values(entry: DeadLetteredOrder) -> Values:
    return tuple(_value(entry, name) for name in orders.COLUMNS)


def _value(entry: DeadLetteredOrder, name: str) -> Value:
    value = getattr(entry, name)
    if value is None and name in _OPTIONAL:
        return None
    match name:
        case "captured_at":
            return _instant(entry)
        case "quantity" | "price":
            return _number(value, name)
        case "retry_count":
            if type(value) is not int or not 0 <= value < _COUNT_LIMIT:
                raise BadEntry("retry_count must be a whole number from 0 to 2147483647")
            return value
        case "dismissed":
            if not isinstance(value, bool):
                raise BadEntry("dismissed must be True or False")
            return int(value)
        case _:
            return _text(value, name)


def _instant(entry: DeadLetteredOrder) -> str:
    try:
        return entry.captured_at.astimezone(UTC).isoformat()
    except OverflowError:
        raise BadEntry("captured_at lies outside the years 1 to 9999 in UTC") from None


def _number(value: object, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadEntry(f"{name} must be a float, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        raise BadEntry(f"{name} is too large for a float") from None
    if isinstance(value, int) and int(number) != value:
        raise BadEntry(f"{name} cannot be kept exactly as a float")
    return float.__repr__(number)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise BadEntry(f"{name} must be a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadEntry(f"{name} holds a lone surrogate, which is not valid text") from None
    return str(value)


def refuse_nul(row: Values, label: str) -> None:
    for name, value in zip(orders.COLUMNS, row, strict=True):
        if isinstance(value, str) and "\0" in value:
            raise BadEntry(f"{name} holds a NUL character, which {label} cannot store")


def record(row: Sequence[object]) -> DeadLetteredOrder:
    """Raises BadEntry if a stored row is not an order as an engine writes it."""
    stored = dict(zip(orders.COLUMNS, row, strict=True))
    if stored["action_json"] is None:
        stored["action_json"] = ""  # NULL and the empty text both mean that there is none
    captured_at = parse_time(stored["captured_at"])
    if captured_at is None:
        raise BadEntry(f"the stored entry {stored['dlq_id']!r} has a captured_at that is not a time with a zone")
    for name in _TEXTS:
        if not isinstance(stored[name], str) and not (stored[name] is None and name in _OPTIONAL):
            raise BadEntry(f"the stored entry {stored['dlq_id']!r} has a {name} that is not text")
    texts = {name: cast("str", stored[name]) for name in _TEXTS}
    price = stored["price"]
    return DeadLetteredOrder(
        captured_at=captured_at,
        quantity=_stored_number(stored, "quantity"),
        price=None if price is None else _stored_number(stored, "price"),
        retry_count=0 if stored["retry_count"] is None else int(_stored_number(stored, "retry_count")),
        dismissed=stored["dismissed"] is not None and _stored_number(stored, "dismissed") != 0,
        **texts,
    )


def _stored_number(stored: dict[str, object], name: str) -> float:
    value = stored[name]
    if isinstance(value, int | float | str):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise BadEntry(f"the stored entry {stored['dlq_id']!r} has a {name} that is not a number")


def differing(wanted: Values, kept: Sequence[object] | None) -> str | None:
    """The first column whose stored value differs from the given one."""
    if kept is None:
        return "the whole entry"
    try:
        found = values(record(kept))
    except BadEntry as problem:
        return str(problem)
    pairs = zip(orders.COLUMNS, wanted, found, strict=True)
    return next((name for name, given, stored in pairs if not _is_kept(given, stored)), None)


def is_same(wanted: Values, kept: Sequence[object]) -> bool:
    """Whether the stored entry is this one; ignores the columns that acts change."""
    pairs = zip(orders.COLUMNS, wanted, values(record(kept)), strict=True)
    return all(_is_kept(given, stored) for name, given, stored in pairs if name in orders.IDENTITY)


def _is_kept(given: Value, stored: Value) -> bool:
    return given == stored or (given == "-0.0" and stored == "0.0")  # SQLite drops the sign of a zero


@dataclass(frozen=True, slots=True)
class SinkTable:
    schema: str | None
    name: str
    types: Mapping[str, str]  # column → declared type
    pending: str  # "not dismissed" as SQL, in the form the layout's partial index can answer
    order: str  # what `list` sorts by

    @property
    def shown(self) -> str:
        """The name that finds this table among all others of the database."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        name = orders.quoted(self.name)
        return name if self.schema is None else f"{orders.quoted(self.schema)}.{name}"


def choose(tables: Sequence[SinkTable], wanted: str | None, label: str) -> SinkTable | None:
    """The table to use; None if there is none yet."""
    if wanted == "":
        raise BadTarget("table= is empty: leave it out, or name a table")
    matching = [
        table
        for table in tables
        if table.types.keys() >= orders.ANCHORS and not table.types.keys() >= orders.INTENT_MARKS
    ]
    if wanted is not None:
        matching = [table for table in matching if wanted in (table.name, table.shown)]
    if not matching:
        return None
    if len(matching) > 1:
        names = ", ".join(sorted(table.shown for table in matching))
        raise BadTarget(f"{label} has several dead-letter queues: say which with table= ({names})")
    missing = [name for name in orders.COLUMNS if name not in matching[0].types]
    if missing:
        raise NotADLQ(f"{label}: {matching[0].shown} lacks {', '.join(missing)}: an entry cannot be kept there whole")
    return matching[0]


def pending(*, is_boolean: bool, is_required: bool) -> str:
    if is_boolean:
        return "NOT dismissed" if is_required else "dismissed IS NOT TRUE"
    return "dismissed = 0" if is_required else "(dismissed IS NULL OR dismissed <> 1)"


def taken(name: str, label: str) -> NotADLQ:
    return NotADLQ(f"{label} has another kind of table named {name}: choose a name for the entries with table=")

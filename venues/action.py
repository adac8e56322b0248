"""Reads an order action from an entry's JSON and columns, strictly: what is unclear becomes a finding.

Returns for any input and never raises. Must not know a venue or a store.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import cast

from venues.json_fields import DocumentError, exact, read_document, shown
from venues.orders import OrderAction, Verb

MAX_TEXT = 128
SIDES = frozenset({"buy", "sell", "yes", "no", "buy_yes", "buy_no", "sell_yes", "sell_no"})
TYPES = frozenset({"market", "limit"})
VERBS = frozenset({"new", "replace", "cancel"})
UNITS = frozenset({"dollars", "cents"})

_OURS = frozenset(
    {
        "venue_name",
        "account_id",
        "market_id",
        "side",
        "quantity",
        "order_type",
        "price",
        "client_order_id",
        "action",
        "time_in_force",
        "tif",
        "order_key",
        "venue_order_id",
        "price_unit",
    }
)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MOST_DIGITS = 38
_MAGNITUDE = 30  # powers of ten; larger numbers are no order and would fill the screen
_INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800")  # letters that show nothing


@dataclass(frozen=True, slots=True)
class ActionFinding:
    """A reason why an entry has no action that can be sent. Programs match `code`, people read `text`."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of reading an entry: `action` is None exactly when there are findings."""

    action: OrderAction | None
    findings: tuple[ActionFinding, ...]
    notes: tuple[str, ...]


def parse_action(columns: Mapping[str, object], action_json: str | None) -> Parsed:
    try:
        document = read_document(action_json)
    except DocumentError as broken:
        return Parsed(None, (ActionFinding(broken.code, broken.text),), ())
    reading = _Reading(columns, document)
    action = reading.action()
    if not document:
        reading.notes.append("no action JSON: rebuilt from the columns")
    return Parsed(None if reading.findings else action, tuple(reading.findings), tuple(reading.notes))


class _Reading:
    """Reads one entry: takes each field from the JSON, else from its column, and collects findings."""

    def __init__(self, columns: Mapping[str, object], document: Mapping[str, object]) -> None:
        self._columns = columns
        self._document = document
        self.findings: list[ActionFinding] = []
        self.notes: list[str] = []

    def action(self) -> OrderAction:
        verb = self._word("action", VERBS, kind="verb") or "new"
        self._text("venue_name", fold=True)
        if "dlq_id" in self._document:
            self._text("dlq_id")
        market_id = self._name("market_id", required=True)
        side = self._word("side", SIDES, kind="side", required=True)
        order_type = self._word("order_type", TYPES, kind="type", required=True)
        client_order_id = self._name("client_order_id")
        cancel = verb == "cancel"
        quantity = self._number("quantity", zero=cancel, missing=None if cancel else "missing")
        needs_price = order_type == "limit" and not cancel
        price = self._number("price", missing="missing-price" if needs_price else None)
        if price is not None and order_type == "market":
            self.notes.append("a market order: its stored price is not sent")
        return OrderAction(
            verb=cast("Verb", verb),
            market_id=market_id or "",
            side=side or "",
            quantity=Decimal(0) if quantity is None else quantity,
            order_type=order_type or "",
            price=price,
            order_key=self._name("order_key") or client_order_id or self._dlq_id(),
            account_id=self._name("account_id"),
            client_order_id=client_order_id,
            time_in_force=self._time_in_force(),
            venue_order_id=self._name("venue_order_id"),
            price_unit=self._word("price_unit", UNITS, kind="unit"),
            extra={key: value for key, value in self._document.items() if key not in _OURS},
        )

    def _find(self, code: str, text: str) -> None:
        self.findings.append(ActionFinding(code, text))

    def _text(self, name: str, *, fold: bool = False) -> str | None:
        """Return the field as text, None if it is empty. Reports a JSON value that differs from the column."""
        column = self._as_text(name, self._columns.get(name), where="the column")
        if name not in self._document:
            return column.lower() if fold and column else column
        stated = self._as_text(name, self._document[name], where="the JSON")
        if fold:
            column, stated = column and column.lower(), stated and stated.lower()
        if name in self._columns and column != stated:
            self._find("disagreement", f"{name}: {shown(stated)} in the JSON, {shown(column)} in the column")
        return stated

    def _as_text(self, name: str, value: object, *, where: str) -> str | None:
        match value:
            case None | "":
                return None
            case str():
                return value
            case int() if not isinstance(value, bool) and abs(value) < 10**MAX_TEXT:
                return str(value)
            case _:
                self._find("bad-type", f"{name}: {shown(value)} in {where} is not text")
                return None

    def _name(self, name: str, *, required: bool = False) -> str | None:
        """Return an identifier. People compare it and venues receive it, so it may hold no invisible character."""
        text = self._text(name)
        if text is None:
            if required:
                self._find("missing", f"{name}: neither in the JSON nor in the column")
        elif not _is_plain(text):
            self._find("unprintable", f"{name}: {shown(text)} is too long or has characters that cannot be seen")
        elif not text.isascii():
            self.notes.append(f"{name} has characters outside ASCII: {shown(text)}")
        return text

    def _word(self, name: str, known: frozenset[str], *, kind: str, required: bool = False) -> str | None:
        text = self._text(name, fold=True)
        if text is None:
            if required:
                self._find("missing", f"{name}: neither in the JSON nor in the column")
        elif not _is_plain(text):
            self._find("unprintable", f"{name}: {shown(text)} is too long or has characters that cannot be seen")
        elif text not in known:
            self._find(f"unknown-{kind}", f"{name}: {shown(text)} is none of {', '.join(sorted(known))}")
        return text

    def _number(self, name: str, *, zero: bool = False, missing: str | None) -> Decimal | None:
        """Return the number from the JSON if it is there: a column may have rounded it to a binary float."""
        try:
            column = _as_number(self._columns.get(name))
            stated = _as_number(self._document[name]) if name in self._document else column
            if name in self._columns and not _same(stated, column, stored=self._columns[name]):
                self._find("disagreement", f"{name}: {stated} in the JSON, {column} in the column")
            if stated is None and missing is not None:
                self._find(missing, f"{name}: neither in the JSON nor in the column")
            if stated is not None and (stated < 0 or (stated == 0 and not zero)):
                self._find("not-positive", f"{name}: {stated} is not above zero")
        except DocumentError as broken:
            self._find(broken.code, f"{name}: {broken.text}")
            return None
        return stated

    def _time_in_force(self) -> str | None:
        long, short = self._text("time_in_force", fold=True), self._text("tif", fold=True)
        if long and short and long != short:
            self._find("tif-conflict", f"time_in_force {shown(long)}, but tif {shown(short)}")
        text = long or short
        if text is not None and not _is_plain(text):
            self._find("unprintable", f"time in force: {shown(text)}")
        return text

    def _dlq_id(self) -> str:
        value = self._columns.get("dlq_id")
        return value if isinstance(value, str) else ascii(value)


def _as_number(value: object) -> Decimal | None:
    match value:
        case None:
            return None
        case bool():
            raise DocumentError("bad-number", f"{value} is not a number")
        case int() | Decimal():
            number = Decimal(value)
        case float():
            number = Decimal(repr(value))
        case str() if len(value) <= MAX_TEXT and _NUMBER.fullmatch(value):
            number = exact(value)
        case _:
            raise DocumentError("bad-number", f"{shown(value)} is not a number")
    if not number.is_finite():
        raise DocumentError("not-finite", f"{number} is not a number that can be ordered")
    if number and (abs(number.adjusted()) > _MAGNITUDE or len(number.as_tuple().digits) > _MOST_DIGITS):
        raise DocumentError("out-of-range", "more digits than an order's number has")
    return number if number else Decimal(0)


def _same(stated: Decimal | None, column: Decimal | None, *, stored: object) -> bool:
    if stated is None or column is None:
        return stated is column
    return stated == column or (isinstance(stored, float) and float(stated) == stored)


def _is_plain(text: str) -> bool:
    return (
        len(text) <= MAX_TEXT
        and text.isprintable()
        and not any(char.isspace() or char in _INVISIBLE or unicodedata.category(char)[0] == "M" for char in text)
    )

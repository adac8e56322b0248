"""Reads an order action from an entry's JSON and columns, strictly: what is unclear becomes a finding.

Returns for any input and never raises. Must not know a venue or a store.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple, cast

from dlq_sink.terms import FIELD_OF, FOLDED_LABELS, IN_PARAMS_OF, PARAMS, TERM_OF, TERMS, fold, is_set

from venues.json_fields import DocumentError, as_number, read_document, shown
from venues.orders import OrderAction, Verb
from venues.terms import TYPES, WITH_PRICE, TermFault, Terms, read_term

MAX_TEXT = 128
SIDES = frozenset({"buy", "sell", "yes", "no", "buy_yes", "buy_no", "sell_yes", "sell_no"})
VERBS = frozenset({"new", "replace", "cancel"})
UNITS = frozenset({"dollars", "cents"})
_NAMES_AN_ORDER = ("subaccount", "vault_address")  # the terms that count of a cancel

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


def named_order(columns: Mapping[str, object], action_json: str | None) -> OrderAction | None:
    """Of a new order that cannot be read, what names it at its venue: enough to ask for it, too little to send it."""
    try:
        return _Reading(columns, read_document(action_json)).named()
    except DocumentError:
        return None


class _Stated(NamedTuple):
    """A value of the JSON and the key that it stands under."""

    key: str
    value: object


class _Reading:
    """Reads one entry: takes each field from the JSON, else from its column, and collects findings."""

    def __init__(self, columns: Mapping[str, object], document: Mapping[str, object]) -> None:
        self._columns = columns
        self._document = document
        self.findings: list[ActionFinding] = []
        self.notes: list[str] = []
        self._params = self._call_params()
        self._stated: dict[str, list[_Stated]] = {}
        for name, stated in self._known():
            self._stated.setdefault(name, []).append(stated)

    def action(self) -> OrderAction:
        verb = self._word("action", VERBS, kind="verb") or "new"
        self._text("venue_name", fold_case=True)
        self._text("dlq_id")
        return self._cancel() if verb == "cancel" else self._order(verb)

    def _order(self, verb: str) -> OrderAction:
        terms, unknown = self._terms()
        legged = terms.legs is not None
        market_id = self._name("market_id", required=not legged, blanks=True)
        side = self._word("side", SIDES, kind="side", required=not legged)
        order_type = self._word("order_type", frozenset(TYPES), kind="type", required=True)
        client_order_id = self._name("client_order_id")
        by_money = terms.notional is not None
        quantity = self._number("quantity", zero=by_money, missing=None if by_money else "missing")
        in_exit = terms.order_class == "oco" and terms.take_profit is not None  # whose limit is then the order's own
        priced = order_type in WITH_PRICE and not in_exit
        price = self._number("price", missing="missing-price" if priced else None)
        if verb == "new":
            self._check_type(order_type, terms)
        return OrderAction(
            verb=cast("Verb", verb),
            market_id=market_id or "",
            side=side or "",
            quantity=Decimal(0) if quantity is None else quantity,
            order_type=order_type or "",
            price=price,
            order_key=self._name("order_key") or client_order_id or self._dlq_id(),
            account_id=self._name("account_id", blanks=True),
            client_order_id=client_order_id,
            time_in_force=self._word_of_any_kind("time_in_force"),
            venue_order_id=self._name("venue_order_id"),
            price_unit=self._word("price_unit", UNITS, kind="unit"),
            terms=terms,
            params=self._params,
            extra=self._extra() | unknown,
        )

    def _cancel(self) -> OrderAction:
        """Of a cancel only what names the order counts; the rest is kept where it can be read."""
        client_order_id = self._name("client_order_id")
        named = {name: self._term(name) for name in _NAMES_AN_ORDER}
        market_id = self._name("market_id", required=True, blanks=True)
        order_key = self._name("order_key") or client_order_id or self._dlq_id()
        account_id = self._name("account_id", blanks=True)
        venue_order_id = self._name("venue_order_id")
        counted = list(self.findings)
        side, order_type = self._text("side", fold_case=True), self._text("order_type", fold_case=True)
        quantity, price = (self._number(name, zero=True, missing=None) for name in ("quantity", "price"))
        self.findings = counted
        if others := self._others():
            self.notes.append(f"a cancel: {', '.join(others)} is not sent")
        return OrderAction(
            verb="cancel",
            market_id=market_id or "",
            side=side or "",
            quantity=Decimal(0) if quantity is None else quantity,
            order_type=order_type or "",
            price=price,
            order_key=order_key,
            account_id=account_id,
            client_order_id=client_order_id,
            venue_order_id=venue_order_id,
            terms=Terms(**{name: held for name, held in named.items() if held is not None}),
            params=self._params,
        )

    def named(self) -> OrderAction | None:
        """A new order by its own id, where that and whose it is are told beyond doubt. Its type is empty unless it is
        surely a plain one."""
        verb = self._word("action", VERBS, kind="verb") or "new"
        self._text("venue_name", fold_case=True)
        order = self._cancel()
        if verb != "new" or self.findings or order.client_order_id is None:
            return None
        counted = list(self.findings)
        order_type = self._word("order_type", frozenset(TYPES), kind="type", required=True)
        # Venues keep orders of other kinds in other places, and a key that nobody knows may say of which kind it is.
        has_more = bool(self._params or self._others() or self._extra())
        is_plain = order_type in ("limit", "market") and self.findings == counted and not has_more
        self.findings = counted
        side, price = (
            order.side if order.side in SIDES else "",
            order.price if order.price and order.price > 0 else None,
        )
        return replace(
            order,
            verb="new",
            side=side,
            quantity=Decimal(0),
            order_type=str(order_type) if is_plain else "",
            price=price,
            params={},
        )

    def _others(self) -> list[str]:
        """The terms that name no order."""
        return sorted(name for name in self._stated if name in TERMS and name not in _NAMES_AN_ORDER)

    def _call_params(self) -> Mapping[str, object]:
        """The `params` of a ccxt call."""
        held = [value for key, value in self._document.items() if fold(key) == PARAMS and is_set(key, value)]
        if any(not isinstance(value, dict) for value in held) or len(held) > 1:
            self._find("bad-type", "params: not one object")
            return {}
        return cast("Mapping[str, object]", held[0]) if held else {}

    def _known(self) -> Iterator[tuple[str, _Stated]]:
        for key, value in self._document.items():
            name = FIELD_OF.get(fold(key)) or TERM_OF.get(fold(key))
            if name is not None or key == "dlq_id":
                yield name or key, _Stated(key, value)
        for key, value in self._params.items():
            name = IN_PARAMS_OF.get(fold(key))
            if name is not None:
                yield name, _Stated(f"params.{key}", value)

    def _extra(self) -> dict[str, object]:
        known = FIELD_OF.keys() | TERM_OF.keys() | FOLDED_LABELS | {PARAMS}
        return {key: held for key, held in self._document.items() if fold(key) not in known and is_set(key, held)}

    def _terms(self) -> tuple[Terms, dict[str, object]]:
        """(the terms that are set, keys inside them that nobody knows)."""
        found: dict[str, Any] = {}
        unknown: dict[str, object] = {}
        for name in self._stated.keys() & TERMS.keys():
            if (value := self._term(name, unknown)) is not None:
                found[name] = value
        return Terms(**found), unknown

    def _term(self, name: str, unknown: dict[str, object] | None = None) -> Any:
        """The value of a term, None where it is not set. Its names must agree."""
        values: list[object] = []
        for stated in self._stated.get(name, ()):
            if not is_set(name, stated.value):
                continue
            try:
                read = read_term(name, stated.value)
            except TermFault as fault:
                self._find("bad-term", str(fault))
                return None
            values.append(read.value)
            if unknown is not None:
                unknown.update(read.unknown)
        if any(value != values[0] for value in values):
            self._two_names(name)
            return None
        if values and isinstance(values[0], str) and not _is_plain(values[0]):
            self._find("unprintable", f"{name}: {shown(values[0])} {_oddity(values[0])}")
        return values[0] if values else None

    def _check_type(self, order_type: str | None, terms: Terms) -> None:
        """A type without what makes it that type would be sent as another one."""
        if order_type in ("stop", "stop_limit") and terms.stop_price is None and terms.stop_loss_price is None:
            self._find("missing-stop", f"stop_price: a {order_type} order needs one")
        if order_type == "trailing_stop" and (terms.trail_price is None) == (terms.trail_percent is None):
            self._find("missing-trail", "a trailing_stop order needs either a trail_price or a trail_percent")

    def _find(self, code: str, text: str) -> None:
        self.findings.append(ActionFinding(code, text))

    def _two_names(self, name: str) -> None:
        said = " and ".join(f"{one.key} {shown(one.value)}" for one in self._stated[name] if is_set(name, one.value))
        self._find("two-names", f"{name}: {said} do not agree")

    def _text(self, name: str, *, fold_case: bool = False) -> str | None:
        """Return the field as text, None if it is empty. Reports a JSON value that differs from the column."""
        column = self._as_text(name, self._columns.get(name), where="the column")
        stated = self._stated.get(name, [])
        if not stated:
            return column.lower() if fold_case and column else column
        texts = [self._as_text(name, one.value, where="the JSON") for one in stated]
        if fold_case:
            column, texts = column and column.lower(), [text and text.lower() for text in texts]
        said = list(dict.fromkeys(text for text in texts if text is not None))
        if len(said) > 1:
            self._two_names(name)
        chosen = said[0] if said else None
        if name in self._columns and column != chosen:
            self._find("disagreement", f"{name}: {shown(chosen)} in the JSON, {shown(column)} in the column")
        return chosen

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

    def _name(self, name: str, *, required: bool = False, blanks: bool = False) -> str | None:
        """Return an identifier. People compare it and venues receive it, so it may hold no invisible character."""
        text = self._text(name)
        if text is None:
            if required:
                self._find("missing", f"{name}: neither in the JSON nor in the column")
        elif not _is_plain(text, blanks=blanks):
            self._find("unprintable", f"{name}: {shown(text)} {_oddity(text)}")
        elif name == "venue_order_id" and not text.strip("."):
            self._find("bad-id", f"{name}: {shown(text)} would be read as another path at the venue")
        elif not text.isascii():
            self.notes.append(f"{name} has characters outside ASCII: {shown(text)}")
        return text

    def _word(self, name: str, known: frozenset[str], *, kind: str, required: bool = False) -> str | None:
        text = self._word_of_any_kind(name)
        if text is None:
            if required:
                self._find("missing", f"{name}: neither in the JSON nor in the column")
        elif _is_plain(text) and text not in known:
            self._find(f"unknown-{kind}", f"{name}: {shown(text)} is not one of {', '.join(sorted(known))}")
        return text

    def _word_of_any_kind(self, name: str) -> str | None:
        text = self._text(name, fold_case=True)
        if text is not None and not _is_plain(text):
            self._find("unprintable", f"{name}: {shown(text)} {_oddity(text)}")
        return text

    def _number(self, name: str, *, zero: bool = False, missing: str | None) -> Decimal | None:
        """Return the number from the JSON if it is there: a column may have rounded it to a binary float."""
        try:
            column = as_number(self._columns.get(name))
            stated = self._stated.get(name)
            number = self._stated_number(name, stated) if stated else column
            if name in self._columns and not _same(number, column, stored=self._columns[name], zero=zero):
                self._find("disagreement", f"{name}: {number} in the JSON, {column} in the column")
            if number is None and missing is not None:
                self._find(missing, f"{name}: neither in the JSON nor in the column")
            if number is not None and (number < 0 or (number == 0 and not zero)):
                self._find("not-positive", f"{name}: {number} is not above zero")
        except DocumentError as broken:
            self._find(broken.code, f"{name}: {broken.text}")
            return None
        return number

    def _stated_number(self, name: str, stated: list[_Stated]) -> Decimal | None:
        numbers = [number for one in stated if (number := as_number(one.value)) is not None]
        if any(number != numbers[0] for number in numbers):
            self._two_names(name)
        return numbers[0] if numbers else None

    def _dlq_id(self) -> str:
        value = self._columns.get("dlq_id")
        return value if isinstance(value, str) else ascii(value)


def _same(stated: Decimal | None, column: Decimal | None, *, stored: object, zero: bool) -> bool:
    if stated is None or column is None:
        return stated is column or (zero and not stated and not column)  # the column of an unsaid quantity holds 0
    return stated == column or (isinstance(stored, float) and float(stated) == stored)


def _is_plain(text: str, *, blanks: bool = False) -> bool:
    """Whether people see every character; `blanks` also lets single or padding spaces stand between others."""
    body = text.replace(" ", "_") if blanks and text == text.strip() else text
    return (
        len(text) <= MAX_TEXT
        and text.isprintable()
        and not any(char.isspace() or char in _INVISIBLE or unicodedata.category(char)[0] == "M" for char in body)
    )


def _oddity(text: str) -> str:
    """What keeps a text from being plain."""
    if len(text) > MAX_TEXT:
        return f"is longer than {MAX_TEXT} characters"
    return (
        "contains a space" if " " in text and _is_plain(text.replace(" ", "_")) else "contains an invisible character"
    )

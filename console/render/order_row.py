"""What a list says of an order beside its columns: its value and currency, a stop, and money in place of a quantity.

Pure. Reads an action only where its text may change the answer: a list has a million rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal
from functools import lru_cache
from typing import NamedTuple

from backends.records import Entry, number
from console.services.layout_fields import layout_of
from console.text.untrusted import safe

VenueTypes = Mapping[str, str]  # a venue's name in the store → its type, where the config says another
_CCXT = "ccxt:"
_CURRENCIES = {"kalshi": "USD", "polymarket": "USDC", "hyperliquid": "USDC"}
_UNITS_OF_ONE = frozenset({"STK", "CASH", "CRYPTO"})  # ibkr's types whose contract is one of the thing
_OPTION = re.compile(r"[A-Z]{1,6}[0-9]{6}[CP][0-9]{8}")
_EXACT = Context(prec=120)
_CENTS = Decimal(100)
# Parts of the names that make an order's value another than quantity times price, and of those that a line tells.
_VALUED = ("unit", "notional", "cost", "cancel", "legs")
_TOLD = ("stop", "trigger", "notional", "cost")
_EXITS = ("reduce", "close")  # parts of the names and words that make an order an exit


class OrderValue(NamedTuple):
    notional: Decimal | None
    currency: str | None


class ToldTerms(NamedTuple):
    """The terms that a line tells, as stored."""

    stop: Decimal | None = None
    notional: Decimal | None = None


_NOTHING_TOLD = ToldTerms()


def value_of(entry: Entry, types: VenueTypes) -> OrderValue:
    kind, market = _kind(entry, types), entry.text("market_id")
    return OrderValue(_notional(entry, kind, market), _currency(kind, market))


def quick_value(entry: Entry, types: VenueTypes) -> OrderValue:
    """The value where it can be told without reading the action; the first frame waits for nothing."""
    if "price" not in entry.names or _holds(entry.text("action_json"), _VALUED):
        return OrderValue(None, None)
    return value_of(entry, types)


def summed(entries: Iterable[Entry], types: VenueTypes) -> dict[str, Decimal]:
    """What the entries are worth, per currency: amounts of two currencies are never added."""
    total: dict[str, Decimal] = {}
    for entry in entries:
        held = value_of(entry, types) if layout_of(entry).has_worth else None
        if held is not None and held.notional is not None and held.currency is not None:
            total[held.currency] = _EXACT.add(total.get(held.currency, Decimal(0)), held.notional)
    return total


def is_exit(entry: Entry) -> bool:
    """Whether the action itself says that it only takes from a position."""
    text = entry.text("action_json")
    if not _holds(text, _EXITS):
        return False
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return _reduces(document) or (isinstance(document, dict) and _reduces(document.get("params")))


def _reduces(document: object) -> bool:
    if not isinstance(document, dict):
        return False
    named = {key.lower().replace("_", "").replace("-", ""): held for key, held in document.items()}
    intent = str(named.get("positionintent", "")).lower()
    return str(named.get("reduceonly")).lower() in ("true", "1") or intent in ("buy_to_close", "sell_to_close")


def currency_of(entry: Entry, types: VenueTypes) -> str | None:
    return _currency(_kind(entry, types), entry.text("market_id"))


def by_currency(worth: Mapping[str, Decimal], types: VenueTypes) -> dict[str, Decimal]:
    """The sums of a group's purses per currency, the largest first; the empty name: of no known currency."""
    from backends.index.rows import read_purse  # the first frame needs nothing of the index

    total: dict[str, Decimal] = {}
    for purse, amount in worth.items():
        venue, market = read_purse(purse)
        currency = _currency(types.get(venue, venue), market) or ""
        total[currency] = _EXACT.add(total.get(currency, Decimal(0)), amount)
    return dict(sorted(total.items(), key=lambda pair: (-pair[1], pair[0])))


def _holds(text: str, parts: tuple[str, ...]) -> bool:
    if not text:
        return False
    low = text.lower()
    for part in parts:  # noqa: SIM110 - a loop is faster than any()
        if part in low:
            return True
    return False


def _kind(entry: Entry, types: VenueTypes) -> str:
    venue = entry.text("venue_name")
    return types.get(venue, venue)


@lru_cache(maxsize=1024)  # a list has few markets and many rows
def _currency(kind: str, market: str) -> str | None:
    if kind == "alpaca":
        return market.partition("/")[2] or "USD"
    if kind == "ibkr":
        parts = market.split(":")
        return (parts[3] or None) if len(parts) == 4 else None
    if kind.startswith(_CCXT):
        return market.partition("/")[2].partition(":")[0] or None
    return _CURRENCIES.get(kind)


def _notional(entry: Entry, kind: str, market: str) -> Decimal | None:
    text = entry.text("action_json")
    if "price" not in entry.names or _holds(text, _VALUED):
        return _read_notional(entry, text, kind, market)
    if text and not (text.startswith("{") and text.rstrip().endswith("}")):
        return None
    return _product(number(entry.get("quantity")), number(entry.get("price")), kind, market)


def _read_notional(entry: Entry, text: str, kind: str, market: str) -> Decimal | None:
    from venues import parse_action  # only where it is needed: loading it takes longer than a short list

    action = parse_action(entry.columns, text or None).action
    if action is None or action.verb == "cancel":
        return None
    if action.terms.notional is not None:
        return action.terms.notional
    if action.price is None or action.terms.legs is not None:
        return None
    if action.price_unit == "cents":
        return _product(action.quantity, _EXACT.divide(action.price, _CENTS), kind, market)
    return _product(action.quantity, action.price, kind, market, said=action.price_unit is not None)


def _product(
    quantity: Decimal | None, price: Decimal | None, kind: str, market: str, *, said: bool = False
) -> Decimal | None:
    """Quantity times price, where one of the quantity is one of what is priced."""
    if quantity is None or price is None or quantity <= 0 or price <= 0 or not _is_counted_in_ones(kind, market):
        return None
    if kind == "kalshi" and price >= 1 and not said:
        return None  # dollars or cents: the action does not say
    return _EXACT.multiply(quantity, price)


@lru_cache(maxsize=1024)
def _is_counted_in_ones(kind: str, market: str) -> bool:
    """Whether a contract's size, which no store holds, plays no part."""
    if kind == "alpaca":
        return _OPTION.fullmatch(market) is None
    if kind == "ibkr":
        parts = market.split(":")
        return len(parts) == 4 and parts[1] in _UNITS_OF_ONE
    return not kind.startswith(_CCXT) or ("/" in market and ":" not in market)


def told_terms(entry: Entry) -> ToldTerms:
    """Read from the JSON alone, so that a line tells them of an order that cannot be sent, too."""
    text = entry.text("action_json")
    if not _holds(text, _TOLD):
        return _NOTHING_TOLD
    from venues.json_fields import DocumentError, as_number, read_document

    try:
        document = read_document(text)
        found = {name: as_number(held) for name, held in _terms(document)}
    except DocumentError:
        return _NOTHING_TOLD
    return ToldTerms(found.get("stop_price", found.get("stop_loss_price")), found.get("notional"))


def _terms(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    from dlq_sink.terms import PARAMS, TERM_OF, fold, is_set

    for key, held in document.items():
        if (name := TERM_OF.get(fold(key))) in ("stop_price", "stop_loss_price", "notional") and is_set(name, held):
            yield name, held
        if fold(key) == PARAMS and isinstance(held, Mapping):
            yield from _terms(held)


def sender_text(entry: Entry) -> str:
    """Whose intent it is: `left open by engine-1 on desk9`."""
    owner, host = (safe(name, 80) for name in entry.sender)
    return f"left open by {owner or 'an engine that told no name'}{f' on {host}' if host else ''}"

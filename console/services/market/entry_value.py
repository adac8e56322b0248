"""What an entry's order is worth, as every list, sum, filter and group tells it, and in which currency.

Pure. Reads an action only where its text may change the answer: a list has a million rows. Knows no market's quote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from functools import lru_cache
from typing import NamedTuple

from dlq_sink.values import number

from backends.entry import Entry
from console.services.layout_fields import layout_of

VenueTypes = Mapping[str, str]  # a venue's name in the store → its type, where the config says another
VERSION = 1  # of the rules below: the index keeps what they say
_CCXT = "ccxt:"
_CURRENCIES = {"kalshi": "USD", "polymarket": "USDC", "hyperliquid": "USDC"}
_UNITS_OF_ONE = frozenset({"STK", "CASH", "CRYPTO"})  # ibkr's types whose contract is one of the thing
_OPTION = re.compile(r"[A-Z]{1,6}[0-9]{6}[CP][0-9]{8}")
_EXACT = Context(prec=120)
_CENTS = Decimal(100)
# Parts of the names that make an order's value another than quantity times price.
_VALUED = ("unit", "notional", "cost", "cancel", "legs")


class OrderValue(NamedTuple):
    notional: Decimal | None
    currency: str | None


def value_of(entry: Entry, types: VenueTypes) -> OrderValue:
    kind, market = _kind(entry, types), entry.text("market_id")
    return OrderValue(_notional(entry, kind, market), _currency(kind, market))


def worth_by(types: VenueTypes) -> Callable[[Entry], Decimal | None]:
    """An entry's value; None where it has none or nobody can tell."""

    def worth(entry: Entry) -> Decimal | None:
        if not layout_of(entry).has_worth:
            return None
        return _notional(entry, _kind(entry, types), entry.text("market_id"))

    return worth


def quick_value(entry: Entry, types: VenueTypes) -> OrderValue:
    """The value where it can be told without reading the action; the first frame waits for nothing."""
    if "price" not in entry.names or holds(entry.text("action_json"), _VALUED):
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


def holds(text: str, parts: tuple[str, ...]) -> bool:
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
    if "price" not in entry.names or holds(text, _VALUED):
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

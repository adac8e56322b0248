"""Turns an action into ccxt's arguments and checks that ccxt's request still says the same.

ccxt truncates amounts, rounds prices and drops unknown terms in silence; here each is a refusal. Must not send.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from venues.ccxt.request import Wire, aims_at_nothing, mentions, numbers, payload
from venues.ccxt.table import ID_PARAMS, RENAMED_BY_EDIT, Row
from venues.orders import OrderAction, Refused, Verb, default_tif_note, plain

# What ccxt raises, besides its own errors, when it cannot build or read something. Its generated code does not
# validate input, so these errors say something about this order and are no bug here.
STUMBLES = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError)
_TIF_WORDS = {"ioc": ("ioc", "immediate"), "fok": ("fok", "fill_or_kill", "fillorkill", "killorfill")}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of ccxt's unified API."""

    method: str
    symbol: str
    arguments: tuple[object, ...]
    params: dict[str, object]


def symbol_of(exchange: Any, market_id: str) -> str | Refused:
    """Return ccxt's symbol: the market id itself, or the only market with that id at the exchange."""
    if market_id in exchange.markets:
        return market_id
    found = exchange.markets_by_id.get(market_id, [])
    symbols = {market["symbol"] for market in (found if isinstance(found, list) else [found])}
    if len(symbols) == 1:
        return str(symbols.pop())
    if symbols:
        return Refused(f"{market_id} names {len(symbols)} markets: use one of {', '.join(sorted(symbols))}")
    return Refused(f"{exchange.id} has no market {market_id} (ccxt writes BTC/USDT, and BTC/USDT:USDT for a perpetual)")


def inexact(exchange: Any, action: OrderAction, *, symbol: str) -> Refused | None:
    """Refuse digits that the exchange's precision or a float cannot hold."""
    checks = [("quantity", action.quantity, exchange.amount_to_precision)]
    if action.order_type == "limit":
        if action.price is None:
            return Refused("a limit order needs a price")
        checks.append(("price", action.price, exchange.price_to_precision))
    for name, number, fitted in checks:
        if number <= 0:
            return Refused(f"{name} {plain(number)} is not above zero")
        sent = Decimal(fitted(symbol, float(number)))
        if sent != number:
            return Refused(f"{name} {plain(number)}: {exchange.id} would get {plain(sent)}")
    return None


def call(action: OrderAction, symbol: str, *, client_order_id: str, row: Row) -> Call | Refused:
    if action.verb == "cancel":
        return _aimed(Call("cancel_order", symbol, (symbol,), {}), action)
    if action.side not in ("buy", "sell") or action.order_type not in ("market", "limit"):
        return Refused(f"{action.side} {action.order_type}: ccxt takes buy and sell, market and limit")
    tif = action.time_in_force or "gtc"
    if tif not in ("gtc", *_TIF_WORDS) or (action.order_type == "market" and action.time_in_force not in (None, "ioc")):
        return Refused(f"time in force {tif} for a {action.order_type} order: ccxt takes gtc, ioc and fok")
    named = ID_PARAMS.get(row.exchange_id, "clientOrderId")
    params: dict[str, object] = {named: client_order_id} if sends_id(action.verb, symbol, row=row) else {}
    if tif in _TIF_WORDS and action.order_type == "limit":
        params["timeInForce"] = tif.upper()
    price = float(action.price) if action.price is not None and action.order_type == "limit" else None
    order = (symbol, action.order_type, action.side, float(action.quantity), price)
    if action.verb == "new":
        return Call("create_order", symbol, order, params)
    return _aimed(Call("edit_order", symbol, order, params), action)


def sends_id(verb: Verb, symbol: str, *, row: Row) -> bool:
    """Tell whether the request carries our client id; most exchanges read it in an edit as the order to change."""
    if verb == "replace":
        return row.exchange_id in RENAMED_BY_EDIT and ":" not in symbol
    return verb == "new" and "C" in row.has


def _aimed(call: Call, action: OrderAction) -> Call | Refused:
    if action.venue_order_id:
        return replace(call, arguments=(action.venue_order_id, *call.arguments))
    if action.verb == "cancel" and action.client_order_id:
        params: dict[str, object] = {"clientOrderId": action.client_order_id}
        return replace(call, arguments=(None, *call.arguments), params=params)
    return Refused(f"to {action.verb} an order, its venue_order_id is needed")


def unlike(wire: Wire, action: OrderAction, *, client_order_id: str | None) -> str | None:
    """Return what the request lacks of the order: its id if it sends one, its numbers, its time in force."""
    if action.verb != "new":
        aim = action.venue_order_id or action.client_order_id or ""
        if not mentions(wire, aim) or aims_at_nothing(wire):
            return "its first request does not name the order (or it needs another request first)"
    if action.verb == "cancel":
        return None
    if client_order_id is not None and not mentions(wire, client_order_id):
        return "its first request does not carry the client order id (or it needs another request first)"
    there = numbers(wire)
    if action.quantity not in there:
        return f"the quantity {plain(action.quantity)} is not in the request"
    if action.order_type == "limit" and action.price not in there:
        return f"the price {action.price} is not in the request"
    words = _TIF_WORDS.get(action.time_in_force or "", ()) if action.order_type == "limit" else ()
    said = (wire.path + payload(wire)).lower()
    if words and not any(word in said for word in words):
        return f"the time in force {action.time_in_force} is not in the request"
    return None


def notes(action: OrderAction, market: dict[str, Any], *, row: Row) -> tuple[str, ...]:
    said = []
    if action.verb != "cancel" and action.time_in_force is None and action.order_type == "limit":
        said.append(default_tif_note("gtc"))
    if action.verb != "cancel" and market.get("contract") and market.get("contractSize") not in (None, 1, 1.0):
        said.append(f"quantity counts contracts of {market['contractSize']} {market.get('base')}")
    if action.verb == "replace" and not sends_id("replace", market["symbol"], row=row):
        said.append("the order keeps the client order id it has")
    if action.verb == "new" and "C" not in row.has:
        said.append(f"{row.exchange_id} takes no client order id: it cannot tell a second send, nor be asked for it")
    return tuple(said)

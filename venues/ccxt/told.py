"""Reads the terms of an order out of ccxt's unified order, in the words of the action that it is compared with.

ccxt fills in what an exchange does not tell, so a term counts only where the exchange's own answer can have told it.
Pure; must not send anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from dlq_sink.terms import fold

from venues.ccxt.request import number_of
from venues.ccxt.words import BINANCE, TELLS_POST_ONLY, WAITS_FOR
from venues.orders import OrderAction
from venues.terms import WITH_PRICE, ExitTerms, Terms

_TRAILS = frozenset(("trail_price", "trail_percent"))
_RAW_TYPES = {
    "stoploss": "stop",
    "stopmarket": "stop",
    "stoplosslimit": "stop_limit",
    "stoplimit": "stop_limit",
    "trailingstop": "trailing_stop",
    "trailingstopmarket": "trailing_stop",
}
_TYPE_NAMES = ("type", "orderType", "ordertype", "ordType", "order_type")


def number(value: object) -> Decimal | None:
    """Return ccxt's float as the decimal text of the exchange, which is the float's shortest form."""
    return Decimal(repr(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def terms(order: Mapping[str, Any], action: OrderAction, *, exchange_id: str) -> Terms:
    """Return what the exchange tells of the order's terms; None in it: it does not say."""
    said: dict[str, Any] = {}
    trigger, loss, profit = _prices(order)
    waits = WAITS_FOR & {*action.terms.names}
    if "take_profit_price" in waits:
        said["take_profit_price"] = profit or trigger
    elif "stop_loss_price" in waits:
        said["stop_loss_price"] = loss or trigger
    elif "stop_price" in waits:
        said["stop_price"] = trigger or loss
    elif not waits:
        said["stop_price"] = trigger
    if not waits or action.terms.take_profit:
        said["take_profit"] = _exit(profit, action.terms.take_profit)
    if not waits or action.terms.stop_loss:
        said["stop_loss"] = _exit(loss, action.terms.stop_loss)
    if exchange_id in BINANCE:  # ccxt leaves these out
        said |= {"trail_percent": _raw(order, "callbackRate"), "notional": _raw(order, "origQuoteOrderQty")}
    said["reduce_only"] = _reduces(order, action, waits=waits)
    post = order.get("postOnly")
    said["post_only"] = post if post is True or (post is False and exchange_id in TELLS_POST_ONLY) else None
    return Terms(**said)


def order_type(order: Mapping[str, Any], action: OrderAction) -> str | None:
    """Return the neutral type; None for a call's `market` with a trigger, which an exchange calls otherwise."""
    raw = _raw_type(order)
    if action.order_type not in ("market", "limit"):
        return raw
    if WAITS_FOR & {*action.terms.names}:
        return None
    kind = order.get("type")
    return raw or (kind if kind in ("market", "limit") else None)


def price(order: Mapping[str, Any], action: OrderAction) -> Decimal | None:
    held = number(order.get("price"))
    if action.order_type == "stop_limit" and held == _prices(order)[0]:
        return None  # some exchanges show the trigger in its place
    plain = order.get("type") == "limit" or _raw_type(order) == "stop_limit"
    return held if plain and action.order_type in WITH_PRICE else None


def time_in_force(order: Mapping[str, Any], action: OrderAction) -> str | None:
    """Return the exchange's word. For an order without a price ccxt makes one up."""
    held = order.get("timeInForce")
    if not isinstance(held, str) or action.order_type == "stop" or action.order_type == "trailing_stop":
        return None
    word = held.lower()
    return None if word == "po" and action.time_in_force != "po" else word


def _prices(order: Mapping[str, Any]) -> tuple[Decimal | None, Decimal | None, Decimal | None]:
    names = ("triggerPrice", "stopLossPrice", "takeProfitPrice")
    trigger, loss, profit = (number(order.get(name)) or None for name in names)
    return trigger or number(order.get("stopPrice")) or None, loss, profit


def _raw(order: Mapping[str, Any], name: str) -> Decimal | None:
    info = order.get("info")
    held = number_of(str(info.get(name))) if isinstance(info, Mapping) else None
    return held or None


def _exit(told: Decimal | None, ours: ExitTerms | None) -> ExitTerms | None:
    """Return the attached exit; ccxt tells its trigger only."""
    return None if told is None else ExitTerms(stop_price=told, limit_price=None if ours is None else ours.limit_price)


def _reduces(order: Mapping[str, Any], action: OrderAction, *, waits: frozenset[str]) -> bool | None:
    held = order.get("reduceOnly")
    if not isinstance(held, bool) or not any(fold(key).endswith("reduceonly") for key in _keys(order.get("info"))):
        return None
    # An exchange may close the position by an order that is a stop-loss or takes the profit, unasked.
    closes = held and not action.terms.reduce_only and bool(waits & {"stop_loss_price", "take_profit_price"})
    return None if closes else held


def _raw_type(order: Mapping[str, Any]) -> str | None:
    info = order.get("info")
    if not isinstance(info, Mapping):
        return None
    places = [info, *(inner for inner in info.values() if isinstance(inner, Mapping))]
    said = (place.get(name) for place in places for name in _TYPE_NAMES)
    return next((_RAW_TYPES[fold(word)] for word in said if isinstance(word, str) and fold(word) in _RAW_TYPES), None)


def _keys(info: object) -> Iterator[str]:
    if isinstance(info, Mapping):
        for key, inner in info.items():
            yield str(key)
            if isinstance(inner, Mapping):
                yield from map(str, inner)

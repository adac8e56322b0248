"""Turns an action into Alpaca's order request: the JSON body, or why there is none. Pure; must not send.

Numbers are strings with exactly the action's digits. What Alpaca would round, or what its request cannot say, is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from urllib.parse import quote

from dlq_sink.terms import fold, is_set

from venues.json_fields import DocumentError, as_number, compact
from venues.orders import OrderAction, Prepared, Refused, default_tif_note, places, plain, sent_order
from venues.terms import TYPES, WITH_PRICE, ExitTerms, Leg, SentTerms

ORDERS = "/v2/orders"
TIFS = frozenset({"day", "gtc", "opg", "cls", "ioc", "fok"})
DEFAULT_TIF = "day"
ID_PATTERN = r"[\x21-\x7e]{1,128}"
TRAIL = "trail"  # a replace's own word: the new trail in the unit that the order already has

_CRYPTO_TIFS = frozenset({"gtc", "ioc"})
_OPTION = re.compile(r"[A-Z][A-Z0-9.]{0,5}[0-9]{6}[CP][0-9]{8}")
_SIDES = ("buy", "sell")
_INTENTS = ("buy_to_open", "buy_to_close", "sell_to_open", "sell_to_close")
_LEGS = range(2, 5)
_MOST_PLACES = 9
_NOTIONAL_PLACES = 2
_ANY = ("notional", "extended_hours", "position_intent", "order_class", "take_profit", "stop_loss")
_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "market": ("legs",),
    "limit": ("legs",),
    "stop": ("stop_price",),
    "stop_limit": ("stop_price",),
    "trailing_stop": ("trail_price", "trail_percent"),
}
# A replace has no word for the other terms; of a trail it has the number, but not whether it is money or percent.
SENDS = SentTerms(
    new={kind: frozenset((*_ANY, *own)) for kind, own in _BY_TYPE.items()},
    replace={kind: frozenset({"stop_price"} & set(own)) for kind, own in _BY_TYPE.items()},
    own=frozenset({TRAIL}),
)


def is_crypto(action: OrderAction) -> bool:
    return "/" in action.market_id and not is_multi_leg(action)


def is_option(action: OrderAction) -> bool:
    return is_multi_leg(action) or _OPTION.fullmatch(action.market_id) is not None


def is_multi_leg(action: OrderAction) -> bool:
    """An order of several options at one price; it names its markets in its legs, and has no side of its own."""
    return action.terms.order_class == "mleg" or action.terms.legs is not None


def default_tif(action: OrderAction) -> str:
    return "gtc" if is_crypto(action) else DEFAULT_TIF


def prepare(action: OrderAction, client_order_id: str) -> Prepared | Refused:
    target = quote(action.venue_order_id or "", safe="")
    if action.verb != "new" and not target.strip("."):
        # A path that ends in dots is another path: of all orders.
        return Refused(f"to {action.verb} an order at alpaca, its venue_order_id is needed")
    if action.verb == "cancel":
        sent = sent_order(action, None, market_id=None)
        return Prepared("cancel", client_order_id, "DELETE", f"{ORDERS}/{target}", b"", action, sent=sent)
    if not re.fullmatch(ID_PATTERN, client_order_id):
        return Refused("alpaca takes client order ids of 1 to 128 printable ASCII characters")
    if (why := _wrong_words(action) or _wrong_numbers(action)) is not None:
        return Refused(why)
    if action.verb == "replace":
        return _replacing(action, client_order_id, target)
    return _placing(action, client_order_id)


def _placing(action: OrderAction, client_order_id: str) -> Prepared | Refused:
    if _trails(action):
        return Refused("alpaca: a new order has a trail_price or a trail_percent, no trail", unsent=(TRAIL,))
    if (why := _wrong_class(action) or _wrong_intent(action)) is not None:
        return Refused(why)
    tif = action.time_in_force or default_tif(action)
    named = {"symbol": action.market_id, "qty": plain(action.quantity), "side": action.side}
    unsaid = {*(() if action.quantity else ("qty",)), *(("symbol", "side") if is_multi_leg(action) else ())}
    order = {name: value for name, value in named.items() if name not in unsaid}
    order |= {"type": action.order_type, "time_in_force": tif} | _prices(action)
    body = order | {"client_order_id": client_order_id} | _terms(action)
    removed = dict.fromkeys(("market_id", "side")) if is_multi_leg(action) else {}
    sent = sent_order(action, client_order_id, time_in_force=tif, **removed)
    notes = () if action.time_in_force else (default_tif_note(tif),)
    return Prepared("new", client_order_id, "POST", ORDERS, compact(body), action, notes=notes, sent=sent)


def _replacing(action: OrderAction, client_order_id: str, target: str) -> Prepared | Refused:
    """Market, side and type name the order that is replaced; the request does not repeat them."""
    trail = _trail(action)
    if isinstance(trail, Refused):
        return trail
    order = {"qty": plain(action.quantity)}
    order |= {} if action.time_in_force is None else {"time_in_force": action.time_in_force}
    order |= _prices(action)
    order |= {} if trail is None else {TRAIL: plain(trail)}
    body = compact(order | {"client_order_id": client_order_id})
    named = dict.fromkeys(("market_id", "side", "order_type"))
    sent = sent_order(action, client_order_id, **named, trail=trail)
    return Prepared("replace", client_order_id, "PATCH", f"{ORDERS}/{target}", body, action, sent=sent)


def _trails(action: OrderAction) -> list[object]:
    """Return every value that the action states under this name, however it is spelled."""
    stated = (*action.extra.items(), *action.params.items())
    return [value for key, value in stated if fold(key) == TRAIL and is_set(key, value)]


def _trail(action: OrderAction) -> Decimal | Refused | None:
    """Return the replace's own `trail`, as alpaca-py's request has it."""
    stated = _trails(action)
    if not stated:
        return None
    if action.order_type != "trailing_stop":
        return Refused(f"alpaca: a {action.order_type} order has no trail", unsent=(TRAIL,))
    try:
        trail, *others = (as_number(value) for value in stated)
    except DocumentError as broken:
        return Refused(f"{TRAIL}: {broken.text}")
    if trail is None or trail <= 0 or any(other != trail for other in others):
        return Refused(f"{TRAIL}: not one number above zero")
    if places(trail) > _most_places(action, trail):
        return Refused(_too_fine(TRAIL, trail, _most_places(action, trail)))
    return trail


def _wrong_words(action: OrderAction) -> str | None:
    if action.side not in _SIDES and not is_multi_leg(action):
        return f"alpaca takes buy or sell, not {action.side}"
    if action.order_type not in TYPES:
        return f"alpaca: a {action.order_type} order cannot be sent from here"
    if not action.market_id and not is_multi_leg(action):
        return "alpaca: an order needs a symbol"
    if action.price_unit not in (None, "dollars"):
        return f"alpaca's prices are dollars, not {action.price_unit}"
    tif = action.time_in_force or default_tif(action)
    if tif not in (_CRYPTO_TIFS if is_crypto(action) else TIFS):
        return f"alpaca does not take time in force {tif} for {action.market_id or 'a multi-leg order'}"
    return None


def _wrong_numbers(action: OrderAction) -> str | None:
    """Return why Alpaca would not take these numbers as they are; nothing is rounded here."""
    if (why := _wrong_size(action)) is not None:
        return why
    terms = action.terms
    in_exit = terms.order_class == "oco" and action.verb == "new"  # an oco's take_profit holds its price
    if action.order_type in WITH_PRICE and action.price is None and not in_exit:
        return f"a {action.order_type} order needs a price above zero"
    if action.verb == "new":
        if action.order_type in ("stop", "stop_limit") and terms.stop_price is None:
            return f"a {action.order_type} order needs a stop_price"
        if action.order_type == "trailing_stop" and (terms.trail_price is None) == (terms.trail_percent is None):
            return "a trailing_stop order needs either a trail_price or a trail_percent"
    for name, number in _all_prices(action):
        most = _MOST_PLACES if name == "trail_percent" else _most_places(action, number)
        if number <= 0:
            return f"{name} {plain(number)} is not above zero"
        if places(number) > most:
            return _too_fine(name, number, most)
    return None


def _wrong_size(action: OrderAction) -> str | None:
    notional = action.terms.notional
    if notional is not None:
        if action.quantity:
            return f"quantity {plain(action.quantity)} and notional {plain(notional)}: alpaca takes one of them"
        if notional <= 0:
            return f"notional {plain(notional)} is not above zero"
        if is_multi_leg(action):
            return "alpaca: a multi-leg order has a quantity, no notional"
        return None if places(notional) <= _NOTIONAL_PLACES else _too_fine("notional", notional, _NOTIONAL_PLACES)
    if action.quantity <= 0:
        return f"quantity {plain(action.quantity)} is not above zero"
    if is_option(action) and places(action.quantity):
        return f"quantity {plain(action.quantity)}: options are traded in whole contracts"
    if places(action.quantity) > _MOST_PLACES:
        return f"quantity {plain(action.quantity)}: alpaca takes at most {_MOST_PLACES} decimals"
    return None


def _all_prices(action: OrderAction) -> Iterator[tuple[str, Decimal]]:
    terms = action.terms
    profit, loss = terms.take_profit or ExitTerms(), terms.stop_loss or ExitTerms()
    every = {
        "price": action.price if action.order_type in WITH_PRICE else None,
        "stop_price": terms.stop_price,
        "trail_price": terms.trail_price,
        "trail_percent": terms.trail_percent,
        "take_profit.limit_price": profit.limit_price,
        "stop_loss.stop_price": loss.stop_price,
        "stop_loss.limit_price": loss.limit_price,
    }
    return ((name, number) for name, number in every.items() if number is not None)


def _most_places(action: OrderAction, number: Decimal) -> int:
    return _MOST_PLACES if is_crypto(action) else 2 if number >= 1 else 4


def _too_fine(name: str, number: Decimal, most: int) -> str:
    return f"{name} {plain(number)}: alpaca takes at most {most} decimals there, and it is not rounded"


def _wrong_class(action: OrderAction) -> str | None:
    """Return why this order class cannot have these exits or legs, or lacks them."""
    terms, kind = action.terms, action.terms.order_class
    profit, loss = terms.take_profit, terms.stop_loss
    if is_multi_leg(action):
        return _wrong_legs(action)
    if kind in (None, "simple"):
        return None if profit is None and loss is None else "alpaca: take_profit and stop_loss need an order_class"
    if kind not in ("bracket", "oco", "oto"):
        return f"alpaca has no order class {kind}"
    if profit is not None and (profit.limit_price is None or profit.stop_price is not None):
        return "alpaca: a take_profit has a limit_price and nothing else"
    if loss is not None and loss.stop_price is None:
        return "alpaca: a stop_loss needs a stop_price"
    if kind == "oto" and profit is None and loss is None:
        return "alpaca: an oto order needs a take_profit or a stop_loss"
    if kind != "oto" and (profit is None or loss is None):
        return f"alpaca: a {kind} order needs a take_profit and a stop_loss"
    if kind == "oco" and action.order_type != "limit":
        return "alpaca: an oco order is a limit order"
    if kind == "oco" and profit is not None and action.price not in (None, profit.limit_price):
        return "alpaca: the price of an oco order is its take_profit's; here they differ"
    return None


def _wrong_legs(action: OrderAction) -> str | None:
    terms = action.terms
    legs = terms.legs or ()
    if terms.order_class != "mleg" or len(legs) not in _LEGS:
        return "alpaca: an order of order_class mleg has 2 to 4 legs, and no other order has legs"
    if action.order_type not in ("market", "limit"):
        return "alpaca: a multi-leg order is a market or a limit order"
    if terms.take_profit is not None or terms.stop_loss is not None or terms.position_intent is not None:
        return "alpaca: a multi-leg order has neither exits nor a position_intent of its own"
    if len({leg.market_id for leg in legs}) < len(legs):
        return "alpaca: two legs are in the same market"
    for leg in legs:
        if leg.ratio <= 0 or places(leg.ratio):
            return f"alpaca: the ratio of leg {leg.market_id} is {plain(leg.ratio)}, not a whole number"
        if leg.side is None and leg.position_intent is None:
            return f"alpaca: leg {leg.market_id} needs a side or a position_intent"
        if (why := _wrong_pair(leg.side, leg.position_intent)) is not None:
            return f"{why} (leg {leg.market_id})"
    return None


def _wrong_intent(action: OrderAction) -> str | None:
    return None if is_multi_leg(action) else _wrong_pair(action.side, action.terms.position_intent)


def _wrong_pair(side: str | None, intent: str | None) -> str | None:
    if side not in (None, *_SIDES):
        return f"alpaca takes buy or sell, not {side}"
    if intent not in (None, *_INTENTS):
        return f"alpaca has no position_intent {intent}"
    if side is not None and intent is not None and not intent.startswith(f"{side}_"):
        return f"alpaca: {side} and position_intent {intent} contradict each other"
    return None


def _prices(action: OrderAction) -> dict[str, str]:
    named = {
        "limit_price": action.price if action.order_type in WITH_PRICE else None,
        "stop_price": action.terms.stop_price,
    }
    return {name: plain(number) for name, number in named.items() if number is not None}


def _terms(action: OrderAction) -> dict[str, object]:
    """Return the terms that only a new order has, in Alpaca's words."""
    terms = action.terms
    numbers = {name: getattr(terms, name) for name in ("trail_price", "trail_percent", "notional")}
    body: dict[str, object] = {name: plain(number) for name, number in numbers.items() if number is not None}
    if terms.extended_hours:
        body["extended_hours"] = True
    words = {"position_intent": terms.position_intent, "order_class": terms.order_class}
    body |= {name: word for name, word in words.items() if word is not None}
    exits = {"take_profit": terms.take_profit, "stop_loss": terms.stop_loss}
    body |= {name: _exit(one) for name, one in exits.items() if one is not None}
    return body | ({} if terms.legs is None else {"legs": [_leg(leg) for leg in terms.legs]})


def _exit(one: ExitTerms) -> dict[str, str]:
    named = {"stop_price": one.stop_price, "limit_price": one.limit_price}
    return {name: plain(number) for name, number in named.items() if number is not None}


def _leg(leg: Leg) -> dict[str, str]:
    named = {
        "symbol": leg.market_id,
        "ratio_qty": plain(leg.ratio),
        "side": leg.side,
        "position_intent": leg.position_intent,
    }
    return {name: value for name, value in named.items() if value is not None}

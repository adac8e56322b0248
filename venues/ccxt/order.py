"""Turns an action into ccxt's arguments and checks that ccxt's request still says the same.

ccxt truncates amounts, rounds prices and drops unknown terms in silence; here each is a refusal. Must not send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from dlq_sink.terms import IN_PARAMS_OF, fold, is_set

from venues.ccxt.params import TIF_SENT, Part, merged, number, own_numbers, parts
from venues.ccxt.request import Wire, aims_at_nothing, mentions, number_of, numbers, payload
from venues.ccxt.table import RENAMED_BY_EDIT, Row
from venues.ccxt.words import CALL_TYPES, PASSED_ON, PASSED_ON_CONTRACTS, WAITS_FOR
from venues.orders import OrderAction, Refused, Verb, default_tif_note, plain, sent_order
from venues.terms import WITH_PRICE

# What ccxt raises, besides its own errors, when it cannot build or read something. Its generated code does not
# validate input, so these errors say something about this order and are no bug here.
STUMBLES = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError)
_TIF_WORDS = {"ioc": ("ioc", "immediate"), "fok": ("fok", "fill_or_kill", "fillorkill", "killorfill")}
_GTC = frozenset(("gtc", "goodtillcancel", "goodtilcancelled", "goodtillcancelled", "gooduntilcancelled"))


@dataclass(frozen=True, slots=True)
class Call:
    """A call of ccxt's unified API."""

    method: str
    symbol: str
    arguments: tuple[object, ...]
    params: dict[str, object]
    as_quantity: tuple[object, ...] = ()  # of an order by money: the arguments if the money were a quantity


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
    if not action.quantity and action.terms.notional is not None:
        checks = []
    if action.order_type in WITH_PRICE:
        if action.price is None:
            return Refused(f"a {action.order_type} order needs a price")
        checks.append(("price", action.price, exchange.price_to_precision))
    for name, wanted, fitted in checks:
        if wanted <= 0:
            return Refused(f"{name} {plain(wanted)} is not above zero")
        sent = Decimal(fitted(symbol, float(wanted)))
        if sent != wanted:
            return Refused(f"{name} {plain(wanted)}: {exchange.id} would get {plain(sent)}")
    return None


def call(
    action: OrderAction, symbol: str, *, client_order_id: str, row: Row, contract: bool, by_cost: bool
) -> Call | Refused:
    """Return the call; `by_cost` if ccxt has a method for a market order of an amount of money."""
    if action.verb == "cancel":
        return _aimed(Call("cancel_order", symbol, (symbol,), {}), action)
    if (refused := _unfit(action)) is not None:
        return refused
    sent_id = client_order_id if sends_id(action.verb, symbol, row=row) else None
    params = merged(action, sent_id, row=row, contract=contract)
    if isinstance(params, Refused):
        return params
    if action.terms.notional is not None and not action.quantity and "cost" not in action.params:
        cost = params.pop("cost")
        if not by_cost or action.order_type != "market" or action.verb != "new":
            return Refused(f"ccxt has no {action.side} of an amount of money there", unsent=("notional",))
        plain_order = (symbol, "market", action.side, cost, None)
        return Call(f"create_market_{action.side}_order_with_cost", symbol, (symbol, cost), params, plain_order)
    price = None if action.price is None else number(action.price)
    order = (symbol, CALL_TYPES[action.order_type], action.side, number(action.quantity), price)
    if action.verb == "new":
        money = action.terms.notional
        as_quantity = () if money is None else (*order[:3], number(money), price)
        return Call("create_order", symbol, order, params, as_quantity)
    return _aimed(Call("edit_order", symbol, order, params), action)


def _unfit(action: OrderAction) -> Refused | None:
    if action.side not in ("buy", "sell") or action.order_type not in CALL_TYPES:
        return Refused(f"{action.side} {action.order_type}: ccxt takes buy and sell, {', '.join(CALL_TYPES)}")
    if (
        action.order_type in ("stop", "stop_limit") and not (action.terms.stop_price or action.terms.stop_loss_price)
    ) or (action.order_type == "trailing_stop" and not (action.terms.trail_price or action.terms.trail_percent)):
        return Refused(f"a {action.order_type} order needs what it waits for")
    waits = [name for name in action.terms.names if name in WAITS_FOR]
    if len(waits) > 1:
        return Refused(f"one order waits for one price, not for {' and '.join(waits)}", unsent=tuple(waits))
    if waits and action.terms.notional is not None:
        return Refused("an order that waits for a price has a quantity", unsent=("notional",))
    tif, stated = action.time_in_force, any(IN_PARAMS_OF.get(fold(key)) == "time_in_force" for key in action.params)
    if tif is None or stated:
        return None
    takes = {"limit": ("gtc", *TIF_SENT), "stop_limit": ("gtc", *TIF_SENT), "market": ("gtc",) if waits else ("ioc",)}
    if tif not in takes.get(action.order_type, ("gtc",)):
        return Refused(
            f"time in force {tif} for a {action.order_type} order: ccxt takes gtc, ioc, fok and po for one with a price"
        )
    return None


def parts_of(action: OrderAction, call: Call) -> tuple[Part, ...]:
    """Return everything that the request must say beside market, side, quantity and limit price."""
    if action.verb == "cancel":
        return ()
    found = parts(action, call.params)
    # Money that makes the same request as a quantity would be taken for one.
    return (*found, Part("notional", ())) if call.as_quantity else found


def passed_on(exchange_id: str, *, contract: bool) -> frozenset[str]:
    """Return ccxt's names of terms that the exchange itself takes under the same name."""
    tables = (PASSED_ON, PASSED_ON_CONTRACTS) if contract else (PASSED_ON,)
    return frozenset(name for table in tables for name, ids in table.items() if exchange_id in ids)


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


def unlike(wire: Wire, action: OrderAction, *, client_order_id: str | None) -> tuple[str, tuple[str, ...]] | None:
    """Return what the request lacks of the order, in words and by name: its ids, its numbers, its time in force."""
    if action.verb != "new":
        aim = action.venue_order_id or action.client_order_id or ""
        if not mentions(wire, aim) or aims_at_nothing(wire):
            return "its first request does not name the order (or it needs another request first)", ()
    if action.verb == "cancel":
        return None
    if client_order_id is not None and not mentions(wire, client_order_id):
        return "its first request does not carry the client order id (or it needs another request first)", ()
    priced = action.order_type in WITH_PRICE
    wanted = {
        "quantity": action.quantity or None,
        "notional": action.terms.notional,
        "price": action.price if priced else None,
    }
    left = numbers(wire) - Counter(own_numbers(action.terms))  # one number in the request is not two of the order's
    for name, figure in wanted.items():
        if figure is not None and left[figure] < 1:
            return f"the {name} {plain(figure)} is not in the request", (name,)
        left -= Counter([figure] if figure is not None else [])
    words = _TIF_WORDS.get(action.time_in_force or "", ()) if priced else ()
    said = (wire.path + payload(wire)).lower()
    if words and not any(word in said for word in words):
        return f"the time in force {action.time_in_force} is not in the request", ("time_in_force",)
    return None


def sent(action: OrderAction, client_order_id: str | None, *, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the order by neutral names as the request says it; parameters without a neutral name are as given."""
    if action.verb == "cancel":
        aim = action.client_order_id if action.venue_order_id is None else None
        return sent_order(action, aim)
    stated = any(IN_PARAMS_OF.get(fold(key)) == "time_in_force" for key in action.params)
    tif = action.time_in_force
    if action.order_type not in WITH_PRICE and not stated:
        tif = None  # not sent: it is what such an order is
    elif tif in (None, "gtc"):
        tif = "gtc" if any(fold(value) in _GTC for value in fields.values()) else None
    rest = {key: value for key, value in action.params.items() if fold(key) not in IN_PARAMS_OF and is_set(key, value)}
    made = sent_order(action, client_order_id, time_in_force=tif, params=rest or None)
    # By itself, ccxt makes some exchanges' stop-loss orders reduce-only and gives some orders a leverage.
    made |= {"reduce_only": True} if says_reduce_only(fields) else {}
    given = [number_of(value) for name, value in fields.items() if fold(_last(name)) == "leverage"]
    return made | ({"leverage": given[0]} if given and given[0] is not None else {})


def _last(name: str) -> str:
    return name.rpartition(".")[2].lstrip("?")


def says_reduce_only(fields: Mapping[str, str]) -> bool:
    named = (value for name, value in fields.items() if fold(_last(name)) == "reduceonly")
    return any(value.lower() in ("true", "yes", "1") for value in named)


def notes(action: OrderAction, market: dict[str, Any], *, row: Row) -> tuple[str, ...]:
    said = []
    if action.verb != "cancel" and action.time_in_force is None and action.order_type in WITH_PRICE:
        said.append(default_tif_note("gtc"))
    if action.verb != "cancel" and market.get("contract") and market.get("contractSize") not in (None, 1, 1.0):
        said.append(f"quantity counts contracts of {market['contractSize']} {market.get('base')}")
    if action.verb == "replace" and not sends_id("replace", market["symbol"], row=row):
        said.append("the order keeps the client order id it has")
    if action.verb == "new" and "C" not in row.has:
        said.append(f"{row.exchange_id} takes no client order id: it cannot tell a second send, nor be asked for it")
    return tuple(said)

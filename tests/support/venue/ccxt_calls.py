"""Calls of ccxt's unified API as engines make them, and what ccxt itself makes of each: the oracle of our requests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.venue.wire_ccxt import wire_client
from venues import OrderAction, Prepared, Refused, venue_profile
from venues.action import parse_action
from venues.ccxt import table
from venues.ccxt.check import stopped_clock
from venues.ccxt.client import CcxtClient
from venues.ccxt.request import fields, run
from venues.ccxt.transport import Capturing, at

Fields = Mapping[str, str]
SIGNED = ("sign", "nonce", "timestamp", "hash")
ADDED = ("algoClOrdId",)  # a client order id under a second name, where the exchange has one


@dataclass(frozen=True, slots=True)
class Form:
    """A call; `feature` is ccxt's own name for what it needs, empty if every exchange must have it."""

    kind: str
    params: Mapping[str, object]
    feature: str = ""
    verb: str = "new"


LOSS, PROFIT = {"triggerPrice": 45000}, {"triggerPrice": 61000}
FORMS = (
    Form("limit", {}),
    Form("market", {}),
    Form("limit", {"timeInForce": "IOC"}, "timeInForce.IOC"),
    Form("limit", {"timeInForce": "FOK"}, "timeInForce.FOK"),
    Form("limit", {"timeInForce": "PO"}, "timeInForce.PO"),
    Form("limit", {"postOnly": True}, "timeInForce.PO"),
    Form("limit", {"reduceOnly": True}, "contract"),
    Form("market", {"reduceOnly": True}, "contract"),
    Form("limit", {"reduceOnly": True, "postOnly": True}, "contract"),
    Form("market", {"triggerPrice": 49000}, "triggerPrice"),
    Form("limit", {"triggerPrice": 49000}, "triggerPrice"),
    Form("limit", {"stopPrice": 49000, "triggerDirection": "descending"}, "directed"),
    Form("market", {"stopLossPrice": 49000}, "stopLossPrice"),
    Form("limit", {"stopLossPrice": 49000}, "stopLossPrice"),
    Form("market", {"takeProfitPrice": 61000}, "takeProfitPrice"),
    Form("market", {"stopLossPrice": 49000, "reduceOnly": True}, "stopLossPrice"),
    Form("limit", {"stopLoss": LOSS, "takeProfit": PROFIT}, "attachedStopLossTakeProfit"),
    Form("limit", {"stopLoss": {**LOSS, "price": 44000}}, "attachedStopLossTakeProfit.price"),
    Form("market", {"trailingAmount": 500}, "trailing"),
    Form("market", {"trailingPercent": 5}, "trailing"),
    Form("limit", {"marginMode": "isolated"}, "marginMode"),
    Form("limit", {"marginMode": "cross"}, "marginMode"),
    Form("market", {"cost": 1000}, "cost"),
    Form("limit", {"hedged": True}, "hedged"),
    Form("limit", {"leverage": 5}, "leverage"),
    Form("limit", {"whatever": "x1"}, "passes on what it does not know"),
    Form("limit", {}, "editOrder", "replace"),
    Form("limit", {"postOnly": True}, "editOrder with terms", "replace"),
    Form("", {}, "cancelOrder", "cancel"),
)


@dataclass(frozen=True, slots=True)
class Compared:
    counts: Counter[str]
    different: list[object]
    wrongly_refused: list[object]  # of what ccxt says that it supports


def compared(exchange_id: str) -> Compared:
    counts: Counter[str] = Counter()
    different: list[object] = []
    refused: list[object] = []
    for spot, side in ((True, "buy"), (False, "sell")):
        client = wire_client(exchange_id, spot=spot)
        for form in FORMS:
            verdict, shown = _compare(client, form, side=side, exchange_id=exchange_id)
            known = _supports(client, form)
            counts[f"{verdict}, {'supported' if known else 'other'}"] += 1
            if verdict == "different":
                different.append((spot, form, shown))
            if verdict == "refused" and known:
                refused.append((spot, form, shown))
    return Compared(counts, different, refused)


def direct(client: CcxtClient, call: Callable[[Any], Any], second: int) -> Fields | None:
    """The request that ccxt makes of a call, unsigned parts only; None if it makes none."""
    exchange = client._exchange
    try:
        with stopped_clock(exchange, second), at(Capturing()):
            made = run(lambda: call(exchange))
    except (client._errors.BaseError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    return None if made is None else fields(made)


def call_of(action_json: Mapping[str, Any]) -> OrderAction:
    parsed = parse_action({"dlq_id": "d"}, json.dumps(action_json))
    assert parsed.action is not None, parsed.findings
    return parsed.action


def _compare(client: CcxtClient, form: Form, *, side: str, exchange_id: str) -> tuple[str, object]:
    exchange, row = client._exchange, table.rows()[exchange_id]
    (symbol,) = exchange.markets
    own = venue_profile(f"ccxt:{exchange_id}").make_id("ab" * 16)
    amount = 0 if "cost" in form.params else 2
    price = 50000 if form.kind == "limit" else None
    params = dict(form.params)
    if form.verb == "new" and "C" in row.has:
        params[table.ID_PARAMS.get(exchange_id, "clientOrderId")] = own
    elif form.verb == "replace" and exchange_id in table.RENAMED_BY_EDIT and ":" not in symbol:
        params["clientOrderId"] = own
    calls: dict[str, Callable[[Any], Any]] = {
        "new": lambda it: it.create_order(symbol, form.kind, side, amount, price, dict(params)),
        "replace": lambda it: it.edit_order("4711", symbol, form.kind, side, amount, price, dict(params)),
        "cancel": lambda it: it.cancel_order("4711", symbol, dict(params)),
    }
    one = direct(client, calls[form.verb], 1_800_000_000)
    document: dict[str, Any] = {"action": form.verb, "symbol": symbol, "params": dict(form.params)}
    if form.verb != "cancel":
        document |= {"type": form.kind, "side": side, "amount": amount}
    document |= {"price": price} if price else {}
    document |= {"venue_order_id": "4711"} if form.verb != "new" else {}
    made = client.prepare(call_of(document), own)
    if one is None:
        return ("different", "ccxt makes none") if isinstance(made, Prepared) else ("none by ccxt", None)
    if isinstance(made, Refused):
        return "refused", made.why
    other = direct(client, calls[form.verb], 1_800_000_009) or {}
    held = client._held[str(made.request["digest"])].wire
    noise = {name for name in {*one, *other} if one.get(name) != other.get(name)}
    ours = {name: value for name, value in fields(held).items() if name.rpartition(".")[2] not in ADDED}
    names = {name for name in {*one, *ours} - noise if not any(word in name.lower() for word in SIGNED)}
    apart = {name: (one.get(name), ours.get(name)) for name in names if one.get(name) != ours.get(name)}
    return ("different", apart) if apart else ("equal", None)


def _supports(client: CcxtClient, form: Form) -> bool:
    """Whether ccxt says of itself that this exchange has such orders in this market."""
    exchange = client._exchange
    (symbol,) = exchange.markets
    try:
        if exchange.feature_value(symbol, "createOrder", "timeInForce") is None:
            return False  # the exchange has no such markets
    except client._errors.BadSymbol:
        return False
    contract = exchange.market(symbol)["contract"]
    match form.feature:
        case "":
            return True
        case "contract":
            return bool(contract)
        case "editOrder" | "cancelOrder":
            return exchange.has.get(form.feature) is True
        case "cost":
            return not contract and exchange.has.get("createMarketBuyOrderWithCost") is True
        case named:
            value: Any = {"": None}
            for number, part in enumerate(named.split(".")):
                value = (
                    exchange.feature_value(symbol, "createOrder", part)
                    if number == 0
                    else (value.get(part) if isinstance(value, dict) else None)
                )
            return bool(value)

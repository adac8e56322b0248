"""Reads an order back from the bytes that ccxt's requests carry, by the exchanges' documentation alone.

For binance (spot and USD-M futures), bybit and okx. Must not look at the action, nor call the client.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.ccxt_offline import ASKED_BEFORE, offline
from venues import OrderAction, Prepared
from venues.ccxt.client import CcxtClient
from venues.terms import ExitTerms

Fields = Mapping[str, Any]
READ = ("binance", "binanceusdm", "bybit", "okx")
_PLAIN = {"LIMIT": "limit", "MARKET": "market", "LIMIT_MAKER": "limit"}
_STOPS = {"STOP_LOSS": "stop", "STOP_LOSS_LIMIT": "stop_limit", "STOP_MARKET": "stop", "STOP": "stop_limit"}
_PROFITS = {"TAKE_PROFIT_LIMIT": "limit", "TAKE_PROFIT_MARKET": "market"}  # TAKE_PROFIT is one or the other


def wire_client(exchange_id: str = "binance", *, spot: bool = True) -> CcxtClient:
    """A live client with one market of ours, BTC/USDT or its perpetual, that has asked nothing."""
    with ThreadPoolExecutor(1) as thread:  # a test's own loop may be running
        client = thread.submit(lambda: asyncio.run(offline(exchange_id, "live", spot=spot))).result()
    client._exchange.options.update(ASKED_BEFORE)
    return client


def as_read(action: OrderAction) -> OrderAction:
    """The same order by the names that the reader uses where a request has one form for two of the action's."""
    terms, kind, tif = action.terms, action.order_type, action.time_in_force
    stop = terms.stop_price or terms.stop_loss_price
    if stop is not None:
        kind = {"market": "stop", "limit": "stop_limit"}.get(kind, kind)
        terms = replace(terms, stop_price=stop, stop_loss_price=None)
    if terms.trail_price is not None or terms.trail_percent is not None:
        kind = "trailing_stop"
    if tif == "po":
        terms, tif = replace(terms, post_only=True), None
    if tif == "gtc" or terms.post_only:
        tif = None
    return replace(action, terms=terms, order_type=kind, time_in_force=tif)


def read_order(prepared: Prepared) -> dict[str, object]:
    """By neutral names; `gtc`, which some requests say and others leave out, is left out."""
    path = urlsplit(prepared.path).path
    family, reader = next((one, read) for start, one, read in _READERS if path.startswith(start))
    body = prepared.body.decode()
    fields = json.loads(body) if body[:1] in "[{" and body else dict(parse_qsl(body or urlsplit(prepared.path).query))
    fields = fields[0] if isinstance(fields, list) else fields
    named = {"verb": _verb(prepared.method, path)} | reader(fields)
    spot = family == "spot" or fields.get("category") == "spot" or fields.get("instId") == "BTC-USDT"
    named["market_id"] = "BTC/USDT" if spot else "BTC/USDT:USDT"
    assert (fields.get("symbol") or fields.get("instId")) in ("BTCUSDT", "BTC-USDT", "BTC-USDT-SWAP")
    return {name: value for name, value in named.items() if value is not None}


def _verb(method: str, path: str) -> str:
    if method == "DELETE" or path.endswith(("cancel", "cancel-batch-orders", "cancel-order")):
        return "cancel"
    replaces = method == "PUT" or path.endswith(("amend", "amend-order", "cancelReplace"))
    return "replace" if replaces else "new"


def _number(fields: Fields, *names: str) -> Decimal | None:
    held = next((fields[name] for name in names if fields.get(name) not in (None, "", "-1")), None)
    return None if held is None else Decimal(str(held))


def _flag(fields: Fields, name: str) -> bool | None:
    return True if str(fields.get(name)).lower() == "true" else None


def _moment(fields: Fields, name: str) -> datetime | None:
    return datetime.fromtimestamp(int(fields[name]) / 1000, UTC) if name in fields else None


def _binance(fields: Fields) -> dict[str, object]:
    kind, tif = fields.get("type", ""), fields.get("timeInForce")
    stop, price = _number(fields, "stopPrice", "triggerPrice"), _number(fields, "price")
    profits = kind in _PROFITS or kind == "TAKE_PROFIT"
    trails = kind == "TRAILING_STOP_MARKET"
    plain = _PROFITS.get(kind) or ("limit" if price is not None else "market")
    return {
        "side": str(fields["side"]).lower() if "side" in fields else None,
        "quantity": _number(fields, "quantity"),
        "notional": _number(fields, "quoteOrderQty"),
        "order_type": "trailing_stop" if trails else plain if profits else _PLAIN.get(kind) or _STOPS.get(kind),
        "price": price,
        "stop_price": stop if kind in _STOPS else None,
        "take_profit_price": stop if profits else None,
        "trail_percent": _number(fields, "callbackRate"),
        "time_in_force": str(tif).lower() if tif not in (None, "GTC", "GTX") else None,
        "post_only": True if kind == "LIMIT_MAKER" or tif == "GTX" else None,
        "reduce_only": _flag(fields, "reduceOnly"),
        "client_order_id": fields.get("newClientOrderId") or fields.get("clientAlgoId"),
        "venue_order_id": fields.get("cancelOrderId") or fields.get("orderId"),
        "margin_mode": "isolated" if _flag(fields, "isIsolated") else None,
        "expire_at": datetime.fromtimestamp(int(fields["goodTillDate"]) / 1000, UTC)
        if "goodTillDate" in fields
        else None,
        "aimed_at": fields.get("origClientOrderId"),
    }


def _bybit(fields: Fields) -> dict[str, object]:
    kind = {"Limit": "limit", "Market": "market"}.get(fields.get("orderType", ""))
    tif, stop, side = fields.get("timeInForce"), _number(fields, "triggerPrice"), str(fields.get("side", "")).lower()
    # 1: the price rises to the trigger, 2: it falls. A buy above or a sell below the market is a stop.
    against = {"buy": "1", "sell": "2"}.get(side)
    profits = stop is not None and str(fields.get("triggerDirection", against)) != against
    waits = stop is not None and not profits
    by_money = fields.get("marketUnit") == "quoteCoin" or (
        fields.get("category") == "spot" and kind == "market" and "marketUnit" not in fields
    )
    return {
        "side": side or None,
        "quantity": None if by_money else _number(fields, "qty"),
        "notional": _number(fields, "qty") if by_money else None,
        "order_type": {"limit": "stop_limit", "market": "stop"}.get(kind or "") if waits else kind,
        "price": _number(fields, "price"),
        "stop_price": stop if waits else None,
        "take_profit_price": stop if profits else None,
        "time_in_force": str(tif).lower() if tif not in (None, "GTC", "PostOnly") else None,
        "post_only": True if tif == "PostOnly" else None,
        "reduce_only": _flag(fields, "reduceOnly"),
        "take_profit": _exit(_number(fields, "takeProfit"), _number(fields, "tpLimitPrice")),
        "stop_loss": _exit(_number(fields, "stopLoss"), _number(fields, "slLimitPrice")),
        "client_order_id": fields.get("orderLinkId"),
        "venue_order_id": fields.get("orderId"),
    }


def _okx(fields: Fields) -> dict[str, object]:
    kind, waits = fields.get("ordType"), fields.get("ordType") == "trigger"
    loss, profit = _number(fields, "slTriggerPx"), _number(fields, "tpTriggerPx")
    price = _number(fields, "px", "newPx", "orderPx", "slOrdPx", "tpOrdPx")
    ratio, stop = _number(fields, "callbackRatio"), _number(fields, "triggerPx") or loss
    (attached,) = fields.get("attachAlgoOrds") or ({},)
    size, by_money = _number(fields, "sz", "newSz"), fields.get("tgtCcy") == "quote_ccy"
    plain = {"limit": "limit", "market": "market", "post_only": "limit", "ioc": "limit", "fok": "limit"}
    types = {"move_order_stop": "trailing_stop"} | plain
    if waits or (kind == "conditional" and loss is not None):
        types[str(kind)] = "stop" if price is None else "stop_limit"
    elif kind == "conditional":
        types["conditional"] = "market" if price is None else "limit"
    return {
        "side": fields.get("side"),
        "quantity": None if by_money else size,
        "notional": size if by_money else None,
        "order_type": types.get(str(kind)),
        "price": price,
        "stop_price": stop,
        "take_profit_price": profit,
        "trail_price": _number(fields, "callbackSpread"),
        "trail_percent": None if ratio is None else ratio * 100,
        "time_in_force": kind if kind in ("ioc", "fok") else None,
        "post_only": True if kind == "post_only" else None,
        "reduce_only": _flag(fields, "reduceOnly"),
        "margin_mode": "isolated" if fields.get("tdMode") == "isolated" else None,  # cross is the default
        "take_profit": _exit(_number(attached, "tpTriggerPx"), _number(attached, "tpOrdPx")),
        "stop_loss": _exit(_number(attached, "slTriggerPx"), _number(attached, "slOrdPx")),
        "client_order_id": fields.get("algoClOrdId") or fields.get("clOrdId"),
        "venue_order_id": fields.get("ordId"),
    }


def _exit(stop: Decimal | None, limit: Decimal | None) -> ExitTerms | None:
    return None if stop is None else ExitTerms(stop, limit)


_READERS: tuple[tuple[str, str, Callable[[Fields], dict[str, object]]], ...] = (
    ("/api/v3/order", "spot", _binance),
    ("/sapi/v1/margin/order", "spot", _binance),
    ("/fapi/v1/", "swap", _binance),
    ("/v5/order/", "bybit", _bybit),
    ("/api/v5/trade/", "okx", _okx),
)

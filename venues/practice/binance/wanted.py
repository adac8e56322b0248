"""Reads an order request as Binance does: what it asks for, or the refusal in Binance's words.

Must not know the book or other paths.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import cast

from venues.practice.binance.market import CONDITIONAL, MARKETS, MIN_NOTIONAL, SPOT_TYPES, Pair, book_symbol
from venues.practice.book import Draft
from venues.practice.wire import WireReply, decimal

Params = Mapping[str, str]
CLIENT_ID = re.compile(r"[a-zA-Z0-9-_]{1,36}")
TIFS = {"GTC": "gtc", "IOC": "ioc", "FOK": "fok"}
WITH_TIF = frozenset(("LIMIT", "STOP_LOSS_LIMIT", "TAKE_PROFIT_LIMIT"))
PRICED = WITH_TIF | {"LIMIT_MAKER"}
FUTURES_PRICED = frozenset(("LIMIT", "STOP", "TAKE_PROFIT"))
TRIGGERS = ("stopPrice", "triggerPrice")
KEPT = ("callbackRate", "trailingDelta", "quoteOrderQty", "positionSide")


def problem(code: int, message: str, *, status: int = 400) -> WireReply:
    return WireReply(status, {"code": code, "msg": message})


def missing(name: str) -> WireReply:
    return problem(-1102, f"Mandatory parameter '{name}' was not sent, was empty/null, or malformed.")


def draft(params: Params, *, futures: bool, algo: bool) -> Draft | WireReply:
    """Return the order to book. One that waits for a price rests, whatever its type."""
    market = MARKETS.get(params.get("symbol", ""))
    if market is None:
        return problem(-1121, "Invalid symbol.")
    kind, waits = params.get("type", ""), _waits(params.get("type", ""), futures=futures)
    name = params.get("clientAlgoId" if algo else "newClientOrderId") or uuid.uuid4().hex
    quantity, price = decimal(params.get("quantity")), decimal(params.get("price"))
    if quantity is None and kind == "MARKET" and not futures and (quote := decimal(params.get("quoteOrderQty"))):
        quantity = (quote / market.mark).quantize(market.step)
    priced = kind in (FUTURES_PRICED if futures else PRICED)
    wrong = _wrong_words(params, futures=futures, algo=algo, name=name) or _wrong_figures(
        market, quantity, price=price if priced else market.mark
    )
    if wrong is not None:
        return wrong
    return Draft(
        symbol=book_symbol(market.symbol, futures=futures),
        side="buy" if params.get("side") == "BUY" else "sell",
        quantity=cast(Decimal, quantity),
        order_type="market" if kind == "MARKET" else "limit",
        price=price if priced else None,
        time_in_force="gtc" if waits else TIFS.get(params.get("timeInForce", "GTC"), "gtc"),
        client_order_id=name,
        mark=market.mark,
        wire=_kept(params, kind, algo=algo),
    )


def _waits(kind: str, *, futures: bool) -> bool:
    return kind in CONDITIONAL if futures else kind.startswith(("STOP_LOSS", "TAKE_PROFIT"))


def _kept(params: Params, kind: str, *, algo: bool) -> dict[str, object]:
    """What only Binance knows of the order."""
    kept: dict[str, object] = {name: params[name] for name in KEPT if params.get(name)}
    trigger = next((params[name] for name in TRIGGERS if params.get(name)), None)
    kept |= {"stopPrice": trigger} if trigger else {}
    kept |= {"timeInForce": params["timeInForce"]} if params.get("timeInForce") else {}
    kept |= {"reduceOnly": True} if params.get("reduceOnly", "").lower() == "true" else {}
    return kept | {"type": kind} | ({"algo": True} if algo else {})


def _wrong_words(params: Params, *, futures: bool, algo: bool, name: str) -> WireReply | None:
    kind, tif = params.get("type", ""), params.get("timeInForce")
    plain = ("LIMIT", "MARKET")
    kinds = SPOT_TYPES if not futures else CONDITIONAL if algo else plain
    tifs = {*TIFS, "GTX"} if futures else {*TIFS}
    trails = any(params.get(one) for one in ("callbackRate", "trailingDelta"))
    if params.get("side") not in ("BUY", "SELL"):
        return problem(-1117, "Invalid side.")
    if kind not in kinds:
        return problem(-1116, "Invalid orderType.")
    if (kind in WITH_TIF or (futures and kind in FUTURES_PRICED)) and tif not in (tifs | {None} if algo else tifs):
        return problem(-1115, "Invalid timeInForce.")
    if not futures and params.get("reduceOnly"):
        return problem(-1104, "Not all sent parameters were read; read '8' parameter(s) but was sent '9'.")
    if _waits(kind, futures=futures) and not trails and not any(decimal(params.get(one)) for one in TRIGGERS):
        return missing("triggerPrice" if futures else "stopPrice")
    if not CLIENT_ID.fullmatch(name):
        legal = "legal range is '^[a-zA-Z0-9-_]{1,36}$'."
        return problem(-1100, f"Illegal characters found in parameter 'newClientOrderId'; {legal}")
    return None


def _wrong_figures(market: Pair, quantity: Decimal | None, *, price: Decimal | None) -> WireReply | None:
    if quantity is None or price is None:
        return missing("quantity" if quantity is None else "price")
    if quantity <= 0 or quantity % market.step:
        return problem(-1013, "Filter failure: LOT_SIZE")
    if price <= 0 or price % market.tick:
        return problem(-1013, "Filter failure: PRICE_FILTER")
    if quantity * price < MIN_NOTIONAL:
        return problem(-1013, "Filter failure: NOTIONAL")
    return None

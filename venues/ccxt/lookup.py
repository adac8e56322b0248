"""Asks an exchange for one client order id, the way its row in the table says, and reads the answer.

Every question of a way must say "not found", in the exchange's own form, before the order counts as absent. ccxt makes
the requests and reads the orders. Must not know how a single exchange words its requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from venues.ccxt import answers as answer
from venues.ccxt.table import Ask, Way
from venues.ccxt.transport import Reading, at
from venues.orders import Absent, Found, Lookup, LookupFailed, OrderAction, VenueOrder

Rows = list[Mapping[str, Any]]


async def ask(exchange: Any, errors: Any, way: Way, *, action: OrderAction, symbol: str, own: str) -> Lookup:
    """Return the order under the client order id `own`; Absent if all questions say so. Raises what ccxt raises."""
    market = exchange.market(symbol)
    asks = [each for each in way.asks if each.only in ("", _kind(market))]
    if not asks:
        return LookupFailed(f"{exchange.id} cannot be asked by client order id in this kind of market")
    for each in asks:
        rows = await _rows(exchange, errors, each, market=market, own=own)
        if isinstance(rows, LookupFailed):
            return rows
        if rows:
            orders = [_order(exchange, each, way, row=row, market=market) for row in rows]
            return chosen(orders, way, action=action, symbol=symbol, own=own, exchange_id=exchange.id)
    return Absent()


def chosen(
    orders: list[dict[str, Any]], way: Way, *, action: OrderAction, symbol: str, own: str, exchange_id: str = ""
) -> Lookup:
    """Return the one order of ccxt's that carries the id."""
    seen = [answer.venue_order(order, action, symbol=symbol, exchange_id=exchange_id) for order in orders]
    same = {each.venue_order_id: each for each in seen if each is not None and carries(each, way, own=own)}
    if len(same) > 1:
        return LookupFailed(f"{len(same)} orders carry this client order id: {', '.join(sorted(same))[:100]}")
    for found in same.values():
        return Found(replace(found, client_order_id=own))
    return LookupFailed("the answer is not the order that was asked for")


def carries(order: VenueOrder, way: Way, *, own: str) -> bool:
    said, names = order.client_order_id, (own, way.prefix + own)
    if said is not None and way.folds:
        return said.lower() in [name.lower() for name in names]
    return said in names


def named(order: dict[str, Any], way: Way) -> dict[str, Any]:
    """Return ccxt's order with the client order id where ccxt puts it, also if ccxt does not read it."""
    info = order.get("info")
    if not way.echo or not isinstance(info, Mapping):
        return order
    return {**order, "clientOrderId": info.get(way.echo)}


def _kind(market: Mapping[str, Any]) -> str:
    if market.get("spot"):
        return "spot"
    return "inverse" if market.get("inverse") else "linear"


async def _rows(exchange: Any, errors: Any, this: Ask, *, market: Mapping[str, Any], own: str) -> Rows | LookupFailed:
    """Return the raw orders of one answer; none only if the exchange itself says that there is none."""
    with at(Reading(about=own)) as reading:
        try:
            await _call(exchange, this, market=market, own=own)
        except errors.ExchangeError as error:
            if reading.own and this.gone and re.search(this.gone, reading.text):
                return []
            return LookupFailed(f"neither found nor, in the exchange's own words, absent ({type(error).__name__})")
    rows = raw_orders(reading.text, this)
    return LookupFailed("the answer does not have the exchange's form") if rows is None else rows


async def _call(exchange: Any, this: Ask, *, market: Mapping[str, Any], own: str) -> None:
    method, params = getattr(exchange, this.method), {this.named: own, **dict(this.also)}
    if this.method == "fetch_order":
        await method(None, market["symbol"], params)
    elif this.method.startswith("fetch_"):
        await method(market["symbol"], None, None, params)
    else:
        await method(params | _place(this, market))


def _place(this: Ask, market: Mapping[str, Any]) -> dict[str, str]:
    place = {this.market: market["id"], this.currency: market.get("settleId") or market.get("baseId")}
    return {name: str(value) for name, value in place.items() if name}


def raw_orders(text: str, this: Ask) -> Rows | None:
    """Return the orders in an answer; None if it does not have the form that the exchange gives it."""
    try:
        said = json.loads(text, parse_float=str)  # the digits as they are
    except ValueError:
        return None
    for key in this.within:
        if not isinstance(said, dict) or key not in said:
            return None
        said = said[key]
    found = _shaped(said, this)
    return found if found is not None and all(isinstance(row, dict) and row for row in found) else None


def _shaped(said: object, this: Ask) -> list[Any] | None:
    match this.shape, said:
        case (("one" | "some"), dict()):
            return [said]
        case (("list" | "some"), list()):
            return said
        case "by id", dict():
            return [{"id": key, **row} if isinstance(row, dict) else None for key, row in said.items()]
        case "by market", []:
            return []
        case "by market", dict() if all(isinstance(rows, list) for rows in said.values()):
            return [{"market": key, **row} for key, rows in said.items() for row in rows]
        case _:
            return None


def _order(exchange: Any, this: Ask, way: Way, *, row: Mapping[str, Any], market: Mapping[str, Any]) -> dict[str, Any]:
    order = dict(exchange.parse_order(dict(row), market))
    if order.get("status") is None and this.status:
        order["status"] = this.status
    return named(order, way)

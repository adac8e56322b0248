"""The paths of Binance's APIs, their signed forms and their errors, as ccxt uses them.

Must not know sockets, faults or other venues.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial

from venues.practice.accounts import digits
from venues.practice.binance import account, market, orders
from venues.practice.binance.orders import Place
from venues.practice.binance.wanted import Params, missing, problem
from venues.practice.book import Desk
from venues.practice.faults import Kind
from venues.practice.format import STRANGER, Call, Moment, says
from venues.practice.wire import WireReply, WireRequest, decimal, millis

FAMILIES = frozenset(("api", "sapi", "fapi", "dapi", "papi"))
PUBLIC = frozenset(("ping", "time", "exchangeInfo", "bookTicker", "depth"))
CODES = {
    400: (-1100, "Illegal characters found in a parameter."),
    401: (-2015, "Invalid API-key, IP, or permissions for action."),
    403: (-1002, "You are not authorized to execute this request."),
    404: (-1121, "Invalid symbol."),
    408: (
        -1007,
        "Timeout waiting for response from backend server. Send status unknown; execution status unknown.",
    ),
    409: (-2021, "Order cancel-replace is partially failed."),
    410: (-1020, "This operation is not supported."),
    422: (-1013, "Filter failure: PERCENT_PRICE_BY_SIDE"),
    429: (-1003, "Too many requests; current limit is 6000 request weight per 1 MINUTE."),
    500: (-1000, "An unknown error occurred while processing the request."),
}


class Binance:
    name = "binance"
    ids = frozenset(("orderId", "algoId"))
    client_ids = frozenset(("clientOrderId", "origClientOrderId", "clientAlgoId"))
    quantities = frozenset(("origQty", "quantity"))
    stranger = STRANGER

    def route(self, request: WireRequest, desk: Desk) -> Call | None:
        if request.parts[:1] == () or request.parts[0] not in FAMILIES:
            return None
        desk.account = digits(request.headers.get("x-mbx-apikey", ""), 9)
        call = _call(request, desk)
        signed = request.parts[-1] not in PUBLIC and request.parts[-2:] != ("system", "status")
        wrong = _unsigned(request) if signed else None
        return call if wrong is None else replace(call, act=says(wrong))

    def error(self, status: int, moment: Moment, /) -> WireReply:
        code, message = CODES.get(status, (-1000, "An unknown error occurred while processing the request."))
        headers = {"Retry-After": str(max(1, round(moment.seconds)))} if status == 429 else {}
        return WireReply(status, {"code": code, "msg": message}, headers=headers)

    def refusal(self, call: Call, /) -> WireReply:
        if call.kind == "cancel":
            return problem(-2011, orders.UNKNOWN)
        return problem(-2010, "Account has insufficient balance for requested action.")


def _unsigned(request: WireRequest) -> WireReply | None:
    """Refuse a request without key or signature, or with an old timestamp; any key and signature will do.

    Compares the timestamp with the machine's clock, as the client that signed it did.
    """
    if not request.headers.get("x-mbx-apikey"):
        return problem(-2014, "API-key format invalid.", status=401)
    params = request.params
    for name in ("timestamp", "signature"):
        if not params.get(name):
            return missing(name)
    stamp, window = decimal(params["timestamp"]), decimal(params.get("recvWindow", "5000"))
    if stamp is None or window is None:
        return problem(-1100, "Illegal characters found in parameter 'timestamp'.")
    now = Decimal(int(time.time() * 1000))
    if not now - window <= stamp < now + 1000:
        return problem(-1021, "Timestamp for this request is outside of the recvWindow.")
    return None


def _call(request: WireRequest, desk: Desk) -> Call:
    family, params, path = request.parts[0], request.params, request.parts[2:]
    futures = family == "fapi"
    place = Place(futures, algo=futures and "algo" in path[-1].lower() if path else False)
    if family in ("api", "fapi"):
        found = _order_call(request.method, path, params, desk=desk, place=place)
        found = found or _market_call(request.method, path, params, futures=futures)
        if found is not None:
            return found
    match request.method, path:
        case "GET", ("exchangeInfo",):
            return Call("other", market.no_symbols)
        case "GET", ("system", "status"):
            return Call("probe", account.system_status)
        case "GET", ("time",):
            return Call("probe", _time)
        case "GET", _ if family == "sapi":
            return Call("other", says(WireReply(200, [])))
        case _:
            return Call("other", says(problem(-1100, "No such path.", status=404)))


def _order_call(method: str, path: tuple[str, ...], params: Params, *, desk: Desk, place: Place) -> Call | None:
    symbol = market.book_symbol(params["symbol"], futures=place.futures) if "symbol" in params else None
    name = params.get("clientAlgoId" if place.algo else "newClientOrderId")
    act: Callable[[Desk], WireReply]
    match method, path:
        case "POST", ("order" | "algoOrder",):
            return Call("new", partial(orders.place_order, params, place=place), symbol, name)
        case "POST", ("order", "cancelReplace") if not place.futures:
            return Call("replace", partial(orders.cancel_replace, params), symbol, name)
        case "PUT", ("order",) if place.futures:
            return _on_order("replace", params, desk=desk, place=place, act=partial(orders.amend, params))
        case "POST", ("order", "test"):
            return Call("other", says(WireReply(200, {})))
        case "DELETE", ("order" | "algoOrder",):
            act = partial(orders.cancel, params, place=place)
            return _on_order("cancel", params, desk=desk, place=place, act=act)
        case "DELETE", ("openOrders",):
            return Call("cancel", partial(orders.cancel_all, params, place=place), symbol)
        case "GET", ("order" | "algoOrder",):
            act = partial(orders.one, params, place=place)
            return _on_order("lookup", params, desk=desk, place=place, act=act)
        case "GET", ("openOrders" | "allOrders" | "openAlgoOrders" | "allAlgoOrders" | "myTrades" as what,):
            return Call("lookup", partial(orders.listed, params, place=place, what=what), symbol)
        case _:
            return None


def _market_call(method: str, path: tuple[str, ...], params: Params, *, futures: bool) -> Call | None:
    match method, path:
        case "GET", ("account",):
            return Call("probe", account.futures_account if futures else account.account)
        case "GET", ("balance",) if futures:
            return Call("probe", account.futures_balance)
        case "GET", ("positionRisk",) if futures:
            return Call("other", partial(account.positions, params))
        case "GET", ("leverageBracket",) if futures:
            return Call("other", account.leverage_brackets)
        case "GET", ("ping",):
            return Call("probe", says(WireReply(200, {})))
        case "GET", ("exchangeInfo",):
            return Call("other", partial(market.exchange_info, futures=futures))
        case "GET", ("ticker", "bookTicker"):
            return Call("other", partial(market.book_tickers, params, futures=futures))
        case "GET", ("depth",):
            return Call("other", partial(market.depth, params, futures=futures))
        case _:
            return None


def _time(desk: Desk) -> WireReply:
    return WireReply(200, {"serverTime": millis(desk.now)})


def _on_order(kind: Kind, params: Params, *, desk: Desk, place: Place, act: Callable[[Desk], WireReply]) -> Call:
    order = orders.target(params, desk, place)
    stated = params.get("clientAlgoId") if place.algo else params.get("origClientOrderId")
    symbol = market.book_symbol(params["symbol"], futures=place.futures) if "symbol" in params else None
    return Call(kind, act, order.symbol if order else symbol, order.client_order_id if order else stated)

"""Binance's spot API, v3, for the practice exchange, as ccxt uses it: markets, order documents, signed forms, errors.

Must not know sockets, faults or other venues.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import cast

from venues.practice.accounts import digits
from venues.practice.book import Desk, Draft, Order
from venues.practice.faults import DEMO_SYMBOLS, Kind
from venues.practice.format import STRANGER, Call, Moment, says
from venues.practice.wire import WireReply, WireRequest, decimal, millis, plain

MIN_NOTIONAL = Decimal(5)


@dataclass(frozen=True, slots=True)
class Market:
    base: str
    mark: Decimal
    step: Decimal
    tick: Decimal

    @property
    def symbol(self) -> str:
        return f"{self.base}USDT"


def _market(base: str, mark: str, *, step: str, tick: str) -> Market:
    return Market(base, Decimal(mark), Decimal(step), Decimal(tick))


MARKETS: Mapping[str, Market] = {
    market.symbol: market
    for market in (
        _market("BTC", "60000", step="0.00001", tick="0.01"),
        _market("ETH", "3000", step="0.0001", tick="0.01"),
        _market("BNB", "600", step="0.001", tick="0.01"),
        _market("SOL", "150", step="0.001", tick="0.01"),
        _market("XRP", "0.6", step="0.1", tick="0.0001"),
        _market("ADA", "0.5", step="0.1", tick="0.0001"),
        _market("DOGE", "0.1", step="1", tick="0.00001"),
        _market("LTC", "80", step="0.001", tick="0.01"),
        _market("LINK", "15", step="0.01", tick="0.001"),
        _market("AVAX", "30", step="0.01", tick="0.01"),
        *(_market(name, "100", step="0.001", tick="0.01") for name in DEMO_SYMBOLS),
    )
}


def exchange_info(desk: Desk) -> WireReply:
    limits = [
        {"rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1, "limit": 6000},
        {"rateLimitType": "ORDERS", "interval": "SECOND", "intervalNum": 10, "limit": 100},
    ]
    symbols = [_listing(market, desk.closed) for market in MARKETS.values()]
    zone = {"timezone": "UTC", "serverTime": millis(desk.now), "exchangeFilters": []}
    return WireReply(200, {**zone, "rateLimits": limits, "symbols": symbols})


def no_symbols(desk: Desk) -> WireReply:
    """Answer for the futures paths, so that a client that loads every market finds none there."""
    head = {"timezone": "UTC", "serverTime": millis(desk.now), "rateLimits": []}
    return WireReply(200, {**head, "exchangeFilters": [], "symbols": []})


def system_status(desk: Desk) -> WireReply:
    return WireReply(200, {"status": 1, "msg": "system_maintenance"} if desk.closed else {"status": 0, "msg": "normal"})


def account(desk: Desk) -> WireReply:
    names = ("USDT", "BTC", "ETH", "BNB", "SOL")
    rates = dict.fromkeys(("maker", "taker", "buyer", "seller"), "0.00100000")
    return WireReply(
        200,
        {
            "makerCommission": 10,
            "takerCommission": 10,
            "buyerCommission": 0,
            "sellerCommission": 0,
            "commissionRates": rates,
            "canTrade": not desk.closed,
            "canWithdraw": False,
            "canDeposit": False,
            "updateTime": millis(desk.now),
            "accountType": "SPOT",
            "balances": [{"asset": name, "free": "1000000.00000000", "locked": "0.00000000"} for name in names],
            "permissions": ["SPOT"],
            "uid": int(desk.account),
        },
    )


def _listing(market: Market, closed: bool) -> dict[str, object]:
    step, tick = plain(market.step), plain(market.tick)
    filters: list[dict[str, object]] = [
        {"filterType": "PRICE_FILTER", "minPrice": tick, "maxPrice": "1000000.00000000", "tickSize": tick},
        {"filterType": "LOT_SIZE", "minQty": step, "maxQty": "9000000.00000000", "stepSize": step},
        {
            "filterType": "NOTIONAL",
            "minNotional": plain(MIN_NOTIONAL),
            "applyMinToMarket": True,
            "avgPriceMins": 5,
        },
    ]
    precision = dict.fromkeys(
        ("baseAssetPrecision", "quotePrecision", "quoteAssetPrecision", "baseCommissionPrecision"), 8
    )
    return {
        "symbol": market.symbol,
        "status": "BREAK" if closed else "TRADING",
        "baseAsset": market.base,
        "quoteAsset": "USDT",
        **precision,
        "orderTypes": ["LIMIT", "LIMIT_MAKER", "MARKET"],
        "icebergAllowed": False,
        "ocoAllowed": False,
        "quoteOrderQtyMarketAllowed": True,
        "cancelReplaceAllowed": True,
        "isSpotTradingAllowed": True,
        "isMarginTradingAllowed": False,
        "filters": filters,
        "permissions": ["SPOT"],
        "permissionSets": [["SPOT"]],
    }


STATUS = {"open": "NEW", "partly_filled": "PARTIALLY_FILLED", "cancelled": "CANCELED"}


def eight(number: Decimal | None) -> str:
    return format(number or Decimal(0), ".8f")


def _shared(order: Order) -> dict[str, object]:
    return {
        "symbol": order.symbol,
        "orderId": int(order.order_id),
        "orderListId": -1,
        "clientOrderId": order.client_order_id,
        "price": eight(order.price),
        "origQty": eight(order.quantity),
        "executedQty": eight(order.filled),
        "origQuoteOrderQty": "0.00000000",
        "cummulativeQuoteQty": eight(order.filled * (order.fill_price or Decimal(0))),
        "status": STATUS.get(order.state, order.state.upper()),
        "timeInForce": order.time_in_force.upper(),
        "type": order.wire.get("type", order.order_type.upper()),
        "side": order.side.upper(),
        "selfTradePreventionMode": "NONE",
    }


def document(order: Order) -> dict[str, object]:
    """Return the order as GET /api/v3/order shows it."""
    made = millis(order.created_at)
    times = {"time": made, "updateTime": millis(order.updated_at), "workingTime": made}
    return _shared(order) | times | {"stopPrice": "0.00000000", "icebergQty": "0.00000000", "isWorking": True}


def placed(order: Order) -> dict[str, object]:
    """Return the order as POST /api/v3/order answers with `newOrderRespType=FULL`."""
    at = millis(order.created_at)
    fills = [
        {
            "price": trade["price"],
            "qty": trade["qty"],
            "commission": trade["commission"],
            "commissionAsset": trade["commissionAsset"],
            "tradeId": trade["id"],
        }
        for trade in trades(order)
    ]
    return _shared(order) | {"transactTime": at, "workingTime": at, "fills": fills}


def canceled(order: Order, name: str) -> dict[str, object]:
    """Return a cancellation, which has its own client id; the order's is in `origClientOrderId`."""
    at = {"transactTime": millis(order.updated_at)}
    return _shared(order) | at | {"origClientOrderId": order.client_order_id, "clientOrderId": name}


def trades(order: Order) -> list[dict[str, object]]:
    if not order.filled or order.fill_price is None:
        return []
    return [
        {
            "symbol": order.symbol,
            "id": int(order.order_id),
            "orderId": int(order.order_id),
            "orderListId": -1,
            "price": eight(order.fill_price),
            "qty": eight(order.filled),
            "quoteQty": eight(order.filled * order.fill_price),
            "commission": "0.00000000",
            "commissionAsset": "USDT",
            "time": millis(order.updated_at),
            "isBuyer": order.side == "buy",
            "isMaker": False,
            "isBestMatch": True,
        }
    ]


Params = Mapping[str, str]
CLIENT_ID = re.compile(r"[a-zA-Z0-9-_]{1,36}")
TIFS = {"GTC": "gtc", "IOC": "ioc", "FOK": "fok"}
FAMILIES = frozenset(("api", "sapi", "fapi", "dapi", "papi"))
PUBLIC = frozenset(("ping", "time", "exchangeInfo"))
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
    ids = frozenset(("orderId",))
    client_ids = frozenset(("clientOrderId", "origClientOrderId"))
    quantities = frozenset(("origQty",))
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
            return problem(-2011, "Unknown order sent.")
        return problem(-2010, "Account has insufficient balance for requested action.")


def problem(code: int, message: str, *, status: int = 400) -> WireReply:
    return WireReply(status, {"code": code, "msg": message})


def _unsigned(request: WireRequest) -> WireReply | None:
    """Refuse a request without key or signature, or with an old timestamp; any key and signature will do.

    Compares the timestamp with the machine's clock, as the client that signed it did.
    """
    if not request.headers.get("x-mbx-apikey"):
        return problem(-2014, "API-key format invalid.", status=401)
    params = request.params
    for name in ("timestamp", "signature"):
        if not params.get(name):
            return problem(-1102, f"Mandatory parameter '{name}' was not sent, was empty/null, or malformed.")
    stamp, window = decimal(params["timestamp"]), decimal(params.get("recvWindow", "5000"))
    if stamp is None or window is None:
        return problem(-1100, "Illegal characters found in parameter 'timestamp'.")
    now = Decimal(int(time.time() * 1000))
    if not now - window <= stamp < now + 1000:
        return problem(-1021, "Timestamp for this request is outside of the recvWindow.")
    return None


def _call(request: WireRequest, desk: Desk) -> Call:
    params = request.params
    match request.method, request.parts[2:]:
        case "POST", ("order",):
            return Call("new", partial(_place, params), params.get("symbol"), params.get("newClientOrderId"))
        case "POST", ("order", "cancelReplace"):
            act = partial(_cancel_replace, params)
            return Call("replace", act, params.get("symbol"), params.get("newClientOrderId"))
        case "POST", ("order", "test"):
            return Call("other", says(WireReply(200, {})))
        case "DELETE", ("order",):
            return _on_order("cancel", params, desk=desk, act=partial(_cancel, params))
        case "DELETE", ("openOrders",):
            return Call("cancel", partial(_cancel_all, params), params.get("symbol"))
        case "GET", ("order",):
            return _on_order("lookup", params, desk=desk, act=partial(_one, params))
        case "GET", ("openOrders" | "allOrders" | "myTrades" as what,):
            return Call("lookup", partial(_list, params, what=what), params.get("symbol"))
        case "GET", ("account",):
            return Call("probe", account)
        case "GET", ("ping",):
            return Call("probe", says(WireReply(200, {})))
        case "GET", ("time",):
            return Call("probe", lambda desk: WireReply(200, {"serverTime": millis(desk.now)}))
        case "GET", ("system", "status"):
            return Call("probe", system_status)
        case "GET", ("exchangeInfo",):
            return Call("other", exchange_info if request.parts[0] == "api" else no_symbols)
        case "GET", _ if request.parts[0] == "sapi":
            return Call("other", says(WireReply(200, [])))
        case _:
            return Call("other", says(problem(-1100, "No such path.", status=404)))


def _on_order(kind: Kind, params: Params, *, desk: Desk, act: Callable[[Desk], WireReply]) -> Call:
    order = _target(params, desk)
    name = order.client_order_id if order else params.get("origClientOrderId")
    return Call(kind, act, params.get("symbol"), name)


def _target(params: Params, desk: Desk) -> Order | None:
    """Return the order that a request names; of several with the same client id, the newest."""
    if "orderId" in params:
        order = desk.order(params["orderId"])
    else:
        order = next(desk.named(params.get("origClientOrderId") or params.get("cancelOrigClientOrderId", "")), None)
    return order if order is not None and order.symbol == params.get("symbol") else None


def _place(params: Params, desk: Desk) -> WireReply:
    draft = _draft(params)
    if isinstance(draft, WireReply):
        return draft
    if any(order.live for order in desk.named(draft.client_order_id)):
        return problem(-2010, "Duplicate order sent.")
    return WireReply(200, placed(desk.place(draft, desk.new_number())))


def _draft(params: Params) -> Draft | WireReply:
    market = MARKETS.get(params.get("symbol", ""))
    if market is None:
        return problem(-1121, "Invalid symbol.")
    side, kind, tif = params.get("side"), params.get("type"), params.get("timeInForce")
    name = params.get("newClientOrderId") or uuid.uuid4().hex
    quantity, price = decimal(params.get("quantity")), decimal(params.get("price"))
    if quantity is None and kind == "MARKET" and (quote := decimal(params.get("quoteOrderQty"))):
        quantity = (quote / market.mark).quantize(market.step)
    if side not in ("BUY", "SELL"):
        return problem(-1117, "Invalid side.")
    if kind not in ("LIMIT", "MARKET", "LIMIT_MAKER"):
        return problem(-1116, "Invalid orderType.")
    if kind == "LIMIT" and tif not in TIFS:
        return problem(-1115, "Invalid timeInForce.")
    if not CLIENT_ID.fullmatch(name):
        legal = "legal range is '^[a-zA-Z0-9-_]{1,36}$'."
        return problem(-1100, f"Illegal characters found in parameter 'newClientOrderId'; {legal}")
    wrong = _wrong_figures(market, quantity, price=price if kind != "MARKET" else market.mark)
    if wrong is not None:
        return wrong
    return Draft(
        symbol=market.symbol,
        side="buy" if side == "BUY" else "sell",
        quantity=cast(Decimal, quantity),
        order_type="market" if kind == "MARKET" else "limit",
        price=None if kind == "MARKET" else price,
        time_in_force=TIFS.get(tif or "GTC", "gtc"),
        client_order_id=name,
        mark=market.mark,
        wire={"type": kind},
    )


def _wrong_figures(market: Market, quantity: Decimal | None, *, price: Decimal | None) -> WireReply | None:
    if quantity is None or price is None:
        name = "quantity" if quantity is None else "price"
        return problem(-1102, f"Mandatory parameter '{name}' was not sent, was empty/null, or malformed.")
    if quantity <= 0 or quantity % market.step:
        return problem(-1013, "Filter failure: LOT_SIZE")
    if price <= 0 or price % market.tick:
        return problem(-1013, "Filter failure: PRICE_FILTER")
    if quantity * price < MIN_NOTIONAL:
        return problem(-1013, "Filter failure: NOTIONAL")
    return None


def _cancel_replace(params: Params, desk: Desk) -> WireReply:
    wanted = dict(params)
    wanted.pop("orderId", None)
    if "cancelOrderId" in params:
        wanted["orderId"] = params["cancelOrderId"]
    order = _target(wanted, desk)
    if order is None or not order.live:
        missing = {"code": -2011, "msg": "Unknown order sent."}
        results = {"cancelResult": "FAILURE", "newOrderResult": "NOT_ATTEMPTED", "cancelResponse": missing}
        return WireReply(400, {"code": -2022, "msg": "Order cancel-replace failed.", "data": results})
    gone = canceled(desk.cancel(order), uuid.uuid4().hex)
    made = _place(params, desk)
    worked = made.status == 200
    data: dict[str, object] = {
        "cancelResult": "SUCCESS",
        "newOrderResult": "SUCCESS" if worked else "FAILURE",
        "cancelResponse": gone,
        "newOrderResponse": made.payload,
    }
    if worked:
        return WireReply(200, data)
    return WireReply(409, {"code": -2021, "msg": "Order cancel-replace is partially failed.", "data": data})


def _cancel(params: Params, desk: Desk) -> WireReply:
    order = _target(params, desk)
    if order is None or not order.live:
        return problem(-2011, "Unknown order sent.")
    return WireReply(200, canceled(desk.cancel(order), params.get("newClientOrderId") or uuid.uuid4().hex))


def _cancel_all(params: Params, desk: Desk) -> WireReply:
    live = [order for order in desk.shown(params.get("symbol", "")) if order.live]
    if not live:
        return problem(-2011, "Unknown order sent.")
    return WireReply(200, [canceled(desk.cancel(order), uuid.uuid4().hex) for order in live])


def _one(params: Params, desk: Desk) -> WireReply:
    order = _target(params, desk)
    if order is None or not desk.shows(order):
        return problem(-2013, "Order does not exist.")
    return WireReply(200, document(order))


def _list(params: Params, desk: Desk, *, what: str) -> WireReply:
    """List the oldest first, as Binance does."""
    rows = [*desk.shown(params.get("symbol"))][::-1]
    if what == "openOrders":
        return WireReply(200, [document(order) for order in rows if order.live])
    if what == "allOrders":
        return WireReply(200, [document(order) for order in rows][-500:])
    return WireReply(200, [trade for order in rows for trade in trades(order)][-500:])

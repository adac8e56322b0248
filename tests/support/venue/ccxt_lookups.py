"""What exchanges answer when ccxt asks them for one client order id, in their documented forms: found, or nothing.

The order is always `action()` of the offline market: buy 0.5 at 50000, placed at MOMENT.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

HEX = "0123456789abcdef" * 2
MOMENT = 1507725176595
Call = Callable[[Any, str, str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Case:
    """An exchange's documented answers. A state is open, filled or cancelled."""

    order: Callable[[str, str], dict[str, object]]  # of a state and an id
    found: Callable[[str, dict[str, object]], dict[str, object]]  # the answers by path, with that order in that state
    nothing: dict[str, tuple[int, object]]  # the answers by path, without any order, in the order of asking
    calls: tuple[Call, ...] = ()  # ccxt's documented calls that ask the same
    besides: dict[str, object] = field(default_factory=dict)  # answers to what ccxt asks for itself


def states(open_: str, filled: str, cancelled: str) -> dict[str, str]:
    return {"open": open_, "filled": filled, "cancelled": cancelled}


def done(state: str) -> str:
    return "0.5" if state == "filled" else "0"


def left(state: str) -> str:
    return "0" if state == "filled" else "0.5"


def kraken(state: str, name: str) -> dict[str, object]:
    return {
        "cl_ord_id": name,
        "status": states("open", "closed", "canceled")[state],
        "opentm": MOMENT / 1000,
        "descr": {"pair": "BTCUSDT", "type": "buy", "ordertype": "limit", "price": "50000"},
        "vol": "0.5",
        "vol_exec": done(state),
    }


def kraken_found(state: str, order: dict[str, object]) -> dict[str, object]:
    here, there = ({"O-1": order}, {}) if state == "open" else ({}, {"O-1": order})
    return {
        "/0/private/OpenOrders": {"error": [], "result": {"open": here}},
        "/0/private/ClosedOrders": {"error": [], "result": {"closed": there, "count": len(there)}},
    }


def bybit(state: str, name: str) -> dict[str, object]:
    return {
        "orderId": "O-1",
        "orderLinkId": name,
        "symbol": "BTCUSDT",
        "side": "Buy",
        "orderType": "Limit",
        "price": "50000",
        "qty": "0.5",
        "cumExecQty": done(state),
        "orderStatus": states("New", "Filled", "Cancelled")[state],
        "timeInForce": "GTC",
        "createdTime": str(MOMENT),
    }


def bybit_answer(*orders: object) -> dict[str, object]:
    return {"retCode": 0, "retMsg": "OK", "result": {"nextPageCursor": "", "category": "spot", "list": list(orders)}}


def bybit_found(state: str, order: dict[str, object]) -> dict[str, object]:
    here, there = ([order], []) if state == "open" else ([], [order])
    return {"/v5/order/realtime": bybit_answer(*here), "/v5/order/history": bybit_answer(*there)}


def bitvavo(state: str, name: str) -> dict[str, object]:
    return {
        "orderId": "O-1",
        "clientOrderId": name,
        "market": "BTCUSDT",
        "created": MOMENT,
        "status": states("new", "filled", "canceled")[state],
        "side": "buy",
        "orderType": "limit",
        "amount": "0.5",
        "amountRemaining": left(state),
        "price": "50000",
        "filledAmount": done(state),
        "timeInForce": "GTC",
    }


def cryptocom(state: str, name: str) -> dict[str, object]:
    return {
        "order_id": "O-1",
        "client_oid": name,
        "order_type": "LIMIT",
        "time_in_force": "GOOD_TILL_CANCEL",
        "side": "BUY",
        "quantity": "0.5",
        "limit_price": "50000",
        "cumulative_quantity": done(state),
        "status": states("ACTIVE", "FILLED", "CANCELED")[state],
        "instrument_name": "BTCUSDT",
        "create_time": MOMENT,
    }


def deribit(state: str, name: str) -> dict[str, object]:
    return {
        "order_id": "O-1",
        "label": name,
        "order_state": states("open", "filled", "cancelled")[state],
        "order_type": "limit",
        "direction": "buy",
        "amount": 0.5,
        "filled_amount": float(done(state)),
        "price": 50000.0,
        "average_price": 0,
        "time_in_force": "good_til_cancelled",
        "instrument_name": "BTCUSDT",
        "creation_timestamp": MOMENT,
    }


def gate(state: str, name: str) -> dict[str, object]:
    return {
        "id": "O-1",
        "text": f"t-{name}",
        "create_time_ms": str(MOMENT),
        "status": states("open", "closed", "cancelled")[state],
        "currency_pair": "BTCUSDT",
        "type": "limit",
        "side": "buy",
        "amount": "0.5",
        "price": "50000",
        "left": left(state),
        "time_in_force": "gtc",
    }


def gemini(state: str, name: str) -> dict[str, object]:
    return {
        "order_id": "O-1",
        "client_order_id": name,
        "symbol": "BTCUSDT",
        "side": "buy",
        "type": "exchange limit",
        "timestampms": MOMENT,
        "is_live": state == "open",
        "is_cancelled": state == "cancelled",
        "executed_amount": done(state),
        "remaining_amount": left(state),
        "original_amount": "0.5",
        "price": "50000",
        "avg_execution_price": "0",
        "options": [],
    }


def bingx(state: str, name: str) -> dict[str, object]:
    return {
        "symbol": "BTCUSDT",
        "orderId": "O-1",
        "clientOrderID": name,
        "price": "50000",
        "origQty": "0.5",
        "executedQty": done(state),
        "status": states("PENDING", "FILLED", "CANCELED")[state],
        "type": "LIMIT",
        "side": "BUY",
        "time": MOMENT,
    }


def upbit(state: str, name: str) -> dict[str, object]:
    return {
        "uuid": "O-1",
        "side": "bid",
        "ord_type": "limit",
        "price": "50000",
        "state": states("wait", "done", "cancel")[state],
        "market": "BTCUSDT",
        "created_at": "2017-10-11T12:32:56.595Z",
        "volume": "0.5",
        "remaining_volume": left(state),
        "executed_volume": done(state),
        "identifier": name,
        "trades": [],
    }


def whitebit(state: str, name: str) -> dict[str, object]:
    common = {
        "clientOrderId": name,
        "side": "buy",
        "type": "limit",
        "dealStock": done(state),
        "dealMoney": "0",
        "amount": "0.5",
        "left": left(state),
        "price": "50000",
    }
    if state == "open":
        return {**common, "orderId": 1, "market": "BTCUSDT", "timestamp": MOMENT / 1000}
    return {**common, "id": 1, "ctime": MOMENT / 1000, "status": states("", "FILLED", "CANCELED")[state]}


def whitebit_found(state: str, order: dict[str, object]) -> dict[str, object]:
    here: list[object] = [order] if state == "open" else []
    there: object = [] if state == "open" else {"BTCUSDT": [order]}
    return {"/api/v4/orders": here, "/api/v4/trade-account/order/history": there}


def single(path: str, *, wrap: Callable[[dict[str, object]], object] = lambda order: order) -> Any:
    return lambda _, order: {path: wrap(order)}


BYBIT = Case(
    bybit,
    bybit_found,
    {"/v5/order/realtime": (200, bybit_answer()), "/v5/order/history": (200, bybit_answer())},
    (
        lambda exchange, symbol, name: exchange.fetch_open_orders(symbol, None, None, {"orderLinkId": name}),
        lambda exchange, symbol, name: exchange.fetch_open_orders(
            symbol, None, None, {"orderLinkId": name, "openOnly": 1}
        ),
        lambda exchange, symbol, name: exchange.fetch_canceled_and_closed_orders(
            symbol, None, None, {"orderLinkId": name}
        ),
    ),
)
GATE = Case(
    gate,
    single(f"/api/v4/spot/orders/t-{HEX[:28]}"),
    {f"/api/v4/spot/orders/t-{HEX[:28]}": (404, {"label": "ORDER_NOT_FOUND", "message": "Order not found"})},
    (lambda exchange, symbol, name: exchange.fetch_order(None, symbol, {"clientOrderId": name}),),
    {
        "/api/v4/account/detail": {"user_id": 1, "key": {"mode": 1}},
        "/api/v4/spot/open_orders": [],
        "/api/v4/spot/orders": [],
    },
)
CASES = {
    "kraken": Case(
        kraken,
        kraken_found,
        {
            "/0/private/OpenOrders": (200, {"error": [], "result": {"open": {}}}),
            "/0/private/ClosedOrders": (200, {"error": [], "result": {"closed": {}, "count": 0}}),
        },
        (
            lambda exchange, symbol, name: exchange.fetch_open_orders(symbol, None, None, {"clientOrderId": name}),
            lambda exchange, symbol, name: exchange.fetch_closed_orders(symbol, None, None, {"clientOrderId": name}),
        ),
    ),
    "bybit": BYBIT,
    "bybiteu": BYBIT,
    "bybitid": BYBIT,
    "bitvavo": Case(
        bitvavo,
        single("/v2/order"),
        {"/v2/order": (404, {"errorCode": 240, "error": "No order found. Please be aware that simultaneously …"})},
        (lambda exchange, symbol, name: exchange.fetch_order(None, symbol, {"clientOrderId": name}),),
    ),
    "cryptocom": Case(
        cryptocom,
        single("/exchange/v1/private/get-order-detail", wrap=lambda order: {"id": 1, "code": 0, "result": order}),
        {"/exchange/v1/private/get-order-detail": (200, {"id": 1, "code": 40401, "message": "NOT_FOUND"})},
        (lambda exchange, symbol, name: exchange.fetch_order(None, symbol, {"client_oid": name}),),
    ),
    "deribit": Case(
        deribit,
        single("/api/v2/private/get_order_state_by_label", wrap=lambda order: {"jsonrpc": "2.0", "result": [order]}),
        {"/api/v2/private/get_order_state_by_label": (200, {"jsonrpc": "2.0", "result": []})},
        besides={
            "/api/v2/private/get_open_orders_by_instrument": {"jsonrpc": "2.0", "result": []},
            "/api/v2/private/get_order_history_by_instrument": {"jsonrpc": "2.0", "result": []},
        },
    ),
    "gate": GATE,
    "gateeu": GATE,
    "gemini": Case(
        gemini,
        single("/v1/order/status", wrap=lambda order: [order]),
        {"/v1/order/status": (404, {"result": "error", "reason": "OrderNotFound", "message": "Order not found"})},
        (lambda exchange, symbol, name: exchange.fetch_order(None, symbol, {"client_order_id": name}),),
        {"/v1/orders": []},
    ),
    "bingx": Case(
        bingx,
        single("/openApi/spot/v1/trade/query", wrap=lambda order: {"code": 0, "msg": "", "data": order}),
        {"/openApi/spot/v1/trade/query": (200, {"code": 100404, "msg": "order not exist"})},
        (lambda exchange, symbol, name: exchange.fetch_order(None, symbol, {"clientOrderID": name}),),
        {
            "/openApi/spot/v1/trade/openOrders": {"code": 0, "data": {"orders": []}},
            "/openApi/spot/v1/trade/historyOrders": {"code": 0, "data": {"orders": []}},
        },
    ),
    "upbit": Case(
        upbit,
        single("/v1/order"),
        {"/v1/order": (404, {"error": {"name": "order_not_found", "message": "주문을 찾지 못했습니다."}})},
        (lambda exchange, symbol, name: exchange.fetch_order(None, symbol, {"identifier": name}),),
    ),
    "whitebit": Case(
        whitebit,
        whitebit_found,
        {"/api/v4/orders": (200, []), "/api/v4/trade-account/order/history": (200, [])},
        (
            lambda exchange, symbol, name: exchange.fetch_open_orders(symbol, None, None, {"clientOrderId": name}),
            lambda exchange, symbol, name: exchange.fetch_closed_orders(symbol, None, None, {"clientOrderId": name}),
        ),
    ),
}

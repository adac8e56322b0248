"""Orders as Binance's answers show them: spot, futures, and futures that wait for a price (algo orders).

Must not know the book's rules or paths.
"""

from __future__ import annotations

from decimal import Decimal

from venues.practice.binance.market import PERPETUAL, shown_symbol
from venues.practice.book import Order
from venues.practice.wire import millis

STATUS = {"open": "NEW", "partly_filled": "PARTIALLY_FILLED", "cancelled": "CANCELED"}
WORDS = ("timeInForce", "workingType")


def eight(number: Decimal | None) -> str:
    return format(number or Decimal(0), ".8f")


def is_futures(order: Order) -> bool:
    return order.symbol.endswith(PERPETUAL)


def is_algo(order: Order) -> bool:
    return order.wire.get("algo") is True


def _number(order: Order, name: str) -> str:
    """A number that only Binance knows, as `stopPrice`."""
    held = order.wire.get(name)
    return eight(Decimal(str(held)) if held else None)


def _status(order: Order) -> str:
    return STATUS.get(order.state, order.state.upper())


def _shared(order: Order) -> dict[str, object]:
    return {
        "symbol": shown_symbol(order.symbol),
        "orderId": int(order.order_id),
        "clientOrderId": order.client_order_id,
        "price": eight(order.price),
        "origQty": eight(order.quantity),
        "executedQty": eight(order.filled),
        "status": _status(order),
        "timeInForce": order.wire.get("timeInForce", order.time_in_force.upper()),
        "type": order.wire.get("type", order.order_type.upper()),
        "side": order.side.upper(),
        "stopPrice": _number(order, "stopPrice"),
        "selfTradePreventionMode": "NONE",
    }


def _spot(order: Order) -> dict[str, object]:
    paid = eight(order.filled * (order.fill_price or Decimal(0)))
    return _shared(order) | {
        "orderListId": -1,
        "origQuoteOrderQty": _number(order, "quoteOrderQty"),
        "cummulativeQuoteQty": paid,
    }


def _futures(order: Order) -> dict[str, object]:
    return _shared(order) | {
        "avgPrice": eight(order.fill_price),
        "cumQuote": eight(order.filled * (order.fill_price or Decimal(0))),
        "reduceOnly": order.wire.get("reduceOnly") is True,
        "closePosition": False,
        "positionSide": order.wire.get("positionSide", "BOTH"),
        "workingType": "CONTRACT_PRICE",
        "priceProtect": False,
        "origType": order.wire.get("type", order.order_type.upper()),
        "time": millis(order.created_at),
        "updateTime": millis(order.updated_at),
    }


def _algo(order: Order) -> dict[str, object]:
    return {
        "algoId": int(order.order_id),
        "clientAlgoId": order.client_order_id,
        "algoType": "CONDITIONAL",
        "orderType": order.wire.get("type"),
        "symbol": shown_symbol(order.symbol),
        "side": order.side.upper(),
        "positionSide": order.wire.get("positionSide", "BOTH"),
        "timeInForce": order.wire.get("timeInForce", "GTC"),
        "quantity": eight(order.quantity),
        "algoStatus": _status(order),
        "triggerPrice": _number(order, "stopPrice"),
        "price": eight(order.price),
        "callbackRate": order.wire.get("callbackRate"),
        "workingType": "CONTRACT_PRICE",
        "closePosition": False,
        "reduceOnly": order.wire.get("reduceOnly") is True,
        "createTime": millis(order.created_at),
        "updateTime": millis(order.updated_at),
    }


def document(order: Order) -> dict[str, object]:
    """Return the order as a look-up shows it."""
    if is_algo(order):
        return _algo(order)
    if is_futures(order):
        return _futures(order)
    made = millis(order.created_at)
    times = {"time": made, "updateTime": millis(order.updated_at), "workingTime": made}
    return _spot(order) | times | {"icebergQty": "0.00000000", "isWorking": True}


def placed(order: Order) -> dict[str, object]:
    """Return the order as the request that placed it is answered; spot with `newOrderRespType=FULL`."""
    if is_futures(order):
        return document(order)
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
    return _spot(order) | {"transactTime": at, "workingTime": at, "fills": fills}


def canceled(order: Order, name: str) -> dict[str, object]:
    """Return a cancellation; a spot one has its own client id, and the order's is in `origClientOrderId`."""
    if is_algo(order):
        ids = {"algoId": int(order.order_id), "clientAlgoId": order.client_order_id}
        return ids | {"code": "200", "msg": "success"}
    if is_futures(order):
        return _futures(order)
    at = {"transactTime": millis(order.updated_at)}
    return _spot(order) | at | {"origClientOrderId": order.client_order_id, "clientOrderId": name}


def trades(order: Order) -> list[dict[str, object]]:
    if not order.filled or order.fill_price is None:
        return []
    return [
        {
            "symbol": shown_symbol(order.symbol),
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

"""Binance's order documents: what placing, cancelling and looking up answer.

Pure: an order in, JSON out.
"""

from __future__ import annotations

from decimal import Decimal

from venues.practice.binance_market import millis
from venues.practice.book import Order

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
    """As GET /api/v3/order shows it."""
    made = millis(order.created_at)
    times = {"time": made, "updateTime": millis(order.updated_at), "workingTime": made}
    return _shared(order) | times | {"stopPrice": "0.00000000", "icebergQty": "0.00000000", "isWorking": True}


def placed(order: Order) -> dict[str, object]:
    """As POST /api/v3/order answers with `newOrderRespType=FULL`."""
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
    """The cancellation has a client id of its own; the order's moves to `origClientOrderId`."""
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

"""Kalshi's order documents: what a create answers, what a look-up shows.

Pure: an order in, JSON out.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from venues.practice.book import Order

STATUS = {"open": "resting", "partly_filled": "resting", "filled": "executed"}


def status(order: Order) -> str:
    return STATUS.get(order.state, "canceled")


def book_side(order: Order) -> str:
    return "bid" if order.side == "buy" else "ask"


def dollars(price: Decimal) -> str:
    return format(price, ".4f")


def count_text(count: Decimal) -> str:
    return format(count, ".2f")


def millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def receipt(order: Order) -> dict[str, object]:
    return {
        "order_id": order.order_id,
        "client_order_id": order.client_order_id,
        "fill_count": count_text(order.filled),
        "remaining_count": count_text(order.remaining if order.live else Decimal(0)),
        "ts_ms": millis(order.updated_at),
    }


def document(order: Order) -> dict[str, object]:
    price = order.price or Decimal(0)
    outcome = "yes" if order.side == "buy" else "no"
    return {
        "order_id": order.order_id,
        "user_id": "practice",
        "client_order_id": order.client_order_id,
        "ticker": order.symbol,
        "side": outcome,
        "action": "buy",
        "outcome_side": outcome,
        "book_side": book_side(order),
        "type": "limit",
        "status": status(order),
        "yes_price_dollars": dollars(price),
        "no_price_dollars": dollars(1 - price),
        "initial_count_fp": count_text(order.quantity),
        "fill_count_fp": count_text(order.filled),
        "remaining_count_fp": count_text(order.remaining if order.live else Decimal(0)),
        "created_time": order.created_at.isoformat(),
        "last_update_time": order.updated_at.isoformat(),
        "expiration_time": order.wire.get("expiration_time"),
    }

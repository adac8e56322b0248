"""An order as Alpaca shows it. Must not know paths, nor change the book."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from venues.practice.alpaca.asset import asset_class, asset_id
from venues.practice.book import Desk, Order
from venues.practice.wire import plain

STATUS = {"open": "new", "partly_filled": "partially_filled", "cancelled": "canceled"}
FROM_WIRE = ("replaced_by", "replaces", "notional", "stop_price", "trail_percent", "trail_price", "hwm", "ratio_qty")


def status(order: Order) -> str:
    if order.state == "open" and order.wire.get("held"):
        return "held"
    return STATUS.get(order.state, order.state)


def children(order: Order, desk: Desk) -> Iterator[Order]:
    """Yield the orders that belong to this one."""
    ids = cast("list[str]", order.wire.get("legs") or [])
    return (child for leg in ids if (child := desk.order(leg)) is not None)


def document(order: Order, desk: Desk, *, nested: bool) -> dict[str, object]:
    """`nested`: with the orders that belong to it."""
    wire = order.wire
    several = wire.get("order_class") == "mleg"
    parent = several and "parent" not in wire
    kind = str(wire.get("type", order.order_type))
    legs = [document(child, desk, nested=False) for child in children(order, desk)] if nested else []
    held = order.price if order.price is None else plain(order.price)
    words: dict[str, object] = {
        "asset_id": "" if parent else asset_id(order.symbol),
        "symbol": order.symbol,
        "asset_class": "" if parent else asset_class(order.symbol),
        "qty": None if "notional" in wire else plain(order.quantity),
        "filled_qty": plain(order.filled),
        "filled_avg_price": None if order.fill_price is None else plain(order.fill_price),
        "order_class": "" if wire.get("order_class", "simple") == "simple" else wire["order_class"],
        "order_type": kind,
        "type": kind,
        "side": "" if parent else order.side,
        "position_intent": "" if parent else wire.get("position_intent") or f"{order.side}_to_open",
        "time_in_force": order.time_in_force,
        "limit_price": wire.get("limit_price", held),
        "status": status(order),
        "extended_hours": wire.get("extended_hours", False),
        "legs": legs or None,
    }
    return _times(order) | {name: wire.get(name) for name in FROM_WIRE} | words


def _times(order: Order) -> dict[str, object]:
    made, moved = order.created_at.isoformat(), order.updated_at.isoformat()
    ends = {
        "filled_at": "filled",
        "expired_at": "expired",
        "canceled_at": "cancelled",
        "failed_at": "rejected",
        "replaced_at": "replaced",
    }
    return {
        "id": order.order_id,
        "client_order_id": order.client_order_id,
        "created_at": made,
        "updated_at": moved,
        "submitted_at": made,
        **{name: moved if order.state == state else None for name, state in ends.items()},
    }

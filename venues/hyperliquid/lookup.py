"""Reads an order as Hyperliquid tells it, in the words of the action it is compared with. Pure; must not ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from venues.hyperliquid.order import TRIGGERS, exits_of
from venues.json_fields import Body, figure, flag, text, unix_moment
from venues.orders import OrderAction, Status, VenueOrder
from venues.terms import ExitTerms, Terms

# The venue's words for an order's type: the neutral type, and the term that its trigger price is.
_TYPES: Mapping[str, tuple[str, str | None]] = {
    "Limit": ("limit", None),
    "Stop Market": ("stop", "stop_price"),
    "Stop Limit": ("stop_limit", "stop_price"),
    "Take Profit Limit": ("limit", "take_profit_price"),
    "Take Profit Market": ("market", "take_profit_price"),
}
_EXITS = {"Take Profit": "take_profit", "Stop": "stop_loss"}


def venue_order(answer: Body, action: OrderAction, *, coin: str | None) -> VenueOrder | None:
    """Return the order in the answer to `orderStatus`; None if the answer has another form."""
    outer = answer.get("order")
    order = outer.get("order") if isinstance(outer, dict) else None
    if not isinstance(outer, dict) or not isinstance(order, dict) or not isinstance(order.get("oid"), Decimal):
        return None
    return _order(order, str(outer.get("status")), action, coin=coin)


def _order(order: Body, word: str, action: OrderAction, *, coin: str | None) -> VenueOrder:
    size, left = figure(order, "origSz"), figure(order, "sz")
    status = _status(word, left=left, size=size)
    filled = size if status == "filled" else None if size is None or left is None else size - left
    kind, trigger = _type_of(order, action)
    children = _children(order)
    tif, post_only = _tif(order, action, waits=trigger is not None)
    told: dict[str, object] = {"reduce_only": flag(order, "reduceOnly"), "post_only": post_only}
    told |= {name: Decimal(0) for name in action.terms.names if name in TRIGGERS}  # what is meant and not there differs
    if trigger is not None:
        told[trigger] = figure(order, "triggerPx")
    if status == "open":  # once it is filled, its exits are orders of their own
        told |= _exits(children, action)
    return VenueOrder(
        venue_order_id=str(order["oid"]),
        client_order_id=text(order, "cloid") or None,
        status=status,
        raw_status=word,
        market_id=action.market_id if order.get("coin") == coin else str(order.get("coin")),
        side={"B": "buy", "A": "sell"}.get(text(order, "side")),
        quantity=size,
        order_type=kind,
        price=figure(order, "limitPx"),
        time_in_force=tif,
        filled=filled,
        created_at=unix_moment(order, "timestamp", per_second=1000),
        terms=Terms(**told),  # type: ignore[arg-type]  # each value has the type of its term
        legs=tuple(_order(child, "open", action, coin=coin) for child in children),
    )


def _type_of(order: Body, action: OrderAction) -> tuple[str | None, str | None]:
    """Return type and trigger term; a stop is called as the action calls it, which has two names for it."""
    kind, trigger = _TYPES.get(text(order, "orderType"), (None, None))
    if kind == "stop" and action.order_type == "stop" and action.price != (bound := figure(order, "limitPx")):
        kind = f"stop at {bound} or better"  # the price of a stop is compared nowhere else
    if trigger == "stop_price" and action.terms.stop_loss_price is not None:
        return "limit" if (kind, action.order_type) == ("stop_limit", "limit") else kind, "stop_loss_price"
    if trigger == "take_profit_price" and action.terms.take_profit_price is None:
        return f"take_profit_{kind}", trigger  # never equal to an order that rests at once
    return kind, trigger


def _tif(order: Body, action: OrderAction, *, waits: bool) -> tuple[str | None, bool | None]:
    """Return the time in force and whether it is post-only; "alo" is both, and a trigger waits until cancelled."""
    told = text(order, "tif").lower()
    if waits or not told:
        return "gtc" if waits else None, None
    if action.time_in_force == "alo":
        return told, told == "alo" if action.terms.post_only else None
    return "gtc" if told == "alo" else told, told == "alo"


def _children(order: Body) -> list[Body]:
    told = order.get("children")
    rows = told if isinstance(told, list) else []
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("oid"), Decimal)]


def _exits(children: Iterable[Body], action: OrderAction) -> dict[str, object]:
    """Return the attached exits; one that is meant and not told of has no prices, so that it differs."""
    held: dict[str, object] = {name: ExitTerms() for name, *_ in exits_of(action)}
    for child in children:
        words, _, way = text(child, "orderType").rpartition(" ")
        if (name := _EXITS.get(words)) is not None:
            held[name] = ExitTerms(figure(child, "triggerPx"), figure(child, "limitPx") if way == "Limit" else None)
    return held


def _status(word: str, *, left: Decimal | None, size: Decimal | None) -> Status:
    match word:
        case "open" | "triggered":
            return "partly_filled" if left is not None and size is not None and left < size else "open"
        case "filled":
            return "filled"
        case "scheduledCancel":
            return "cancelled"
        case _ if word.lower().endswith("canceled"):
            return "cancelled"
        case _ if word.lower().endswith("rejected"):
            return "rejected"
        case _:
            return "unclear"

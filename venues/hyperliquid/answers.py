"""Reads Hyperliquid's answers: outcomes and orders. Pure; must not build or send requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from venues import answers
from venues.json_fields import Body, figure, inner, text, unix_moment
from venues.message import Reply, Result
from venues.orders import (
    Accepted,
    OrderAction,
    Outcome,
    Prepared,
    RateLimited,
    Rejected,
    Status,
    Unknown,
    VenueOrder,
)

# The venue has no error codes, so match the beginning of its documented texts. Names are as in its documentation.
REFUSALS: Mapping[str, str] = {
    "Price must be divisible by tick size": "Tick",
    "Order must have minimum value of": "MinTradeNtl",
    "Insufficient margin to place order": "PerpMargin",
    "Reduce only order would increase position": "ReduceOnly",
    "Post only order would have immediately matched": "BadAloPx",
    "Order could not immediately match against any resting orders": "IocCancel",
    "Invalid TP/SL price": "BadTriggerPx",
    "No liquidity available for market order": "MarketOrderNoLiquidity",
    "Order would increase open interest": "OpenInterest",
    "Order rejected due to price more aggressive than oracle": "TooAggressiveAtOpenInterestCap",
    "Order has insufficient spot balance": "InsufficientSpotBalance",
    "Insufficient spot balance": "InsufficientSpotBalance",
    "Order price too far from oracle": "Oracle",
    "Order price cannot be more than": "Oracle",
    "Order would cause position to exceed margin tier limit": "PerpMaxPosition",
    "Order has invalid price": "InvalidPrice",
    "Order has invalid size": "InvalidSize",
    "Order has zero size": "InvalidSize",
    "Order was never placed, already canceled, or filled": "MissingOrder",
    "Cannot modify canceled or filled order": "MissingOrder",
    "User or API Wallet": "UnknownWallet",
    "Must deposit before performing actions": "NoDeposit",
}
_LAYER = "L1 error: "  # stands before some of these texts
_TOO_MANY = "Too many cumulative requests"
_ARRIVED = re.compile(r"duplicate|already (?:been )?(?:placed|used|exists?)", re.IGNORECASE)


def outcome_of(result: Result, prepared: Prepared) -> Outcome:
    return answers.outcome_of(result, lambda reply: _read(reply, prepared))


def _read(reply: Reply, prepared: Prepared) -> Outcome:
    if reply.status == 422 and reply.body.startswith(b"Failed to deserialize"):
        return Rejected("422", "the venue could not read the request")
    answer = reply.json() if reply.status == 200 else None
    if answer is None:
        return Unknown(f"HTTP {reply.status} without the venue's own answer")
    response = answer.get("response")
    if answer.get("status") == "err" and isinstance(response, str):
        return _refusal(response)
    status = _first_status(response) if answer.get("status") == "ok" else None
    if prepared.verb == "cancel" and status == "success":
        aim = prepared.action.venue_order_id or prepared.action.client_order_id or prepared.client_order_id
        return Accepted(aim, "cancelled")
    if not isinstance(status, dict):
        return Unknown("the answer is not in the venue's documented form")
    return _placed(status, prepared)


def _first_status(response: object) -> object:
    data = response.get("data") if isinstance(response, dict) else None
    statuses = data.get("statuses") if isinstance(data, dict) else None
    return statuses[0] if isinstance(statuses, list) and len(statuses) == 1 else None


def _placed(status: Mapping[str, object], prepared: Prepared) -> Outcome:
    if isinstance(error := status.get("error"), str):
        return _refusal(error)
    for word in ("resting", "filled"):
        body = status.get(word)
        if not isinstance(body, dict) or not isinstance(oid := body.get("oid"), Decimal):
            continue
        if body.get("cloid", prepared.client_order_id) != prepared.client_order_id:
            return Unknown("the answer names another client order id")
        if word == "resting":
            return Accepted(str(oid), "open")
        total = figure(body, "totalSz")
        return Accepted(str(oid), "filled" if total == prepared.action.quantity else "partly_filled")
    return Unknown("accepted, it seems, but without an order id")


def _refusal(said: str) -> Outcome:
    if _says_arrived(said):
        return Unknown(f"the venue knows it already: {said[:200]}", arrived=True)
    if said.removeprefix(_LAYER).startswith(_TOO_MANY):
        return RateLimited()
    if (name := _refusal_name(said)) is None:
        return Unknown(f"an answer not known to be a refusal: {said[:200]}")
    return Rejected(name, said)


def account_of_agent(role: Body) -> str | None:
    """Return the account that a key may act for, by the answer to `userRole`; None for a key that is no agent."""
    return text(inner(role, "data"), "user").lower() or None if text(role, "role") == "agent" else None


def venue_order(answer: Mapping[str, object], action: OrderAction, *, coin: str | None) -> VenueOrder | None:
    outer = answer.get("order")
    order = outer.get("order") if isinstance(outer, dict) else None
    if not isinstance(outer, dict) or not isinstance(order, dict) or not isinstance(order.get("oid"), Decimal):
        return None
    size, left = figure(order, "origSz"), figure(order, "sz")
    word, tif = str(outer.get("status")), order.get("tif")
    status = _status(word, left=left, size=size)
    filled = size if status == "filled" else None if size is None or left is None else size - left
    return VenueOrder(
        venue_order_id=str(order["oid"]),
        client_order_id=order["cloid"] if isinstance(order.get("cloid"), str) else None,
        status=status,
        raw_status=word,
        market_id=action.market_id if order.get("coin") == coin else str(order.get("coin")),
        side={"B": "buy", "A": "sell"}.get(str(order.get("side"))),
        quantity=size,
        order_type="limit" if order.get("orderType") == "Limit" else None,
        price=figure(order, "limitPx"),
        time_in_force=tif.lower() if isinstance(tif, str) else None,
        filled=filled,
        created_at=unix_moment(order, "timestamp", per_second=1000),
    )


def _refusal_name(said: str) -> str | None:
    """Return the documented name of this refusal; None if the text is not known to mean "not placed"."""
    bare = said.removeprefix(_LAYER)
    return next((name for start, name in REFUSALS.items() if bare.startswith(start)), None)


def _says_arrived(said: str) -> bool:
    return _ARRIVED.search(said) is not None


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

"""Reads Polymarket's answers: outcomes and orders. Pure; must not build or send requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from venues import answers
from venues.json_fields import figure, unix_moment
from venues.message import Reply, Result
from venues.orders import (
    Accepted,
    OrderAction,
    Outcome,
    Prepared,
    Rejected,
    Status,
    Unknown,
    VenueOrder,
)
from venues.terms import Terms

# Documented texts that mean "not placed". The venue has no codes, so the names are made up here.
REFUSALS: Mapping[str, str] = {
    r"not enough balance": "balance",
    r"invalid post-only order": "post_only",
    r"order \S+ is invalid\. Price": "tick",
    r"order \S+ is invalid\. Size": "size",
    r"order \S+ crosses the book": "post_only",
    r"invalid expiration": "expiration",
    r"order canceled in the CTF exchange contract": "cancelled_on_chain",
    r"order couldn't be fully filled": "not_filled",
    r"no orders found to match with FAK order": "not_filled",
    r"the market is not yet ready": "market_not_ready",
    r"Invalid order payload": "payload",
    r"the order owner has to be the owner": "owner",
    r"the order signer address has to be": "signer",
    r"\S+ address banned": "banned",
    r"\S+ address in closed only mode": "closed_only",
    r"Unauthorized": "unauthorized",
    r"Invalid L1 Request headers": "unauthorized",
    r"Invalid orderID": "order_id",
}
STATUSES = frozenset((200, 400, 401, 403, 404))
_DUPLICATE = re.compile(r"duplicated", re.IGNORECASE)


def outcome_of(result: Result, prepared: Prepared) -> Outcome:
    return answers.outcome_of(result, lambda reply: _read(reply, prepared))


def _read(reply: Reply, prepared: Prepared) -> Outcome:
    told = reply.json()
    if told is None or reply.status not in STATUSES:
        return Unknown(f"HTTP {reply.status} without the venue's own answer")
    text = told.get("error") if reply.status != 200 else told.get("errorMsg")
    if isinstance(text, str) and text:
        return _refusal(text)
    if reply.status != 200:
        return Unknown(f"HTTP {reply.status} without the venue's own answer")
    return _cancelled(told, prepared) if prepared.verb == "cancel" else _placed(told, prepared)


def _refusal(text: str) -> Outcome:
    if _DUPLICATE.search(text):
        return Unknown(f"the venue knows it already: {text[:200]}", arrived=True)
    for pattern, name in REFUSALS.items():
        if re.match(pattern, text):
            return Rejected(name, text)
    return Unknown(f"an answer not known to be a refusal: {text[:200]}")


def _placed(told: Mapping[str, object], prepared: Prepared) -> Outcome:
    order_id, action = told.get("orderID"), prepared.action
    if told.get("success") is not True or not isinstance(order_id, str) or not order_id:
        return Unknown("accepted, it seems, but without an order id")
    if order_id.lower() != prepared.request.get("order_hash"):
        return Unknown("the answer names another order")
    match told.get("status"):
        case "live" | "unmatched":
            return Accepted(order_id, "open")
        case "matched":
            return Accepted(order_id, "filled" if _is_whole(told, action) else "partly_filled")
        case _:
            return Accepted(order_id, "unclear")


def _is_whole(told: Mapping[str, object], action: OrderAction) -> bool:
    """Tell whether all was matched: the money of an order that spends it, else the shares."""
    if action.terms.notional is not None:
        return figure(told, "makingAmount") == action.terms.notional
    return figure(told, "takingAmount" if action.side == "buy" else "makingAmount") == action.quantity


def _cancelled(told: Mapping[str, object], prepared: Prepared) -> Outcome:
    aim = prepared.action.venue_order_id
    cancelled, refused = told.get("canceled"), told.get("not_canceled")
    if aim is not None and isinstance(cancelled, list) and aim in cancelled:
        return Accepted(aim, "cancelled")
    if isinstance(refused, dict) and isinstance(why := refused.get(aim), str):
        return Rejected("not_canceled", why)
    return Unknown("the answer does not say whether the order was cancelled")


def venue_order(told: Mapping[str, object], action: OrderAction) -> VenueOrder | None:
    order_id, word = told.get("id"), told.get("status")
    if not isinstance(order_id, str) or not order_id or not isinstance(word, str):
        return None
    size, done = _shares(told, "original_size", action=action), _shares(told, "size_matched", action=action)
    side, tif = told.get("side"), _tif(told, action)
    return VenueOrder(
        venue_order_id=order_id,
        client_order_id=None,
        status=_status(word, size=size, done=done),
        raw_status=word,
        market_id=str(told["asset_id"]) if "asset_id" in told else None,
        side=side.lower() if isinstance(side, str) else None,
        quantity=size,
        order_type="limit" if tif in ("gtc", "gtd") else None,  # of the others it does not tell limit from market
        price=figure(told, "price"),
        time_in_force=tif,
        filled=done,
        created_at=unix_moment(told, "created_at"),
        terms=Terms(expire_at=unix_moment(told, "expiration")),
    )


def _tif(told: Mapping[str, object], action: OrderAction) -> str | None:
    """The time in force in the action's word: `ioc` and `fak` are the same."""
    word = told.get("order_type")
    if not isinstance(word, str):
        return None
    own = "fak" if action.time_in_force == "fak" else "ioc"
    return own if word == "FAK" else word.lower()


def _status(word: str, *, size: Decimal | None, done: Decimal | None) -> Status:
    match word.upper().removeprefix("ORDER_STATUS_"):
        case "LIVE":
            return "partly_filled" if done else "open"
        case "MATCHED":
            return "filled" if done == size else "partly_filled"
        case "CANCELED" | "CANCELED_MARKET_RESOLVED":
            return "cancelled"
        case "INVALID":
            return "rejected"
        case _:
            return "unclear"


def _shares(told: Mapping[str, object], name: str, *, action: OrderAction) -> Decimal | None:
    """Return shares from either unit: Polymarket's documentation shows millionths, its SDK reads shares."""
    number, wanted = figure(told, name), action.quantity
    if action.terms.notional is not None and action.price:
        wanted = action.terms.notional / action.price
    if number is None or number <= wanted or number < 10_000:
        return number
    return number / 1_000_000

"""Reads the results and errors of ccxt calls: outcomes and orders.

Believes ccxt only where the exchange's own answer supports it. Pure; must not send anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from venues.ccxt import told
from venues.ccxt.request import blanked
from venues.ccxt.table import DEFINITIVE
from venues.ccxt.transport import Sending
from venues.http import Reply
from venues.orders import (
    Accepted,
    NotSent,
    OrderAction,
    Outcome,
    Prepared,
    RateLimited,
    Rejected,
    Status,
    Unknown,
    VenueOrder,
)

_STATUSES: Mapping[str, Status] = {
    "open": "open",
    "closed": "filled",
    "canceled": "cancelled",
    "canceling": "unclear",
    "expired": "expired",
    "rejected": "rejected",
}
_KNOWN_THERE = re.compile(
    r"duplicat|(?:order|oid|id)\W+(?:\w+\W+){0,3}(?:already|exists?|used|repeat)|must be unique", re.IGNORECASE
)
_IN_DOUBT = re.compile(
    r"(?:status|result|outcome)\W+(?:is\W+)?unknown|unknown (?:error|status)|time[d -]*out|try again|internal|busy",
    re.IGNORECASE,
)
_TEXT = 300


def failed(sending: Sending, error: BaseException | None, *, verb: str, secrets: Mapping[str, str]) -> Outcome:
    """Return the outcome of a call that gave no order; `error` is what ccxt raised, None if `Line` ended the call."""
    result = sending.result
    if result is None:
        if sending.begun:
            return Unknown("cancelled while it was being sent")
        return NotSent("ccxt made another request than the stored one, or none")
    if not isinstance(result, Reply):
        return result
    text = _said(result, secrets)
    if result.status in (418, 429):
        return RateLimited(result.retry_after())
    if error is None:
        return Unknown(f"HTTP {result.status}, then ccxt wanted a second request, which was not sent")
    name = type(error).__name__
    if not sending.own or result.status >= 500 or result.status in (408, 409):
        return Unknown(f"HTTP {result.status} without a refusal of the exchange's own ({name})")
    if name == "DuplicateOrderId" or (_is_order_error(error) and _KNOWN_THERE.search(text)):
        return Unknown(f"the exchange knows it already: {text}", arrived=True)
    if name == "RateLimitExceeded":
        return RateLimited(result.retry_after())
    definitive = name in DEFINITIVE or (name == "OrderNotFound" and verb != "new")
    if not definitive or _IN_DOUBT.search(text):
        return Unknown(f"an answer not known to be a refusal ({name}): {text}")
    return Rejected(name, text)


def placed(sending: Sending, order: object, *, prepared: Prepared) -> Outcome:
    """Return the outcome of a call that gave an order. Checks it, as ccxt makes an order of any body with HTTP 200."""
    reply = sending.result
    if not isinstance(reply, Reply) or not 200 <= reply.status < 300 or not isinstance(order, dict):
        return Unknown("the answer is not an order")
    found, status = _identity(order.get("id")), _status(order)
    if prepared.verb == "cancel":
        aim = prepared.action.venue_order_id
        if found is None or (aim is not None and found != aim):
            return Unknown("the answer does not name the order that was to be cancelled")
        return Accepted(found, "cancelled" if status in ("cancelled", "unclear") else status)
    if found is None:
        return Unknown("accepted, it seems, but without an order id")
    echoed = _identity(order.get("clientOrderId"))
    if prepared.request.get("own_id") and echoed is not None and not same_id(echoed, prepared.client_order_id):
        return Unknown("the answer names another client order id")
    if status == "rejected":
        return Rejected("rejected", f"order {found} was taken and refused")
    return Accepted(found, status)


def venue_order(
    order: Mapping[str, Any], action: OrderAction, *, symbol: str, exchange_id: str = ""
) -> VenueOrder | None:
    found = _identity(order.get("id"))
    if found is None:
        return None
    return VenueOrder(
        venue_order_id=found,
        client_order_id=_identity(order.get("clientOrderId")),
        status=_status(order),
        raw_status=str(order.get("status")),
        market_id=action.market_id if order.get("symbol") == symbol else order.get("symbol"),
        side=order.get("side"),
        quantity=told.number(order.get("amount")),
        order_type=told.order_type(order, action),
        price=told.price(order, action),
        time_in_force=told.time_in_force(order, action),
        filled=told.number(order.get("filled")),
        created_at=_created(order),
        terms=told.terms(order, action, exchange_id=exchange_id),
    )


def _created(order: Mapping[str, Any]) -> datetime | None:
    """Return when the exchange says it got the order: ccxt's `timestamp` in milliseconds, else its `datetime`."""
    moment = order.get("timestamp")
    try:
        if isinstance(moment, int | float) and not isinstance(moment, bool) and moment > 0:
            return datetime.fromtimestamp(moment / 1000, UTC)
        said = datetime.fromisoformat(str(order.get("datetime")))
    except (ValueError, OverflowError, OSError):
        return None
    return said.astimezone(UTC) if said.tzinfo is not None else None


def _status(order: Mapping[str, Any]) -> Status:
    status = _STATUSES.get(str(order.get("status")), "unclear")
    filled, amount = told.number(order.get("filled")), told.number(order.get("amount"))
    if status == "open" and filled:
        return "partly_filled"
    if status == "filled" and filled is not None and amount is not None and filled < amount:
        return "partly_filled"
    return status


def same_id(echoed: str | None, own: str) -> bool:
    """Compare client order ids; some exchanges put a prefix before it, as gate does with `t-`."""
    return echoed is not None and (echoed == own or echoed.endswith(f"-{own}"))


def _is_order_error(error: BaseException) -> bool:
    return any(base.__name__ in ("InvalidOrder", "BadRequest", "ExchangeError") for base in type(error).__mro__)


def _identity(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", "None") else None


def _said(reply: Reply, secrets: Mapping[str, str]) -> str:
    return blanked(reply.body.decode(errors="replace")[:_TEXT], secrets)

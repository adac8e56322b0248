"""Reads what TWS says of orders: the outcome of a new one, and the order that carries a reference. Pure.

Reads ib_async's objects by attribute; must not import the SDK or know a socket.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from venues.ibkr.contract import Fields, market_of
from venues.ibkr.order import TYPES
from venues.orders import (
    Absent,
    Accepted,
    Found,
    Lookup,
    LookupFailed,
    OrderAction,
    Outcome,
    Rejected,
    Status,
    Unknown,
    VenueOrder,
)
from venues.terms import Terms

# Codes of TWS messages that refuse a new order before it exists.
DEFINITIVE = frozenset(
    (103, 107, 109, 110, 111, 113, 116, 117, 140, 141, 200, 201, 203, 321, 355, 382, 383, 387, 388, 434, 460)
)
DONE = ("Filled", "Cancelled", "ApiCancelled", "Inactive")
_TYPE_OF = {word: name for name, word in TYPES.items()}


def verdict(trade: Any) -> Outcome | None:
    """Return what TWS has said about a new order; None while nothing settles it."""
    state = trade.orderStatus
    identity = state.permId or trade.order.permId
    codes = {entry.errorCode: entry.message for entry in trade.log if entry.errorCode}
    refused = next((code for code in codes if code in DEFINITIVE), None)
    match state.status:
        case "PreSubmitted" | "Submitted" if identity:
            return Accepted(str(identity), "partly_filled" if state.filled else "open")
        case "Filled" if identity:
            return Accepted(str(identity), "filled")
        case "Cancelled" | "ApiCancelled" | "ValidationError" | "Inactive" if refused is not None:
            return Rejected(str(refused), codes[refused])
        case "Cancelled" | "ApiCancelled":
            said = "; ".join(codes.values()) or state.status
            return Accepted(str(identity), "cancelled") if identity else Unknown(f"not known to be a refusal: {said}")
        case _:
            return None


class OrderSearch:
    """Looks for the order of one action in its account, among all that the gateway shows."""

    def __init__(self, action: OrderAction, reference: str, *, account: str, contract: Fields) -> None:
        self._action = action
        self._contract = contract
        self._whose = (reference, account)

    def find(self, trades: Iterable[Any], fills: Iterable[Any]) -> Lookup:
        mine = (trade for trade in trades if (trade.order.orderRef, trade.order.account) == self._whose)
        found = {trade.order.permId: self._order(trade) for trade in mine}
        loose: dict[int, list[Any]] = {}
        for fill in fills:
            done = fill.execution
            if (done.orderRef, done.acctNumber) == self._whose and done.permId not in found:
                loose.setdefault(done.permId, []).append(fill)
        orders = [*found.values(), *(self._filled(some) for some in loose.values())]
        if len(orders) > 1:
            return LookupFailed(f"{len(orders)} orders carry this reference: a person has to look")
        return Found(orders[0]) if orders else Absent()

    def _order(self, trade: Any) -> VenueOrder:
        order, state = trade.order, trade.orderStatus
        told = (number_of(state.filled), number_of(order.filledQuantity))
        filled = max((number for number in told if number is not None), default=None)
        return VenueOrder(
            venue_order_id=str(order.permId),
            client_order_id=order.orderRef,
            status=_status(state.status, filled=filled, size=number_of(order.totalQuantity)),
            raw_status=state.status,
            market_id=market_of(self._contract, trade.contract, self._action.market_id),
            side=order.action.lower(),
            quantity=number_of(order.totalQuantity) or None,
            order_type=_TYPE_OF.get(order.orderType, order.orderType) or None,
            price=number_of(order.lmtPrice) if order.orderType in ("LMT", "STP LMT") else None,
            time_in_force=order.tif.lower() or None,
            filled=filled,
            terms=_terms(order),
        )

    def _filled(self, fills: list[Any]) -> VenueOrder:
        """Build an order that appears only in today's executions; it was made at its first one at the latest."""
        first, done = fills[0], sum((number_of(fill.execution.shares) or Decimal(0) for fill in fills), Decimal(0))
        return VenueOrder(
            venue_order_id=str(first.execution.permId),
            client_order_id=first.execution.orderRef,
            status="filled" if done == self._action.quantity else "partly_filled",
            raw_status="executed",
            market_id=market_of(self._contract, first.contract, self._action.market_id),
            side={"BOT": "buy", "SLD": "sell"}.get(first.execution.side),
            filled=done,
            created_at=min((at for fill in fills if (at := _aware(fill.execution.time)) is not None), default=None),
        )


def _terms(order: Any) -> Terms:
    """Return the terms that TWS tells; a number that it leaves out or tells as zero it does not say."""
    aux, percent = number_of(order.auxPrice) or None, number_of(order.trailingPercent) or None
    trails = order.orderType == "TRAIL"
    return Terms(
        stop_price=aux if order.orderType in ("STP", "STP LMT") else None,
        trail_price=aux if trails and percent is None else None,
        trail_percent=percent if trails else None,
        extended_hours=bool(order.outsideRth),
        expire_at=_expiry(order.goodTillDate),
        oca_group=order.ocaGroup or None,
        oca_type=str(order.ocaType) if order.ocaType else None,
    )


def _expiry(told: str) -> datetime | None:
    """Return the time of "20261218-15:00:00", which is UTC, or of "20261218 15:00:00 ZONE"; None for another form."""
    day, _, rest = told.partition(" ")
    clock, _, zone = rest.partition(" ") if rest else ("", "", "UTC")
    try:
        at = datetime.strptime(f"{day}-{clock}" if clock else day, "%Y%m%d-%H:%M:%S").replace(tzinfo=ZoneInfo(zone))
        return at.astimezone(UTC)
    except (ValueError, ZoneInfoNotFoundError):
        return None


def _aware(at: object) -> datetime | None:
    return at if isinstance(at, datetime) and at.tzinfo is not None else None


def _status(word: str, *, filled: Decimal | None, size: Decimal | None) -> Status:
    match word:
        case "PreSubmitted" | "Submitted" | "PendingCancel":
            return "partly_filled" if filled else "open"
        case "Filled":
            return "filled"
        case "Cancelled" | "ApiCancelled":
            return "filled" if filled and filled == size else "cancelled"
        case _:
            return "unclear"


def number_of(value: object) -> Decimal | None:
    """Return the number; TWS writes "no value" as the largest float."""
    if isinstance(value, float):
        return Decimal(repr(value)) if abs(value) < 1e300 else None
    return Decimal(value) if isinstance(value, int | Decimal) else None

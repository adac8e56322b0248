"""Interactive Brokers' contracts, orders and answers as plain values. Pure.

Reads ib_async's objects by attribute; must not import the SDK or know a socket.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from venues.json_fields import compact
from venues.orders import (
    Absent,
    Accepted,
    Found,
    Lookup,
    LookupFailed,
    OrderAction,
    Outcome,
    Refused,
    Rejected,
    Status,
    Unknown,
    VenueOrder,
    plain,
)

TYPES = {"market": "MKT", "limit": "LMT"}
TIFS = ("day", "gtc", "ioc", "fok", "opg")
# Codes of TWS messages that refuse a new order before it exists.
DEFINITIVE = frozenset(
    (103, 107, 109, 110, 111, 113, 116, 117, 140, 141, 200, 201, 203, 321, 355, 382, 383, 387, 388, 434, 460)
)
_PARTS = ("symbol", "secType", "exchange", "currency")
_CONTRACT = re.compile(r"(?P<symbol>[^:\s]+):(?P<secType>[A-Z]{2,6}):(?P<exchange>[A-Z0-9.]+):(?P<currency>[A-Z]{3})")


def contract_of(market_id: str) -> dict[str, object] | Refused:
    """Return the contract for a conId or SYMBOL:TYPE:EXCHANGE:CURRENCY; refuse a bare symbol as ambiguous."""
    if market_id.isdecimal():
        return {"conId": int(market_id), "exchange": "SMART"}
    if (parts := _CONTRACT.fullmatch(market_id)) is not None:
        return dict(parts.groupdict())
    return Refused(f"market {market_id}: ibkr needs a conId, or all of AAPL:STK:SMART:USD")


def order_of(action: OrderAction, client_order_id: str) -> dict[str, object] | Refused:
    tif = action.time_in_force or TIFS[0]
    if action.side not in ("buy", "sell") or action.order_type not in TYPES:
        return Refused(f"{action.side} {action.order_type}: ibkr takes buy and sell, market and limit")
    if tif not in TIFS:
        return Refused(f"time in force {tif}: ibkr takes {', '.join(TIFS)} from here")
    if action.quantity <= 0:
        return Refused(f"quantity {plain(action.quantity)} is not above zero")
    order: dict[str, object] = {
        "action": action.side.upper(),
        "totalQuantity": plain(action.quantity),
        "orderType": TYPES[action.order_type],
        "tif": tif.upper(),
        "orderRef": client_order_id,
    }
    if action.order_type == "limit":
        if action.price is None:
            return Refused("a limit order needs a price")
        order["lmtPrice"] = plain(action.price)
    return order


@dataclass(frozen=True, slots=True)
class Managed:
    """The accounts that a gateway manages, and which of them the config says that this client is for."""

    accounts: tuple[str, ...]
    number: str | None
    setting: str  # the key that names it in the config

    def account_for(self, action: OrderAction) -> str | Refused:
        """Return the entry's own account: the config's number, else the one it names, else the only one."""
        asked, has = action.account_id, ", ".join(self.accounts) or "none"
        if self.number is not None:
            if self.number not in self.accounts:
                return _elsewhere(
                    f"account {self.number}: this gateway has {has}; the config's {self.setting} is wrong"
                )
            if asked != self.number and asked in self.accounts:
                return _elsewhere(f"account {asked}: the config's {self.setting} for it is {self.number}, another one")
            return self.number
        if asked in self.accounts:
            return asked
        if asked is not None:
            remedy = f"give this account the number of its own as {self.setting} in the config"
            return _elsewhere(f"account {asked}: this gateway has {has}; {remedy}")
        if len(self.accounts) == 1:
            return self.accounts[0]
        remedy = f"the entry must name one, or the config a default_account and its {self.setting}"
        return _elsewhere(f"account (none): this gateway has {has}; {remedy}")


def _elsewhere(why: str) -> Refused:
    return Refused(why, wrong_account=True)


def encoded(contract: Mapping[str, object], order: Mapping[str, object]) -> bytes:
    return compact({"contract": contract, "order": order})


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


def find(action: OrderAction, reference: str, *, account: str, trades: Iterable[Any], fills: Iterable[Any]) -> Lookup:
    """Find the account's order with this reference among all that the gateway shows."""
    mine = (trade for trade in trades if (trade.order.orderRef, trade.order.account) == (reference, account))
    found = {trade.order.permId: _order(action, trade) for trade in mine}
    loose: dict[int, list[Any]] = {}
    for fill in fills:
        done = fill.execution
        if (done.orderRef, done.acctNumber) == (reference, account) and done.permId not in found:
            loose.setdefault(done.permId, []).append(fill)
    orders = [*found.values(), *(_filled(action, some) for some in loose.values())]
    if len(orders) > 1:
        return LookupFailed(f"{len(orders)} orders carry this reference: a person has to look")
    return Found(orders[0]) if orders else Absent()


def _order(action: OrderAction, trade: Any) -> VenueOrder:
    order, state = trade.order, trade.orderStatus
    told = (_number(state.filled), _number(order.filledQuantity))
    filled = max((number for number in told if number is not None), default=None)
    return VenueOrder(
        venue_order_id=str(order.permId),
        client_order_id=order.orderRef,
        status=_status(state.status, filled=filled, size=_number(order.totalQuantity)),
        raw_status=state.status,
        market_id=_market(action, trade.contract),
        side=order.action.lower(),
        quantity=_number(order.totalQuantity) or None,
        order_type={word: name for name, word in TYPES.items()}.get(order.orderType),
        price=_number(order.lmtPrice) if order.orderType == "LMT" else None,
        time_in_force=order.tif.lower() or None,
        filled=filled,
    )


def _filled(action: OrderAction, fills: list[Any]) -> VenueOrder:
    """Build an order that appears only in today's executions; it was made at its first one at the latest."""
    first, done = fills[0], sum((_number(fill.execution.shares) or Decimal(0) for fill in fills), Decimal(0))
    return VenueOrder(
        venue_order_id=str(first.execution.permId),
        client_order_id=first.execution.orderRef,
        status="filled" if done == action.quantity else "partly_filled",
        raw_status="executed",
        market_id=_market(action, first.contract),
        side={"BOT": "buy", "SLD": "sell"}.get(first.execution.side),
        filled=done,
        created_at=min((at for fill in fills if (at := _aware(fill.execution.time)) is not None), default=None),
    )


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


def _market(action: OrderAction, contract: Any) -> str:
    wanted = contract_of(action.market_id)
    assert isinstance(wanted, dict)
    same = ("conId",) if "conId" in wanted else ("symbol", "secType", "currency")
    if all(getattr(contract, name) == wanted[name] for name in same):
        return action.market_id
    return ":".join(str(getattr(contract, name)) for name in _PARTS)


def _number(value: object) -> Decimal | None:
    """Return the number; TWS writes "no value" as the largest float."""
    if isinstance(value, float):
        return Decimal(repr(value)) if abs(value) < 1e300 else None
    return Decimal(value) if isinstance(value, int | Decimal) else None

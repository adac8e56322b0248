"""Reads Alpaca's answers: outcomes, look-ups and readiness. Pure; must not build or send requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from venues import answers
from venues.json_fields import Body, figure, flag, moment, text
from venues.message import Reply, Result
from venues.orders import (
    Absent,
    Accepted,
    Found,
    Lookup,
    LookupFailed,
    Mode,
    NotSent,
    OrderAction,
    Outcome,
    Prepared,
    Readiness,
    Rejected,
    Status,
    Unknown,
    VenueOrder,
)

DEFINITIVE = frozenset({(400, "*"), (401, "*"), (403, "*"), (404, "*"), (422, "*")})

_STATUS: Mapping[str, Status] = {
    "new": "open",
    "accepted": "open",
    "pending_new": "open",
    "accepted_for_bidding": "open",
    "held": "open",
    "calculated": "open",
    "stopped": "open",
    "done_for_day": "open",
    "pending_cancel": "open",
    "pending_replace": "open",
    "partially_filled": "partly_filled",
    "filled": "filled",
    "canceled": "cancelled",
    "expired": "expired",
    "replaced": "replaced",
    "rejected": "rejected",
}
_NO_SUCH_ORDER = "40410000"
_PAPER_ACCOUNT = re.compile(r"PA[0-9A-Z]+")
_LIVE_ACCOUNT = re.compile(r"[0-9]{9}")
_REFUSED = "the keys were refused"
_BLOCKS = ("trading_blocked", "account_blocked", "trade_suspended_by_user")


def outcome_of(result: Result, prepared: Prepared) -> Outcome:
    return answers.outcome_of(
        result, lambda reply: _taken(reply, prepared) if 200 <= reply.status < 300 else _refused(reply)
    )


def _taken(reply: Reply, prepared: Prepared) -> Outcome:
    if prepared.verb == "cancel":
        if reply.status == 204:
            return Accepted(prepared.action.venue_order_id or "", "unclear")
        return Unknown(f"HTTP {reply.status}, which does not say whether the order was cancelled")
    order = reply.json()
    order_id = text(order, "id")
    if order is None or not order_id:
        return Unknown(f"HTTP {reply.status} without an order id")
    if text(order, "client_order_id") not in ("", prepared.client_order_id):
        return Unknown("the answer is about another client order id")
    status = _status(order)
    if status == "rejected":
        return Rejected("rejected", "the venue took the order and rejected it")
    return Accepted(order_id, status)


def _refused(reply: Reply) -> Outcome:
    code, message = _error(reply)
    if not code or not message or (reply.status, "*") not in DEFINITIVE:
        return Unknown(f"HTTP {reply.status}, which does not say whether the order was taken")
    if "client_order_id" in message.lower() and "unique" in message.lower():
        return Unknown("the venue already has an order with this client order id", arrived=True)
    return Rejected(code, message)


def _error(reply: Reply) -> tuple[str, str]:
    """Return code and message of Alpaca's own error body; both empty if somebody else wrote the body."""
    body = reply.json()
    code = (body or {}).get("code")
    return str(code) if isinstance(code, Decimal | str) else "", text(body, "message")


def lookup_of(result: Result, prepared: Prepared) -> Lookup:
    match result:
        case NotSent(why) | Unknown(why):
            return LookupFailed(why)
        case Reply(status=404) if _error(result)[0] == _NO_SUCH_ORDER:
            return Absent()
        case Reply(status=200):
            return _found(result, prepared)
        case Reply(status=status):
            return LookupFailed(f"HTTP {status}", result.retry_after())


def _found(reply: Reply, prepared: Prepared) -> Lookup:
    order = reply.json()
    if order is None or not text(order, "id"):
        return LookupFailed("HTTP 200 without an order")
    if prepared.verb == "cancel":
        named = text(order, "id") == prepared.action.venue_order_id
    else:
        named = text(order, "client_order_id") == prepared.client_order_id
    if not named:
        return LookupFailed("the venue answered with another order")
    return Found(_order(order, prepared.action))


def _order(order: Body, action: OrderAction) -> VenueOrder:
    symbol = text(order, "symbol")
    same_pair = symbol.replace("/", "") == action.market_id.replace("/", "")
    return VenueOrder(
        venue_order_id=text(order, "id"),
        client_order_id=text(order, "client_order_id") or None,
        status=_status(order),
        raw_status=text(order, "status"),
        market_id=action.market_id if same_pair else symbol or None,
        side=text(order, "side") or None,
        quantity=figure(order, "qty"),
        order_type=text(order, "type") or None,
        price=figure(order, "limit_price"),
        time_in_force=text(order, "time_in_force") or None,
        filled=figure(order, "filled_qty"),
        created_at=moment(order, "created_at", "submitted_at"),
    )


def _status(order: Body) -> Status:
    """Return the status in neutral words. A cancelled or expired order with a fill counts as partly filled."""
    status = _STATUS.get(text(order, "status"), "unclear")
    if status in ("cancelled", "expired") and (figure(order, "filled_qty") or 0) > 0:
        return "partly_filled"
    return status


def account_number(account: Result) -> str | None:
    """Return whose account this is; None if the answer does not tell."""
    if not isinstance(account, Reply) or account.status != 200:
        return None
    return text(account.json(), "account_number") or None


def account_mode(account: Result) -> Mode | None:
    """Return the mode that the account number shows; None if it shows none."""
    number = account_number(account) or ""
    if _PAPER_ACCOUNT.fullmatch(number):
        return "paper"
    return "live" if _LIVE_ACCOUNT.fullmatch(number) else None


def readiness(clock: Result, account: Result, *, mode: Mode) -> Readiness:
    times = clock.json() if isinstance(clock, Reply) and clock.status == 200 else None
    belongs = account_mode(account)
    is_open = flag(times, "is_open")
    usable = answers.usable(account, _may_trade)
    why = [answers.failure(what, told, refused=_REFUSED) for what, told in (("clock", clock), ("account", account))]
    if belongs not in (None, mode):
        why.append(f"this is a {belongs} account")
    if usable is False and not any(why):
        why.append("the account may not trade")
    others = any(why)
    if is_open is False:
        why.append(f"market closed until {text(times, 'next_open')}: an order would be queued")
    problems = "; ".join(filter(None, why))
    return Readiness(
        reachable=isinstance(clock, Reply) or isinstance(account, Reply),
        ready=not problems,
        detail=problems or "market open, account active",
        market_open=is_open,
        closed=is_open is False and not others,
        account_usable=usable,
        really_paper=None if belongs is None else belongs == "paper",
        session_close=text(times, "next_close") or None,
        server_time=text(times, "timestamp") or answers.server_time(clock),
    )


def _may_trade(account: Body) -> bool:
    blocked = any(flag(account, name) is True for name in _BLOCKS)
    return text(account, "status") == "ACTIVE" and not blocked

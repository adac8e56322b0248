"""Reads Alpaca's answers: outcomes, look-ups and readiness. Pure; must not build or send requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import cast

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
from venues.terms import ExitTerms, Leg, Terms

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
_CLASSES = ("bracket", "oco", "oto", "mleg")  # of orders that other orders belong to
_STOPS = ("stop", "stop_limit")
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


def lacks_legs(reply: Reply) -> str | None:
    """Return the order's id if other orders belong to it and the answer leaves them out."""
    order = reply.json() if reply.status == 200 else None
    without = text(order, "order_class") in _CLASSES and not _legs(order)
    return (text(order, "id") or None) if without else None


def _legs(order: Body | None) -> list[Body]:
    """Return the orders inside this one that nothing has replaced."""
    legs = (order or {}).get("legs")
    every = [cast("Body", leg) for leg in legs if isinstance(leg, dict)] if isinstance(legs, list) else []
    return [leg for leg in every if text(leg, "status") != "replaced"]


def _order(order: Body, action: OrderAction) -> VenueOrder:
    symbol = text(order, "symbol")
    same_pair = symbol.replace("/", "") == action.market_id.replace("/", "")
    return VenueOrder(
        venue_order_id=text(order, "id"),
        client_order_id=text(order, "client_order_id") or None,
        status=_status(order),
        raw_status=text(order, "status"),
        market_id=(action.market_id if same_pair else symbol) or None,
        side=text(order, "side") or None,
        quantity=figure(order, "qty"),
        order_type=text(order, "type") or None,
        price=figure(order, "limit_price"),
        time_in_force=text(order, "time_in_force") or None,
        filled=figure(order, "filled_qty"),
        created_at=moment(order, "created_at", "submitted_at"),
        terms=_terms(order, action.terms),
        legs=tuple(_leg_order(leg, action) for leg in _legs(order)),
    )


def _leg_order(leg: Body, action: OrderAction) -> VenueOrder:
    own = Terms(stop_price=figure(leg, "stop_price"), position_intent=text(leg, "position_intent") or None)
    return replace(_order(leg, action), terms=own)


def _terms(order: Body, asked: Terms) -> Terms:
    kind, legs = text(order, "order_class"), _legs(order)
    said = kind if kind in _CLASSES else "" if "order_class" in order else None
    several = kind == "mleg"
    trails = text(order, "type") == "trailing_stop"  # then the venue states where the stop is now
    return Terms(
        stop_price=None if trails else _none_is_zero(order, "stop_price"),
        trail_price=_none_is_zero(order, "trail_price"),
        trail_percent=_none_is_zero(order, "trail_percent"),
        notional=_none_is_zero(order, "notional"),
        extended_hours=flag(order, "extended_hours"),
        position_intent=text(order, "position_intent") or None,
        order_class=asked.order_class if asked.order_class == "simple" and said == "" else said,
        take_profit=_missing(_take_profit(order, legs), asked.take_profit, legs),
        stop_loss=_missing(_stop_loss(legs), asked.stop_loss, legs),
        legs=_multi_legs(legs, asked.legs or ()) if several else None,
    )


def _none_is_zero(order: Body, name: str) -> Decimal | None:
    """Return the number; 0 where the venue says that there is none, which differs from not saying."""
    return Decimal(0) if name in order and order[name] is None else figure(order, name)


def _take_profit(order: Body, legs: list[Body]) -> ExitTerms | None:
    """An oco order is itself the one that takes the profit; else it is the leg with a limit."""
    taker = order if text(order, "order_class") == "oco" else _first(legs, ("limit",))
    price = figure(taker, "limit_price")
    return None if price is None else ExitTerms(limit_price=price)


def _stop_loss(legs: list[Body]) -> ExitTerms | None:
    stop = _first(legs, _STOPS)
    if stop is None:
        return None
    return ExitTerms(stop_price=figure(stop, "stop_price"), limit_price=figure(stop, "limit_price"))


def _missing(told: ExitTerms | None, asked: ExitTerms | None, legs: list[Body]) -> ExitTerms | None:
    """Return what was told; an exit without prices where one was asked for and the venue has only others."""
    return ExitTerms() if told is None and asked is not None and legs else told


def _first(legs: list[Body], types: tuple[str, ...]) -> Body | None:
    return next((leg for leg in legs if text(leg, "type") in types), None)


def _multi_legs(legs: list[Body], asked: tuple[Leg, ...]) -> tuple[Leg, ...] | None:
    """Return the legs in the order and with the words of those asked for: the venue fills in what was left out."""
    by_market = {leg.market_id: leg for leg in asked}
    found = [_multi_leg(leg, by_market.get(text(leg, "symbol"))) for leg in legs]
    places = {market: place for place, market in enumerate(by_market)}
    return tuple(sorted(found, key=lambda leg: places.get(leg.market_id, len(places)))) or None


def _multi_leg(leg: Body, asked: Leg | None) -> Leg:
    side, intent = text(leg, "side") or None, text(leg, "position_intent") or None
    ratio = figure(leg, "ratio_qty") or (None if asked is None else asked.ratio)
    if asked is not None:
        implied = asked.side is None and (asked.position_intent or "").startswith(f"{side}_")
        side = asked.side if side is None or implied else side
        intent = asked.position_intent if intent is None or asked.position_intent is None else intent
    return Leg(text(leg, "symbol"), ratio or Decimal(0), side, intent)


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

"""Reads Kalshi's answers: outcomes, pages of orders and readiness. Pure; must not build or send requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from venues import answers
from venues.json_fields import Body, figure, flag, inner, moment, text
from venues.kalshi.book import BookPosition, BookSide, own_price, own_side, place_of, ticker_of
from venues.message import Reply, Result
from venues.orders import (
    Accepted,
    LookupFailed,
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
from venues.terms import Terms

_YES_WORDS = {"bid": "buy", "ask": "sell"}
DEFINITIVE = frozenset({(400, "*"), (401, "*"), (403, "*"), (404, "*"), (409, "*"), (410, "*")})


def outcome_of(result: Result, prepared: Prepared) -> Outcome:
    return answers.outcome_of(
        result, lambda reply: _taken(reply, prepared) if 200 <= reply.status < 300 else _refused(reply)
    )


def _order_of(body: Body | None, client_order_id: str) -> Body | None:
    """Return the order at the top of the body, or the wrapped one if it has our client id."""
    wrapped = inner(body, "order")
    return wrapped if text(wrapped, "client_order_id") == client_order_id else body


def _taken(reply: Reply, prepared: Prepared) -> Outcome:
    order = _order_of(reply.json(), prepared.client_order_id)
    order_id = text(order, "order_id")
    if order is None or not order_id:
        return Unknown(f"HTTP {reply.status} without an order id")
    if prepared.verb != "new" and order_id != prepared.action.venue_order_id:
        return Unknown("the answer is about another order")
    if prepared.verb == "cancel":
        return Accepted(order_id, "cancelled")
    # The answer to an amend may name the old or the new client order id.
    known = {"", prepared.client_order_id}
    if prepared.verb == "replace":
        known.add(prepared.action.client_order_id or "")
    if text(order, "client_order_id") not in known:
        return Unknown("the answer is about another client order id")
    return Accepted(order_id, _state_after(order, prepared.action))


def _state_after(order: Body, action: OrderAction) -> Status:
    """Return the status: an order answered with 201 may already be filled, or cancelled by its time in force."""
    filled, remaining = figure(order, "fill_count"), figure(order, "remaining_count")
    if filled is None or remaining is None:
        return "unclear"
    if filled == 0:
        return "open" if remaining > 0 else "cancelled"
    return "filled" if filled >= action.quantity else "partly_filled"


def _refused(reply: Reply) -> Outcome:
    code, message = _error(reply)
    if not code or (reply.status, "*") not in DEFINITIVE:
        return Unknown(f"HTTP {reply.status}, which does not say whether the order was taken")
    said = f"{code} {message}".lower()
    if reply.status == 409 and ("exist" in said or "duplicate" in said):
        return Unknown("the venue already has an order with this client order id", arrived=True)
    return Rejected(code, message or code)


def _error(reply: Reply) -> tuple[str, str]:
    """Return code and message of Kalshi's error body; a 400 for an unreadable request has them at the top."""
    body = reply.json()
    error = inner(body, "error") or (body if reply.status == 400 else None)
    message = ": ".join(filter(None, (text(error, "message"), text(error, "details"))))
    return (text(error, "code"), message) if text(error, "message") else ("", "")


@dataclass(frozen=True, slots=True)
class OrderPage:
    orders: tuple[Body, ...]
    cursor: str


def page_of(result: Result) -> OrderPage | LookupFailed:
    body = answers.object_of(result)
    if isinstance(body, LookupFailed):
        return body
    orders = body.get("orders")
    if not isinstance(orders, list) or not all(isinstance(order, dict) for order in orders):
        return LookupFailed("HTTP 200 without a list of orders")
    return OrderPage(tuple(cast("list[Body]", orders)), text(body, "cursor"))


def single_of(result: Result) -> Body | LookupFailed | None:
    """Return the order asked for by its id; None if the venue says that there is none."""
    if isinstance(result, NotSent | Unknown):
        return LookupFailed(result.why)
    if result.status == 404 and _error(result)[0]:
        return None
    order = inner(result.json(), "order") if result.status == 200 else {}
    return order if text(order, "order_id") else LookupFailed(f"HTTP {result.status}", result.retry_after())


def venue_order(order: Body, action: OrderAction) -> VenueOrder:
    """Return the order in the action's contract, unit and words; in those of the YES book if it has none."""
    place, side, price = place_of(action), _book_side(order), figure(order, "yes_price_dollars")
    ticker, own_word = text(order, "ticker"), None if side is None else _YES_WORDS[side]
    if isinstance(place, BookPosition):
        own_word = None if side is None else own_side(action, place, side=side)
        price = None if price is None else own_price(action, place, price=price)
    return VenueOrder(
        venue_order_id=text(order, "order_id"),
        client_order_id=text(order, "client_order_id") or None,
        status=_status(order),
        raw_status=text(order, "status"),
        market_id=(action.market_id if ticker == ticker_of(action.market_id) else ticker) or None,
        side=own_word,
        quantity=figure(order, "initial_count_fp", "initial_count"),
        order_type=text(order, "type") or "limit",
        price=price,
        filled=figure(order, "fill_count_fp", "fill_count"),
        created_at=moment(order, "created_time"),
        terms=_terms(order),
    )


def _terms(order: Body) -> Terms:
    """The terms that Kalshi tells of an order; the time in force is not among them."""
    subaccount = figure(order, "subaccount_number")
    return Terms(
        expire_at=moment(order, "expiration_time"),
        post_only=flag(order, "post_only"),
        reduce_only=flag(order, "reduce_only"),
        order_group_id=text(order, "order_group_id") or None,
        cancel_on_pause=flag(order, "cancel_order_on_pause"),
        subaccount=None if subaccount is None else str(int(subaccount)),
    )


def in_subaccount(order: Body, number: int | None) -> bool:
    """Tell whether the order may be in this subaccount (None: any); an order that does not say so may be."""
    told = figure(order, "subaccount_number")
    return number is None or told is None or told == number


def _book_side(order: Body) -> BookSide | None:
    """Return the side from `book_side`, or from `side` and `action` if that is missing."""
    match text(order, "book_side"), text(order, "side"), text(order, "action"):
        case ("bid" | "ask") as side, _, _:
            return side
        case "", "yes" | "no" as outcome, "buy" | "sell" as direction:
            return "bid" if (outcome == "yes") == (direction == "buy") else "ask"
        case _:
            return None


def _status(order: Body) -> Status:
    filled = (figure(order, "fill_count_fp", "fill_count") or 0) > 0
    match text(order, "status"):
        case "resting" | "pending":
            return "partly_filled" if filled else "open"
        case "executed":
            return "filled"
        case "canceled":
            return "partly_filled" if filled else "cancelled"
        case _:
            return "unclear"


def readiness(status: Result, balance: Result, *, really_paper: bool | None) -> Readiness:
    body = status.json() if isinstance(status, Reply) and status.status == 200 else None
    trading = flag(body, "trading_active")
    if flag(body, "exchange_active") is False:
        trading = False
    asked = (("exchange status", status), ("balance", balance))
    why = [answers.failure(what, told, refused="the key was refused") for what, told in asked]
    others = any(why)
    if trading is False:
        resume = text(body, "exchange_estimated_resume_time")
        why.append(f"trading is paused{f' until about {resume}' if resume else ''}")
    problems = "; ".join(filter(None, why))
    return Readiness(
        reachable=isinstance(status, Reply) or isinstance(balance, Reply),
        ready=not problems,
        detail=problems or "trading is active, account readable",
        market_open=trading,
        closed=trading is False and not others,
        account_usable=answers.usable(balance),
        really_paper=really_paper,
        server_time=answers.server_time(status),
    )

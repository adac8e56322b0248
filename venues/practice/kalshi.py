"""Kalshi's trade API, v2, for the practice exchange: orders on the YES book, numbers as strings, paged lists.

Must not know sockets, faults or other venues.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import cast

from venues.practice.accounts import letters
from venues.practice.book import Desk, Draft, Order
from venues.practice.faults import Kind
from venues.practice.format import STRANGER, Call, Moment, on_order, says
from venues.practice.wire import WireReply, WireRequest, decimal, millis, text

STATUS = {"open": "resting", "partly_filled": "resting", "filled": "executed"}


def status(order: Order) -> str:
    return STATUS.get(order.state, "canceled")


def book_side(order: Order) -> str:
    return "bid" if order.side == "buy" else "ask"


def dollars(price: Decimal) -> str:
    return format(price, ".4f")


def count_text(count: Decimal) -> str:
    return format(count, ".2f")


def receipt(order: Order) -> dict[str, object]:
    return {
        "order_id": order.order_id,
        "client_order_id": order.client_order_id,
        "fill_count": count_text(order.filled),
        "remaining_count": count_text(order.remaining if order.live else Decimal(0)),
        "ts_ms": millis(order.updated_at),
    }


def document(order: Order) -> dict[str, object]:
    price = order.price or Decimal(0)
    outcome = "yes" if order.side == "buy" else "no"
    return {
        "order_id": order.order_id,
        "user_id": order.account,
        "subaccount_number": order.wire.get("subaccount", 0),
        "client_order_id": order.client_order_id,
        "ticker": order.symbol,
        "side": outcome,
        "action": "buy",
        "outcome_side": outcome,
        "book_side": book_side(order),
        "type": "limit",
        "status": status(order),
        "yes_price_dollars": dollars(price),
        "no_price_dollars": dollars(1 - price),
        "initial_count_fp": count_text(order.quantity),
        "fill_count_fp": count_text(order.filled),
        "remaining_count_fp": count_text(order.remaining if order.live else Decimal(0)),
        "created_time": order.created_at.isoformat(),
        "last_update_time": order.updated_at.isoformat(),
        "expiration_time": _iso(order.wire.get("expiration_time")),
        "self_trade_prevention_type": order.wire.get("self_trade_prevention_type"),
        "order_group_id": order.wire.get("order_group_id"),
        "cancel_order_on_pause": order.wire.get("cancel_order_on_pause", False),
    }


def _iso(seconds: object) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if isinstance(seconds, int) and seconds else None


TICKER = re.compile(r"[A-Z0-9][A-Z0-9._-]*")
CLIENT_ID = re.compile(r"[-\w:+=/]{1,64}")
UNKNOWN_TICKER = "NOSUCH"  # every other well-formed ticker is listed
TIFS = {"good_till_canceled": "gtc", "immediate_or_cancel": "ioc", "fill_or_kill": "fok"}
SUBACCOUNTS = range(64)
FLAGS = ("post_only", "reduce_only", "cancel_order_on_pause")
ECHOED = (*FLAGS, "expiration_time", "order_group_id", "self_trade_prevention_type")
SELF_TRADE = frozenset(("taker_at_cross", "maker"))
CODES = {
    400: "invalid_order",
    401: "authentication_error",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    409: "market_closed",
    410: "gone",
    422: "invalid_parameters",
    429: "too_many_requests",
    500: "internal_server_error",
}
ACCESS = ("kalshi-access-key", "kalshi-access-signature", "kalshi-access-timestamp")


class Kalshi:
    name = "kalshi"
    ids = frozenset(("order_id",))
    client_ids = frozenset(("client_order_id",))
    quantities = frozenset(("initial_count_fp", "remaining_count_fp"))
    stranger = STRANGER

    def route(self, request: WireRequest, desk: Desk) -> Call | None:
        if request.parts[:2] != ("trade-api", "v2"):
            return None
        desk.account = f"member-{letters(request.headers.get(ACCESS[0], ''), 10)}"
        call = _call(request, desk)
        public = request.method == "GET" and request.parts[2:3] in (("exchange",), ("markets",))
        if not public and not all(request.headers.get(name) for name in ACCESS):
            return replace(call, act=lambda desk: self.error(401, Moment(desk.now)))
        return call

    def error(self, status: int, _: Moment, /) -> WireReply:
        return problem(status, CODES.get(status, "error"))

    def refusal(self, _: Call, /) -> WireReply:
        return problem(400, "insufficient_balance")


def problem(status: int, code: str, *, details: str = "") -> WireReply:
    error = {"code": code, "message": code.replace("_", " ")}
    return WireReply(status, {"error": error | ({"details": details} if details else {})})


def _call(request: WireRequest, desk: Desk) -> Call:
    match request.method, request.parts[2:]:
        case "POST", ("portfolio", "events", "orders"):
            return _new(request)
        case "DELETE", ("portfolio", "events", "orders", order_id):
            act = partial(_cancel, order_id, params=request.params)
            return on_order("cancel", desk.order(order_id), act=act)
        case "POST", ("portfolio", "events", "orders", order_id, "amend"):
            act = partial(_amend, order_id, params=request.params, body=request.object())
            return on_order("replace", desk.order(order_id), act=act)
        case "POST", ("portfolio", "events", "orders", order_id, "decrease"):
            act = partial(_decrease, order_id, params=request.params, body=request.object())
            return on_order("replace", desk.order(order_id), act=act)
        case "POST", ("portfolio", "orders"):
            return Call("new", says(problem(410, "endpoint_removed", details="use /portfolio/events/orders")))
        case "GET", ("portfolio", "orders", order_id):
            return on_order("lookup", desk.order(order_id), act=partial(_one, order_id))
        case "GET", ("portfolio" | "historical" as shelf, "orders"):
            act = partial(_list, request.params, historical=shelf == "historical")
            # Who asks for resting orders looks at the market; who looks for an order asks for all.
            kind: Kind = "other" if request.params.get("status") == "resting" else "lookup"
            return Call(kind, act, request.params.get("ticker"))
        case "GET", ("portfolio", "balance"):
            return Call("probe", _balance)
        case "GET", ("exchange", "status"):
            return Call("probe", _exchange_status)
        case "GET", ("portfolio", "positions"):
            return Call("other", partial(_positions, request.params), request.params.get("ticker"))
        case "GET", ("markets",):
            return Call("other", partial(_markets, request.params.get("tickers", "").split(",")))
        case "GET", ("markets", ticker):
            return Call("other", partial(_market, ticker), ticker)
        case _:
            return Call("other", says(problem(404, "not_found")))


def _new(request: WireRequest) -> Call:
    body = request.object()
    if body is None:
        bad = {"code": "bad_request", "message": "bad request", "details": "the body is not a JSON object"}
        return Call("new", says(WireReply(400, bad)))
    return Call("new", partial(_place, body), text(body.get("ticker")), text(body.get("client_order_id")))


def _place(body: dict[str, object], desk: Desk) -> WireReply:
    draft = _draft(body)
    if isinstance(draft, WireReply):
        return draft
    if any(order.live for order in desk.named(draft.client_order_id) if _part(order) == draft.wire["subaccount"]):
        return problem(409, "order_already_exists")
    order = desk.place(draft, desk.new_uuid())
    more: dict[str, object] = {}
    if order.fill_price is not None:
        more = {"average_fill_price": dollars(order.fill_price), "average_fee_paid": "0.0000"}
    return WireReply(201, receipt(order) | more)


def _draft(body: dict[str, object]) -> Draft | WireReply:
    ticker, side, tif = text(body.get("ticker")), text(body.get("side")), text(body.get("time_in_force"))
    if ticker is None:
        return problem(400, "missing_parameters", details="ticker")
    if ticker == UNKNOWN_TICKER or not TICKER.fullmatch(ticker):
        return problem(404, "market_not_found", details=ticker)
    if side not in ("bid", "ask"):
        return problem(400, "invalid_order", details="side")
    if tif not in TIFS:
        return problem(400, "invalid_order", details="time_in_force")
    if text(body.get("self_trade_prevention_type")) not in SELF_TRADE:
        return problem(400, "missing_parameters", details="self_trade_prevention_type")
    client_order_id = text(body.get("client_order_id")) or str(uuid.uuid4())
    part = body.get("subaccount", 0)
    wrong = _wrong_figures(body)
    if wrong is None and not CLIENT_ID.fullmatch(client_order_id):
        wrong = problem(400, "invalid_parameters", details="client_order_id")
    if wrong is None and not (type(part) is int and part in SUBACCOUNTS):
        wrong = problem(400, "invalid_parameters", details="subaccount")
    if wrong is not None:
        return wrong
    wrong = _wrong_terms(body)
    if wrong is not None:
        return wrong
    return Draft(
        symbol=ticker,
        side="buy" if side == "bid" else "sell",
        quantity=cast(Decimal, decimal(body["count"])),
        order_type="limit",
        price=decimal(body["price"]),
        time_in_force=TIFS[tif],
        client_order_id=client_order_id,
        wire={"subaccount": part} | {name: body[name] for name in ECHOED if body.get(name) is not None},
    )


def _wrong_terms(body: dict[str, object]) -> WireReply | None:
    """Check what an order may say beside side, size and price."""
    if any(type(body.get(name, False)) is not bool for name in FLAGS):
        details = f"{', '.join(FLAGS)} must be true or false"
        return WireReply(400, {"code": "bad_request", "message": "bad request", "details": details})
    tif, until = body["time_in_force"], body.get("expiration_time")
    if until is not None and (type(until) is not int or tif != "good_till_canceled"):
        return problem(400, "invalid_order", details="expiration_time")
    if body.get("reduce_only") and tif != "immediate_or_cancel":
        return problem(400, "invalid_order", details="reduce_only needs immediate_or_cancel")
    if body.get("post_only") and tif != "good_till_canceled":
        return problem(400, "invalid_order", details="post_only")
    if "order_group_id" in body and text(body["order_group_id"]) is None:
        return problem(400, "invalid_parameters", details="order_group_id")
    return None


def _wrong_figures(body: dict[str, object]) -> WireReply | None:
    """Check count and price, which must be strings; a bare number makes the whole body unreadable."""
    for name in ("count", "price"):
        if name in body and not isinstance(body[name], str):
            details = f"{name} must be a string"
            return WireReply(400, {"code": "bad_request", "message": "bad request", "details": details})
    count, price = decimal(body.get("count")), decimal(body.get("price"))
    if count is None or count <= 0 or count != round(count, 2):
        return problem(400, "invalid_order", details="count")
    if price is None or not 0 < price < 1 or price != round(price, 4):
        return problem(400, "invalid_order", details="price")
    return None


def _part(order: Order) -> object:
    """Return the subaccount that holds the order; 0 is the primary one."""
    return order.wire.get("subaccount", 0)


def _live(order_id: str, params: Mapping[str, str], *, desk: Desk) -> Order | None:
    """Return an order that can still be changed, in the subaccount that the request names; without one, the primary."""
    order = desk.order(order_id)
    if order is None or not order.live or str(_part(order)) != params.get("subaccount", "0"):
        return None
    return order


def _amend(order_id: str, desk: Desk, *, params: Mapping[str, str], body: dict[str, object] | None) -> WireReply:
    order = _live(order_id, params, desk=desk)
    if order is None:
        return problem(404, "not_found")
    wanted = body or {}
    if wanted.get("ticker") != order.symbol or wanted.get("side") != book_side(order):
        return problem(400, "invalid_order", details="ticker and side must be the order's own")
    wrong = _wrong_figures(wanted)
    if wrong is not None:
        return wrong
    name = text(wanted.get("updated_client_order_id")) or order.client_order_id
    others = (other for other in desk.named(name) if other.order_id != order_id and _part(other) == _part(order))
    if any(other.live for other in others):
        return problem(409, "order_already_exists")
    until = wanted.get("expiration_time")
    if until is not None and (type(until) is not int or until < 0):
        return problem(400, "invalid_order", details="expiration_time")
    wire = dict(order.wire) if until is None else {**order.wire, "expiration_time": until}
    count, price = decimal(wanted["count"]), decimal(wanted["price"])
    return WireReply(200, receipt(desk.revise(order, quantity=count, price=price, client_order_id=name, wire=wire)))


def _decrease(order_id: str, desk: Desk, *, params: Mapping[str, str], body: dict[str, object] | None) -> WireReply:
    order = _live(order_id, params, desk=desk)
    if order is None:
        return problem(404, "not_found")
    by, to = decimal((body or {}).get("reduce_by")), decimal((body or {}).get("reduce_to"))
    if (by is None) == (to is None):
        return problem(400, "invalid_parameters", details="exactly one of reduce_by and reduce_to")
    left = max(Decimal(0), to if to is not None else order.remaining - cast(Decimal, by))
    state = order.state if left else "cancelled"
    return WireReply(200, receipt(desk.revise(order, quantity=order.filled + left, state=state)))


def _cancel(order_id: str, desk: Desk, *, params: Mapping[str, str]) -> WireReply:
    order = _live(order_id, params, desk=desk)
    if order is None:
        return problem(404, "not_found")
    desk.cancel(order)
    reduced = {"reduced_by": count_text(order.remaining), "ts_ms": millis(desk.now)}
    return WireReply(200, {"order_id": order_id, "client_order_id": order.client_order_id, **reduced})


def _one(order_id: str, desk: Desk) -> WireReply:
    order = desk.shown_by_id(order_id)
    return problem(404, "not_found") if order is None else WireReply(200, {"order": document(order)})


def _list(params: dict[str, str], desk: Desk, *, historical: bool) -> WireReply:
    """List the newest first; the cursor is the start of the next page."""
    numbers = {"cursor": 0, "limit": 100, "min_ts": 0, "max_ts": 1 << 62}
    for name in numbers:
        given = params.get(name) or str(numbers[name])
        if not (given.isascii() and given.isdigit()):
            return problem(400, "invalid_parameters", details=name)
        numbers[name] = int(given)
    rows = [
        order
        for order in desk.shown(params.get("ticker"))
        if (order.wire.get("archived") is True) == historical
        and params.get("status") in (None, "", status(order))
        and params.get("subaccount") in (None, "", str(_part(order)))
        and numbers["min_ts"] <= order.created_at.timestamp() <= numbers["max_ts"]
    ]
    start, size = numbers["cursor"], min(numbers["limit"], 1000)
    cursor = str(start + size) if start + size < len(rows) else ""
    return WireReply(200, {"orders": [document(order) for order in rows[start : start + size]], "cursor": cursor})


def _balance(desk: Desk) -> WireReply:
    return WireReply(200, {"balance": 1_000_000, "portfolio_value": 0, "updated_ts": int(desk.now.timestamp())})


def _exchange_status(desk: Desk) -> WireReply:
    state: dict[str, object] = {"exchange_active": True, "trading_active": not desk.closed}
    if desk.closed:
        state["exchange_estimated_resume_time"] = (desk.now + timedelta(hours=8)).isoformat()
    return WireReply(200, state)


def _listed(ticker: str) -> bool:
    return ticker != UNKNOWN_TICKER and TICKER.fullmatch(ticker) is not None


def _market(ticker: str, desk: Desk) -> WireReply:
    return WireReply(200, {"market": _told(ticker, desk)}) if _listed(ticker) else problem(404, "not_found")


def _markets(tickers: list[str], desk: Desk) -> WireReply:
    rows = [_told(ticker, desk) for ticker in tickers if _listed(ticker)]
    return WireReply(200, {"markets": rows, "cursor": ""})


def _told(ticker: str, desk: Desk) -> dict[str, object]:
    """A market with its quote; an empty side of the book is 0 or 1."""
    quote = desk.quote(ticker)
    bid = quote.bid if quote is not None and 0 < quote.bid < 1 else Decimal(0)
    ask = quote.ask if quote is not None and 0 < quote.ask < 1 else Decimal(1)
    return {
        "ticker": ticker,
        "status": "closed" if desk.closed else "active",
        "yes_bid_dollars": dollars(bid),
        "yes_ask_dollars": dollars(ask),
        "no_bid_dollars": dollars(1 - ask),
        "no_ask_dollars": dollars(1 - bid),
        "price_level_structure": "linear_cent",
    }


def _positions(params: Mapping[str, str], desk: Desk) -> WireReply:
    """List what a subaccount holds, the primary one if none is named: YES above zero, NO below."""
    part, prices = params.get("subaccount") or "0", desk.book.prices
    traded = dict.fromkeys(order.symbol for order in desk.shown())
    given = (prices.names[bare] for bare in prices.symbols_held(desk.venue, desk.account))
    tickers = [params["ticker"]] if params.get("ticker") else list(dict.fromkeys((*traded, *given)))
    rows = [
        {"ticker": ticker, "position_fp": count_text(held), "exchange_index": 0}
        for ticker in tickers
        if (held := _held(ticker, part, desk=desk))
    ]
    return WireReply(200, {"market_positions": rows, "event_positions": [], "cursor": ""})


def _held(ticker: str, part: str, *, desk: Desk) -> Decimal:
    fills = (
        order.filled if order.side == "buy" else -order.filled
        for order in desk.shown(ticker)
        if str(_part(order)) == part
    )
    given = desk.book.prices.held(desk.venue, desk.account, ticker) if part == "0" else Decimal(0)
    return given + sum(fills, Decimal(0))

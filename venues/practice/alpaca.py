"""Alpaca's trading API, v2, for the practice exchange: paths, checks, order documents and error bodies.

Must not know sockets, faults or other venues.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import cast

from venues.practice.accounts import digits, letters
from venues.practice.book import Desk, Draft, Order
from venues.practice.format import STRANGER, Call, Moment, on_order, says
from venues.practice.wire import WireReply, WireRequest, decimal, plain, text

SYMBOL = re.compile(r"[A-Z][A-Z0-9]*([./][A-Z0-9]+)?")
UNKNOWN_SYMBOL = "NOSUCH"  # every other well-formed symbol is listed


def problem(status: int, message: str, *, code: int, **more: str) -> WireReply:
    return WireReply(status, {"code": code, "message": message, **more})


def listed(symbol: str) -> bool:
    return symbol != UNKNOWN_SYMBOL and SYMBOL.fullmatch(symbol) is not None


def asset_id(symbol: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, symbol))


def clock(desk: Desk) -> WireReply:
    bell = desk.now.replace(hour=14, minute=30, second=0, microsecond=0) + timedelta(days=1)
    close = desk.now + timedelta(hours=4) if not desk.closed else bell + timedelta(hours=6, minutes=30)
    times = {"timestamp": desk.now, "next_open": bell, "next_close": close}
    return WireReply(200, {"is_open": not desk.closed} | {name: at.isoformat() for name, at in times.items()})


def account_number(key: str) -> str:
    """Return the key's own account: a paper one for a paper key, a live one for a live key, else of neither form."""
    match key[:2]:
        case "PK":
            return f"PA3{letters(key, 9)}"
        case "AK":
            return digits(key, 9)
        case _:
            return f"PRACTICE{letters(key, 8)}"


def account(desk: Desk) -> WireReply:
    number = desk.account
    money = dict.fromkeys(("cash", "equity", "last_equity", "portfolio_value"), "100000")
    power = dict.fromkeys(("buying_power", "regt_buying_power", "non_marginable_buying_power"), "200000")
    flags = ("trading_blocked", "transfers_blocked", "account_blocked", "trade_suspended_by_user")
    who = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_DNS, number)),
        "account_number": number,
        "status": "ACTIVE",
        "crypto_status": "ACTIVE",
        "currency": "USD",
    }
    made = {"created_at": "2024-01-02T15:04:05Z", "multiplier": "2", "shorting_enabled": True}
    return WireReply(200, {**who, **money, **power, **made, **dict.fromkeys(flags, False)})


def asset(symbol: str) -> WireReply:
    if not listed(symbol):
        return problem(404, f"asset not found for {symbol}", code=40410000)
    flags = ("tradable", "marginable", "shortable", "easy_to_borrow", "fractionable")
    crypto = "/" in symbol
    return WireReply(
        200,
        {
            "id": asset_id(symbol),
            "class": "crypto" if crypto else "us_equity",
            "exchange": "CRYPTO" if crypto else "NASDAQ",
            "symbol": symbol,
            "name": symbol,
            "status": "active",
            **dict.fromkeys(flags, True),
        },
    )


TIFS = frozenset(("day", "gtc", "opg", "cls", "ioc", "fok"))
STATUS = {
    "open": "new",
    "partly_filled": "partially_filled",
    "cancelled": "canceled",
}
MESSAGES = {
    400: (40010000, "request body format is invalid"),
    401: (40110000, "request is not authorized"),
    403: (40310000, "forbidden"),
    404: (40410000, "resource not found"),
    408: (40810000, "request timeout"),
    409: (40910000, "conflict"),
    410: (41010000, "gone"),
    422: (42210000, "unprocessable order"),
    429: (42910000, "too many requests"),
    500: (50010000, "internal server error occurred"),
}


class Alpaca:
    name = "alpaca"
    ids = frozenset(("id",))
    client_ids = frozenset(("client_order_id",))
    quantities = frozenset(("qty",))
    stranger = STRANGER

    def route(self, request: WireRequest, desk: Desk) -> Call | None:
        if request.parts[:1] != ("v2",):
            return None
        desk.account = account_number(_key(request))
        call = _call(request, desk)
        if not _authorised(request):
            return replace(call, act=lambda desk: self.error(401, Moment(desk.now)))
        return call

    def error(self, status: int, moment: Moment, /) -> WireReply:
        code, message = MESSAGES.get(status, (status * 100_000, "error"))
        if status != 429:
            return problem(status, message, code=code)
        reset = str(int((moment.now + timedelta(seconds=moment.seconds)).timestamp()))
        limits = {"X-RateLimit-Limit": "200", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
        return replace(problem(status, message, code=code), headers=limits)

    def refusal(self, call: Call, /) -> WireReply:
        if call.kind == "new":
            return problem(403, "insufficient buying power", code=40310000, buying_power="0", cost_basis="100")
        return problem(422, "order is not open", code=42210000)


def _key(request: WireRequest) -> str:
    return request.headers.get("apca-api-key-id") or request.headers.get("authorization", "")


def _authorised(request: WireRequest) -> bool:
    pair = ("apca-api-key-id", "apca-api-secret-key")
    return all(request.headers.get(name) for name in pair) or bool(request.headers.get("authorization"))


def _call(request: WireRequest, desk: Desk) -> Call:
    match request.method, request.parts[1:]:
        case "POST", ("orders",):
            return _new(request)
        case "GET", ("orders",):
            return Call("lookup", partial(_list, request.params), request.params.get("symbols"))
        case "DELETE", ("orders",):
            return Call("cancel", _cancel_all)
        case "GET", ("orders:by_client_order_id",):
            wanted = request.params.get("client_order_id", "")
            return on_order("lookup", next(desk.named(wanted), None), act=partial(_shown_by_name, wanted))
        case "GET", ("orders", order_id):
            return on_order("lookup", desk.order(order_id), act=partial(_shown_by_id, order_id))
        case "DELETE", ("orders", order_id):
            return on_order("cancel", desk.order(order_id), act=partial(_cancel, order_id))
        case "PATCH", ("orders", order_id):
            body = request.object()
            call = on_order("replace", desk.order(order_id), act=partial(_replace, order_id, body=body))
            return replace(call, client_order_id=text((body or {}).get("client_order_id")))
        case "GET", ("clock",):
            return Call("probe", clock)
        case "GET", ("account",):
            return Call("probe", account)
        case "GET", ("assets", *symbol):
            return Call("other", says(asset("/".join(symbol))))
        case "GET", ("positions",):
            return Call("other", says(WireReply(200, [])))
        case _:
            return Call("other", says(problem(404, "endpoint not found", code=40410000)))


def _new(request: WireRequest) -> Call:
    body = request.object()
    if body is None:
        return Call("new", says(problem(400, "request body format is invalid", code=40010000)))
    symbol, client_order_id = text(body.get("symbol")), text(body.get("client_order_id"))
    return Call("new", partial(_place, body), symbol, client_order_id)


def _place(body: dict[str, object], desk: Desk) -> WireReply:
    draft = _draft(body)
    if isinstance(draft, WireReply):
        return draft
    if any(desk.named(draft.client_order_id)):
        return problem(422, "client_order_id must be unique", code=40010001)
    return WireReply(200, document(desk.place(draft, desk.new_uuid())))


def _draft(body: dict[str, object]) -> Draft | WireReply:
    symbol, side, kind = text(body.get("symbol")), text(body.get("side")), text(body.get("type"))
    tif, price = text(body.get("time_in_force")), decimal(body.get("limit_price"))
    client_order_id = text(body.get("client_order_id")) or str(uuid.uuid4())
    quantity = decimal(body.get("qty"))
    wrong = _wrong_words(side, kind, tif=tif) or _wrong_figures(quantity, price, kind=kind)
    if wrong is None and len(client_order_id) > 128:
        wrong = problem(422, "client_order_id must be no more than 128 characters", code=40010001)
    if wrong is None and (symbol is None or not listed(symbol)):
        wrong = problem(422, f'asset "{symbol or ""}" not found', code=42210000)
    if wrong is not None:
        return wrong
    return Draft(
        symbol=cast(str, symbol),
        side="buy" if side == "buy" else "sell",
        quantity=cast(Decimal, quantity),
        order_type="limit" if kind == "limit" else "market",
        price=price if kind == "limit" else None,
        time_in_force=cast(str, tif),
        client_order_id=client_order_id,
        wire={"extended_hours": body.get("extended_hours") is True},
    )


def _wrong_words(side: str | None, kind: str | None, *, tif: str | None) -> WireReply | None:
    if side not in ("buy", "sell"):
        return problem(422, "invalid side", code=40010001)
    if kind not in ("market", "limit"):
        return problem(422, "invalid type", code=40010001)
    if tif not in TIFS:
        return problem(422, "invalid time_in_force", code=40010001)
    return None


def _wrong_figures(quantity: Decimal | None, price: Decimal | None, *, kind: str | None) -> WireReply | None:
    if quantity is None:
        return problem(422, "qty or notional is required", code=40010001)
    if quantity <= 0:
        return problem(422, "qty must be > 0", code=40010001)
    if kind == "market":
        return None
    if price is None or price <= 0:
        return problem(422, "limit orders require a limit price", code=40010001)
    places = 2 if price >= 1 else 4
    if price != round(price, places):
        rule = "sub-penny increment does not fulfill minimum pricing criteria"
        return problem(422, f"invalid limit_price {plain(price)}. {rule}", code=42210000)
    return None


def _replace(order_id: str, desk: Desk, *, body: dict[str, object] | None) -> WireReply:
    order = _live(order_id, desk)
    if isinstance(order, WireReply):
        return order
    wanted = body or {}
    quantity = decimal(wanted.get("qty")) or order.quantity
    price = decimal(wanted.get("limit_price")) or order.price
    client_order_id = text(wanted.get("client_order_id")) or str(uuid.uuid4())
    wrong = _wrong_figures(quantity, price, kind=order.order_type)
    if wrong is not None:
        return wrong
    if any(desk.named(client_order_id)):
        return problem(422, "client_order_id must be unique", code=40010001)
    draft = Draft(
        symbol=order.symbol,
        side=order.side,
        quantity=quantity,
        order_type=order.order_type,
        price=price,
        time_in_force=text(wanted.get("time_in_force")) or order.time_in_force,
        client_order_id=client_order_id,
        wire={**order.wire, "replaces": order_id},
    )
    fresh = desk.new_uuid()
    desk.revise(order, state="replaced", wire={**order.wire, "replaced_by": fresh})
    return WireReply(200, document(desk.place(draft, fresh)))


def _live(order_id: str, desk: Desk) -> Order | WireReply:
    order = desk.order(order_id)
    if order is None:
        return _missing(order_id)
    if not order.live:
        return problem(422, f'order is already in "{_status(order)}" state', code=42210000)
    return order


def _cancel(order_id: str, desk: Desk) -> WireReply:
    order = _live(order_id, desk)
    if isinstance(order, WireReply):
        return order
    desk.cancel(order)
    return WireReply(204)


def _cancel_all(desk: Desk) -> WireReply:
    live = [order for order in desk.shown() if order.live]
    return WireReply(207, [{"id": desk.cancel(order).order_id, "status": 200} for order in live])


def _list(params: dict[str, str], desk: Desk) -> WireReply:
    status = params.get("status", "open")
    symbols = set(filter(None, params.get("symbols", "").split(",")))
    rows = [
        document(order)
        for order in desk.shown()
        if (status == "all" or order.live == (status == "open")) and (not symbols or order.symbol in symbols)
    ]
    limit = int(params["limit"]) if params.get("limit", "").isdigit() else 50
    return WireReply(200, (rows[::-1] if params.get("direction") == "asc" else rows)[: min(limit, 500)])


def _shown_by_id(order_id: str, desk: Desk) -> WireReply:
    return _found(desk.shown_by_id(order_id), order_id)


def _shown_by_name(client_order_id: str, desk: Desk) -> WireReply:
    return _found(desk.shown_by_name(client_order_id), client_order_id)


def _found(order: Order | None, wanted: str) -> WireReply:
    return _missing(wanted) if order is None else WireReply(200, document(order))


def _missing(wanted: str) -> WireReply:
    return problem(404, f"order not found for {wanted}", code=40410000)


def _status(order: Order) -> str:
    return STATUS.get(order.state, order.state)


def document(order: Order) -> dict[str, object]:
    made, moved = order.created_at.isoformat(), order.updated_at.isoformat()
    return {
        "id": order.order_id,
        "client_order_id": order.client_order_id,
        "created_at": made,
        "updated_at": moved,
        "submitted_at": made,
        "filled_at": moved if order.state == "filled" else None,
        "expired_at": moved if order.state == "expired" else None,
        "canceled_at": moved if order.state == "cancelled" else None,
        "failed_at": moved if order.state == "rejected" else None,
        "replaced_at": moved if order.state == "replaced" else None,
        "replaced_by": order.wire.get("replaced_by"),
        "replaces": order.wire.get("replaces"),
        "asset_id": asset_id(order.symbol),
        "symbol": order.symbol,
        "asset_class": "crypto" if "/" in order.symbol else "us_equity",
        "notional": None,
        "qty": plain(order.quantity),
        "filled_qty": plain(order.filled),
        "filled_avg_price": None if order.fill_price is None else plain(order.fill_price),
        "order_class": "",
        "order_type": order.order_type,
        "type": order.order_type,
        "side": order.side,
        "time_in_force": order.time_in_force,
        "limit_price": None if order.price is None else plain(order.price),
        "stop_price": None,
        "status": _status(order),
        "extended_hours": order.wire.get("extended_hours", False),
        "legs": None,
        "trail_percent": None,
        "trail_price": None,
        "hwm": None,
    }

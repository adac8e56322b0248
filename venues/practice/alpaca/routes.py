"""The paths of Alpaca's APIs and what each asks for; its errors by status.

Must not know sockets, faults or other venues.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

from venues.practice.alpaca import account, orders
from venues.practice.alpaca.asset import asset, problem
from venues.practice.alpaca.document import document
from venues.practice.alpaca.quotes import quote_call
from venues.practice.book import Desk, Order
from venues.practice.format import STRANGER, Call, Moment, on_order, says
from venues.practice.wire import WireReply, WireRequest, text

VERSIONS = ("v2", "v1beta1", "v1beta3")
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
        if not request.parts or request.parts[0] not in VERSIONS:
            return None
        desk.account = account.account_number(_key(request))
        call = quote_call(request) or _call(request, desk)
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
        case _, ("orders" | "orders:by_client_order_id", *_):
            return _order_call(request, desk)
        case "GET", ("clock",):
            return Call("probe", account.clock)
        case "GET", ("account",):
            return Call("probe", account.account)
        case "GET", ("assets", *symbol):
            return Call("other", says(asset("/".join(symbol))))
        case "GET", ("positions",):
            return Call("other", account.positions)
        case "GET", ("positions", *symbol):
            return Call("other", partial(account.position, "/".join(symbol)))
        case _:
            return _nowhere()


def _nowhere() -> Call:
    return Call("other", says(problem(404, "endpoint not found", code=40410000)))


def _order_call(request: WireRequest, desk: Desk) -> Call:
    nested = _is_nested(request.params)
    match request.method, request.parts[1:]:
        case "POST", ("orders",):
            return _new(request)
        case "GET", ("orders",):
            # A list is no look-up of one order: what strikes look-ups must not strike it.
            return Call("other", partial(_list, request.params), request.params.get("symbols"))
        case "DELETE", ("orders",):
            return Call("cancel", orders.cancel_all)
        case "GET", ("orders:by_client_order_id",):
            wanted = request.params.get("client_order_id", "")
            act = partial(_shown_by_name, wanted, nested=nested)
            return on_order("lookup", next(desk.named(wanted), None), act=act)
        case "GET", ("orders", order_id):
            return on_order("lookup", desk.order(order_id), act=partial(_shown_by_id, order_id, nested=nested))
        case "DELETE", ("orders", order_id):
            return on_order("cancel", desk.order(order_id), act=partial(orders.cancel, order_id))
        case "PATCH", ("orders", order_id):
            body = request.object()
            call = on_order("replace", desk.order(order_id), act=partial(orders.change, order_id, body=body))
            return replace(call, client_order_id=text((body or {}).get("client_order_id")))
        case _:
            return _nowhere()


def _is_nested(params: dict[str, str]) -> bool:
    return params.get("nested", "").lower() in ("true", "1")


def _new(request: WireRequest) -> Call:
    body = request.object()
    if body is None:
        return Call("new", says(problem(400, "request body format is invalid", code=40010000)))
    symbol, client_order_id = text(body.get("symbol")), text(body.get("client_order_id"))
    return Call("new", partial(orders.place, body), symbol, client_order_id)


def _list(params: dict[str, str], desk: Desk) -> WireReply:
    status, nested = params.get("status", "open"), _is_nested(params)
    symbols = set(filter(None, params.get("symbols", "").split(",")))
    rows = [
        document(order, desk, nested=nested)
        for order in desk.shown()
        if (status == "all" or order.live == (status == "open"))
        and (not symbols or order.symbol in symbols)
        and not (nested and "parent" in order.wire)
    ]
    limit = int(params["limit"]) if params.get("limit", "").isdigit() else 50
    return WireReply(200, (rows[::-1] if params.get("direction") == "asc" else rows)[: min(limit, 500)])


def _shown_by_id(order_id: str, desk: Desk, *, nested: bool) -> WireReply:
    return _found(desk.shown_by_id(order_id), order_id, desk, nested=nested)


def _shown_by_name(client_order_id: str, desk: Desk, *, nested: bool) -> WireReply:
    return _found(desk.shown_by_name(client_order_id), client_order_id, desk, nested=nested)


def _found(order: Order | None, wanted: str, desk: Desk, *, nested: bool) -> WireReply:
    return orders.missing(wanted) if order is None else WireReply(200, document(order, desk, nested=nested))

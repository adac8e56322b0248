"""The exchange's own paths under /practice: what it received, what it holds, which faults are set.

Knows no wire format; a test or an operator talks to these.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast, get_args

from venues.practice.book import Order, State
from venues.practice.faults import BEHAVIOURS, DEMO_SYMBOLS, Fault, FaultError, parse_fault
from venues.practice.wire import WireReply, WireRequest, decimal

if TYPE_CHECKING:
    from venues.practice.exchange import PracticeExchange


def answer(exchange: PracticeExchange, request: WireRequest) -> WireReply:
    match request.method, request.parts[1:]:
        case "GET", ():
            return WireReply(200, {"url": exchange.url, "faults": list(BEHAVIOURS), "symbols": dict(DEMO_SYMBOLS)})
        case "GET", ("ledger",):
            return WireReply(200, list(exchange.ledger))
        case "GET", ("orders",):
            return WireReply(200, [order.line() for order in exchange.orders])
        case "GET", ("requests",):
            return WireReply(200, _counts(exchange))
        case "GET", ("faults",):
            return WireReply(200, [_shown(fault, left) for fault, left in exchange.faults.left()])
        case "POST", ("faults",):
            return _add(exchange, request)
        case "DELETE", ("faults",):
            exchange.faults.clear()
            return WireReply(200, [])
        case "POST", ("orders", order_id):
            return _mark(exchange, request, order_id=order_id)
        case _:
            return WireReply(404, {"error": "no such path under /practice"})


def _counts(exchange: PracticeExchange) -> dict[str, object]:
    return {
        "total": exchange.kinds.total(),
        "kinds": dict(exchange.kinds),
        "paths": dict(exchange.paths),
        "followed_redirects": exchange.decoyed,
    }


def _shown(fault: Fault, left: int | None) -> dict[str, object]:
    return {
        "symbol": fault.symbol,
        "on": fault.on,
        "fault": fault.name,
        "times": left,
        "seconds": fault.lasting,
    }


def _add(exchange: PracticeExchange, request: WireRequest) -> WireReply:
    """One fault or a list of them; all or none."""
    try:
        asked = json.loads(request.body)
        faults = [parse_fault(item) for item in (asked if isinstance(asked, list) else [asked])]
    except FaultError as error:
        return WireReply(400, {"error": str(error)})
    except ValueError:
        return WireReply(400, {"error": "not JSON"})
    for fault in faults:
        exchange.faults.add(fault)
    return WireReply(200, [_shown(fault, left) for fault, left in exchange.faults.left()])


def _mark(exchange: PracticeExchange, request: WireRequest, *, order_id: str) -> WireReply:
    wanted = request.object() or {}
    state = wanted.get("state")
    if state not in get_args(State):
        return WireReply(400, {"error": f"state must be one of: {', '.join(get_args(State))}"})
    try:
        order: Order = exchange.mark(
            order_id,
            cast(State, state),
            filled=decimal(wanted.get("filled")),
            archived=wanted.get("archived") is True,
        )
    except KeyError:
        return WireReply(404, {"error": "no such order"})
    return WireReply(200, order.line())

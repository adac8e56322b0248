"""Orders at the practice Binance: placing, changing, cancelling and finding them.

Must not know sockets, faults or paths.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from venues.practice.binance.document import canceled, document, is_algo, is_futures, placed, trades
from venues.practice.binance.market import book_symbol
from venues.practice.binance.wanted import Params, draft, problem
from venues.practice.book import Desk, Order
from venues.practice.wire import WireReply

UNKNOWN = "Unknown order sent."


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request goes: spot or futures, and there to the orders that wait (algo) or to the others."""

    futures: bool = False
    algo: bool = False

    def holds(self, order: Order) -> bool:
        return is_futures(order) == self.futures and is_algo(order) == self.algo


def target(params: Params, desk: Desk, place: Place) -> Order | None:
    """Return the order that a request names; of several with the same client id, the newest."""
    number = params.get("algoId" if place.algo else "orderId")
    names = ("clientAlgoId", "clientalgoid") if place.algo else ("origClientOrderId", "cancelOrigClientOrderId")
    named = next((params[name] for name in names if params.get(name)), "")
    found = [desk.order(number)] if number else list(desk.named(named))
    symbol = params.get("symbol")
    wanted = None if symbol is None and place.algo else book_symbol(symbol or "", futures=place.futures)
    return next((one for one in found if one is not None and place.holds(one) and wanted in (None, one.symbol)), None)


def place_order(params: Params, desk: Desk, *, place: Place) -> WireReply:
    wanted = draft(params, futures=place.futures, algo=place.algo)
    if isinstance(wanted, WireReply):
        return wanted
    if any(order.live and place.holds(order) for order in desk.named(wanted.client_order_id)):
        return (
            problem(-4116, "ClientOrderId is duplicated.") if place.futures else problem(-2010, "Duplicate order sent.")
        )
    return WireReply(200, placed(desk.place(wanted, desk.new_number())))


def cancel_replace(params: Params, desk: Desk) -> WireReply:
    wanted = {name: value for name, value in params.items() if name != "orderId"}
    if "cancelOrderId" in params:
        wanted["orderId"] = params["cancelOrderId"]
    order = target(wanted, desk, Place())
    if order is None or not order.live:
        gone = {"code": -2011, "msg": UNKNOWN}
        results = {"cancelResult": "FAILURE", "newOrderResult": "NOT_ATTEMPTED", "cancelResponse": gone}
        return WireReply(400, {"code": -2022, "msg": "Order cancel-replace failed.", "data": results})
    gone = canceled(desk.cancel(order), uuid.uuid4().hex)
    made = place_order(params, desk, place=Place())
    worked = made.status == 200
    data: dict[str, object] = {
        "cancelResult": "SUCCESS",
        "newOrderResult": "SUCCESS" if worked else "FAILURE",
        "cancelResponse": gone,
        "newOrderResponse": made.payload,
    }
    if worked:
        return WireReply(200, data)
    return WireReply(409, {"code": -2021, "msg": "Order cancel-replace is partially failed.", "data": data})


def amend(params: Params, desk: Desk) -> WireReply:
    """Change quantity and price of a futures order, which keeps its ids."""
    order = target(params, desk, Place(futures=True))
    if order is None or not order.live:
        return problem(-2013, "Order does not exist.")
    wanted = draft({**params, "type": "LIMIT", "timeInForce": "GTC"}, futures=True, algo=False)
    if isinstance(wanted, WireReply):
        return wanted
    return WireReply(200, document(desk.revise(order, quantity=wanted.quantity, price=wanted.price)))


def cancel(params: Params, desk: Desk, *, place: Place) -> WireReply:
    order = target(params, desk, place)
    if order is None or not order.live:
        return problem(-2011, UNKNOWN)
    return WireReply(200, canceled(desk.cancel(order), params.get("newClientOrderId") or uuid.uuid4().hex))


def cancel_all(params: Params, desk: Desk, *, place: Place) -> WireReply:
    symbol = book_symbol(params.get("symbol", ""), futures=place.futures)
    live = [order for order in desk.shown(symbol) if order.live and place.holds(order)]
    if not live:
        return problem(-2011, UNKNOWN)
    return WireReply(200, [canceled(desk.cancel(order), uuid.uuid4().hex) for order in live])


def one(params: Params, desk: Desk, *, place: Place) -> WireReply:
    order = target(params, desk, place)
    if order is None or not desk.shows(order):
        return problem(-2013, "Order does not exist.")
    return WireReply(200, document(order))


def listed(params: Params, desk: Desk, *, place: Place, what: str) -> WireReply:
    """List the oldest first, as Binance does."""
    symbol = params.get("symbol")
    shown = desk.shown(None if symbol is None else book_symbol(symbol, futures=place.futures))
    rows = [order for order in shown if place.holds(order)][::-1]
    if what.startswith("open"):
        return WireReply(200, [document(order) for order in rows if order.live])
    if what in ("allOrders", "allAlgoOrders"):
        return WireReply(200, [document(order) for order in rows][-500:])
    return WireReply(200, [trade for order in rows for trade in trades(order)][-500:])

"""Books, replaces and cancels Alpaca's orders, with the orders that belong to others.

A bracket's exits and the legs of a multi-leg order are orders of their own, which name their parent. Must not know
paths.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import cast

from venues.practice.alpaca.asset import problem
from venues.practice.alpaca.document import children, document, status
from venues.practice.alpaca.wanted import WantedOrder, leg_side, read, wrong_prices
from venues.practice.book import Desk, Draft, Order
from venues.practice.wire import WireReply, decimal, plain, text

FALLBACK = Decimal(100)  # the price of what has no quote
Wire = Mapping[str, object]


def place(body: dict[str, object], desk: Desk) -> WireReply:
    wanted = read(body)
    if isinstance(wanted, WireReply):
        return wanted
    client_order_id = wanted.client_order_id or str(uuid.uuid4())
    if any(desk.named(client_order_id)):
        return _not_unique()
    order_id = desk.new_uuid()
    drafts = [*_legs(wanted, desk)] if wanted.several else [*_exits(wanted)]
    # The order itself is booked last: the ledger names the last one as what the request booked.
    named = [replace(draft, wire={**draft.wire, "parent": order_id}) for draft in drafts]
    kept = [desk.place(draft, desk.new_uuid()) for draft in named]
    own = _draft(wanted, client_order_id, desk, [child.order_id for child in kept])
    return WireReply(200, document(desk.place(own, order_id), desk, nested=True))


def _draft(wanted: WantedOrder, client_order_id: str, desk: Desk, legs: list[str]) -> Draft:
    numbers = dict(wanted.numbers)
    if wanted.order_class == "oco":
        numbers["limit_price"] = wanted.profit["limit_price"]
    mark = _mark(wanted.symbol, wanted.side, desk)
    quantity = numbers.get("qty") or round(numbers["notional"] / (numbers.get("limit_price") or mark), 9)
    return Draft(
        symbol=wanted.symbol,
        side="sell" if wanted.side == "sell" else "buy",
        quantity=quantity,
        order_type="market" if wanted.kind == "market" else "limit",
        price=numbers.get("limit_price"),
        time_in_force=wanted.tif,
        client_order_id=client_order_id,
        wire={
            **wanted.words,
            **{name: plain(number) for name, number in numbers.items() if name not in ("qty", "limit_price")},
            **_trailing(numbers, wanted.side, mark),
            "type": wanted.kind,
            "order_class": wanted.order_class,
            "legs": legs,
        },
        mark=mark,
    )


def _mark(symbol: str, side: str, desk: Desk) -> Decimal:
    quote = desk.quote(symbol)
    return FALLBACK if quote is None else quote.bid if side == "sell" else quote.ask


def _trailing(numbers: Mapping[str, Decimal], side: str, mark: Decimal) -> dict[str, object]:
    """Return the high water mark of a trailing stop, and where its stop is now."""
    if "trail_price" not in numbers and "trail_percent" not in numbers:
        return {}
    away = numbers.get("trail_price") or mark * numbers["trail_percent"] / 100
    return {"hwm": plain(mark), "stop_price": plain(round(mark - away if side == "sell" else mark + away, 4))}


def _exits(wanted: WantedOrder) -> Iterator[Draft]:
    """Yield the orders that close this one; an oco order takes the profit itself."""
    # The price of an exit stays off the book's own column, from which quotes are made.
    if wanted.profit and wanted.order_class != "oco":
        yield _exit(wanted, {"type": "limit"} | _plain(wanted.profit))
    if wanted.loss:
        kind = "stop_limit" if "limit_price" in wanted.loss else "stop"
        yield _exit(wanted, {"type": kind, "held": True} | _plain(wanted.loss))


def _exit(wanted: WantedOrder, wire: Wire) -> Draft:
    side = wanted.side if wanted.order_class == "oco" else "sell" if wanted.side == "buy" else "buy"
    waits = wanted.kind != "market"
    return Draft(
        symbol=wanted.symbol,
        side="sell" if side == "sell" else "buy",
        quantity=wanted.numbers.get("qty", Decimal(0)),
        order_type="limit",
        price=None,
        time_in_force="day" if wanted.tif == "day" else "gtc",
        client_order_id=str(uuid.uuid4()),
        wire={"held": waits, "order_class": wanted.order_class, **wire},
    )


def _legs(wanted: WantedOrder, desk: Desk) -> Iterator[Draft]:
    for leg in wanted.legs:
        symbol, side, ratio = str(leg["symbol"]), leg_side(leg), decimal(leg["ratio_qty"]) or Decimal(1)
        yield Draft(
            symbol=symbol,
            side="sell" if side == "sell" else "buy",
            quantity=wanted.numbers["qty"] * ratio,
            order_type="market" if wanted.kind == "market" else "limit",
            price=None,
            time_in_force=wanted.tif,
            client_order_id=str(uuid.uuid4()),
            wire={
                "type": "",
                "order_class": "mleg",
                "ratio_qty": plain(ratio),
                "position_intent": text(leg.get("position_intent")) or f"{side}_to_open",
            },
            mark=_mark(symbol, side, desk),
        )


def _plain(numbers: Mapping[str, Decimal]) -> dict[str, str]:
    return {name: plain(number) for name, number in numbers.items()}


def change(order_id: str, desk: Desk, *, body: dict[str, object] | None) -> WireReply:
    order = _live(order_id, desk)
    if isinstance(order, WireReply):
        return order
    asked = body or {}
    client_order_id = text(asked.get("client_order_id")) or str(uuid.uuid4())
    draft = _changed(order, asked, client_order_id)
    if isinstance(draft, WireReply):
        return draft
    if any(desk.named(client_order_id)):
        return _not_unique()
    fresh = desk.new_uuid()
    _hand_over(order, fresh, desk)
    desk.revise(order, state="replaced", wire={**order.wire, "replaced_by": fresh})
    return WireReply(200, document(desk.place(draft, fresh), desk, nested=True))


def _changed(order: Order, asked: Mapping[str, object], client_order_id: str) -> Draft | WireReply:
    names = ("qty", "limit_price", "stop_price", "trail")
    numbers = {name: number for name in names if (number := decimal(asked.get(name))) is not None}
    if numbers.get("qty", order.quantity) <= 0:
        return problem(422, "qty must be > 0", code=40010001)
    wrong = next(wrong_prices(order.symbol, numbers), None)
    if wrong is not None:
        return wrong
    wire = {**order.wire, "replaces": order.order_id}
    if "stop_price" in numbers:
        wire["stop_price"] = plain(numbers["stop_price"])
    if "trail" in numbers:
        wire["trail_percent" if "trail_percent" in wire else "trail_price"] = plain(numbers["trail"])
    if "limit_price" in wire and "limit_price" in numbers:  # an exit keeps its price there
        wire["limit_price"] = plain(numbers.pop("limit_price"))
    return Draft(
        symbol=order.symbol,
        side=order.side,
        quantity=numbers.get("qty", order.quantity),
        order_type=order.order_type,
        price=numbers.get("limit_price", order.price),
        time_in_force=text(asked.get("time_in_force")) or order.time_in_force,
        client_order_id=client_order_id,
        wire=wire,
    )


def _hand_over(order: Order, fresh: str, desk: Desk) -> None:
    """Let the orders that belong to this one, or the one that it belongs to, know its successor."""
    for child in children(order, desk):
        desk.revise(child, wire={**child.wire, "parent": fresh})
    parent = desk.order(str(order.wire.get("parent", "")))
    if parent is not None:
        legs = [fresh if leg == order.order_id else leg for leg in cast("list[str]", parent.wire["legs"])]
        desk.revise(parent, wire={**parent.wire, "legs": legs})


def _live(order_id: str, desk: Desk) -> Order | WireReply:
    order = desk.order(order_id)
    if order is None:
        return missing(order_id)
    if not order.live:
        return problem(422, f'order is already in "{status(order)}" state', code=42210000)
    return order


def cancel(order_id: str, desk: Desk) -> WireReply:
    """Cancel an order, and with it every other one of its group that is live."""
    order = _live(order_id, desk)
    if isinstance(order, WireReply):
        return order
    root = desk.order(str(order.wire.get("parent", ""))) or order
    for other in (root, *children(root, desk)):
        if other.live and other.order_id != order_id:
            desk.cancel(other)
    desk.cancel(order)
    return WireReply(204)


def cancel_all(desk: Desk) -> WireReply:
    live = [order for order in desk.shown() if order.live]
    return WireReply(207, [{"id": desk.cancel(order).order_id, "status": 200} for order in live])


def missing(wanted: str) -> WireReply:
    return problem(404, f"order not found for {wanted}", code=40410000)


def _not_unique() -> WireReply:
    return problem(422, "client_order_id must be unique", code=40010001)

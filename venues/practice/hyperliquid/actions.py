"""Hyperliquid's API for the practice exchange: /exchange takes signed actions; /info is `info`'s.

Answers most errors with status 200, as the venue does. Must not know sockets, faults or other venues.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import cast

from venues.practice.book import Desk, Draft, Order
from venues.practice.faults import Kind
from venues.practice.format import Call, Moment, says
from venues.practice.hyperliquid.info import COINS, MALFORMED, coin_of, document, info, words
from venues.practice.wallets import Wallets, approved
from venues.practice.wire import WireReply, WireRequest, decimal, plain, text

CLOID = re.compile(r"0x[0-9a-fA-F]{32}")
TIFS = {"Gtc": "gtc", "Ioc": "ioc", "Alo": "alo"}
TAKES = {
    "order": "new",
    "cancel": "cancel",
    "cancelByCloid": "cancel",
    "modify": "replace",
    "batchModify": "replace",
}
MISSING = "Order was never placed, already canceled, or filled."
TWO_DAYS, ONE_DAY = 2 * 86_400_000, 86_400_000
DONE = WireReply(200, {"status": "ok", "response": {"type": "default"}})
Item = dict[str, object]


class Hyperliquid:
    name = "hyperliquid"
    ids = frozenset(("oid",))
    client_ids = frozenset(("cloid",))
    quantities = frozenset(("sz", "origSz"))
    stranger = "0x" + "f" * 32

    def __init__(self) -> None:
        self._wallets = Wallets()

    def route(self, request: WireRequest, desk: Desk) -> Call | None:
        match request.method, request.parts:
            case "POST", ("info",):
                question = request.object() or {}
                desk.account = self._wallets.asked(question.get("user"))
                return info(question, desk)
            case "POST", ("exchange",):
                body = request.object()
                desk.account = self._wallets.sender(body or {}, desk.book)
                return _exchange(body, desk)
            case _, ("info",) | ("exchange",):
                return Call("other", says(words(405, "Method Not Allowed")))
            case _:
                return None

    def error(self, status: int, _: Moment, /) -> WireReply:
        phrases = {400: "Bad request", 422: MALFORMED, 429: "Too many requests", 500: "Internal server error"}
        return words(status, phrases.get(status, f"error {status}"))

    def refusal(self, call: Call, /) -> WireReply:
        kind = "cancel" if call.kind == "cancel" else "order"
        return statuses(kind, [{"error": MISSING if kind == "cancel" else "Insufficient margin to place order."}])


@dataclass(frozen=True, slots=True)
class Wanted:
    """One order or cancel inside an action."""

    order: Item
    oid: object = None  # the order to modify or cancel: a number or a cloid


def statuses(kind: str, rows: list[object]) -> WireReply:
    return WireReply(200, {"status": "ok", "response": {"type": kind, "data": {"statuses": rows}}})


def err(message: str) -> WireReply:
    return WireReply(200, {"status": "err", "response": message})


def _exchange(body: Item | None, desk: Desk) -> Call:
    action = (body or {}).get("action")
    signature, nonce = (body or {}).get("signature"), (body or {}).get("nonce")
    signed = isinstance(signature, dict) and {"r", "s", "v"} <= signature.keys() and type(nonce) is int
    if body is None or not isinstance(action, dict) or not signed:
        return Call("new", says(words(422, MALFORMED)))
    kind = TAKES.get(str(action.get("type")))
    if action.get("type") == "approveAgent":
        return Call("other", partial(_approve, body))
    if kind is None:
        return Call("other", says(DONE))
    wanted = _wanted(action)
    if not wanted:
        return Call(cast(Kind, kind), says(words(422, MALFORMED)))
    symbol, name = _about(wanted[0], desk)
    grouped = action.get("grouping") == "normalTpsl"
    doing = partial(_do, "grouped" if grouped else str(action["type"]), wanted=wanted)
    act = partial(_checked, cast(int, nonce), expires=body.get("expiresAfter"), act=doing)
    return Call(cast(Kind, kind), act, symbol, name, once=f"hyperliquid:{desk.account}:{nonce}")


def _approve(body: Item, desk: Desk) -> WireReply:
    """Let the key that the action names act for the account that signed it."""
    pair = approved(body)
    if pair is None:
        return err("L1 error: the approval is not signed")
    desk.book.appoint(*pair)
    return DONE


def _wanted(action: Item) -> list[Wanted]:
    kind = action.get("type")
    rows = action.get({"order": "orders", "batchModify": "modifies"}.get(str(kind), "cancels"), [action])
    items = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    if kind == "order":
        return [Wanted(row) for row in items]
    if kind in ("modify", "batchModify"):
        return [Wanted(row["order"], row.get("oid")) for row in items if isinstance(row.get("order"), dict)]
    return [Wanted(row, row.get("o", row.get("cloid"))) for row in items]


def _about(wanted: Wanted, desk: Desk) -> tuple[str | None, str | None]:
    asset = wanted.order.get("a", wanted.order.get("asset"))
    order = _target(wanted.oid, desk)
    name = text(wanted.order.get("c")) or (order.client_order_id if order else None)
    return coin_of(asset) or (order.symbol if order else None), name


def _checked(nonce: int, desk: Desk, *, expires: object, act: Callable[[Desk], WireReply]) -> WireReply:
    """Check nonce and expiry against the machine's clock, as the client that signed them did."""
    now = int(time.time() * 1000)
    if desk.repeated:
        return err(f"Invalid nonce: duplicate nonce {nonce}")
    if not now - TWO_DAYS < nonce < now + ONE_DAY:
        return err(f"Invalid nonce: nonce {nonce} is outside of the allowed window")
    if isinstance(expires, int) and expires < now:
        return err(f"Action expired: expiresAfter {expires} is in the past")
    return act(desk)


def _do(kind: str, desk: Desk, *, wanted: list[Wanted]) -> WireReply:
    match kind:
        case "order":
            return statuses("order", [_place(item.order, desk) for item in wanted])
        case "grouped":
            return statuses("order", _place_group([item.order for item in wanted], desk))
        case "cancel" | "cancelByCloid":
            return statuses("cancel", [_cancel(item, desk) for item in wanted])
        case "modify":
            row = _modify(wanted[0], desk)
            return err(str(row["error"])) if "error" in row else DONE
        case _:
            return statuses("order", [_modify(item, desk) for item in wanted])


def _place(row: Item, desk: Desk) -> Item:
    draft = _draft(row)
    if isinstance(draft, str):
        return {"error": draft}
    if draft.client_order_id and any(desk.named(draft.client_order_id)):
        return {"error": f"Duplicate cloid {draft.client_order_id}"}
    return _outcome(desk.place(draft, desk.new_number()))


def _place_group(rows: list[Item], desk: Desk) -> list[object]:
    """Place an order whose exits wait until it is filled; all of them, or none."""
    drafts = [_draft(row) for row in rows]
    if (wrong := next((one for one in drafts if isinstance(one, str)), None)) is not None:
        return [{"error": wrong}]
    main = _place(rows[0], desk)
    if "error" in main:
        return [main]
    exits = [cast(Draft, draft) for draft in drafts[1:]]
    if "filled" in main:
        return [main, *(_outcome(desk.place(draft, desk.new_number())) for draft in exits)]
    order = desk.changed[-1]
    desk.revise(order, wire={**order.wire, "children": [_waiting(draft, order, desk.new_number()) for draft in exits]})
    return [main, *("waitingForFill" for _ in exits)]


def _waiting(draft: Draft, main: Order, number: str) -> Item:
    """Return an exit as it stands below the order that it waits for."""
    held = replace(main, order_id=number, side=draft.side, price=draft.price, wire=draft.wire, client_order_id="")
    return document(held)


def _modify(wanted: Wanted, desk: Desk) -> Item:
    order, draft = _target(wanted.oid, desk), _draft(wanted.order)
    if order is None or not order.live:
        return {"error": "Cannot modify canceled or filled order"}
    if isinstance(draft, str):
        return {"error": draft}
    named = (other for other in desk.named(draft.client_order_id) if other.order_id != order.order_id)
    if draft.client_order_id and any(named):
        return {"error": f"Duplicate cloid {draft.client_order_id}"}
    desk.revise(order, state="replaced")
    return _outcome(desk.place(draft, desk.new_number()))


def _cancel(wanted: Wanted, desk: Desk) -> object:
    order = _target(wanted.oid, desk)
    if order is None or not order.live:
        return {"error": MISSING}
    desk.cancel(order)
    return "success"


def _target(oid: object, desk: Desk) -> Order | None:
    if isinstance(oid, int):
        return desk.order(str(oid))
    return next(desk.named(oid), None) if isinstance(oid, str) and oid else None


def _outcome(order: Order) -> Item:
    name = {"cloid": order.client_order_id} if order.client_order_id else {}
    if order.fill_price is None:
        return {"resting": {"oid": int(order.order_id), **name}}
    filled = {"totalSz": plain(order.filled), "avgPx": plain(order.fill_price)}
    return {"filled": {**filled, "oid": int(order.order_id), **name}}


def _draft(row: Item) -> Draft | str:
    coin = coin_of(row.get("a"))
    price, size = decimal(row.get("p")), decimal(row.get("s"))
    cloid = row.get("c") or ""
    kind = _kind(row.get("t"), buys=row.get("b") is True)
    if coin is None:
        return f"Order has invalid asset {row.get('a')}."
    if kind is None or not isinstance(row.get("b"), bool):
        return "Order has invalid type."
    if not isinstance(cloid, str) or (cloid and not CLOID.fullmatch(cloid)):
        return "Order has invalid cloid."
    if size is None or size <= 0 or size != round(size, COINS[coin].decimals):
        return "Order has invalid size."
    if price is None or price <= 0 or len(price.normalize().as_tuple().digits) > 5:
        return "Order has invalid price."
    if price * size < Decimal(10) and row.get("r") is not True:
        return "Order must have minimum value of $10."
    return Draft(
        symbol=coin,
        side="buy" if row["b"] else "sell",
        quantity=size,
        order_type="limit",
        price=price,
        time_in_force=TIFS[str(kind["tif"] or "Gtc")],
        client_order_id=cloid,
        wire={**kind, "reduceOnly": row.get("r") is True},
    )


def _kind(told: object, *, buys: bool) -> Mapping[str, object] | None:
    """Return the order's type as look-ups tell it: a limit, or a trigger, which rests until its price comes."""
    limit, trigger = (told.get("limit"), told.get("trigger")) if isinstance(told, dict) else (None, None)
    if isinstance(limit, dict):
        return {"tif": limit["tif"]} if text(limit.get("tif")) in TIFS else None
    if not isinstance(trigger, dict) or not isinstance(market := trigger.get("isMarket"), bool):
        return None
    price, name = decimal(trigger.get("triggerPx")), {"sl": "Stop", "tp": "Take Profit"}.get(str(trigger.get("tpsl")))
    if price is None or price <= 0 or name is None:
        return None
    above = buys == (name == "Stop")
    return {
        "tif": None if market else "Gtc",
        "isTrigger": True,
        "triggerPx": plain(price),
        "triggerCondition": f"Price {'above' if above else 'below'} {plain(price)}",
        "orderType": f"{name} {'Market' if market else 'Limit'}",
    }

"""Hyperliquid's API for the practice exchange: /exchange takes signed actions, /info answers questions.

Answers most errors with status 200, as the venue does. Must not know sockets, faults or other venues.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import cast

from venues.practice.book import Desk, Draft, Order
from venues.practice.faults import DEMO_SYMBOLS, Kind
from venues.practice.format import Call, Moment, on_order, says
from venues.practice.wallets import Wallets, address, approved
from venues.practice.wire import WireReply, WireRequest, decimal, millis, plain, text

SPOT_OFFSET = 10_000
STATUS = {
    "cancelled": "canceled",
    "partly_filled": "open",
    "replaced": "canceled",
    "expired": "scheduledCancel",
}


@dataclass(frozen=True, slots=True)
class Coin:
    decimals: int
    mid: str


PERPS: Mapping[str, Coin] = {
    "BTC": Coin(5, "60000.0"),
    "ETH": Coin(4, "3000.0"),
    "SOL": Coin(2, "150.0"),
    "XRP": Coin(0, "0.6"),
    "DOGE": Coin(0, "0.1"),
    "HYPE": Coin(2, "30.0"),
    **{name: Coin(3, "100.0") for name in DEMO_SYMBOLS},
}
SPOTS: Mapping[str, Coin] = {"PURR/USDC": Coin(0, "0.2"), "@1": Coin(2, "30.0")}
COINS: Mapping[str, Coin] = {**PERPS, **SPOTS}
TOKENS = (("USDC", 8), ("PURR", 0), ("HYPE", 2))


def coin_of(asset: object) -> str | None:
    """Return the market with this asset number; spot markets start at 10000."""
    if type(asset) is not int or asset < 0:
        return None
    names, at = (tuple(PERPS), asset) if asset < SPOT_OFFSET else (tuple(SPOTS), asset - SPOT_OFFSET)
    return names[at] if at < len(names) else None


def info(question: Mapping[str, object], desk: Desk) -> Call:
    match question.get("type"):
        case "meta":
            return Call("other", says(WireReply(200, _meta())))
        case "spotMeta":
            return Call("other", says(WireReply(200, _spot_meta())))
        case "metaAndAssetCtxs":
            return Call("other", says(WireReply(200, [_meta(), [_context(coin) for coin in PERPS.values()]])))
        case "spotMetaAndAssetCtxs":
            return Call("other", says(WireReply(200, [_spot_meta(), [_context(coin) for coin in SPOTS.values()]])))
        case "perpDexs":
            return Call("other", says(WireReply(200, [None])))
        case "allMids":
            return Call("other", says(WireReply(200, {name: coin.mid for name, coin in COINS.items()})))
        case "exchangeStatus":
            return Call("probe", _exchange_status)
        case "clearinghouseState":
            return Call("probe", _perp_account)
        case "spotClearinghouseState":
            return Call("probe", says(WireReply(200, {"balances": [_usdc()]})))
        case "userRateLimit":
            return Call("other", says(WireReply(200, {"cumVlm": "0.0", "nRequestsUsed": 0, "nRequestsCap": 10000})))
        case "userRole":
            return Call("other", partial(_role, question.get("user")))
        case "orderStatus":
            return _order_status(question.get("oid"), desk)
        case "openOrders" | "frontendOpenOrders" | "historicalOrders" | "userFills" | "userFillsByTime" as what:
            return Call("lookup", partial(_list, what))
        case "extraAgents" | "subAccounts" | "userFunding" | "delegations":
            return Call("other", says(WireReply(200, [])))
        case _:
            return Call("other", says(words(422, MALFORMED)))


def _role(user: object, desk: Desk) -> WireReply:
    account = desk.book.agents.get(address(user) or "")
    return WireReply(200, {"role": "user"} if account is None else {"role": "agent", "data": {"user": account}})


def _order_status(oid: object, desk: Desk) -> Call:
    known = desk.order(str(oid)) or next(desk.named(str(oid)), None)

    def act(desk: Desk) -> WireReply:
        order = desk.shown_by_id(str(oid)) or desk.shown_by_name(str(oid))
        if order is None:
            return WireReply(200, {"status": "unknownOid"})
        return WireReply(200, {"status": "order", "order": _with_status(order)})

    return on_order("lookup", known, act=act)


def _list(what: str, desk: Desk) -> WireReply:
    orders = [*desk.shown()]
    match what:
        case "openOrders" | "frontendOpenOrders":
            return WireReply(200, [document(order) for order in orders if order.live])
        case "historicalOrders":
            return WireReply(200, [_with_status(order) for order in orders][:2000])
        case _:
            return WireReply(200, [_fill(order) for order in orders if order.filled][:2000])


def _exchange_status(desk: Desk) -> WireReply:
    special = {"trading": "halted"} if desk.closed else None
    return WireReply(200, {"specialStatuses": special, "time": millis(desk.now)})


def _perp_account(desk: Desk) -> WireReply:
    summary = dict.fromkeys(("totalNtlPos", "totalMarginUsed"), "0.0")
    summary |= dict.fromkeys(("accountValue", "totalRawUsd"), "1000000.0")
    return WireReply(
        200,
        {
            "marginSummary": summary,
            "crossMarginSummary": summary,
            "crossMaintenanceMarginUsed": "0.0",
            "withdrawable": "1000000.0",
            "assetPositions": [],
            "time": millis(desk.now),
        },
    )


def _usdc() -> dict[str, object]:
    return {"coin": "USDC", "token": 0, "hold": "0.0", "total": "1000000.0", "entryNtl": "0.0"}


def _meta() -> dict[str, object]:
    universe = [{"name": name, "szDecimals": coin.decimals, "maxLeverage": 20} for name, coin in PERPS.items()]
    return {"universe": universe, "marginTables": [], "collateralToken": 0}


def _spot_meta() -> dict[str, object]:
    tokens = [
        {
            "name": name,
            "szDecimals": decimals,
            "weiDecimals": 8,
            "index": index,
            "tokenId": f"0x{index:032x}",
            "isCanonical": True,
            "evmContract": None,
            "fullName": None,
        }
        for index, (name, decimals) in enumerate(TOKENS)
    ]
    pairs = [
        {"name": name, "tokens": [index + 1, 0], "index": index, "isCanonical": index == 0}
        for index, name in enumerate(SPOTS)
    ]
    return {"tokens": tokens, "universe": pairs}


def _context(coin: Coin) -> dict[str, object]:
    prices = dict.fromkeys(("markPx", "midPx", "oraclePx", "prevDayPx"), coin.mid)
    return {**prices, "dayNtlVlm": "0.0", "funding": "0.0", "openInterest": "0.0", "premium": "0.0"}


def _with_status(order: Order) -> dict[str, object]:
    at = millis(order.updated_at)
    return {"order": document(order), "status": STATUS.get(order.state, order.state), "statusTimestamp": at}


def document(order: Order) -> dict[str, object]:
    return {
        "coin": order.symbol,
        "side": "B" if order.side == "buy" else "A",
        "limitPx": plain(order.price) if order.price is not None else "0.0",
        "sz": plain(order.remaining),
        "origSz": plain(order.quantity),
        "oid": int(order.order_id),
        "timestamp": millis(order.created_at),
        "triggerCondition": "N/A",
        "isTrigger": False,
        "triggerPx": "0.0",
        "children": [],
        "isPositionTpsl": False,
        "reduceOnly": order.wire.get("reduceOnly", False),
        "orderType": "Limit",
        "tif": order.wire.get("tif", "Gtc"),
        "cloid": order.client_order_id or None,
    }


def _fill(order: Order) -> dict[str, object]:
    return {
        "coin": order.symbol,
        "px": plain(order.fill_price or order.price or order.quantity),
        "sz": plain(order.filled),
        "side": "B" if order.side == "buy" else "A",
        "time": millis(order.updated_at),
        "startPosition": "0.0",
        "dir": "Open Long" if order.side == "buy" else "Open Short",
        "closedPnl": "0.0",
        "hash": "0x" + "0" * 64,
        "oid": int(order.order_id),
        "crossed": True,
        "fee": "0.0",
        "feeToken": "USDC",
        "tid": int(order.order_id),
        "cloid": order.client_order_id or None,
    }


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
MALFORMED = "Failed to deserialize the JSON body into the target type"
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


def words(status: int, message: str) -> WireReply:
    return WireReply(status, raw=message.encode(), content_type="text/plain; charset=utf-8")


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
    doing = partial(_do, str(action["type"]), wanted=wanted)
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
    kind = row.get("t")
    limit = kind.get("limit") if isinstance(kind, dict) else None
    tif = text(limit.get("tif")) if isinstance(limit, dict) else None
    if coin is None:
        return f"Order has invalid asset {row.get('a')}."
    if tif not in TIFS or not isinstance(row.get("b"), bool):
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
        time_in_force=TIFS[tif],
        client_order_id=cloid,
        wire={"tif": tif, "reduceOnly": row.get("r") is True},
    )

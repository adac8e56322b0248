"""What Hyperliquid's /info answers on the practice exchange: markets, books, accounts, orders.

Must not know sockets, faults or other venues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from venues.practice.book import Desk, Order
from venues.practice.faults import DEMO_SYMBOLS
from venues.practice.format import Call, on_order, says
from venues.practice.prices import PracticeQuote
from venues.practice.wallets import address
from venues.practice.wire import WireReply, millis, plain

SPOT_OFFSET = 10_000
MALFORMED = "Failed to deserialize the JSON body into the target type"
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
    token: int | None = None  # of a spot market: what is bought


PERPS: Mapping[str, Coin] = {
    "BTC": Coin(5, "60000.0"),
    "ETH": Coin(4, "3000.0"),
    "SOL": Coin(2, "150.0"),
    "XRP": Coin(0, "0.6"),
    "DOGE": Coin(0, "0.1"),
    "HYPE": Coin(2, "30.0"),
    **{name: Coin(3, "100.0") for name in DEMO_SYMBOLS},
}
SPOTS: Mapping[str, Coin] = {"PURR/USDC": Coin(0, "0.2", 1), "@1": Coin(2, "30.0", 2)}
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
            return Call("other", _mids)
        case "l2Book":
            return Call("other", partial(_book, question.get("coin")))
        case "exchangeStatus":
            return Call("probe", _exchange_status)
        case "clearinghouseState":
            return Call("probe", _perp_account)
        case "spotClearinghouseState":
            return Call("probe", _spot_account)
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


def words(status: int, message: str) -> WireReply:
    return WireReply(status, raw=message.encode(), content_type="text/plain; charset=utf-8")


def _quote(name: str, desk: Desk) -> PracticeQuote | None:
    return desk.quote(name, tick=Decimal(COINS[name].mid) / 10_000)


def _mids(desk: Desk) -> WireReply:
    quotes = {name: _quote(name, desk) for name in COINS}
    mids = {name: (quote.bid + quote.ask) / 2 for name, quote in quotes.items() if quote is not None}
    return WireReply(200, {name: plain(mids[name]) if name in mids else coin.mid for name, coin in COINS.items()})


def _book(name: object, desk: Desk) -> WireReply:
    if not isinstance(name, str) or name not in COINS:
        return WireReply(200, None)
    quote = _quote(name, desk)
    best = () if quote is None else (quote.bid, quote.ask)
    levels = [[{"px": plain(price), "sz": "1000", "n": 1}] for price in best] or [[], []]
    at = desk.now if quote is None else quote.at
    return WireReply(200, {"coin": name, "time": millis(at), "levels": levels})


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
            "assetPositions": [
                {"type": "oneWay", "position": {"coin": name, "szi": plain(held), "entryPx": PERPS[name].mid}}
                for name in PERPS
                if (held := desk.position(name))
            ],
            "time": millis(desk.now),
        },
    )


def _spot_account(desk: Desk) -> WireReply:
    held = [(coin.token, desk.position(name)) for name, coin in SPOTS.items()]
    rows = [_balance(token, plain(size)) for token, size in held if size and token is not None]
    return WireReply(200, {"balances": [_balance(0, "1000000.0"), *rows]})


def _balance(token: int, total: str) -> dict[str, object]:
    return {"coin": TOKENS[token][0], "token": token, "hold": "0.0", "total": total, "entryNtl": "0.0"}


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
        "triggerCondition": order.wire.get("triggerCondition", "N/A"),
        "isTrigger": order.wire.get("isTrigger", False),
        "triggerPx": order.wire.get("triggerPx", "0.0"),
        "children": order.wire.get("children", []),
        "isPositionTpsl": False,
        "reduceOnly": order.wire.get("reduceOnly", False),
        "orderType": order.wire.get("orderType", "Limit"),
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

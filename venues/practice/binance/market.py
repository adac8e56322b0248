"""The markets of the practice Binance: their rules, listings and quotes, spot and perpetual.

A perpetual's symbol in the book is the spot's with `:USDT` behind it, so that their orders and positions stay apart.
Must not know orders or paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from venues.practice.book import Desk
from venues.practice.faults import DEMO_SYMBOLS
from venues.practice.wire import WireReply, millis, plain

MIN_NOTIONAL = Decimal(5)
PERPETUAL = ":USDT"
SPOT_TYPES = ("LIMIT", "LIMIT_MAKER", "MARKET", "STOP_LOSS", "STOP_LOSS_LIMIT", "TAKE_PROFIT", "TAKE_PROFIT_LIMIT")
CONDITIONAL = ("STOP", "STOP_MARKET", "TAKE_PROFIT", "TAKE_PROFIT_MARKET", "TRAILING_STOP_MARKET")
LIMITS = [
    {"rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1, "limit": 6000},
    {"rateLimitType": "ORDERS", "interval": "SECOND", "intervalNum": 10, "limit": 100},
]
PRECISIONS = ("baseAssetPrecision", "quotePrecision", "quoteAssetPrecision", "baseCommissionPrecision")


@dataclass(frozen=True, slots=True)
class Pair:
    base: str
    mark: Decimal
    step: Decimal
    tick: Decimal

    @property
    def symbol(self) -> str:
        return f"{self.base}USDT"


def _market(base: str, mark: str, *, step: str, tick: str) -> Pair:
    return Pair(base, Decimal(mark), Decimal(step), Decimal(tick))


MARKETS: Mapping[str, Pair] = {
    market.symbol: market
    for market in (
        _market("BTC", "60000", step="0.00001", tick="0.01"),
        _market("ETH", "3000", step="0.0001", tick="0.01"),
        _market("BNB", "600", step="0.001", tick="0.01"),
        _market("SOL", "150", step="0.001", tick="0.01"),
        _market("XRP", "0.6", step="0.1", tick="0.0001"),
        _market("ADA", "0.5", step="0.1", tick="0.0001"),
        _market("DOGE", "0.1", step="1", tick="0.00001"),
        _market("LTC", "80", step="0.001", tick="0.01"),
        _market("LINK", "15", step="0.01", tick="0.001"),
        _market("AVAX", "30", step="0.01", tick="0.01"),
        *(_market(name, "100", step="0.001", tick="0.01") for name in DEMO_SYMBOLS),
    )
}


def book_symbol(symbol: str, *, futures: bool) -> str:
    return symbol + PERPETUAL if futures else symbol


def shown_symbol(symbol: str) -> str:
    return symbol.removesuffix(PERPETUAL)


def exchange_info(desk: Desk, *, futures: bool) -> WireReply:
    listing = _perpetual if futures else _listing
    symbols = [listing(market, desk.closed) for market in MARKETS.values()]
    zone = {"timezone": "UTC", "serverTime": millis(desk.now), "exchangeFilters": []}
    return WireReply(200, {**zone, "rateLimits": LIMITS, "symbols": symbols})


def no_symbols(desk: Desk) -> WireReply:
    """Answer for the paths of other contracts, so that a client that loads every market finds none there."""
    head = {"timezone": "UTC", "serverTime": millis(desk.now), "rateLimits": []}
    return WireReply(200, {**head, "exchangeFilters": [], "symbols": []})


def book_tickers(params: Mapping[str, str], desk: Desk, *, futures: bool) -> WireReply:
    """The best bid and ask of one market or of all; an empty side is zero, as Binance writes it."""
    if "symbol" not in params:
        return WireReply(200, [_ticker(market, desk, futures=futures) for market in MARKETS.values()])
    market = MARKETS.get(params["symbol"])
    if market is None:
        return WireReply(400, {"code": -1121, "msg": "Invalid symbol."})
    return WireReply(200, _ticker(market, desk, futures=futures))


def depth(params: Mapping[str, str], desk: Desk, *, futures: bool) -> WireReply:
    market = MARKETS.get(params.get("symbol", ""))
    if market is None:
        return WireReply(400, {"code": -1121, "msg": "Invalid symbol."})
    ticker = _ticker(market, desk, futures=futures)
    bids, asks = ([[ticker[f"{side}Price"], "1.00000000"]] for side in ("bid", "ask"))
    empty = not desk.quote(book_symbol(market.symbol, futures=futures), tick=market.tick)
    moment = {"E": millis(desk.now), "T": millis(desk.now)} if futures else {}
    return WireReply(200, {"lastUpdateId": 1, **moment, "bids": [] if empty else bids, "asks": [] if empty else asks})


def _ticker(market: Pair, desk: Desk, *, futures: bool) -> dict[str, object]:
    quote = desk.quote(book_symbol(market.symbol, futures=futures), tick=market.tick)
    bid, ask = (quote.bid, quote.ask) if quote else (Decimal(0), Decimal(0))
    sizes = dict.fromkeys(("bidQty", "askQty"), "1.00000000" if quote else "0.00000000")
    moment = {"time": millis(quote.at if quote else desk.now)} if futures else {}
    return {"symbol": market.symbol, "bidPrice": format(bid, ".8f"), "askPrice": format(ask, ".8f"), **sizes, **moment}


def _filters(market: Pair) -> list[dict[str, object]]:
    step, tick = plain(market.step), plain(market.tick)
    return [
        {"filterType": "PRICE_FILTER", "minPrice": tick, "maxPrice": "1000000.00000000", "tickSize": tick},
        {"filterType": "LOT_SIZE", "minQty": step, "maxQty": "9000000.00000000", "stepSize": step},
    ]


def _listing(market: Pair, closed: bool) -> dict[str, object]:
    least = {"filterType": "NOTIONAL", "minNotional": plain(MIN_NOTIONAL), "applyMinToMarket": True, "avgPriceMins": 5}
    return {
        "symbol": market.symbol,
        "status": "BREAK" if closed else "TRADING",
        "baseAsset": market.base,
        "quoteAsset": "USDT",
        **dict.fromkeys(PRECISIONS, 8),
        "orderTypes": list(SPOT_TYPES),
        "icebergAllowed": False,
        "ocoAllowed": False,
        "quoteOrderQtyMarketAllowed": True,
        "cancelReplaceAllowed": True,
        "isSpotTradingAllowed": True,
        "isMarginTradingAllowed": False,
        "filters": [*_filters(market), least],
        "permissions": ["SPOT"],
        "permissionSets": [["SPOT"]],
    }


def _perpetual(market: Pair, closed: bool) -> dict[str, object]:
    return {
        "symbol": market.symbol,
        "pair": market.symbol,
        "contractType": "PERPETUAL",
        "deliveryDate": 4133404800000,
        "onboardDate": 1569398400000,
        "status": "BREAK" if closed else "TRADING",
        "baseAsset": market.base,
        "quoteAsset": "USDT",
        "marginAsset": "USDT",
        "pricePrecision": 8,
        "quantityPrecision": 8,
        "baseAssetPrecision": 8,
        "quotePrecision": 8,
        "underlyingType": "COIN",
        "filters": [*_filters(market), {"filterType": "MIN_NOTIONAL", "notional": plain(MIN_NOTIONAL)}],
        "orderTypes": ["LIMIT", "MARKET", *CONDITIONAL],
        "timeInForce": ["GTC", "IOC", "FOK", "GTX", "GTD"],
    }

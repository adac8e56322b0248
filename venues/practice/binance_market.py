"""Binance's spot markets: symbols, filters, and the paths that need no order.

Knows nothing of the book's orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from venues.practice.book import Desk
from venues.practice.faults import DEMO_SYMBOLS
from venues.practice.wire import WireReply, plain

MIN_NOTIONAL = Decimal(5)


@dataclass(frozen=True, slots=True)
class Market:
    base: str
    mark: Decimal
    step: Decimal
    tick: Decimal

    @property
    def symbol(self) -> str:
        return f"{self.base}USDT"


def _market(base: str, mark: str, *, step: str, tick: str) -> Market:
    return Market(base, Decimal(mark), Decimal(step), Decimal(tick))


MARKETS: Mapping[str, Market] = {
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


def millis(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def exchange_info(desk: Desk) -> WireReply:
    limits = [
        {"rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1, "limit": 6000},
        {"rateLimitType": "ORDERS", "interval": "SECOND", "intervalNum": 10, "limit": 100},
    ]
    symbols = [_listing(market, desk.closed) for market in MARKETS.values()]
    zone = {"timezone": "UTC", "serverTime": millis(desk.now), "exchangeFilters": []}
    return WireReply(200, {**zone, "rateLimits": limits, "symbols": symbols})


def no_symbols(desk: Desk) -> WireReply:
    """Futures exist as paths, so that a client which loads every market finds none there."""
    head = {"timezone": "UTC", "serverTime": millis(desk.now), "rateLimits": []}
    return WireReply(200, {**head, "exchangeFilters": [], "symbols": []})


def system_status(desk: Desk) -> WireReply:
    return WireReply(200, {"status": 1, "msg": "system_maintenance"} if desk.closed else {"status": 0, "msg": "normal"})


def account(desk: Desk) -> WireReply:
    names = ("USDT", "BTC", "ETH", "BNB", "SOL")
    rates = dict.fromkeys(("maker", "taker", "buyer", "seller"), "0.00100000")
    return WireReply(
        200,
        {
            "makerCommission": 10,
            "takerCommission": 10,
            "buyerCommission": 0,
            "sellerCommission": 0,
            "commissionRates": rates,
            "canTrade": not desk.closed,
            "canWithdraw": False,
            "canDeposit": False,
            "updateTime": millis(desk.now),
            "accountType": "SPOT",
            "balances": [{"asset": name, "free": "1000000.00000000", "locked": "0.00000000"} for name in names],
            "permissions": ["SPOT"],
            "uid": 354937868,
        },
    )


def _listing(market: Market, closed: bool) -> dict[str, object]:
    step, tick = plain(market.step), plain(market.tick)
    filters: list[dict[str, object]] = [
        {"filterType": "PRICE_FILTER", "minPrice": tick, "maxPrice": "1000000.00000000", "tickSize": tick},
        {"filterType": "LOT_SIZE", "minQty": step, "maxQty": "9000000.00000000", "stepSize": step},
        {
            "filterType": "NOTIONAL",
            "minNotional": plain(MIN_NOTIONAL),
            "applyMinToMarket": True,
            "avgPriceMins": 5,
        },
    ]
    precision = dict.fromkeys(
        ("baseAssetPrecision", "quotePrecision", "quoteAssetPrecision", "baseCommissionPrecision"), 8
    )
    return {
        "symbol": market.symbol,
        "status": "BREAK" if closed else "TRADING",
        "baseAsset": market.base,
        "quoteAsset": "USDT",
        **precision,
        "orderTypes": ["LIMIT", "LIMIT_MAKER", "MARKET"],
        "icebergAllowed": False,
        "ocoAllowed": False,
        "quoteOrderQtyMarketAllowed": True,
        "cancelReplaceAllowed": True,
        "isSpotTradingAllowed": True,
        "isMarginTradingAllowed": False,
        "filters": filters,
        "permissions": ["SPOT"],
        "permissionSets": [["SPOT"]],
    }

"""Binance on loopback with one market and scripted answers, and a ccxt client that is open on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from tests.support.ccxt_offline import action, offline, secrets_of
from tests.support.http_server import Answer, Handler, Loopback, Received, reply
from tests.support.venue.rigs_sdk import CCXT_SECRETS
from venues import (
    Credentials,
    Mode,
    Prepared,
    Route,
    connect,
)
from venues.ccxt.client import CcxtClient

COID = "0123456789abcdef" * 2
FILTERS = [
    {"filterType": "PRICE_FILTER", "minPrice": "0.01", "maxPrice": "1000000", "tickSize": "0.01"},
    {"filterType": "LOT_SIZE", "minQty": "0.00001", "maxQty": "9000", "stepSize": "0.00001"},
]
SYMBOL = {
    "symbol": "BTCUSDT",
    "status": "TRADING",
    "baseAsset": "BTC",
    "quoteAsset": "USDT",
    "orderTypes": ["LIMIT", "MARKET"],
    "isSpotTradingAllowed": True,
    "permissions": ["SPOT"],
    "filters": FILTERS,
}
INFO = {"timezone": "UTC", "serverTime": 1, "rateLimits": [], "exchangeFilters": [], "symbols": [SYMBOL]}
ORDER = {
    "symbol": "BTCUSDT",
    "orderId": 28,
    "clientOrderId": COID,
    "transactTime": 1507725176595,
    "price": "50000.00",
    "origQty": "0.5",
    "executedQty": "0.0",
    "status": "NEW",
    "timeInForce": "GTC",
    "type": "LIMIT",
    "side": "BUY",
}


def binance(answer: Handler | bytes) -> Handler:
    """Tells its one market; everything else is the test's."""

    def handle(request: Received) -> Answer | Awaitable[Answer]:
        if request.path == "/api/v3/exchangeInfo":
            return reply(200, INFO)
        if request.path.endswith("/exchangeInfo"):
            return reply(404, {"code": -5000, "msg": "Path not found"})
        return answer if isinstance(answer, bytes) else answer(request)

    return handle


async def at_market(url: str, exchange_id: str, *, spot: bool = True) -> CcxtClient:
    """A live client of any exchange on loopback, with a made-up market for BTC and one for ETH, as if it was open."""
    made, away = connected(url, f"ccxt:{exchange_id}", "live"), await offline(exchange_id, "live", spot=spot)
    exchange = await made.build()
    (bitcoin,) = away._exchange.markets.values()
    ether = {"id": "ETHUSDT", "symbol": bitcoin["symbol"].replace("BTC", "ETH"), "base": "ETH", "baseId": "2"}
    exchange.set_markets([bitcoin, {**bitcoin, **ether}])
    return made


def connected(url: str, name: str = "ccxt:binance", mode: Mode = "paper", timeout: float = 2.0) -> CcxtClient:
    secrets = CCXT_SECRETS if name == "ccxt:binance" else secrets_of(name.removeprefix("ccxt:"))
    made = connect(name, mode, Credentials(secrets), Route(timeout, url))
    assert isinstance(made, CcxtClient)
    return made


@asynccontextmanager
async def client(answer: Handler | bytes = b"", mode: Mode = "paper") -> AsyncIterator[tuple[CcxtClient, Loopback]]:
    async with Loopback(binance(answer)) as server:
        made = connected(server.url, mode=mode)
        await made.open()
        yield made, server
        assert made._exchange.session is None  # aiohttp was never asked to connect
        await made.aclose()


def prepared(made: CcxtClient, **changes: object) -> Prepared:
    ready = made.prepare(action(**changes), COID)
    assert isinstance(ready, Prepared), ready
    return ready


def sends(server: Loopback) -> list[Received]:
    return [request for request in server.requests if not request.path.endswith("/exchangeInfo")]

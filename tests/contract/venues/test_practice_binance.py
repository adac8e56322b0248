"""ccxt's binance, unmodified, sync and async, trades on the practice exchange; and Binance's own refusals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import ccxt
import ccxt.async_support
import pytest

from tests.support.practice_wire import Ask, binance_ask, binance_order, hear
from venues.practice import PracticeExchange

T = TypeVar("T")
KEYS = {"apiKey": "key", "secret": "secret"}


@pytest.fixture
async def exchange() -> AsyncIterator[PracticeExchange]:
    async with PracticeExchange() as running:
        yield running


@pytest.fixture
async def client(exchange: PracticeExchange) -> AsyncIterator[Any]:
    binance = ccxt.async_support.binance(KEYS)
    binance.urls["api"] = moved(binance.urls["api"], exchange.url)
    yield binance
    await binance.close()


def moved(urls: dict[str, str], base: str) -> dict[str, str]:
    return {name: base + urlsplit(url).path for name, url in urls.items()}


async def run(call: Callable[[], T]) -> T:
    return await asyncio.wait_for(asyncio.to_thread(call), 30)


async def test_async_place_look_up_edit_cancel(exchange: PracticeExchange, client: Any) -> None:
    await client.load_markets()
    placed = await client.create_order("BTC/USDT", "limit", "buy", 0.001, 50000, {"clientOrderId": "dlq-1"})
    assert (placed["status"], placed["clientOrderId"], placed["amount"]) == ("open", "dlq-1", 0.001)
    found = await client.fetch_order(None, "BTC/USDT", {"clientOrderId": "dlq-1"})
    assert (found["id"], found["status"]) == (placed["id"], "open")
    changed = await client.edit_order(
        placed["id"], "BTC/USDT", "limit", "buy", 0.002, 50000, {"clientOrderId": "dlq-2"}
    )
    assert (changed["amount"], changed["clientOrderId"]) == (0.002, "dlq-2")
    assert [order["id"] for order in await client.fetch_open_orders("BTC/USDT")] == [changed["id"]]
    assert (await client.cancel_order(changed["id"], "BTC/USDT"))["status"] == "canceled"
    assert await client.fetch_open_orders("BTC/USDT") == []
    assert [order["status"] for order in await client.fetch_orders("BTC/USDT")] == ["canceled", "canceled"]
    assert [line["kind"] for line in exchange.received] == ["new", "replace", "cancel"]


async def test_sync_place_look_up_cancel(exchange: PracticeExchange) -> None:
    binance = ccxt.binance(KEYS)
    binance.urls["api"] = moved(binance.urls["api"], exchange.url)
    await run(binance.load_markets)
    params = {"clientOrderId": "dlq-1"}
    placed = await run(lambda: binance.create_order("ETH/USDT", "limit", "sell", 0.5, 3500, params))
    found = await run(lambda: binance.fetch_order(None, "ETH/USDT", params))
    assert (found["id"], found["side"], found["price"]) == (placed["id"], "sell", 3500)
    assert (await run(lambda: binance.cancel_order(placed["id"], "ETH/USDT")))["status"] == "canceled"
    binance.session.close()
    assert [line["booked"] for line in exchange.received] == [True, True]


async def test_market_order_fills_at_once(client: Any) -> None:
    filled = await client.create_order("ETH/USDT", "market", "buy", 0.01)
    assert (filled["status"], filled["filled"], filled["average"]) == ("closed", 0.01, 3000)
    (trade,) = await client.fetch_my_trades("ETH/USDT")
    assert (trade["order"], trade["amount"]) == (filled["id"], 0.01)


async def test_probe(exchange: PracticeExchange, client: Any) -> None:
    assert abs(await client.fetch_time() - time.time() * 1000) < 60_000
    assert (await client.fetch_balance())["USDT"]["free"] > 0
    assert (await client.fetch_status())["status"] == "ok"
    exchange.fault("*", "closed", on="probe")
    assert (await client.fetch_status())["status"] == "maintenance"


async def test_duplicate_client_id_is_refused_among_open_orders_only(exchange: PracticeExchange, client: Any) -> None:
    async def place() -> Any:
        return await client.create_order("BTC/USDT", "limit", "buy", 0.001, 50000, {"clientOrderId": "dlq-1"})

    first = await place()
    with pytest.raises(ccxt.InvalidOrder, match="Duplicate order sent"):
        await place()
    exchange.mark(first["id"], "filled")
    second = await place()
    assert second["id"] != first["id"]
    found = await client.fetch_order(None, "BTC/USDT", {"clientOrderId": "dlq-1"})
    assert found["id"] == second["id"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("reject", ccxt.InsufficientFunds),
        ("http_429", ccxt.DDoSProtection),
        ("http_503", ccxt.ExchangeNotAvailable),
        ("http_504", ccxt.RequestTimeout),
        ("accept_then_drop", ccxt.ExchangeNotAvailable),
        ("http_401", ccxt.AuthenticationError),
    ],
)
async def test_ccxt_reads_the_faults_as_it_reads_binance(
    exchange: PracticeExchange, client: Any, fault: str, error: type[Exception]
) -> None:
    exchange.fault("BTC/USDT", fault)
    with pytest.raises(error):
        await client.create_order("BTC/USDT", "limit", "buy", 0.001, 50000, {"clientOrderId": "dlq-1"})
    assert len(exchange.received) == 1


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"symbol": "NOSUCH"}, -1121),
        ({"side": "HOLD"}, -1117),
        ({"type": "DANCE"}, -1116),
        ({"timeInForce": "DAY"}, -1115),
        ({"quantity": "0"}, -1013),
        ({"quantity": "0.000001"}, -1013),
        ({"price": "50000.001"}, -1013),
        ({"price": "0.01"}, -1013),
        ({"quantity": ""}, -1102),
        ({"newClientOrderId": "a b"}, -1100),
        ({"newClientOrderId": "x" * 37}, -1100),
    ],
)
async def test_invalid_orders(exchange: PracticeExchange, wrong: dict[str, object], code: int) -> None:
    heard = await hear(exchange.url, binance_order("dlq-1", "BTCUSDT", **wrong))
    assert (heard.status, heard.json()["code"]) == (400, code)
    assert exchange.orders == ()


@pytest.mark.parametrize(
    ("age", "window", "status"),
    [(0, 5000, 200), (4000, 5000, 200), (9000, 5000, 400), (9000, 60000, 200), (-5000, 60000, 400)],
)
async def test_a_signature_out_of_its_window_is_refused(
    exchange: PracticeExchange, age: int, window: int, status: int
) -> None:
    ask = binance_order("dlq-1", "BTCUSDT", recvWindow=window)
    stamp = f"timestamp={int(time.time() * 1000) - age}"
    body = "&".join(stamp if part.startswith("timestamp=") else part for part in ask.body.split("&"))
    heard = await hear(exchange.url, Ask(ask.method, ask.target, ask.headers, body))
    assert heard.status == status
    if status == 400:
        assert heard.json()["code"] == -1021
    assert len(exchange.orders) == (status == 200)


@pytest.mark.parametrize("missing", ["timestamp", "signature"])
async def test_an_unsigned_order_is_refused(exchange: PracticeExchange, missing: str) -> None:
    ask = binance_order("dlq-1", "BTCUSDT")
    body = "&".join(part for part in ask.body.split("&") if not part.startswith(missing))
    heard = await hear(exchange.url, Ask(ask.method, ask.target, ask.headers, body))
    assert (heard.status, heard.json()["code"]) == (400, -1102)


async def test_replacing_nothing_sends_nothing(exchange: PracticeExchange) -> None:
    fields = {"symbol": "BTCUSDT", "cancelOrderId": "1", "newClientOrderId": "dlq-2", "cancelReplaceMode": "S"}
    heard = await hear(exchange.url, binance_ask("POST", "order/cancelReplace", **fields))
    assert (heard.status, heard.json()["code"]) == (400, -2022)
    assert exchange.orders == ()


async def test_a_replacement_that_is_refused_leaves_the_order_cancelled(exchange: PracticeExchange) -> None:
    placed = (await hear(exchange.url, binance_order("dlq-1", "BTCUSDT"))).json()
    fields = {
        "symbol": "BTCUSDT",
        "cancelOrderId": placed["orderId"],
        "side": "BUY",
        "type": "LIMIT",
        "timeInForce": "GTC",
        "quantity": "0",
        "price": "1",
    }
    heard = await hear(exchange.url, binance_ask("POST", "order/cancelReplace", **fields))
    assert (heard.status, heard.json()["code"]) == (409, -2021)
    assert [order.state for order in exchange.orders] == ["cancelled"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_order(exchange: PracticeExchange, method: str) -> None:
    ask = binance_ask(method, "order", symbol="BTCUSDT", origClientOrderId="nobody")
    heard = await hear(exchange.url, ask)
    assert (heard.status, heard.json()["code"]) == (400, {"GET": -2013, "DELETE": -2011}[method])


WAITING = [
    ("BTC/USDT", "market", {"triggerPrice": 49000}, "STOP_LOSS"),
    ("BTC/USDT", "limit", {"triggerPrice": 49000}, "STOP_LOSS_LIMIT"),
    ("BTC/USDT", "market", {"takeProfitPrice": 70000}, "TAKE_PROFIT"),
    ("BTC/USDT:USDT", "market", {"triggerPrice": 49000}, "STOP_MARKET"),
    ("BTC/USDT:USDT", "limit", {"triggerPrice": 49000}, "STOP"),
    ("BTC/USDT:USDT", "market", {"takeProfitPrice": 70000}, "TAKE_PROFIT_MARKET"),
    ("BTC/USDT:USDT", "market", {"trailingPercent": 1.5}, "TRAILING_STOP_MARKET"),
]


@pytest.mark.parametrize(("symbol", "kind", "params", "named"), WAITING)
async def test_an_order_that_waits_for_a_price_rests(
    exchange: PracticeExchange, client: Any, symbol: str, kind: str, params: dict[str, object], named: str
) -> None:
    await client.load_markets()
    price = 48000 if kind == "limit" else None
    placed = await client.create_order(symbol, kind, "sell", 0.5, price, {"clientOrderId": "dlq-1", **params})
    assert (placed["status"], placed["filled"]) == ("open", 0)
    found = await client.fetch_order(None, symbol, {"clientOrderId": "dlq-1", "trigger": ":" in symbol})
    said = found["info"].get("orderType") or found["info"]["type"]
    assert (found["id"], found["clientOrderId"], said) == (placed["id"], "dlq-1", named)
    assert found["triggerPrice"] == (params.get("triggerPrice") or params.get("takeProfitPrice"))
    waiting = await client.fetch_open_orders(symbol, None, None, {"trigger": True} if ":" in symbol else {})
    assert [order["id"] for order in waiting] == [placed["id"]]
    await client.cancel_order(placed["id"], symbol, {"trigger": True} if ":" in symbol else {})
    assert [order.state for order in exchange.orders] == ["cancelled"]


async def test_spot_and_futures_are_two_markets(exchange: PracticeExchange, client: Any) -> None:
    await client.load_markets()
    await client.create_order("BTC/USDT:USDT", "market", "sell", 0.5, None, {"clientOrderId": "dlq-1"})
    spot = await client.create_order("BTC/USDT", "limit", "buy", 0.5, 50000, {"clientOrderId": "dlq-1"})
    assert [order["id"] for order in await client.fetch_open_orders("BTC/USDT")] == [spot["id"]]
    assert await client.fetch_open_orders("BTC/USDT:USDT") == []
    (short,) = await client.fetch_positions(["BTC/USDT:USDT"])
    assert (short["symbol"], short["side"], short["contracts"]) == ("BTC/USDT:USDT", "short", 0.5)
    assert "BTC" not in (await client.fetch_balance())["total"]
    quotes = await client.fetch_bids_asks(["BTC/USDT:USDT"])
    assert (quotes["BTC/USDT:USDT"]["bid"], quotes["BTC/USDT:USDT"]["ask"]) == (59999.99, 60000.01)


async def test_flags_of_a_futures_order_are_kept(client: Any) -> None:
    await client.load_markets()
    flags = {"reduceOnly": True, "postOnly": True}
    placed = await client.create_order("BTC/USDT:USDT", "limit", "sell", 0.5, 70000, flags)
    found = await client.fetch_order(placed["id"], "BTC/USDT:USDT")
    assert (found["reduceOnly"], found["postOnly"], found["timeInForce"]) == (True, True, "PO")
    changed = await client.edit_order(placed["id"], "BTC/USDT:USDT", "limit", "sell", 0.25, 71000)
    assert (changed["id"], changed["amount"], changed["price"]) == (placed["id"], 0.25, 71000)
    with pytest.raises(ccxt.BadRequest):
        await client.create_order("BTC/USDT", "limit", "sell", 0.5, 70000, {"reduceOnly": True})

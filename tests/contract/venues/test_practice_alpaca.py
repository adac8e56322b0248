"""alpaca-py, unmodified, trades on the practice exchange; and what the exchange refuses, in Alpaca's words."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import pytest

from tests.support.practice_wire import ALPACA_KEYS, Ask, alpaca_order, hear
from tests.support.venue.alpaca_shapes import CALL, PUT, SHAPES
from venues.practice import PracticeExchange
from venues.practice.book import State

with warnings.catch_warnings():
    # alpaca-py imports a part of websockets that is on its way out; nothing here uses it.
    warnings.simplefilter("ignore", DeprecationWarning)
    from alpaca.common.exceptions import APIError
    from alpaca.data.historical import (
        CryptoHistoricalDataClient,
        OptionHistoricalDataClient,
        StockHistoricalDataClient,
    )
    from alpaca.data.requests import (
        CryptoLatestQuoteRequest,
        OptionLatestQuoteRequest,
        StockLatestQuoteRequest,
    )
    from alpaca.trading.client import TradingClient
    from alpaca.trading.enums import OrderSide, OrderStatus, TimeInForce
    from alpaca.trading.requests import (
        GetOrderByIdRequest,
        GetOrdersRequest,
        LimitOrderRequest,
        MarketOrderRequest,
        ReplaceOrderRequest,
    )

T = TypeVar("T")


@pytest.fixture
async def exchange() -> AsyncIterator[PracticeExchange]:
    async with PracticeExchange() as running:
        yield running


@pytest.fixture
async def client(exchange: PracticeExchange) -> AsyncIterator[Any]:
    trading = TradingClient("PKTEST", "secret", url_override=exchange.url)
    yield trading
    trading._session.close()


async def run(call: Callable[[], T]) -> T:
    """The SDK blocks, and the exchange it talks to lives on this loop."""
    return await asyncio.wait_for(asyncio.to_thread(call), 30)


def limit(client_order_id: str, **more: object) -> Any:
    fields = {
        "symbol": "AAPL",
        "qty": 1.5,
        "side": OrderSide.BUY,
        "time_in_force": TimeInForce.DAY,
        "limit_price": 190.1,
    }
    return LimitOrderRequest(client_order_id=client_order_id, **(fields | more))


async def test_place_look_up_replace_cancel(exchange: PracticeExchange, client: Any) -> None:
    placed = await run(lambda: client.submit_order(limit("dlq-1")))
    assert (placed.status, placed.client_order_id, placed.qty) == (OrderStatus.NEW, "dlq-1", "1.5")
    assert (await run(lambda: client.get_order_by_client_id("dlq-1"))).id == placed.id
    changed = await run(lambda: client.replace_order_by_id(placed.id, ReplaceOrderRequest(qty=3)))
    assert (changed.replaces, changed.qty) == (placed.id, "3")
    old = await run(lambda: client.get_order_by_id(placed.id))
    assert (old.status, old.replaced_by) == (OrderStatus.REPLACED, changed.id)
    assert [order.id for order in await run(client.get_orders)] == [changed.id]
    await run(lambda: client.cancel_order_by_id(changed.id))
    assert (await run(lambda: client.get_order_by_id(changed.id))).status == OrderStatus.CANCELED
    assert await run(client.get_orders) == []
    assert [line["kind"] for line in exchange.received] == ["new", "replace", "cancel"]


async def test_market_order_fills_at_once(client: Any) -> None:
    order = MarketOrderRequest(symbol="AAPL", qty=2, side=OrderSide.SELL, time_in_force=TimeInForce.DAY)
    filled = await run(lambda: client.submit_order(order))
    assert (filled.status, filled.filled_qty, filled.filled_avg_price) == (OrderStatus.FILLED, "2", "179.99")


@pytest.mark.parametrize("cancelled", [False, True])
async def test_client_order_id_is_unique_for_ever(client: Any, cancelled: bool) -> None:
    placed = await run(lambda: client.submit_order(limit("dlq-1")))
    if cancelled:
        await run(lambda: client.cancel_order_by_id(placed.id))
    with pytest.raises(APIError) as refusal:
        await run(lambda: client.submit_order(limit("dlq-1")))
    assert refusal.value.status_code == 422
    assert json.loads(str(refusal.value)) == {"code": 40010001, "message": "client_order_id must be unique"}


async def test_probe(client: Any) -> None:
    assert (await run(client.get_clock)).is_open is True
    account = await run(client.get_account)
    assert (account.status, account.trading_blocked, account.account_number[:2]) == ("ACTIVE", False, "PA")
    assert (await run(lambda: client.get_asset("AAPL"))).tradable is True
    assert await run(client.get_all_positions) == []


@pytest.mark.parametrize(
    ("key", "form"), [("PKX", r"PA[0-9A-Z]{10}"), ("AKX", "[1-9][0-9]{8}"), ("any", "PRACTICE[0-9A-Z]{8}")]
)
async def test_the_account_belongs_to_the_key(exchange: PracticeExchange, key: str, form: str) -> None:
    async def number(key: str) -> str:
        heard = await hear(exchange.url, Ask("GET", "/v2/account", ALPACA_KEYS | {"APCA-API-KEY-ID": key}))
        return str(heard.json()["account_number"])

    assert re.fullmatch(form, await number(key))
    assert await number(key) == await number(key)
    assert await number(key) != await number(key + "2")


async def test_a_marked_order_shows_what_the_market_did(exchange: PracticeExchange, client: Any) -> None:
    placed = await run(lambda: client.submit_order(limit("dlq-1")))
    expected: dict[State, Any] = {
        "partly_filled": OrderStatus.PARTIALLY_FILLED,
        "filled": OrderStatus.FILLED,
        "expired": OrderStatus.EXPIRED,
        "rejected": OrderStatus.REJECTED,
    }
    for state, status in expected.items():
        exchange.mark(str(placed.id), state)
        assert (await run(lambda: client.get_order_by_client_id("dlq-1"))).status == status


@pytest.mark.parametrize(
    ("wrong", "status", "code", "words"),
    [
        ({"symbol": "NOSUCH"}, 422, 42210000, "not found"),
        ({"symbol": "no such"}, 422, 42210000, "not found"),
        ({"qty": "0"}, 422, 40010001, "qty must be > 0"),
        ({"qty": None}, 422, 40010001, "qty or notional"),
        ({"qty": "1e400"}, 422, 40010001, "qty or notional"),
        ({"side": "hold"}, 422, 40010001, "side"),
        ({"type": "dance"}, 422, 40010001, "type"),
        ({"time_in_force": "soon"}, 422, 40010001, "time_in_force"),
        ({"limit_price": None}, 422, 40010001, "limit price"),
        ({"limit_price": "190.123"}, 422, 42210000, "sub-penny"),
        ({"client_order_id": "x" * 129}, 422, 40010001, "128"),
    ],
)
async def test_invalid_orders(
    exchange: PracticeExchange, wrong: dict[str, object], status: int, code: int, words: str
) -> None:
    heard = await hear(exchange.url, alpaca_order("dlq-1", "AAPL", **wrong))
    assert (heard.status, heard.json()["code"]) == (status, code)
    assert words in heard.json()["message"]
    assert exchange.orders == ()
    assert [line["booked"] for line in exchange.received] == [False]


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "GET"])
async def test_an_unknown_order_is_404(exchange: PracticeExchange, method: str) -> None:
    heard = await hear(exchange.url, Ask(method, "/v2/orders/nobody", ALPACA_KEYS, "{}"))
    assert (heard.status, heard.json()["code"]) == (404, 40410000)


async def test_a_filled_order_cannot_be_cancelled(exchange: PracticeExchange) -> None:
    order = (await hear(exchange.url, alpaca_order("dlq-1", "AAPL", type="market", limit_price=None))).json()
    heard = await hear(exchange.url, Ask("DELETE", f"/v2/orders/{order['id']}", ALPACA_KEYS))
    assert (heard.status, heard.json()["code"]) == (422, 42210000)


async def test_orders_are_listed_as_asked(exchange: PracticeExchange) -> None:
    for number, symbol in enumerate(("AAPL", "MSFT", "AAPL")):
        await hear(exchange.url, alpaca_order(f"dlq-{number}", symbol))
    exchange.mark(exchange.orders[0].order_id, "cancelled")

    async def listed(query: str) -> list[str]:
        rows = (await hear(exchange.url, Ask("GET", f"/v2/orders?{query}", ALPACA_KEYS))).json()
        return [row["client_order_id"] for row in rows]

    assert await listed("") == ["dlq-2", "dlq-1"]
    assert await listed("status=closed") == ["dlq-0"]
    assert await listed("status=all&direction=asc") == ["dlq-0", "dlq-1", "dlq-2"]
    assert await listed("status=all&symbols=AAPL&limit=1") == ["dlq-2"]


async def test_cancel_all(exchange: PracticeExchange) -> None:
    for number in range(2):
        await hear(exchange.url, alpaca_order(f"dlq-{number}", "AAPL"))
    heard = await hear(exchange.url, Ask("DELETE", "/v2/orders", ALPACA_KEYS))
    assert heard.status == 207
    assert {order.state for order in exchange.orders} == {"cancelled"}


# Every shape of order, and the orders that belong to others

TAKEN = [shape for shape in SHAPES if shape.verb == "new" and shape.refused is None]


async def test_every_shape_is_taken_and_told_back(exchange: PracticeExchange, client: Any) -> None:
    def place(number: int) -> Any:
        sent = TAKEN[number].request.model_copy(update={"client_order_id": f"dlq-{number}"})
        placed = client.submit_order(sent)
        told = client.get_order_by_id(placed.id, GetOrderByIdRequest(nested=True))
        assert told == placed
        return sent, told

    for sent, told in await run(lambda: [place(number) for number in range(len(TAKEN))]):
        for name in ("type", "time_in_force", "client_order_id"):
            assert getattr(told, name) == getattr(sent, name)
        for name in ("symbol", "side"):
            assert getattr(told, name) == getattr(sent, name)
        for name in ("qty", "notional", "trail_price", "trail_percent"):
            wanted, held = getattr(sent, name, None), getattr(told, name)
            assert (wanted is None) == (held is None), (sent, name)
            assert wanted is None or float(held) == wanted
        assert (told.order_class, told.extended_hours) == (sent.order_class or "simple", sent.extended_hours or False)
    assert len(TAKEN) == 33


def bracket(**more: object) -> Any:
    exits = {"take_profit": {"limit_price": 200.5}, "stop_loss": {"stop_price": 170, "limit_price": 169.5}}
    return limit("dlq-1", qty=2, order_class="bracket", **exits, **more)


async def test_a_brackets_exits_are_orders_of_their_own(client: Any) -> None:
    placed = await run(lambda: client.submit_order(bracket()))
    profit, loss = placed.legs
    assert (profit.type, profit.limit_price, profit.side, profit.status) == ("limit", "200.5", "sell", "held")
    assert (loss.type, loss.stop_price, loss.limit_price, loss.qty) == ("stop_limit", "170", "169.5", "2")
    assert (await run(lambda: client.get_order_by_id(placed.id))).legs is None
    assert len(await run(client.get_orders)) == 3
    (rolled,) = await run(lambda: client.get_orders(GetOrdersRequest(nested=True)))
    assert [leg.id for leg in rolled.legs] == [profit.id, loss.id]
    assert (await run(lambda: client.get_order_by_id(profit.id))).order_class == "bracket"


async def test_an_exit_and_its_parent_are_replaced_and_stay_together(client: Any) -> None:
    placed = await run(lambda: client.submit_order(bracket()))
    loss = placed.legs[1]
    lower = await run(
        lambda: client.replace_order_by_id(loss.id, ReplaceOrderRequest(stop_price=165.5, limit_price=165))
    )
    assert (lower.stop_price, lower.limit_price, lower.replaces) == ("165.5", "165", loss.id)
    changed = await run(lambda: client.replace_order_by_id(placed.id, ReplaceOrderRequest(limit_price=185)))
    assert [leg.id for leg in changed.legs] == [placed.legs[0].id, lower.id]
    await run(lambda: client.cancel_order_by_id(changed.id))
    assert await run(client.get_orders) == []


async def test_a_trail_is_replaced_in_its_own_unit(client: Any) -> None:
    shape = next(shape for shape in SHAPES if shape.name == "trail by percent")
    placed = await run(lambda: client.submit_order(shape.request))
    assert (placed.trail_percent, placed.hwm, placed.status) == ("1.125", "179.99", OrderStatus.NEW)
    changed = await run(lambda: client.replace_order_by_id(placed.id, ReplaceOrderRequest(trail=2.5)))
    assert (changed.trail_percent, changed.trail_price) == ("2.5", None)


async def test_a_spread_fills_leg_by_leg(client: Any) -> None:
    shape = next(shape for shape in SHAPES if shape.name == "spread at market")
    placed = await run(lambda: client.submit_order(shape.request))
    assert (placed.symbol, placed.side, placed.status) == (None, None, OrderStatus.FILLED)
    assert [(leg.symbol, leg.ratio_qty, leg.filled_qty) for leg in placed.legs] == [(CALL, "1", "2"), (PUT, "2", "4")]
    held = await run(client.get_all_positions)
    assert {one.symbol: (one.qty, one.side.value) for one in held} == {CALL: ("2", "long"), PUT: ("-4", "short")}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"notional": "5"}, "only one of"),
        ({"qty": None, "notional": "5.001"}, "2 decimal"),
        ({"type": "stop", "limit_price": None}, "stop price"),
        ({"type": "stop"}, "stop price"),
        ({"type": "market"}, "no limit price"),
        ({"type": "trailing_stop", "limit_price": None}, "trail_price"),
        ({"order_class": "odd"}, "order_class"),
        ({"order_class": "bracket", "take_profit": {"limit_price": "200"}}, "stop_loss"),
        ({"order_class": "oco", "stop_loss": {"stop_price": "170"}}, "take_profit"),
        ({"order_class": "oto"}, "oto"),
        ({"order_class": "mleg", "legs": [{"symbol": CALL}]}, "legs"),
        ({"take_profit": {"limit_price": "200"}}, "simple"),
        ({"position_intent": "hold"}, "position_intent"),
        ({"type": "stop_limit", "stop_price": "1.001"}, "sub-penny"),
    ],
)
async def test_orders_without_one_meaning(exchange: PracticeExchange, wrong: dict[str, object], words: str) -> None:
    heard = await hear(exchange.url, alpaca_order("dlq-1", "AAPL", **wrong))
    assert heard.status == 422
    assert words in heard.json()["message"]
    assert exchange.orders == ()


# The market


async def test_alpaca_pys_data_clients_read_the_quotes(exchange: PracticeExchange) -> None:
    for symbol, bid, ask in (("AAPL", "180.5", "180.75"), ("BTC/USD", "17000", "17001.5"), (CALL, "3", "3.1")):
        exchange.prices.set(symbol, Decimal(bid), Decimal(ask), datetime(2026, 11, 16, 15, tzinfo=UTC))
    keys: Any = ("PKTEST", "secret")
    stocks = StockHistoricalDataClient(*keys, url_override=exchange.url)
    coins = CryptoHistoricalDataClient(*keys, url_override=exchange.url)
    options = OptionHistoricalDataClient(*keys, url_override=exchange.url)

    def look() -> list[Any]:
        return [
            stocks.get_stock_latest_quote(StockLatestQuoteRequest(symbol_or_symbols=["AAPL", "MSFT", "QQQQ"])),
            coins.get_crypto_latest_quote(CryptoLatestQuoteRequest(symbol_or_symbols="BTC/USD")),
            options.get_option_latest_quote(OptionLatestQuoteRequest(symbol_or_symbols=CALL)),
        ]

    told = await run(look)
    for one in (stocks, coins, options):
        one._session.close()
    found = {name: (quote.bid_price, quote.ask_price) for quotes in told for name, quote in quotes.items()}
    assert found == {
        "AAPL": (180.5, 180.75),
        "MSFT": (409.99, 410.01),
        "BTC/USD": (17000.0, 17001.5),
        CALL: (3.0, 3.1),
    }
    assert told[0]["AAPL"].timestamp == datetime(2026, 11, 16, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/v2/stocks/AAPL/quotes/latest", 200),
        ("/v2/stocks/QQQQ/quotes/latest", 404),
        ("/v2/stocks/quotes/latest?symbols=AAPL,no%20such", 400),
        ("/v2/stocks/quotes/latest", 400),
        ("/v1beta1/news", 404),
    ],
)
async def test_quotes_by_path(exchange: PracticeExchange, target: str, status: int) -> None:
    heard = await hear(exchange.url, Ask("GET", target, ALPACA_KEYS))
    assert heard.status == status
    assert status != 200 or heard.json()["quote"]["bp"] == 179.99


async def test_positions_are_what_was_given_and_what_filled(exchange: PracticeExchange, client: Any) -> None:
    exchange.prices.hold("alpaca", "", "BTC/USD", Decimal("0.5"))
    order = MarketOrderRequest(symbol="AAPL", qty=2, side=OrderSide.SELL, time_in_force=TimeInForce.DAY)
    await run(lambda: client.submit_order(order))
    held = await run(client.get_all_positions)
    assert {one.symbol: (one.qty, one.side.value) for one in held} == {
        "AAPL": ("-2", "short"),
        "BTCUSD": ("0.5", "long"),
    }
    assert (await run(lambda: client.get_open_position("AAPL"))).qty == "-2"
    with pytest.raises(APIError) as refusal:
        await run(lambda: client.get_open_position("MSFT"))
    assert refusal.value.status_code == 404

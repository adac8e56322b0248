"""alpaca-py, unmodified, trades on the practice exchange; and what the exchange refuses, in Alpaca's words."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pytest

from tests.support.practice_wire import ALPACA_KEYS, Ask, alpaca_order, hear
from venues.practice import PracticeExchange
from venues.practice.book import State

with warnings.catch_warnings():
    # alpaca-py imports a part of websockets that is on its way out; nothing here uses it.
    warnings.simplefilter("ignore", DeprecationWarning)
    from alpaca.common.exceptions import APIError
    from alpaca.trading.client import TradingClient
    from alpaca.trading.enums import OrderSide, OrderStatus, TimeInForce
    from alpaca.trading.requests import LimitOrderRequest, MarketOrderRequest, ReplaceOrderRequest

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
    assert (filled.status, filled.filled_qty, filled.filled_avg_price) == (OrderStatus.FILLED, "2", "100")


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
    order = (await hear(exchange.url, alpaca_order("dlq-1", "AAPL", type="market"))).json()
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

"""The practice exchange in Kalshi's words: the current order paths, paging, duplicates, refusals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping

import pytest

from tests.support.practice_wire import KALSHI_KEYS, Ask, Heard, SteppedClock, hear, kalshi_order
from venues.practice import PracticeExchange

ROOT = "/trade-api/v2"
TICKER = "KXHIGHNY-26APR18-T70"
NOTHING: Mapping[str, object] = {}


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def exchange(clock: SteppedClock) -> AsyncIterator[PracticeExchange]:
    async with PracticeExchange(clock=clock) as running:
        yield running


async def ask(exchange: PracticeExchange, method: str, path: str, body: object = None) -> Heard:
    text = "" if body is None else json.dumps(body)
    return await hear(exchange.url, Ask(method, ROOT + path, KALSHI_KEYS, text))


async def place(
    exchange: PracticeExchange, client_order_id: str = "dlq-1", more: Mapping[str, object] = NOTHING
) -> Heard:
    return await hear(exchange.url, kalshi_order(client_order_id, TICKER, **more))


async def test_place_look_up_amend_cancel(exchange: PracticeExchange, clock: SteppedClock) -> None:
    placed = await place(exchange)
    assert placed.status == 201
    order_id = placed.json()["order_id"]
    assert placed.json() == {
        "order_id": order_id,
        "client_order_id": "dlq-1",
        "fill_count": "0.00",
        "remaining_count": "10.00",
        "ts_ms": int(clock.now.timestamp() * 1000),
    }
    (shown,) = (await ask(exchange, "GET", f"/portfolio/orders?ticker={TICKER}")).json()["orders"]
    assert (shown["order_id"], shown["status"], shown["book_side"]) == (order_id, "resting", "bid")
    assert (shown["yes_price_dollars"], shown["no_price_dollars"]) == ("0.5600", "0.4400")
    amended = await ask(
        exchange,
        "POST",
        f"/portfolio/events/orders/{order_id}/amend",
        {"ticker": TICKER, "side": "bid", "price": "0.5700", "count": "12", "updated_client_order_id": "dlq-2"},
    )
    assert (amended.status, amended.json()["remaining_count"]) == (200, "12.00")
    one = (await ask(exchange, "GET", f"/portfolio/orders/{order_id}")).json()["order"]
    assert (one["client_order_id"], one["yes_price_dollars"]) == ("dlq-2", "0.5700")
    cancelled = await ask(exchange, "DELETE", f"/portfolio/events/orders/{order_id}")
    assert (cancelled.status, cancelled.json()["reduced_by"]) == (200, "12.00")
    assert (await ask(exchange, "GET", f"/portfolio/orders/{order_id}")).json()["order"]["status"] == "canceled"
    again = await ask(exchange, "DELETE", f"/portfolio/events/orders/{order_id}")
    assert (again.status, again.json()["error"]["code"]) == (404, "not_found")


async def test_decrease(exchange: PracticeExchange) -> None:
    path = f"/portfolio/events/orders/{(await place(exchange)).json()['order_id']}/decrease"
    assert (await ask(exchange, "POST", path, {"reduce_by": "4"})).json()["remaining_count"] == "6.00"
    assert (await ask(exchange, "POST", path, {"reduce_by": "1", "reduce_to": "1"})).status == 400
    assert (await ask(exchange, "POST", path, {"reduce_to": "0"})).json()["remaining_count"] == "0.00"
    assert exchange.orders[0].state == "cancelled"


async def test_client_order_id_is_unique_among_open_orders_only(exchange: PracticeExchange) -> None:
    first = (await place(exchange)).json()["order_id"]
    twin = await place(exchange)
    assert (twin.status, twin.json()["error"]["code"]) == (409, "order_already_exists")
    exchange.mark(first, "filled")
    assert (await place(exchange)).status == 201
    assert len(exchange.orders) == 2


async def test_immediate_order_fills(exchange: PracticeExchange) -> None:
    placed = (await place(exchange, more={"time_in_force": "immediate_or_cancel"})).json()
    assert (placed["fill_count"], placed["remaining_count"]) == ("10.00", "0.00")
    assert placed["average_fill_price"] == "0.5600"


async def test_paging_reaches_every_order_once(exchange: PracticeExchange, clock: SteppedClock) -> None:
    for number in range(7):
        await place(exchange, f"dlq-{number}")
        clock.step(1)
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await ask(exchange, "GET", f"/portfolio/orders?ticker={TICKER}&limit=3&cursor={cursor}")).json()
        seen += [order["client_order_id"] for order in page["orders"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert seen == [f"dlq-{number}" for number in reversed(range(7))]


async def test_lists_are_filtered(exchange: PracticeExchange, clock: SteppedClock) -> None:
    await place(exchange, "old")
    clock.step(100)
    order_id = (await place(exchange, "new")).json()["order_id"]
    exchange.mark(order_id, "filled")

    async def listed(query: str) -> list[str]:
        rows = (await ask(exchange, "GET", f"/portfolio/orders?{query}")).json()["orders"]
        return [row["client_order_id"] for row in rows]

    assert await listed("status=resting") == ["old"]
    assert await listed("status=executed") == ["new"]
    assert await listed(f"min_ts={int(clock.now.timestamp()) - 50}") == ["new"]
    assert await listed(f"max_ts={int(clock.now.timestamp()) - 50}") == ["old"]
    assert await listed("ticker=OTHER") == []


async def test_archived_orders_move_to_the_historical_shelf(exchange: PracticeExchange) -> None:
    order_id = (await place(exchange)).json()["order_id"]
    exchange.mark(order_id, "filled", archived=True)
    assert (await ask(exchange, "GET", "/portfolio/orders")).json()["orders"] == []
    (old,) = (await ask(exchange, "GET", "/historical/orders")).json()["orders"]
    assert (old["order_id"], old["status"]) == (order_id, "executed")


@pytest.mark.parametrize(
    ("wrong", "status", "code"),
    [
        ({"ticker": None}, 400, "missing_parameters"),
        ({"ticker": "NOSUCH"}, 404, "market_not_found"),
        ({"side": "yes"}, 400, "invalid_order"),
        ({"time_in_force": "day"}, 400, "invalid_order"),
        ({"self_trade_prevention_type": None}, 400, "missing_parameters"),
        ({"count": "0"}, 400, "invalid_order"),
        ({"count": "1.001"}, 400, "invalid_order"),
        ({"price": "1.00"}, 400, "invalid_order"),
        ({"price": "0.56001"}, 400, "invalid_order"),
        ({"client_order_id": "a b"}, 400, "invalid_parameters"),
    ],
)
async def test_invalid_orders(exchange: PracticeExchange, wrong: dict[str, object], status: int, code: str) -> None:
    heard = await place(exchange, more=wrong)
    assert (heard.status, heard.json()["error"]["code"]) == (status, code)
    assert exchange.orders == ()


@pytest.mark.parametrize("wrong", [{"count": 10}, {"price": 0.56}])
async def test_a_number_where_a_string_belongs_is_a_bad_request_at_top_level(
    exchange: PracticeExchange, wrong: dict[str, object]
) -> None:
    heard = await place(exchange, more=wrong)
    assert (heard.status, heard.json()["code"]) == (400, "bad_request")


async def test_the_legacy_path_is_gone(exchange: PracticeExchange) -> None:
    assert (await ask(exchange, "POST", "/portfolio/orders", {"ticker": TICKER})).status == 410


async def test_a_bad_cursor_is_refused(exchange: PracticeExchange) -> None:
    assert (await ask(exchange, "GET", "/portfolio/orders?cursor=x")).status == 400


async def test_probe(exchange: PracticeExchange) -> None:
    status = await hear(exchange.url, Ask("GET", f"{ROOT}/exchange/status", {}))
    assert status.json() == {"exchange_active": True, "trading_active": True}
    assert (await ask(exchange, "GET", "/portfolio/balance")).json()["balance"] > 0
    assert (await ask(exchange, "GET", f"/markets/{TICKER}")).json()["market"]["status"] == "active"

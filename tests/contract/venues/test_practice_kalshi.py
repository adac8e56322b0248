"""The practice exchange in Kalshi's words: the current order paths, paging, duplicates, refusals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal

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
        ({"order_group_id": 7}, 400, "invalid_parameters"),
        ({"reduce_only": True}, 400, "invalid_order"),
        ({"post_only": True, "time_in_force": "immediate_or_cancel"}, 400, "invalid_order"),
        ({"expiration_time": 2051319845, "time_in_force": "fill_or_kill"}, 400, "invalid_order"),
        ({"expiration_time": "2051319845"}, 400, "invalid_order"),
    ],
)
async def test_invalid_orders(exchange: PracticeExchange, wrong: dict[str, object], status: int, code: str) -> None:
    heard = await place(exchange, more=wrong)
    assert (heard.status, heard.json()["error"]["code"]) == (status, code)
    assert exchange.orders == ()


@pytest.mark.parametrize("wrong", [{"count": 10}, {"price": 0.56}, {"post_only": "true"}])
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


async def test_its_terms_are_told_again(exchange: PracticeExchange) -> None:
    more = {"expiration_time": 2051319845, "order_group_id": "g-1", "cancel_order_on_pause": True, "post_only": True}
    order_id = (await place(exchange, more=more)).json()["order_id"]
    path = f"/portfolio/orders/{order_id}"
    told = (await ask(exchange, "GET", path)).json()["order"]
    assert (told["order_group_id"], told["cancel_order_on_pause"]) == ("g-1", True)
    assert (told["expiration_time"], told["self_trade_prevention_type"]) == (
        "2035-01-02T03:04:05+00:00",
        "taker_at_cross",
    )
    amend = {"ticker": TICKER, "side": "bid", "price": "0.5700", "count": "12"}
    for until, shown in ((None, "2035-01-02T03:04:05+00:00"), (0, None), (-1, None)):
        body = amend if until is None else {**amend, "expiration_time": until}
        heard = await ask(exchange, "POST", f"/portfolio/events/orders/{order_id}/amend", body)
        assert heard.status == (400 if until == -1 else 200)
        assert (await ask(exchange, "GET", path)).json()["order"]["expiration_time"] == shown


async def test_markets_have_a_quote_once_there_is_a_price(exchange: PracticeExchange) -> None:
    async def quoted(tickers: str) -> list[tuple[str, str, str]]:
        rows = (await ask(exchange, "GET", f"/markets?tickers={tickers}")).json()["markets"]
        return [(row["ticker"], row["yes_bid_dollars"], row["yes_ask_dollars"]) for row in rows]

    assert await quoted(f"{TICKER},NOSUCH") == [(TICKER, "0.0000", "1.0000")]
    await place(exchange)
    assert await quoted(TICKER) == [(TICKER, "0.5500", "0.5700")]
    exchange.prices.set(TICKER, Decimal("0.40"), Decimal("0.43"))
    market = (await ask(exchange, "GET", f"/markets/{TICKER}")).json()["market"]
    assert (market["yes_bid_dollars"], market["no_bid_dollars"]) == ("0.4000", "0.5700")
    assert (await ask(exchange, "GET", "/markets/NOSUCH")).status == 404


async def test_positions_are_fills_and_what_was_given(exchange: PracticeExchange) -> None:
    exchange.prices.hold("kalshi", "", "KXETH-26", Decimal(5))
    await place(exchange, more={"side": "ask", "time_in_force": "immediate_or_cancel"})
    await place(exchange, more={"time_in_force": "immediate_or_cancel", "subaccount": 2})

    async def held(query: str = "") -> dict[str, str]:
        rows = (await ask(exchange, "GET", f"/portfolio/positions{query}")).json()["market_positions"]
        return {row["ticker"]: row["position_fp"] for row in rows}

    assert await held() == {TICKER: "-10.00", "KXETH-26": "5.00"}
    assert await held("?subaccount=2") == {TICKER: "10.00"}
    assert await held("?ticker=KXETH-26") == {"KXETH-26": "5.00"}


async def test_who_looks_at_a_market_takes_no_fault_of_a_look_up(exchange: PracticeExchange) -> None:
    exchange.fault("*", "http_500", on="lookup", times=1)
    assert (await ask(exchange, "GET", "/portfolio/orders?status=resting")).status == 200
    assert (await ask(exchange, "GET", "/portfolio/orders")).status == 500

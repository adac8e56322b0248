"""What a look at Alpaca's markets reads, and that it only reads, only where it may, and says what it could not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.http_server import Answer, Loopback, Received, never, reply
from tests.support.venue.alpaca import COIN, LIMIT, MARKET, client_of
from tests.support.venue.alpaca_shapes import CALL, PUT
from tests.support.venue.rigs_practice import ALPACA_SECRETS
from venues import Credentials, MarketView, OrderAction, Quote, Route, Terms, connect
from venues.alpaca.client import DATA, AlpacaClient
from venues.practice import PracticeExchange
from venues.terms import Leg

AT = datetime(2026, 11, 16, 15, 0, 0, 123456, tzinfo=UTC)
OPTION = replace(LIMIT, market_id=CALL, quantity=Decimal(1))
SPREAD = replace(
    LIMIT, terms=Terms(order_class="mleg", legs=(Leg(CALL, Decimal(1), "buy"), Leg(PUT, Decimal(1), "sell")))
)
BOOK = {"bp": 180.5, "bs": 1, "ap": 180.75, "as": 2, "t": "2026-11-16T15:00:00.123456789Z"}
SEEN = Quote(Decimal("180.5"), Decimal("180.75"), AT)
BATCH = "/v2/stocks/quotes/latest"


async def looked(url: str, *actions: OrderAction, route: Route | None = None) -> dict[str, MarketView]:
    client = connect("alpaca", "paper", Credentials(ALPACA_SECRETS), route or Route(timeout=10.0, endpoint=url))
    try:
        return dict(await client.look(actions))
    finally:
        await client.aclose()


def served(**answers: Answer) -> Callable[[Received], Answer]:
    """A server with these answers; each other question has an empty one."""
    defaults: dict[str, Answer] = {
        "quotes": reply(200, {"quotes": {"AAPL": BOOK}}),
        "single": reply(200, {"symbol": "AAPL", "quote": BOOK}),
        "positions": reply(200, []),
        "orders": reply(200, []),
    }

    def answer(got: Received) -> Answer:
        assert got.method == "GET"
        single = got.path.startswith("/v2/stocks/") and got.path != BATCH
        name = "single" if single else got.path.rpartition("/")[2].replace("latest", "quotes")
        return (defaults | answers)[name]

    return answer


async def test_quote_position_and_open_orders_of_every_kind_of_market() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        for symbol, bid, ask in (("AAPL", "180.5", "180.75"), ("BTC/USD", "17000", "17001.5"), (CALL, "3", "3.1")):
            exchange.prices.set(symbol, Decimal(bid), Decimal(ask), AT)
        exchange.prices.hold("alpaca", "", "AAPL", Decimal(-20))
        exchange.prices.hold("alpaca", "", "BTC/USD", Decimal("0.5"))
        client = client_of(exchange.url)
        for number, action in enumerate((LIMIT, LIMIT, COIN)):
            prepared = client.prepare(action, f"c-{number}")
            await client.submit(prepared)  # type: ignore[arg-type]  # these can be sent
        before = len(exchange.received)
        views = await client.look([LIMIT, COIN, OPTION, MARKET])
        await client.aclose()
    assert views == {
        "AAPL": MarketView(SEEN, Decimal(-20), 2, "USD"),
        "BTC/USD": MarketView(Quote(Decimal(17000), Decimal("17001.5"), AT), Decimal("0.5"), 1, "USD"),
        CALL: MarketView(Quote(Decimal(3), Decimal("3.1"), AT), Decimal(0), 0, "USD", Decimal(100)),
        "SPY": views["SPY"],
    }
    assert views["SPY"].quote is not None
    assert len(exchange.received) == before, "a look sent something"


async def test_one_request_for_all_markets_of_a_kind_with_the_accounts_keys() -> None:
    async with Loopback(served()) as server:
        await looked(server.url, LIMIT, MARKET, COIN, OPTION)
    asked = {got.path: got.params for got in server.requests}
    assert len(asked) == len(server.requests) == 5
    assert asked[BATCH] == {"symbols": "AAPL,SPY"}
    assert asked["/v1beta3/crypto/us/latest/quotes"] == {"symbols": "BTC/USD"}
    assert asked["/v1beta1/options/quotes/latest"] == {"symbols": CALL}
    assert asked["/v2/positions"] == {}
    assert asked["/v2/orders"] == {"status": "open", "limit": "500", "symbols": f"AAPL,SPY,BTC/USD,{CALL}"}
    assert {got.headers["apca-api-key-id"] for got in server.requests} == {ALPACA_SECRETS["api_key"]}


@pytest.mark.parametrize("batch", [reply(404, {}), reply(404, b"no"), reply(400, {"message": "x"}), reply(200, {})])
async def test_a_server_without_the_path_for_many_is_asked_for_each(batch: Answer) -> None:
    async with Loopback(served(quotes=batch)) as server:
        views = await looked(server.url, LIMIT, replace(LIMIT, market_id="BRK.B"))
    assert views["AAPL"].quote == views["BRK.B"].quote == SEEN
    assert {got.path for got in server.requests} >= {
        "/v2/stocks/AAPL/quotes/latest",
        "/v2/stocks/BRK.B/quotes/latest",
    }


async def test_one_bad_symbol_takes_no_quote_from_the_others() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        views = await looked(exchange.url, LIMIT, replace(LIMIT, market_id="no such"))
    assert views["AAPL"].quote is not None
    assert views["no such"].quote is None
    assert views["no such"].problems == ("quote: HTTP 404",)


@pytest.mark.parametrize("bad", [reply(500, {}), reply(401, {}), reply(200, b"{"), None])
@pytest.mark.parametrize("name", ["quotes", "positions", "orders"])
async def test_what_could_not_be_read_is_named_and_the_rest_is_told(name: str, bad: Answer) -> None:
    async with Loopback(served(**{name: bad, "single": reply(500)})) as server:
        view = (await looked(server.url, LIMIT))["AAPL"]
    told = {"quotes": view.quote, "positions": view.position, "orders": view.open_orders}
    assert told.pop(name) is None
    assert None not in told.values()
    assert len(view.problems) == 1
    assert view.problems[0].startswith({"quotes": "quote:", "positions": "position:", "orders": "open orders:"}[name])


async def test_a_server_that_says_nothing_ends_the_look_in_time() -> None:
    async with Loopback(never) as server, asyncio.timeout(30):
        view = (await looked(server.url, LIMIT, route=Route(timeout=0.1, endpoint=server.url)))["AAPL"]
    assert (view.quote, view.position, view.open_orders) == (None, None, None)
    assert len(view.problems) == 3


async def test_nobody_there() -> None:
    view = (await looked("http://127.0.0.1:1", LIMIT))["AAPL"]
    assert (view.quote, view.position, view.open_orders, len(view.problems)) == (None, None, None, 3)


@pytest.mark.parametrize(
    ("book", "seen"),
    [
        ({**BOOK, "bp": 0}, Quote(Decimal(0), Decimal("180.75"), AT)),
        ({**BOOK, "bp": 190.25}, Quote(Decimal("190.25"), Decimal("180.75"), AT)),
        ({"bp": 1.5}, Quote(Decimal("1.5"), None, None)),
        ({**BOOK, "t": "yesterday"}, Quote(Decimal("180.5"), Decimal("180.75"), None)),
    ],
)
async def test_a_bad_quote_is_passed_on_as_it_is(book: dict[str, Any], seen: Quote) -> None:
    async with Loopback(served(quotes=reply(200, {"quotes": {"AAPL": book}}))) as server:
        assert (await looked(server.url, LIMIT))["AAPL"].quote == seen


@pytest.mark.parametrize(
    ("row", "position"),
    [
        ({"symbol": "AAPL", "qty": "-5", "side": "short"}, Decimal(-5)),
        ({"symbol": "AAPL", "qty": "5", "side": "short"}, Decimal(-5)),
        ({"symbol": "AAPL", "qty": "2.5", "side": "long"}, Decimal("2.5")),
        ({"symbol": "MSFT", "qty": "2.5", "side": "long"}, Decimal(0)),
        ({"symbol": "MSFT", "qty": None, "side": "long"}, None),
    ],
)
async def test_a_short_position_is_negative(row: dict[str, Any], position: Decimal | None) -> None:
    async with Loopback(served(positions=reply(200, [row]))) as server:
        assert (await looked(server.url, LIMIT))["AAPL"].position == position


async def test_a_list_that_is_cut_off_counts_nothing() -> None:
    for count, told in ((499, 499), (500, None)):
        async with Loopback(served(orders=reply(200, [{"symbol": "AAPL"}] * count))) as server:
            assert (await looked(server.url, LIMIT))["AAPL"].open_orders == told


@pytest.mark.parametrize(("pair", "currency"), [("BTC/USD", "USD"), ("ETH/BTC", "BTC"), ("SOL/USDT", "USDT")])
async def test_a_pairs_money_is_its_second_half(pair: str, currency: str) -> None:
    async with Loopback(served()) as server:
        assert (await looked(server.url, replace(COIN, market_id=pair)))[pair].currency == currency


async def test_an_order_of_several_legs_has_no_quote_and_a_key_of_its_own() -> None:
    async with Loopback(served()) as server:
        client = client_of(server.url)
        views = await client.look([SPREAD])
        await client.aclose()
    key = client.market_key(SPREAD)
    assert key != client.market_key(LIMIT)
    assert (views[key].quote, views[key].contract_size, views[key].currency) == (None, Decimal(100), "USD")
    assert views[key].problems
    assert server.connections == 0


async def test_many_markets_take_few_requests_and_the_rest_is_left_out() -> None:
    async with Loopback(served()) as server:
        views = await looked(server.url, *(replace(LIMIT, market_id=f"A{number}") for number in range(250)))
    assert len(views) == 200
    assert len(server.requests) == 4
    assert max(len(got.params["symbols"].split(",")) for got in server.requests if got.path == BATCH) == 100


@pytest.mark.parametrize(
    ("route", "url"),
    [
        (Route(), DATA),
        (Route(endpoint="http://127.0.0.1:9"), "http://127.0.0.1:9"),
        (Route(endpoint="http://127.0.0.1:9", data_endpoint="http://127.0.0.1:8"), "http://127.0.0.1:8"),
        (Route(data_endpoint="http://127.0.0.1:8"), "http://127.0.0.1:8"),
    ],
)
def test_a_stub_never_leads_to_the_real_data_host(route: Route, url: str) -> None:
    client = connect("alpaca", "paper", Credentials(ALPACA_SECRETS), route)
    assert isinstance(client, AlpacaClient)
    assert client._data_url == url


async def test_quotes_come_from_the_data_endpoint_and_the_rest_from_the_accounts() -> None:
    async with Loopback(served()) as orders, Loopback(served()) as data:
        route = Route(timeout=10.0, endpoint=orders.url, data_endpoint=data.url)
        views = await looked("", LIMIT, route=route)
    assert views["AAPL"] == MarketView(SEEN, Decimal(0), 0, "USD")
    assert [got.path for got in data.requests] == [BATCH]
    assert {got.path for got in orders.requests} == {"/v2/positions", "/v2/orders"}

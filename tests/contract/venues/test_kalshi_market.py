"""What Kalshi says of a market: quote, position and open orders, in the action's own contract and unit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.support.http_server import Answer, Loopback, Received, never, reply
from tests.support.venue.kalshi import YES, client_of
from venues import Accepted, MarketView, OrderAction, Prepared, Quote
from venues.practice import PracticeExchange
from venues.terms import Terms

NOW = datetime(2026, 11, 16, 1, 2, 3, tzinfo=UTC)
DATE = "Mon, 16 Nov 2026 01:02:03 GMT"
OTHER = replace(YES, market_id="KXETH-26")
THIRD = replace(YES, terms=Terms(subaccount="3"))
MARKETS = {
    "markets": [
        {"ticker": "KXBTC-26", "yes_bid_dollars": "0.4100", "yes_ask_dollars": "0.4350"},
        {"ticker": "KXETH-26", "yes_bid_dollars": "0.0000", "yes_ask_dollars": "1.0000"},
    ],
    "cursor": "",
}
POSITIONS = {"market_positions": [{"ticker": "KXBTC-26", "position_fp": "-7.50"}], "event_positions": [], "cursor": ""}
ORDERS = {"orders": [{"ticker": "KXBTC-26"}, {"ticker": "KXBTC-26"}, {"ticker": "KXSOL-26"}], "cursor": ""}
ROOT = "/trade-api/v2"

Told = Callable[[Received], Answer | Awaitable[Answer]]


def telling(**others: Answer) -> Told:
    told = {
        "markets": reply(200, MARKETS, Date=DATE),
        "positions": reply(200, POSITIONS),
        "orders": reply(200, ORDERS),
    } | others
    return lambda request: told[request.path.rpartition("/")[2]]


async def looked(
    told: Told, *actions: OrderAction, timeout: float = 2.0
) -> tuple[dict[str, MarketView], list[Received]]:
    async with Loopback(told) as server:
        client = client_of(server.url, timeout=timeout)
        views = dict(await client.look(actions))
        await client.aclose()
    return views, server.requests


async def test_one_market_is_three_questions() -> None:
    views, requests = await looked(telling(), YES)
    view = views["KXBTC-26"]
    assert view.quote == Quote(Decimal("0.41"), Decimal("0.435"), NOW)
    assert (view.position, view.open_orders) == (Decimal("-7.5"), 2)
    assert (view.currency, view.zero_to_one, view.contract_size, view.problems) == ("USD", True, Decimal(1), ())
    assert sorted((request.method, request.path, tuple(sorted(request.params.items()))) for request in requests) == [
        ("GET", f"{ROOT}/markets", (("limit", "40"), ("tickers", "KXBTC-26"))),
        (
            "GET",
            f"{ROOT}/portfolio/orders",
            (("limit", "200"), ("status", "resting"), ("ticker", "KXBTC-26")),
        ),
        ("GET", f"{ROOT}/portfolio/positions", (("limit", "500"), ("ticker", "KXBTC-26"))),
    ]


async def test_several_markets_are_one_question_each_for_quotes_positions_and_orders() -> None:
    views, requests = await looked(telling(), YES, OTHER, replace(YES, side="no"))
    assert len(requests) == 3
    assert {request.params.get("tickers") for request in requests} == {"KXBTC-26,KXETH-26", None}
    assert all("ticker" not in request.params for request in requests)
    assert views.keys() == {"KXBTC-26", "KXETH-26"}
    empty = views["KXETH-26"]
    assert empty.quote == Quote(None, None, NOW)
    assert empty.quote.why_none(NOW, 60) == "one-sided"
    assert (empty.position, empty.open_orders) == (Decimal(0), 0)


async def test_a_subaccount_is_a_market_of_its_own() -> None:
    client = client_of("http://127.0.0.1:1")
    assert [client.market_key(one) for one in (YES, THIRD, replace(YES, terms=Terms(subaccount="0")))] == [
        "KXBTC-26",
        "KXBTC-26/3",
        "KXBTC-26/0",
    ]
    views, requests = await looked(telling(), YES, THIRD)
    assert views.keys() == {"KXBTC-26", "KXBTC-26/3"}
    asked = [request.params.get("subaccount") for request in requests if "/portfolio/" in request.path]
    assert sorted(asked, key=str) == ["3", "3", None, None]


@pytest.mark.parametrize(
    ("failing", "problem"),
    [
        ({"markets": reply(500)}, "quote: HTTP 500"),
        ({"markets": reply(200, {"markets": {}})}, "quote: an answer without a list of markets"),
        ({"markets": reply(200, {"markets": []})}, "quote: kalshi lists no such market"),
        ({"markets": None}, "quote: the"),
        ({"positions": reply(401, {"error": {}})}, "position: HTTP 401"),
        ({"positions": reply(200, {"market_positions": [1]})}, "position: an answer without a list"),
        ({"orders": reply(429)}, "open orders: HTTP 429"),
        ({"orders": reply(200, {"orders": [], "cursor": "again"})}, "open orders: more than 10 pages"),
    ],
)
async def test_what_could_not_be_read_is_named_and_the_rest_stands(failing: dict[str, Answer], problem: str) -> None:
    views, _ = await looked(telling(**failing), YES)
    view = views["KXBTC-26"]
    (said,) = view.problems
    assert said.startswith(problem)
    known = {"markets": view.quote, "positions": view.position, "orders": view.open_orders}
    assert {name for name, value in known.items() if value is None} == failing.keys()


async def test_a_position_that_is_no_number_is_none() -> None:
    odd = {"market_positions": [{"ticker": "KXBTC-26", "position_fp": "x"}], "cursor": ""}
    views, _ = await looked(telling(positions=reply(200, odd)), YES)
    assert views["KXBTC-26"].position is None


async def test_a_venue_that_says_nothing_is_waited_for_only_so_long() -> None:
    views, _ = await asyncio.wait_for(looked(never, YES, timeout=0.2), 30)
    assert len(views["KXBTC-26"].problems) == 3


async def test_a_market_that_is_no_ticker_is_not_asked_for() -> None:
    views, requests = await looked(telling(), replace(YES, market_id="a,b"))
    assert (views, requests) == ({}, [])


VIEW = MarketView(Quote(Decimal("0.41"), Decimal("0.435"), NOW), Decimal("-7.5"), 2, "USD", zero_to_one=True)


@pytest.mark.parametrize(
    ("changes", "bid", "ask", "position"),
    [
        ({}, "0.41", "0.435", "-7.5"),
        ({"side": "sell_yes"}, "0.41", "0.435", "-7.5"),
        ({"side": "buy_no"}, "0.565", "0.59", "7.5"),
        ({"market_id": "KXBTC-26:no", "side": "sell"}, "0.565", "0.59", "7.5"),
        ({"price_unit": "cents"}, "41", "43.5", "-7.5"),
        ({"side": "no", "price_unit": "cents"}, "56.5", "59", "7.5"),
        ({"side": "sell", "extra": {"outcome_side": "no"}}, "0.41", "0.435", "-7.5"),
    ],
)
def test_a_view_is_turned_to_the_action_s_contract_and_unit(
    changes: dict[str, object], bid: str, ask: str, position: str
) -> None:
    client = client_of("http://127.0.0.1:1")
    seen = client.seen_by(replace(YES, **changes), VIEW)  # type: ignore[arg-type]  # a table of fields
    assert seen.quote == Quote(Decimal(bid), Decimal(ask), NOW)
    turned = seen.quote is not None and VIEW.position is not None and seen.position == -VIEW.position
    assert seen == replace(VIEW, quote=seen.quote, position=Decimal(position), flipped=turned)


def test_what_is_not_known_stays_unknown() -> None:
    client = client_of("http://127.0.0.1:1")
    no = replace(YES, side="no", price_unit="cents")
    assert client.seen_by(no, MarketView()) == MarketView(flipped=True)
    half = MarketView(Quote(None, Decimal("0.3"), None))
    assert client.seen_by(no, half).quote == Quote(Decimal("70"), None, None)


async def test_the_practice_exchange_has_markets_positions_and_orders() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        exchange.prices.set("KXBTC-26", Decimal("0.40"), Decimal("0.43"))
        exchange.prices.hold("kalshi", "", "KXETH-26", Decimal(-4))
        client = client_of(exchange.url)
        for number, (action, tif) in enumerate(((YES, "ioc"), (YES, "gtc"), (THIRD, "gtc"))):
            ready = client.prepare(replace(action, time_in_force=tif), f"c-{number}")
            assert isinstance(ready, Prepared)
            assert isinstance(await client.submit(ready), Accepted)
        views = await client.look((YES, OTHER, THIRD))
        sent = len(exchange.received)
        await client.aclose()
    first, other, third = (views[key] for key in ("KXBTC-26", "KXETH-26", "KXBTC-26/3"))
    assert first.quote is not None
    assert (first.quote.bid, first.quote.ask) == (Decimal("0.40"), Decimal("0.43"))
    assert (first.position, first.open_orders) == (Decimal(10), 2)  # without a number, every subaccount's orders
    assert (third.position, third.open_orders) == (Decimal(0), 1)
    assert (other.position, other.open_orders) == (Decimal(-4), 0)
    assert other.quote is not None
    assert other.quote.why_none(datetime.now(UTC), 60) == "one-sided"
    assert sent == 3

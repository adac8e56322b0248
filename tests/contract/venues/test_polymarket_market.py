"""What Polymarket's order host says of a market: the best of its book, and this account's open orders."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.support.http_server import Answer, Loopback, Received, never, reply
from tests.support.venue.polymarket import TOKEN
from tests.support.venue.polymarket_client import action, clob, connected, prepared
from venues import Accepted, MarketView, Quote

NOW = datetime(2026, 11, 16, 1, 2, 3, tzinfo=UTC)
OTHER = "123456789"
STAMP = str(int(NOW.timestamp() * 1000))
BIDS = [{"price": "0.01", "size": "9"}, {"price": "0.41", "size": "5"}]
ASKS = [{"price": "0.99", "size": "9"}, {"price": "0.43", "size": "5"}]
BOOK = {"asset_id": TOKEN, "timestamp": STAMP, "bids": BIDS, "asks": ASKS}
ORDERS = {"data": [{"asset_id": TOKEN}, {"asset_id": TOKEN}, {"asset_id": "9"}], "next_cursor": "LTE="}
ELSEWHERE = "position: polymarket gives it at another host, which is not asked"

Told = Callable[[Received], Answer | Awaitable[Answer]]


def telling(books: Answer = reply(200, [BOOK]), orders: Answer = reply(200, ORDERS)) -> Told:  # noqa: B008 - bytes
    return lambda request: books if request.path == "/books" else orders


async def looked(told: Told, *tokens: str, timeout: float = 2.0) -> tuple[dict[str, MarketView], list[Received]]:
    async with Loopback(told) as server:
        client = connected(server.url, timeout)
        await client.open()
        views = dict(await client.look([action(market_id=token) for token in tokens]))
        await client.aclose()
    return views, server.requests


async def test_one_market_is_two_questions() -> None:
    views, requests = await looked(telling(), TOKEN)
    assert views == {
        TOKEN: MarketView(
            Quote(Decimal("0.41"), Decimal("0.43"), NOW),
            open_orders=2,
            currency="USDC",
            zero_to_one=True,
            problems=(ELSEWHERE,),
        )
    }
    assert sorted((one.method, one.target, one.body) for one in requests) == [
        ("GET", f"/data/orders?asset_id={TOKEN}", b""),
        ("POST", "/books", json.dumps([{"token_id": TOKEN}], separators=(",", ":")).encode()),
    ]
    books = next(one for one in requests if one.path == "/books")
    assert not any(name.startswith("poly_") for name in books.headers)


async def test_several_markets_are_two_questions_too() -> None:
    views, requests = await looked(telling(), TOKEN, OTHER, TOKEN)
    assert len(requests) == 2
    assert {one.target for one in requests} == {"/books", "/data/orders"}
    assert (views[OTHER].quote, views[OTHER].open_orders) == (None, 0)
    assert "quote: polymarket has no such book" in views[OTHER].problems


async def test_many_markets_are_asked_for_in_parts() -> None:
    tokens = [str(number) for number in range(1000, 1050)]
    _, requests = await looked(telling(), *tokens)
    asked = [json.loads(one.body) for one in requests if one.path == "/books"]
    assert sorted(map(len, asked)) == [10, 20, 20]
    assert sorted(one["token_id"] for some in asked for one in some) == tokens


@pytest.mark.parametrize(
    ("book", "why"),
    [
        ({**BOOK, "bids": []}, "one-sided"),
        ({**BOOK, "asks": None}, "one-sided"),
        ({**BOOK, "asks": [{"price": "0.40", "size": "1"}]}, "crossed"),
        ({**BOOK, "bids": list(reversed(BIDS)), "asks": list(reversed(ASKS))}, None),
        ({**BOOK, "timestamp": str(int(STAMP) - 120_000)}, "120 s old"),
    ],
)
async def test_the_best_prices_are_told_as_they_are(book: dict[str, object], why: str | None) -> None:
    views, _ = await looked(telling(reply(200, [book])), TOKEN)
    quote = views[TOKEN].quote
    assert quote is not None
    assert quote.why_none(NOW, 60) == why


async def test_a_book_without_a_time_has_the_answer_s() -> None:
    book = {name: held for name, held in BOOK.items() if name != "timestamp"}
    views, _ = await looked(telling(reply(200, [book], Date="Mon, 16 Nov 2026 01:02:03 GMT")), TOKEN)
    assert views[TOKEN].quote == Quote(Decimal("0.41"), Decimal("0.43"), NOW)


@pytest.mark.parametrize(
    ("books", "orders", "problem"),
    [
        (reply(500), reply(200, ORDERS), "quote: HTTP 500 without a list of books"),
        (reply(200, {"error": "x"}), reply(200, ORDERS), "quote: HTTP 200 without a list of books"),
        (reply(200, b"[1"), reply(200, ORDERS), "quote: HTTP 200 without a list of books"),
        (None, reply(200, ORDERS), "quote: the"),
        (reply(200, [BOOK]), reply(401), "open orders: HTTP 401"),
        (reply(200, [BOOK]), reply(200, {"data": 1}), "open orders: an answer without a list"),
        (reply(200, [BOOK]), reply(200, {"data": [], "next_cursor": "MTA="}), "open orders: more than 10 pages"),
    ],
    ids=[
        "books fail",
        "books no list",
        "books broken",
        "books hang up",
        "orders refused",
        "orders odd",
        "orders endless",
    ],
)
async def test_what_could_not_be_read_is_named(books: Answer, orders: Answer, problem: str) -> None:
    views, _ = await looked(telling(books, orders), TOKEN)
    first, second = views[TOKEN].problems
    assert first == ELSEWHERE
    assert second.startswith(problem)
    assert (views[TOKEN].quote is None) is problem.startswith("quote")
    assert (views[TOKEN].open_orders is None) is problem.startswith("open orders")


async def test_a_venue_that_says_nothing_is_waited_for_only_so_long() -> None:
    views, _ = await asyncio.wait_for(looked(never, TOKEN, timeout=0.2), 30)
    assert len(views[TOKEN].problems) == 3


async def test_what_is_no_token_is_not_asked_for() -> None:
    assert await looked(telling(), "0xabc", "a") == ({}, [])


async def test_a_look_sees_the_account_s_own_order_and_sends_none() -> None:
    async with clob() as (made, exchange):
        exchange.prices.set(TOKEN, Decimal("0.40"), Decimal("0.43"))
        assert isinstance(await made.submit(prepared(made)), Accepted)
        view = (await made.look([action()]))[TOKEN]
        assert view.quote is not None
        assert (view.quote.bid, view.quote.ask, view.open_orders) == (Decimal("0.40"), Decimal("0.43"), 1)
        assert made.seen_by(action(side="sell"), view) == view
        assert len(exchange.received) == 1

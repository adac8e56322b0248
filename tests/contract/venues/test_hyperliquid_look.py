"""Looking at hyperliquid's markets: the book, positions and open orders of each account, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pytest

from tests.support.http_server import Answer, Received, reply
from tests.support.venue.hyperliquid import ADDRESS, action, client, prepared
from tests.support.venue.rigs_sdk import HYPERLIQUID_SECRETS
from venues import Accepted, Credentials, Route, VenueClient, connect
from venues.practice import PracticeExchange
from venues.quote import MarketView, Quote
from venues.terms import Terms

D = Decimal
VAULT = "0x" + "aB" * 20
NOW = 1_794_790_933_250
AT = datetime(2026, 11, 16, 1, 2, 13, 250_000, tzinfo=UTC)
BOOK = {"coin": "ETH", "time": NOW, "levels": [[{"px": "1099.5", "sz": "2", "n": 1}], [{"px": "1100.5", "sz": "1"}]]}
ANSWERS: dict[str, object] = {
    "l2Book": BOOK,
    "clearinghouseState": {"assetPositions": [{"type": "oneWay", "position": {"coin": "ETH", "szi": "-3.5"}}]},
    "spotClearinghouseState": {"balances": [{"coin": "USDC", "token": 0, "total": "9"}, {"token": 1, "total": "70"}]},
    "frontendOpenOrders": [{"coin": "ETH"}, {"coin": "BTC"}, {"coin": "ETH"}],
}


def told(**changes: object) -> Any:
    def handle(request: Received) -> Answer | Awaitable[Answer]:
        asked = cast("dict[str, str]", request.json())
        held = (ANSWERS | changes)[asked["type"]]
        if isinstance(held, bytes):
            return held
        if asked["type"] == "l2Book" and isinstance(held, dict) and held is BOOK:
            held = BOOK | {"coin": asked["coin"]}
        return reply(200, held)

    return handle


async def test_quote_position_and_open_orders_of_each_market() -> None:
    async with client(told()) as (made, server):
        views = await made.look([action(), action(market_id="BTC"), action(market_id="PURR/USDC")])
        quote = Quote(D("1099.5"), D("1100.5"), AT)
        assert views == {
            "ETH": MarketView(quote, D("-3.5"), 2, "USDC"),
            "BTC": MarketView(quote, D(0), 1, "USDC"),
            "PURR/USDC": MarketView(quote, D(70), 0, "USDC"),
        }
        asked = [cast("dict[str, str]", request.json()) for request in server.requests]
        assert sorted(one["type"] for one in asked) == [
            "clearinghouseState",
            "frontendOpenOrders",
            "l2Book",
            "l2Book",
            "l2Book",
            "spotClearinghouseState",
        ]
        assert {one["user"] for one in asked if "user" in one} == {ADDRESS.lower()}
        assert {request.target for request in server.requests} == {"/info"}


async def test_a_vault_is_looked_at_by_itself() -> None:
    vault = action(terms=Terms(vault_address=VAULT))
    async with client(told()) as (made, server):
        assert made.market_key(vault) != made.market_key(action())
        assert made.market_key(vault) == made.market_key(action(terms=Terms(vault_address=VAULT.lower())))
        views = await made.look([action(), vault])
        assert set(views) == {made.market_key(vault), "ETH"}
        asked = [cast("dict[str, str]", request.json()) for request in server.requests]
        assert [one["user"] for one in asked if one["type"] == "clearinghouseState"] == [ADDRESS.lower(), VAULT.lower()]
        assert len([one for one in asked if one["type"] == "l2Book"]) == 1


@pytest.mark.parametrize("broken", [reply(500), reply(200, b"null"), reply(200, b"what?"), reply(200, b"7")])
async def test_what_could_not_be_read_is_named(broken: bytes) -> None:
    for kind, word in {
        "l2Book": "book",
        "clearinghouseState": "positions",
        "frontendOpenOrders": "open orders",
    }.items():
        async with client(told(**{kind: broken})) as (made, _):
            view = (await made.look([action()]))["ETH"]
            (problem,) = view.problems
            assert word in problem
            none = {"book": view.quote, "positions": view.position, "open orders": view.open_orders}
            assert [name for name, held in none.items() if held is None] == [word]


@pytest.mark.parametrize(
    "levels", [[], [[], []], [[7], [{"px": "x"}]], "no", [[{"px": "1"}]], [[{"px": "1099.5"}], []], None]
)
async def test_a_book_without_both_sides_is_no_quote(levels: object) -> None:
    async with client(told(l2Book={"coin": "ETH", "time": NOW, "levels": levels})) as (made, _):
        quote = (await made.look([action()]))["ETH"].quote
        assert quote is None or quote.why_none(AT, 60) == "one-sided"


@pytest.mark.parametrize("rows", [[{}], [{"position": {}}], [7], {}])
async def test_positions_in_another_form_are_not_zero(rows: object) -> None:
    async with client(told(clearinghouseState={"assetPositions": rows})) as (made, _):
        view = (await made.look([action()]))["ETH"]
        assert view.position is None
        assert view.problems


async def test_another_market_s_book_and_an_unknown_market_are_no_quote() -> None:
    async with client(told(l2Book={**BOOK, "coin": "DOGE"})) as (made, _):
        wrong_vault = action(terms=Terms(vault_address="0x1"), market_id="BTC")
        views = await made.look([action(), action(market_id="DOGE"), wrong_vault])
        assert [view.quote for view in views.values()] == [None, None, None]
        assert all(view.problems for view in views.values())
        assert "not known" in views["BTC"].problems[-1]


async def test_a_venue_that_does_not_answer_is_a_problem_in_time() -> None:
    async def silent(_: Received) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    async with client(silent, timeout=0.05) as (made, _):
        async with asyncio.timeout(30):
            view = (await made.look([action()]))["ETH"]
        assert (view.quote, view.position, view.open_orders) == (None, None, None)
        assert len(view.problems) == 3


@asynccontextmanager
async def practised(exchange: PracticeExchange) -> AsyncIterator[VenueClient]:
    made = connect("hyperliquid", "paper", Credentials(HYPERLIQUID_SECRETS), Route(5.0, exchange.url))
    await made.open()
    yield made
    await made.aclose()


async def test_the_practice_exchange_has_books_positions_and_open_orders() -> None:
    spot = action(market_id="PURR/USDC", quantity=D(70), price=D("0.5"))
    async with PracticeExchange(fsync=False) as exchange, practised(exchange) as made:
        before = await made.look([action()])
        assert before["ETH"].quote == Quote(None, None, before["ETH"].quote.at if before["ETH"].quote else None)
        exchange.prices.set("ETH", D(1099), D(1101))
        exchange.prices.hold("hyperliquid", "", "ETH", D(-2))
        exchange.prices.hold("hyperliquid", "", "PURR/USDC", D(30))
        for number, meant in enumerate((action(), action(side="sell", time_in_force="ioc"), spot)):
            ready = made.prepare(meant, f"0x{number:032x}")
            assert isinstance(await made.submit(ready), Accepted)  # type: ignore[arg-type]  # it is prepared
        views = await made.look([action(), spot])
        eth = views["ETH"]
        assert eth.quote is not None
        assert (eth.quote.bid, eth.quote.ask, eth.position, eth.open_orders) == (D(1099), D(1101), D("-2.2"), 1)
        assert eth.quote.why_none(datetime.now(UTC), 60) is None
        assert (views["PURR/USDC"].position, views["PURR/USDC"].open_orders) == (D(30), 1)
        assert eth.problems == views["PURR/USDC"].problems == ()


async def test_preparing_asks_nothing() -> None:
    async with client() as (made, server):
        prepared(made, terms=Terms(post_only=True))
        assert server.requests == []

"""Looking at markets through a gateway: live quotes, an account's positions and open orders, and nothing is placed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.support.venue.ibkr import action, opened, prepared
from tests.support.venue.tws import AAPL, Listed, Tws
from venues import Accepted
from venues.quote import MarketView

D = Decimal
ES = Listed(495512563, "ES", "FUT", "CME", month="20261218", multiplier="50", bid="5000.25", ask="5000.5")
VOD = Listed(800001, "VOD", currency="GBP", magnifier="100")
MSFT = Listed(272093, "MSFT", bid="410", ask="-1")


async def seen(gateway: Tws, market_id: str = "AAPL:STK:SMART:USD") -> MarketView:
    made = await opened(gateway)
    (view,) = (await made.look([action(market_id=market_id)])).values()
    await made.aclose()
    assert gateway.placed == []
    return view


async def test_quote_position_and_open_orders_of_each_market_and_account() -> None:
    async with Tws("DU1,DU2") as gateway:
        gateway.listed = [AAPL, ES, VOD, MSFT]
        gateway.positions = [("DU1", AAPL, "-120"), ("DU2", AAPL, "7.5"), ("DU1", ES, "3"), ("DU2", MSFT, "0")]
        made = await opened(gateway, timeout=5)
        for number, market_id in enumerate(("AAPL:STK:SMART:USD", "265598", "495512563@CME")):
            assert isinstance(
                await made.submit(prepared(made, f"s-{number}", market_id=market_id, account_id="DU1")), Accepted
            )
        actions = [
            action(account_id="DU1"),
            action(account_id="DU2"),
            action(account_id="DU1", market_id="ES 202612"),
            action(account_id="DU2", market_id="VOD"),
            action(account_id="DU2", market_id="MSFT"),
        ]
        placed = len(gateway.placed)
        views = await made.look(actions)
        first, second, future, pence, one_sided = (views[made.market_key(one)] for one in actions)
        assert first.quote is not None
        assert (first.quote.bid, first.quote.ask) == (D("180.2"), D("180.3"))
        assert first.quote.why_none(datetime.now(UTC), 60) is None
        assert (first.position, first.open_orders, first.currency, first.contract_size) == (D(-120), 2, "USD", D(1))
        assert (second.position, second.open_orders) == (D("7.5"), 0)
        assert (future.position, future.open_orders, future.contract_size) == (D(3), 1, D(50))
        assert (pence.currency, pence.contract_size, pence.position) == ("GBP", D("0.01"), D(0))
        assert one_sided.quote is not None
        assert one_sided.quote.why_none(datetime.now(UTC), 60) == "one-sided"
        assert [view.problems for view in views.values()] == [()] * 5
        assert len(gateway.placed) == placed
        await made.aclose()


@pytest.mark.parametrize(
    ("data", "why"), [(0, "not subscribed"), (2, "no live data"), (3, "no live data"), (4, "no live")]
)
async def test_data_that_is_not_live_is_no_quote(data: int, why: str) -> None:
    async with Tws() as gateway:
        gateway.listed = [Listed(265598, "AAPL", data=data)]
        view = await seen(gateway)
        assert view.quote is None
        assert (view.position, view.open_orders, view.currency) == (D(0), 0, "USD")
        (problem,) = view.problems
        assert why in problem


async def test_a_second_look_does_not_keep_the_first_one_s_prices() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        await made.look([action()])
        gateway.listed = [Listed(265598, "AAPL", bid="-1", ask="181")]
        (view,) = (await made.look([action()])).values()
        assert view.quote is not None
        assert (view.quote.bid, view.quote.ask) == (None, D(181))
        await made.aclose()


@pytest.mark.parametrize(
    ("deaf", "word"), [("1", "quote"), ("61", "positions"), ("16", "open orders"), ("9", "contract")]
)
async def test_what_the_gateway_does_not_answer_is_named_in_time(deaf: str, word: str) -> None:
    async with Tws() as gateway:
        gateway.deaf_to = {deaf}
        async with asyncio.timeout(30):
            view = await seen(gateway)
        assert any(problem.startswith(word) for problem in view.problems)
        none = {"quote": view.quote, "positions": view.position, "open orders": view.open_orders}
        missing = [name for name, held in none.items() if held is None]
        assert missing == ([word] if word != "contract" else [*none])
        assert (view.currency is None) is (word == "contract")


async def test_an_ambiguous_market_and_an_unknown_account_are_named() -> None:
    async with Tws("DU1,DU2") as gateway:
        gateway.listed = [AAPL, Listed(500001, "AAPL", currency="CAD")]
        view = await seen(gateway, "AAPL")
        assert (view.quote, view.position, view.currency) == (None, None, None)
        assert "2 contracts" in view.problems[0]
        view = await seen(gateway)
        assert (view.position, view.open_orders) == (None, None)
        assert view.quote is not None
        assert "account" in view.problems[0]


async def test_a_gateway_that_is_gone_is_a_problem() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        await made.aclose()
    (view,) = (await made.look([action()])).values()
    assert "no gateway answers" in view.problems[0]


async def test_a_look_and_a_look_up_at_once_do_not_disturb_each_other() -> None:
    async with Tws() as gateway:
        made = await opened(gateway, timeout=5)
        ready = prepared(made)
        await made.submit(ready)
        views, found = await asyncio.gather(made.look([action()]), made.lookup(ready))
        assert type(found).__name__ == "Found"
        assert [view.open_orders for view in views.values()] == [1]
        await made.aclose()

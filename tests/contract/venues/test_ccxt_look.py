"""What a ccxt exchange says of a market and of an order's terms: quotes, positions, and look-ups that compare each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.ccxt_offline import action
from tests.support.http_server import Loopback, Received, reply
from tests.support.venue.ccxt import COID, ORDER, at_market, binance, client, connected, prepared, sends
from venues import Absent, Found, LookupFailed, OrderAction, Prepared, differences
from venues.ccxt import told
from venues.ccxt.client import CcxtClient
from venues.practice import PracticeExchange
from venues.quote import MarketView, Quote
from venues.terms import ExitTerms, Terms

SPOT, PERPETUAL = "BTC/USDT", "BTC/USDT:USDT"
SELL: dict[str, object] = {"side": "sell", "order_type": "market", "price": None}
STOP = {**SELL, "order_type": "stop", "terms": Terms(stop_price=Decimal(49000))}
TRAIL = {**SELL, "order_type": "trailing_stop", "terms": Terms(trail_percent=Decimal("1.5"))}
MONEY: dict[str, object] = {"order_type": "market", "price": None, "quantity": Decimal(0)}


def placed(made: CcxtClient, symbol: str, **changes: object) -> Prepared:
    ready = made.prepare(action(market_id=symbol, **changes), COID)
    assert isinstance(ready, Prepared), ready
    return ready


@pytest.mark.parametrize(
    ("symbol", "changes", "other"),
    [
        (SPOT, STOP, {"stop_price": Decimal(48000)}),
        (SPOT, {**STOP, "order_type": "stop_limit", "price": Decimal(48500)}, {"stop_price": Decimal(48000)}),
        (SPOT, {"terms": Terms(post_only=True)}, {"post_only": None}),
        (SPOT, {}, {"post_only": True}),
        (SPOT, {**MONEY, "terms": Terms(notional=Decimal(100))}, {"notional": Decimal(200)}),
        (SPOT, {**SELL, "terms": Terms(take_profit_price=Decimal(61000))}, {"take_profit_price": Decimal(62000)}),
        (PERPETUAL, STOP, {"stop_price": Decimal(48000)}),
        (PERPETUAL, STOP, {"reduce_only": True}),
        (PERPETUAL, {**STOP, "order_type": "stop_limit", "price": Decimal(48500)}, {"stop_price": Decimal(48000)}),
        (PERPETUAL, {"terms": Terms(reduce_only=True, post_only=True)}, {"reduce_only": None}),
        (PERPETUAL, {"terms": Terms(post_only=True)}, {"reduce_only": True}),
        (PERPETUAL, TRAIL, {"trail_percent": Decimal(2)}),
        (PERPETUAL, {**SELL, "terms": Terms(stop_loss_price=Decimal(49000))}, {"stop_loss_price": Decimal(48000)}),
    ],
)
async def test_an_order_that_differs_in_one_term_is_another(
    symbol: str, changes: dict[str, object], other: dict[str, Any]
) -> None:
    async with PracticeExchange(fsync=False) as exchange:
        made = connected(exchange.url)
        await made.open()
        ready = placed(made, symbol, **changes)
        assert await made.lookup(ready) == Absent()
        await made.submit(ready)
        found = await made.lookup(ready)
        assert isinstance(found, Found), found
        assert differences(ready.action, found.order) == ()
        meant = replace(ready.action, terms=replace(ready.action.terms, **other))
        (difference,) = differences(meant, found.order)
        assert difference.startswith(next(iter(other)))
        await made.aclose()


async def test_an_order_that_waits_is_asked_for_where_it_was_sent() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        made = connected(exchange.url)
        await made.open()
        ready = placed(made, PERPETUAL, **STOP)
        assert ready.request["apart"] == "/fapi/v1/algoOrder"
        elsewhere = replace(ready, request={**ready.request, "apart": "/fapi/v1/somewhere"})
        assert isinstance(await made.lookup(elsewhere), LookupFailed)
        assert await made.lookup(ready) == Absent()
        await made.aclose()


def seen(order: dict[str, Any], meant: OrderAction, exchange_id: str = "binance") -> Terms:
    return told.terms(order, meant, exchange_id=exchange_id)


def test_what_ccxt_fills_in_is_not_taken_for_the_exchange_s_word() -> None:
    flags = action(terms=Terms(reduce_only=True, post_only=True))
    assert seen({"reduceOnly": False, "postOnly": False, "info": {"a": 1}}, flags, "kraken") == Terms()
    assert seen({"reduceOnly": False, "info": {"reduceOnly": "false"}}, flags).reduce_only is False
    assert seen({"postOnly": False, "info": {}}, flags, "bybit").post_only is False
    assert seen({"postOnly": True, "info": {}}, flags, "kraken").post_only is True
    assert seen({"triggerPrice": 0.0, "stopLossPrice": None, "info": {}}, action()) == Terms()
    closes = action(**SELL, terms=Terms(stop_loss_price=Decimal(49000)))
    unasked = {"triggerPrice": 49000.0, "reduceOnly": True, "info": {"reduceOnly": True}}
    assert seen(unasked, closes, "kraken") == Terms(stop_loss_price=Decimal("49000.0"))


def test_attached_exits_are_compared() -> None:
    loss = ExitTerms(stop_price=Decimal(45000), limit_price=Decimal(44000))
    meant = action(terms=Terms(stop_loss=loss, take_profit=ExitTerms(stop_price=Decimal(61000))))
    same = {"stopLossPrice": 45000.0, "takeProfitPrice": 61000.0, "info": {}}
    assert seen(same, meant, "bybit").stop_loss == loss
    assert seen({**same, "takeProfitPrice": 60000.0}, meant).take_profit == ExitTerms(stop_price=Decimal(60000))
    assert seen(same, action()).take_profit == ExitTerms(stop_price=Decimal(61000))


async def test_a_look_reads_quote_position_and_open_orders() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        made = connected(exchange.url)
        await made.open()
        exchange.prices.hold("binance", "", SPOT, Decimal("1.5"))
        exchange.prices.hold("binance", "", PERPETUAL, Decimal(-3))
        at = datetime(2026, 4, 18, tzinfo=UTC)
        exchange.prices.set(SPOT, Decimal(59990), Decimal(60010))
        exchange.prices.set(PERPETUAL, Decimal(59900), Decimal(59950), at)
        await made.submit(placed(made, SPOT))
        views = await made.look([action(market_id=one) for one in (SPOT, PERPETUAL, "ETH/USDT", "NO/PE")])
        spot, perpetual = views[SPOT], views[PERPETUAL]
        assert spot.quote is not None
        assert (spot.quote.bid, spot.quote.ask) == (Decimal(59990), Decimal(60010))
        assert abs((spot.quote.at or at) - datetime.now(UTC)).total_seconds() < 60
        assert replace(spot, quote=None) == MarketView(None, Decimal("1.5"), 1, "USDT")
        assert perpetual == MarketView(Quote(Decimal(59900), Decimal(59950), at), Decimal(-3), 0, "USDT")
        assert (views["ETH/USDT"].position, views["ETH/USDT"].open_orders) == (Decimal(0), 0)
        assert "no market NO/PE" in views["NO/PE"].problems[0]
        await made.aclose()


async def test_markets_of_a_kind_share_one_request() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        made = connected(exchange.url)
        await made.open()
        asked: list[str] = []
        fetch = made._exchange.fetch

        async def heard(url: str, *rest: Any, **named: Any) -> object:
            asked.append(url.removeprefix(exchange.url).partition("?")[0])
            return await fetch(url, *rest, **named)

        made._exchange.fetch = heard
        symbols = ("BTC/USDT", "ETH/USDT", "SOL/USDT")
        for symbol in symbols:
            exchange.prices.set(symbol, Decimal(10), Decimal(11))
        await made.look([action(market_id=symbol) for symbol in symbols])
        assert sorted(asked) == ["/api/v3/account", *["/api/v3/openOrders"] * 3, "/api/v3/ticker/bookTicker"]
        await made.aclose()


async def test_what_cannot_be_read_is_a_problem_and_goes_nowhere_else() -> None:
    async with client(reply(500, {"code": -1000, "msg": "broken"})) as (made, server):
        views = await made.look([action()])
        assert (views[SPOT].quote, views[SPOT].position, views[SPOT].open_orders) == (None, None, None)
        assert [problem.partition(":")[0] for problem in views[SPOT].problems] == ["quote", "position", "open orders"]
        assert {request.method for request in sends(server)} == {"GET"}


async def test_a_quote_is_read_from_the_book_where_the_list_has_none() -> None:
    def answer(request: Received) -> bytes:
        if request.path.endswith("/depth"):
            return reply(200, {"lastUpdateId": 1, "bids": [["59990", "1"]], "asks": []})
        return reply(404, {"code": -5000, "msg": "Path not found"})

    async with client(answer) as (made, _):
        quote = (await made.look([action()]))[SPOT].quote
        assert quote is not None
        assert (quote.bid, quote.ask) == (Decimal(59990), None)


@pytest.mark.parametrize(("inverse", "size", "settle"), [(False, 0.001, "USDT"), (True, 100.0, "BTC")])
async def test_a_contract_is_valued_by_its_size(inverse: bool, size: float, settle: str) -> None:
    async with Loopback(lambda _: reply(404, {"code": 1})) as server:
        made = await at_market(server.url, "bybit", spot=False)
        market = made._exchange.markets[PERPETUAL]
        market.update(inverse=inverse, linear=not inverse, contractSize=size, settle=settle)
        view = (await made.look([action(market_id=PERPETUAL)]))[PERPETUAL]
        assert (view.contract_size, view.inverse, view.currency) == (Decimal(str(size)), inverse, "USDT")
        market.update(settle="EUR")
        assert (await made.look([action(market_id=PERPETUAL)]))[PERPETUAL].currency is None
        await made.aclose()


async def test_an_endpoint_of_ours_has_every_kind_of_market() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        made = connected(exchange.url)
        await made.open()
        assert {SPOT, PERPETUAL} <= made._exchange.markets.keys()
        assert made._exchange.options["fetchMarkets"]["types"] == ["spot", "linear", "inverse"]
        await made.aclose()
    async with Loopback(binance(reply(200, ORDER))) as server:
        made = connected(server.url)
        await made.open()
        assert [*made._exchange.markets] == [SPOT]
        assert isinstance(prepared(made), Prepared)
        await made.aclose()

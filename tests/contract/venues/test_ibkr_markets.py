"""Which contract a market id names at a gateway: exactly one, or none is sent."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tests.support.venue.ibkr import action, opened, prepared
from tests.support.venue.tws import AAPL, Listed, Tws
from venues import Accepted, Found, Prepared, Refused, VenueClient, differences
from venues.client import Learner

ES = Listed(495512563, "ES", "FUT", "CME", month="20261218", multiplier="50")
CALL = Listed(700123, "AAPL", "OPT", local="AAPL  261218C00200000", multiplier="100")
CANADA = Listed(500001, "AAPL", currency="CAD")
BERKSHIRE = Listed(72063691, "BRK B")


async def learnt(gateway: Tws, *market_ids: str) -> tuple[VenueClient, tuple[str, ...]]:
    made = await opened(gateway)
    assert isinstance(made, Learner)
    return made, await cast("Any", made).learn(market_ids)


@pytest.mark.parametrize(
    ("market_id", "number", "exchange", "words"),
    [
        ("AAPL", 265598, "SMART", "AAPL STK SMART USD"),
        ("BRK B", 72063691, "SMART", "BRK B STK SMART USD"),
        ("ES 202612", 495512563, "CME", "ES FUT CME USD"),
        ("ES 20261218", 495512563, "CME", "ES FUT CME USD"),
        ("AAPL  261218C00200000", 700123, "SMART", "AAPL  261218C00200000 OPT SMART USD"),
    ],
)
async def test_an_id_that_one_contract_fits_is_that_contract(
    market_id: str, number: int, exchange: str, words: str
) -> None:
    async with Tws() as gateway:
        gateway.listed = [AAPL, ES, CALL, BERKSHIRE]
        made, failed = await learnt(gateway, market_id)
        assert failed == ()
        ready = prepared(made, market_id=market_id)
        assert json.loads(ready.body)["contract"] == {"conId": number, "exchange": exchange}
        assert ready.sent["market_id"] == (str(number) if exchange == "SMART" else f"{number}@{exchange}")
        assert f"market {market_id} is {words}, conId {number}" in ready.notes
        assert isinstance(await made.submit(ready), Accepted)
        assert (gateway.placed[0][2], gateway.placed[0][9]) == (str(number), exchange)
        found = await made.lookup(ready)
        assert isinstance(found, Found)
        assert differences(ready.action, found.order) == ()
        await made.aclose()


@pytest.mark.parametrize(
    ("listed", "market_id", "why"),
    [
        ([AAPL, CANADA], "AAPL", "265598 is AAPL STK SMART USD; 500001 is AAPL STK SMART CAD"),
        ([], "AAPL", "knows no such contract"),
        ([AAPL], "MSFT", "knows no such contract"),
        ([ES, Listed(495512563, "ES", "FUT", "QBALGO", month="20261218")], "ES 202612", "495512563@CME is ES FUT"),
        ([ES], "ES 202603", "knows no such contract"),
        ([Listed(1, "AAPL", multiplier="x")], "AAPL", "1 contracts"),
        ([Listed(number, "AAPL", currency=f"C{number:02}") for number in range(1, 8)], "AAPL", "and 3 more"),
    ],
)
async def test_several_or_none_are_refused_and_listed(listed: list[Listed], market_id: str, why: str) -> None:
    async with Tws() as gateway:
        gateway.listed = listed
        made, failed = await learnt(gateway, market_id)
        refused = made.prepare(action(market_id=market_id), "suite-1")
        assert isinstance(refused, Refused)
        assert why in refused.why
        assert failed == (refused.why,)
        assert gateway.placed == []
        await made.aclose()


async def test_a_whole_id_is_not_asked_about_and_a_known_one_once() -> None:
    async with Tws() as gateway:
        made, failed = await learnt(gateway, "265598", "495512563@CME", "AAPL:STK:SMART:USD", "a:b", "x y z")
        assert (failed, gateway.questions) == ((), [])
        for _ in range(2):
            await cast("Any", made).learn(["AAPL", "AAPL"])
        assert len(gateway.questions) == 1
        for market_id, why in (("a:b", "needs a conId"), ("MSFT", "was not asked"), ("x y z", "needs a conId")):
            refused = made.prepare(action(market_id=market_id), "suite-1")
            assert isinstance(refused, Refused)
            assert why in refused.why
        await made.aclose()


async def test_a_gateway_that_does_not_tell_is_asked_again() -> None:
    async with Tws() as gateway:
        gateway.deaf_to = {"9"}
        made, failed = await learnt(gateway, "AAPL")
        assert "AAPL: the gateway did not list" in failed[0]
        assert isinstance(made.prepare(action(market_id="AAPL"), "suite-1"), Refused)
        gateway.deaf_to = set()
        assert await cast("Any", made).learn(["AAPL"]) == ()
        assert isinstance(made.prepare(action(market_id="AAPL"), "suite-1"), Prepared)
        await made.aclose()


async def test_a_listing_that_came_later_is_not_hidden_by_an_earlier_refusal() -> None:
    async with Tws() as gateway:
        gateway.listed = []
        made, failed = await learnt(gateway, "AAPL")
        assert failed
        gateway.listed = [AAPL]
        assert await cast("Any", made).learn(["AAPL"]) == ()
        await made.aclose()

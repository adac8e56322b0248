"""The ibkr client against a TWS on loopback: one placeOrder each, its fields to the digit, the right outcome."""

from __future__ import annotations

import asyncio
import json
import time
from decimal import Decimal

import pytest

from tests.support.venue.ibkr import TIMEOUT, action, opened, prepared
from tests.support.venue.tws import ANSWERS, Tws
from venues import (
    Absent,
    Accepted,
    Found,
    NotSent,
    Outcome,
    Refused,
    Rejected,
    Unknown,
    differences,
)

OUTCOMES: dict[str, type[Outcome]] = {
    "accept": Accepted,
    "fill": Accepted,
    "warn_then_accept": Accepted,
    "cancel": Accepted,
    "reject_201": Rejected,
    "refuse_321": Rejected,
    "refuse_110": Rejected,
    "refuse_200": Rejected,
    "refuse_103": Rejected,
    "server_error_322": Unknown,
    "silence": Unknown,
    "book_silently": Unknown,
    "hang_up": Unknown,
    "book_and_hang_up": Unknown,
    "garbage": Unknown,
    "no_perm_id": Unknown,
    "pending": Unknown,
    "inactive": Unknown,
}


def test_every_answer_of_the_fake_has_its_outcome_here() -> None:
    assert OUTCOMES.keys() == ANSWERS.keys()


@pytest.mark.parametrize("answer", OUTCOMES)
async def test_one_message_the_right_outcome_in_time(answer: str) -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        ready = prepared(made)
        gateway.next = answer
        began = time.monotonic()
        outcome = await made.submit(ready)
        assert time.monotonic() - began < TIMEOUT + 30
        assert type(outcome) is OUTCOMES[answer], outcome
        assert len(gateway.placed) == 1
        booked = gateway.booked("suite-1")
        if isinstance(outcome, Accepted):
            assert outcome.venue_order_id == str(booked[0].perm_id)
        found = await made.lookup(ready)
        if not booked:
            assert found == Absent()
        elif answer != "inactive":
            assert isinstance(found, Found)
            assert found.order.venue_order_id == str(booked[0].perm_id)
            assert differences(ready.action, found.order) == ()
        assert len(gateway.placed) == 1
        await made.aclose()


async def test_the_message_carries_the_stored_fields_to_the_digit() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        ready = prepared(
            made, "ref-9", side="sell", quantity=Decimal("0.1000"), price=Decimal("1E+2"), time_in_force="gtc"
        )
        assert json.loads(ready.body) == {
            "contract": {"symbol": "AAPL", "secType": "STK", "exchange": "SMART", "currency": "USD"},
            "order": {
                "action": "SELL",
                "totalQuantity": "0.1",
                "orderType": "LMT",
                "lmtPrice": "100",
                "tif": "GTC",
                "orderRef": "ref-9",
                "account": "DU1234567",
            },
        }
        await made.submit(ready)
        (message,) = gateway.placed
        assert message[0] == "3"
        assert message[3:6] == ["AAPL", "STK", ""]
        assert (message[9], message[11]) == ("SMART", "USD")
        assert message[16:20] == ["SELL", "0.1", "LMT", "100"]
        assert (message[21], message[23], message[26], message[27]) == ("GTC", "DU1234567", "ref-9", "1")
        await made.aclose()


async def test_a_number_names_a_contract_too_and_a_market_order_has_no_price() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        await made.submit(prepared(made, market_id="265598", order_type="market", price=None))
        (message,) = gateway.placed
        assert message[2] == "265598"
        assert message[18:20] == ["MKT", ""]
        assert message[21] == "DAY"
        await made.aclose()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"market_id": "AAPL"}, "AAPL:STK:SMART:USD"),
        ({"market_id": "AAPL:STK:SMART"}, "AAPL:STK:SMART:USD"),
        ({"side": "yes"}, "buy and sell"),
        ({"order_type": "iceberg", "price": None}, "trailing_stop"),
        ({"time_in_force": "gtd"}, "time in force gtd"),
        ({"time_in_force": "cls"}, "time in force cls"),
        ({"price": None}, "needs a price"),
        ({"quantity": Decimal(0)}, "not above zero"),
        ({"account_id": "DU7654321"}, "this gateway has DU1234567"),
        ({"verb": "cancel", "venue_order_id": "7"}, "do it in TWS"),
        ({"verb": "replace", "venue_order_id": "7"}, "do it in TWS"),
    ],
)
async def test_what_cannot_be_sent_as_it_is_is_refused(changes: dict[str, object], why: str) -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        refused = made.prepare(action(**changes), "suite-1")
        assert isinstance(refused, Refused)
        assert why in refused.why
        assert isinstance(made.prepare(action(), "a reference with spaces"), Refused)
        await made.aclose()


async def test_a_cancelled_task_ends_unknown_once_the_message_left() -> None:
    async with Tws() as gateway:
        made = await opened(gateway, timeout=10.0)
        gateway.next = "silence"
        task = asyncio.create_task(made.submit(prepared(made)))
        async with asyncio.timeout(30):
            await gateway.heard.wait()
        task.cancel()
        assert isinstance(await task, Unknown)
        assert len(gateway.placed) == 1
        await made.aclose()


async def test_a_task_cancelled_while_connecting_sent_nothing() -> None:
    async with Tws() as gateway:
        made = await opened(gateway, timeout=10.0)
        ready = prepared(made)
        await made.aclose()
        gateway.mute = True
        task = asyncio.create_task(made.submit(ready))
        async with asyncio.timeout(30):
            while gateway.logins < 2:
                await asyncio.sleep(0)
        task.cancel()
        assert isinstance(await task, NotSent)
        assert gateway.placed == []
        await made.aclose()

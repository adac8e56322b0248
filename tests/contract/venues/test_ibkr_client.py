"""The ibkr client against a TWS on loopback: one placeOrder each, the right outcome, and only in the right mode."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from decimal import Decimal

import pytest

from tests.fakes.tws import ANSWERS, Tws
from venues import (
    Absent,
    Accepted,
    BadEndpoint,
    Credentials,
    Found,
    LookupFailed,
    MissingExtra,
    Mode,
    NotSent,
    OrderAction,
    Outcome,
    Prepared,
    Refused,
    Rejected,
    Route,
    Unknown,
    UnknownVenue,
    VenueClient,
    VenueError,
    WrongMode,
    connect,
    credential_fields,
    differences,
    ibkr,
    venue_profile,
)

TIMEOUT = 0.4
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


def action(**changes: object) -> OrderAction:
    fields: dict[str, object] = {
        "verb": "new",
        "market_id": "AAPL:STK:SMART:USD",
        "side": "buy",
        "quantity": Decimal("100"),
        "order_type": "limit",
        "price": Decimal("180.25"),
        "order_key": "k",
    }
    return OrderAction(**{**fields, **changes})  # type: ignore[arg-type]  # the fields above, by name


def client(gateway: Tws, mode: Mode = "paper", timeout: float = TIMEOUT) -> VenueClient:
    return connect("ibkr", mode, Credentials({}), Route(timeout=timeout, endpoint=gateway.url))


async def opened(gateway: Tws, mode: Mode = "paper", timeout: float = TIMEOUT) -> VenueClient:
    made = client(gateway, mode, timeout)
    await made.open()
    return made


def prepared(made: VenueClient, reference: str = "suite-1", **changes: object) -> Prepared:
    ready = made.prepare(action(**changes), reference)
    assert isinstance(ready, Prepared), ready
    return ready


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
        assert time.monotonic() - began < TIMEOUT + 1
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
        ({"order_type": "stop"}, "market and limit"),
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


@pytest.mark.parametrize(
    ("accounts", "asked", "used"),
    [
        ("DU1234567", None, "DU1234567"),
        ("DU1234567", "main", "DU1234567"),
        ("DU1,DU2", "DU2", "DU2"),
        ("DU1,DU2", None, None),
        ("DU1,DU2", "main", None),
    ],
)
async def test_an_order_goes_to_the_account_that_was_said(accounts: str, asked: str | None, used: str | None) -> None:
    async with Tws(accounts) as gateway:
        made = await opened(gateway)
        ready = made.prepare(action(account_id=asked), "suite-1")
        if used is None:
            assert isinstance(ready, Refused)
        else:
            assert isinstance(ready, Prepared)
            assert json.loads(ready.body)["order"]["account"] == used
        await made.aclose()


@pytest.mark.parametrize(
    ("mode", "accounts", "fits"),
    [
        ("paper", "DU1234567", True),
        ("paper", "DF1234567,DU7654321", True),
        ("paper", "U1234567", False),
        ("paper", "DU1234567,U7654321", False),
        ("live", "U1234567", True),
        ("live", "DU1234567", False),
        ("live", "U1234567,DU7654321", False),
        ("live", "DF1234567", False),
    ],
)
async def test_the_accounts_decide_the_mode(mode: Mode, accounts: str, fits: bool) -> None:
    async with Tws(accounts) as gateway:
        made = client(gateway, mode)
        if fits:
            await made.open()
            assert (await made.probe()).really_paper is (mode == "paper")
        else:
            with pytest.raises(WrongMode, match="not " + mode):
                await made.open()
        await made.aclose()
        assert gateway.placed == []


async def test_a_gateway_that_changed_sides_meanwhile_gets_nothing() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        ready = prepared(made)
        await made.aclose()
        gateway.accounts = "U1234567"
        outcome = await made.submit(ready)
        assert isinstance(outcome, NotSent)
        assert "not paper" in outcome.why
        assert gateway.placed == []


async def test_after_a_restart_of_the_gateway_it_connects_again() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        ready = prepared(made)
        await made.aclose()
        assert isinstance(await made.submit(ready), Accepted)
        assert gateway.logins == 2
        await made.aclose()


async def test_a_gateway_that_is_gone_or_mute_gets_nothing() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        ready = prepared(made)
        await made.aclose()
        gateway.mute = True
        assert isinstance(await made.submit(ready), NotSent)
        with pytest.raises(VenueError, match="no gateway answers"):
            await client(gateway).open()
    assert isinstance(await made.submit(ready), NotSent)
    assert isinstance(await made.lookup(ready), LookupFailed)
    assert not (await made.probe()).reachable
    assert gateway.placed == []


async def test_a_cancelled_task_ends_unknown_once_the_message_left() -> None:
    async with Tws() as gateway:
        made = await opened(gateway, timeout=10.0)
        gateway.next = "silence"
        task = asyncio.create_task(made.submit(prepared(made)))
        async with asyncio.timeout(5):
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
        async with asyncio.timeout(5):
            while gateway.logins < 2:
                await asyncio.sleep(0)
        task.cancel()
        assert isinstance(await task, NotSent)
        assert gateway.placed == []
        await made.aclose()


@pytest.mark.parametrize("question", ["16", "99", "7"])
async def test_a_look_up_that_is_not_answered_whole_is_never_absence(question: str) -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        gateway.deaf_to = {question}
        assert isinstance(await made.lookup(prepared(made)), LookupFailed)
        await made.aclose()


async def test_an_order_seen_only_in_the_executions_is_found() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        ready = prepared(made)
        assert isinstance(await made.submit(ready), Accepted)
        (booked,) = gateway.orders
        gateway.orders = []
        gateway.book(booked, status="Executed", filled="100")
        await made.aclose()
        found = await made.lookup(ready)
        assert isinstance(found, Found)
        assert (found.order.status, found.order.filled, found.order.side) == ("filled", Decimal(100), "buy")
        assert differences(ready.action, found.order) == ()
        await made.aclose()


async def test_two_orders_under_one_reference_are_for_a_person() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        ready = prepared(made)
        assert isinstance(await made.submit(ready), Accepted)
        assert isinstance(await made.submit(ready), Accepted)  # the venue refuses no reference twice
        found = await made.lookup(ready)
        assert isinstance(found, LookupFailed)
        assert "2 orders" in found.why
        assert venue_profile("ibkr").dedup == "none"
        await made.aclose()


async def test_another_order_under_the_reference_differs() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        await made.submit(prepared(made, quantity=Decimal("10"), market_id="MSFT:STK:SMART:USD"))
        found = await made.lookup(prepared(made))
        assert isinstance(found, Found)
        assert len(differences(action(), found.order)) == 2
        await made.aclose()


def test_the_address_is_the_mode_s_own_or_loopback() -> None:
    assert connect("ibkr", "paper", Credentials({})).host == "127.0.0.1:4002"
    assert connect("ibkr", "live", Credentials({})).host == "127.0.0.1:4001"
    for told in ("127.0.0.1:7497", "http://127.0.0.1:7497"):
        assert connect("ibkr", "paper", Credentials({}), Route(endpoint=told)).host == "127.0.0.1:7497"
    for told in ("10.0.0.5:7497", "user:pw@127.0.0.1:7497", "127.0.0.1:7497/x"):
        with pytest.raises(BadEndpoint):
            connect("ibkr", "paper", Credentials({}), Route(endpoint=told))
    with pytest.raises(BadEndpoint, match="plain http only on loopback"):
        connect("ibkr", "paper", Credentials({}), Route(endpoint="10.0.0.5:7497", allow_custom_endpoint=True))


def test_a_missing_extra_says_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ib_async", None)
    with pytest.raises(MissingExtra, match=r"pip install 'dlq-console\[ibkr\]'"):
        connect("ibkr", "paper", Credentials({}))


def test_it_needs_no_secrets_and_answers_to_its_name_only() -> None:
    assert credential_fields("ibkr") == ()
    with pytest.raises(UnknownVenue):
        ibkr.profile("ibkr2")

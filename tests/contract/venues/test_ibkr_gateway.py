"""The gateway the ibkr client talks to: its address, its accounts, its absence; look-ups among its orders."""

from __future__ import annotations

import sys
from decimal import Decimal

import pytest

from tests.support.venue.ibkr import action, client, opened, prepared
from tests.support.venue.tws import Tws
from venues import (
    Accepted,
    BadEndpoint,
    Credentials,
    Found,
    LookupFailed,
    MissingExtra,
    Mode,
    NotSent,
    Route,
    UnknownVenue,
    VenueError,
    WrongMode,
    connect,
    credential_fields,
    differences,
    venue_profile,
)


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
        venue_profile("ibkr2")

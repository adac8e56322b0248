"""An ibkr order goes to its entry's own account at the gateway, is looked for there, and otherwise not sent."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.support.venue.ibkr import action, client, opened, prepared
from tests.support.venue.tws import Tws
from venues import (
    Absent,
    Accepted,
    Found,
    LookupFailed,
    NotSent,
    Prepared,
    Refused,
    WrongAccount,
    venue_profile,
)


@pytest.mark.parametrize(
    ("accounts", "asked", "number", "used"),
    [
        ("DU1234567", None, None, "DU1234567"),
        ("DU1234567", "DU1234567", None, "DU1234567"),
        ("DU1234567", "main", None, None),
        ("DU1234567", "DU7654321", None, None),
        ("DU1234567", "main", "DU1234567", "DU1234567"),
        ("DU1234567", None, "DU1234567", "DU1234567"),
        ("DU1,DU2", "DU2", None, "DU2"),
        ("DU1,DU2", None, None, None),
        ("DU1,DU2", "main", None, None),
        ("DU1,DU2", "main", "DU2", "DU2"),
        ("DU1,DU2", None, "DU2", "DU2"),
        ("DU1,DU2", "DU2", "DU2", "DU2"),
        ("DU1,DU2", "DU1", "DU2", None),
    ],
)
async def test_an_order_goes_to_its_own_account_or_nowhere(
    accounts: str, asked: str | None, number: str | None, used: str | None
) -> None:
    async with Tws(accounts) as gateway:
        made = await opened(gateway, number=number)
        ready = made.prepare(action(account_id=asked), "suite-1")
        assert made.account_of(action(account_id=asked)) == used
        if used is None:
            assert isinstance(ready, Refused)
            assert ready.wrong_account
            assert ready.why.startswith("account ")
            assert "paper_number" in ready.why
        else:
            assert isinstance(ready, Prepared)
            assert json.loads(ready.body)["order"]["account"] == used
            await made.submit(ready)
            assert gateway.placed[0][23] == used
        await made.aclose()


async def test_a_refusal_names_the_gateways_accounts() -> None:
    async with Tws("DU1,DU2") as gateway:
        made = await opened(gateway)
        for asked in ("main", None):
            refused = made.prepare(action(account_id=asked), "suite-1")
            assert isinstance(refused, Refused)
            assert "DU1, DU2" in refused.why
        await made.aclose()


@pytest.mark.parametrize(
    ("accounts", "number", "told"),
    [("DU1", None, "DU1"), ("DU1,DU2", None, None), ("DU1,DU2", "DU2", "DU2"), ("DU1", "DU1", "DU1")],
)
async def test_the_account_is_known_from_the_start(accounts: str, number: str | None, told: str | None) -> None:
    assert venue_profile("ibkr").tells_account
    assert venue_profile("ibkr").reach == "day"
    async with Tws(accounts) as gateway:
        made = await opened(gateway, number=number)
        assert (made.account, made.key_digest) == (told, "")
        await made.aclose()


async def test_a_number_that_the_gateway_does_not_have_is_the_wrong_account() -> None:
    async with Tws("DU1,DU2") as gateway:
        with pytest.raises(WrongAccount, match='DU1, DU2, but the config says paper_number = "DU3"'):
            await client(gateway, number="DU3").open()


@pytest.mark.parametrize("number", [None, "DU1"])
async def test_a_gateway_that_changed_accounts_meanwhile_gets_nothing(number: str | None) -> None:
    async with Tws("DU1") as gateway:
        made = await opened(gateway, number=number)
        ready = prepared(made, account_id="DU1")
        await made.aclose()
        gateway.accounts = "DU2"
        assert isinstance(await made.submit(ready), NotSent)
        assert gateway.placed == []
        assert isinstance(await made.lookup(ready), LookupFailed)
        await made.aclose()


@pytest.mark.parametrize("status", ["Submitted", "Filled", "Cancelled", "Executed"])
async def test_another_accounts_order_under_the_same_reference_is_not_found(status: str) -> None:
    async with Tws("DU1,DU2") as gateway:
        made = await opened(gateway)
        first, second = (prepared(made, account_id=account) for account in ("DU1", "DU2"))
        assert isinstance(await made.submit(first), Accepted)
        gateway.orders = [replace(order, status=status, filled="100") for order in gateway.orders]
        await made.aclose()  # a client remembers what it placed itself
        assert isinstance(await made.lookup(first), Found)
        assert await made.lookup(second) == Absent()
        await made.aclose()


async def test_an_executed_order_is_as_old_as_its_first_execution() -> None:
    async with Tws() as gateway:
        made = await opened(gateway)
        ready = prepared(made)
        await made.submit(ready)
        gateway.orders = [replace(order, status="Executed", filled="100") for order in gateway.orders]
        await made.aclose()
        found = await made.lookup(ready)
        assert isinstance(found, Found)
        assert found.order.created_at == datetime(2026, 11, 16, 2, tzinfo=UTC)
        await made.aclose()

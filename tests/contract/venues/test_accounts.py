"""Whose account answers: what each client tells of it, and that one key never finds another's order."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta

import pytest
from eth_account import Account

from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.venue.alpaca import client_of
from tests.support.venue.polymarket import Polymarket, PolymarketExchange
from tests.support.venue.rig import Rig
from tests.support.venue.rigs_practice import ALPACA, ALPACA_SECRETS, KALSHI, KALSHI_SECRETS
from tests.support.venue.rigs_sdk import HYPERLIQUID, HYPERLIQUID_SECRETS, POLYMARKET, POLYMARKET_SECRETS
from venues import (
    Accepted,
    Credentials,
    Found,
    Learner,
    LookupFailed,
    Mode,
    Prepared,
    Route,
    VenueClient,
    connect,
    venue_profile,
)
from venues.practice import PracticeExchange

OTHER_KEY = "0x" + "7b" * 32
Exchange = Callable[[], AbstractAsyncContextManager[PracticeExchange]]


@dataclass(frozen=True, slots=True)
class Venue:
    rig: Rig
    secrets: dict[str, str]
    others: dict[str, str]  # the fields in which another account's key differs
    account: str | None  # what the venue tells, as a pattern
    mode: Mode = "paper"
    exchange: Exchange = lambda: PracticeExchange(fsync=False)


ADDRESS = HYPERLIQUID_SECRETS["account_address"]
OTHER_ADDRESS = Account.from_key(OTHER_KEY).address
VENUES = [
    Venue(ALPACA, ALPACA_SECRETS, {"api_key": "PKANOTHER"}, "PA[0-9A-Z]{8,}"),
    Venue(KALSHI, KALSHI_SECRETS, {"api_key_id": "another"}, None),
    Venue(
        HYPERLIQUID,
        HYPERLIQUID_SECRETS,
        {"private_key": OTHER_KEY, "account_address": OTHER_ADDRESS},
        "0x[0-9a-f]{40}",
    ),
    Venue(
        POLYMARKET,
        POLYMARKET_SECRETS,
        {"private_key": OTHER_KEY, "wallet": OTHER_ADDRESS, "api_key": "another"},
        None,
        mode="live",
        exchange=lambda: PolymarketExchange(Polymarket(POLYMARKET_SECRETS["api_secret"])),
    ),
]
EACH = pytest.mark.parametrize("venue", VENUES, ids=lambda venue: venue.rig.name)


async def opened(venue: Venue, url: str, **others: str) -> VenueClient:
    made = connect(venue.rig.name, venue.mode, Credentials({**venue.secrets, **others}), Route(2.0, url))
    await made.open()
    if isinstance(made, Learner):
        assert await made.learn([venue.rig.action("new", None).market_id]) == ()
    return made


def new_order(venue: Venue, client: VenueClient) -> Prepared:
    ready = client.prepare(venue.rig.action("new", None), venue.rig.client_order_id("first"))
    assert isinstance(ready, Prepared), ready
    return ready


@EACH
async def test_the_account_is_told_and_the_key_has_a_digest(venue: Venue) -> None:
    async with venue.exchange() as exchange:
        one, same, two = [await opened(venue, exchange.url, **more) for more in ({}, {}, venue.others)]
        for made in (one, same, two):
            await made.aclose()
    assert venue_profile(venue.rig.name).tells_account is (venue.account is not None)
    assert one.account_of(venue.rig.action("new", None)) == one.account == same.account
    assert one.key_digest == same.key_digest != two.key_digest
    assert not any(secret in one.key_digest for secret in venue.secrets.values())
    if venue.account is None:
        assert one.account is None
    else:
        assert re.fullmatch(venue.account, one.account or "")
        assert one.account != two.account


@EACH
async def test_an_order_is_found_by_its_own_key_only(venue: Venue) -> None:
    async with venue.exchange() as exchange:
        one, two = [await opened(venue, exchange.url, **more) for more in ({}, venue.others)]
        ready = new_order(venue, one)
        assert isinstance(await one.submit(ready), Accepted)
        found = await one.lookup(ready)
        assert isinstance(found, Found)
        assert not isinstance(await two.lookup(ready), Found | LookupFailed)
        if venue.rig.name != "polymarket":  # whose stub does not tell when
            assert found.order.created_at is not None
            assert abs(found.order.created_at - exchange.orders[0].created_at) < timedelta(milliseconds=1)
        for made in (one, two):
            await made.aclose()


@EACH
async def test_the_same_client_order_id_of_another_key_is_another_order(venue: Venue) -> None:
    async with venue.exchange() as exchange:
        for more in ({}, venue.others):
            made = await opened(venue, exchange.url, **more)
            assert isinstance(await made.submit(new_order(venue, made)), Accepted)
            await made.aclose()
        assert len({order.account for order in exchange.orders}) == len(exchange.orders) == 2


# Alpaca's account where it is not told


@pytest.mark.parametrize("answer", [reply(503), reply(200, b"<html>"), reply(200, {}), reply(404, {"message": "x"})])
async def test_an_account_that_is_not_told_stays_unknown_until_a_probe_tells_it(answer: bytes) -> None:
    answers = iter([answer])

    def handle(request: Received) -> Answer:
        if request.path != "/v2/account":
            return reply(200, {"is_open": True})
        return next(answers, reply(200, {"account_number": "PA3XYZ", "status": "ACTIVE"}))

    async with Loopback(handle) as server:
        client = client_of(server.url)
        await client.open()
        assert client.account is None
        await client.probe()
        assert client.account == "PA3XYZ"
        await client.aclose()

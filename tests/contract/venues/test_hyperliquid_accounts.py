"""Whose orders the hyperliquid client sends: the account of its key or agent, a vault's, and nobody else's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from eth_account import Account
from hyperliquid.utils.signing import sign_agent, sign_l1_action

from tests.support.http_server import Loopback, reply
from tests.support.practice_wire import hear, hyperliquid_action
from tests.support.venue.hyperliquid import ADDRESS, CLOID, action, client, prepared, status, venue
from tests.support.venue.rigs_sdk import HEX_KEY, HYPERLIQUID_SECRETS
from venues import (
    Absent,
    Accepted,
    BadCredentials,
    Credentials,
    Found,
    Mode,
    Refused,
    Route,
    VenueClient,
    VenueError,
    connect,
    venue_profile,
)
from venues.practice import PracticeExchange
from venues.terms import Terms

AGENT_KEY = "0x" + "7b" * 32
AGENT = Account.from_key(AGENT_KEY)
VAULT = "0x" + "aB" * 20
UNKNOWN_ROLES = [reply(503), reply(200, b"null"), reply(200, {}), reply(200, b"what?")]


def connected(url: str, mode: Mode = "paper", **secrets: str) -> VenueClient:
    return connect("hyperliquid", mode, Credentials({**HYPERLIQUID_SECRETS, **secrets}), Route(2.0, url))


@asynccontextmanager
async def opened(url: str, mode: Mode = "paper", **secrets: str) -> AsyncIterator[VenueClient]:
    made = connected(url, mode, **secrets)
    await made.open()
    yield made
    await made.aclose()


async def test_a_key_of_its_own_is_known_without_asking() -> None:
    async with client() as (made, server):
        assert venue_profile("hyperliquid").tells_account
        assert made.account == ADDRESS.lower() == made.account_of(action())
        assert server.requests == []


async def test_an_agents_account_is_its_masters() -> None:
    role = {"role": "agent", "data": {"user": ADDRESS}}
    async with Loopback(venue(reply(200, role))) as server:
        async with opened(server.url, private_key=AGENT_KEY) as made:
            assert made.account == ADDRESS.lower()
        asked = [request.json() for request in server.requests]
        assert {"type": "userRole", "user": AGENT.address.lower()} in asked


@pytest.mark.parametrize(
    "role",
    [
        {"role": "user"},
        {"role": "missing"},
        {"role": "vault"},
        {"role": "agent", "data": {"user": "0x" + "1" * 40}},
        {"role": "agent"},
        {"role": "subAccount", "data": {"master": ADDRESS}},
    ],
)
async def test_a_key_that_is_neither_is_refused(role: dict[str, object]) -> None:
    async with Loopback(venue(reply(200, role))) as server:
        with pytest.raises(BadCredentials, match=r"private_key: .*neither") as caught:
            await connected(server.url, private_key=AGENT_KEY).open()
    assert AGENT.address.lower() in str(caught.value)
    assert ADDRESS.lower() in str(caught.value)
    assert AGENT_KEY not in str(caught.value)


@pytest.mark.parametrize("answer", UNKNOWN_ROLES)
async def test_where_the_role_is_not_told_nothing_is_known(answer: bytes) -> None:
    async with Loopback(venue(answer)) as server:
        with pytest.raises(VenueError, match="did not say whether the key may act") as caught:
            await connected(server.url, private_key=AGENT_KEY).open()
    assert not isinstance(caught.value, BadCredentials)


# Vaults and sub-accounts


@pytest.mark.parametrize("verb", ["new", "replace", "cancel"])
@pytest.mark.parametrize("mode", ["paper", "live"])
async def test_an_order_for_a_vault_is_signed_as_the_sdk_signs_it(verb: str, mode: Mode) -> None:
    async with client(mode=mode) as (made, _):
        ready = prepared(made, verb=verb, venue_order_id="5", terms=Terms(vault_address=VAULT))
        payload = json.loads(ready.body)
        own = sign_l1_action(
            Account.from_key(HEX_KEY),
            payload["action"],
            VAULT,
            payload["nonce"],
            payload["expiresAfter"],
            mode == "live",
        )
        assert payload["signature"] == own
        assert payload["vaultAddress"] == VAULT.lower() == made.account_of(ready.action)
        assert any(VAULT.lower() in note for note in ready.notes)


async def test_a_vaults_order_is_looked_for_in_the_vault() -> None:
    async with client(reply(200, {"status": "unknownOid"})) as (made, server):
        assert await made.lookup(prepared(made, terms=Terms(vault_address=VAULT))) == Absent()
        assert await made.lookup(prepared(made)) == Absent()
        asked = [cast("dict[str, object]", request.json())["user"] for request in server.requests]
        assert asked == [VAULT.lower(), ADDRESS.lower()]


@pytest.mark.parametrize("vault", ["0x12", "ab" * 20, VAULT + "1"])
@pytest.mark.parametrize("verb", ["new", "cancel"])
async def test_a_malformed_vault_is_refused(vault: str, verb: str) -> None:
    async with client(status(resting={"oid": 1})) as (made, server):
        wrong = action(verb=verb, venue_order_id="5", terms=Terms(vault_address=vault))
        refused = made.prepare(wrong, CLOID)
        assert isinstance(refused, Refused)
        assert "vault" in refused.why
        assert made.account_of(wrong) is None
        assert server.requests == []


# On the practice exchange


@pytest.mark.parametrize("mode", ["paper", "live"])
async def test_account_and_vault_hold_their_own_orders(mode: Mode) -> None:
    async with PracticeExchange(fsync=False) as exchange, opened(exchange.url, mode) as made:
        for terms in (Terms(), Terms(vault_address=VAULT)):
            ready = prepared(made, terms=terms)
            assert await made.lookup(ready) == Absent()
            assert isinstance(await made.submit(ready), Accepted)
            assert isinstance(await made.lookup(ready), Found)
        assert [order.account for order in exchange.orders] == [ADDRESS.lower(), VAULT.lower()]
        other = {"private_key": AGENT_KEY, "account_address": AGENT.address}
        async with opened(exchange.url, mode, **other) as stranger:
            assert await stranger.lookup(prepared(stranger)) == Absent()


async def test_an_agent_on_the_practice_exchange_sends_for_its_account() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        with pytest.raises(BadCredentials, match="private_key"):
            await connected(exchange.url, private_key=AGENT_KEY).open()
        approval: dict[str, object] = {
            "type": "approveAgent",
            "agentAddress": AGENT.address,
            "agentName": "",
            "nonce": 1,
        }
        signature = sign_agent(Account.from_key(HEX_KEY), approval, False)
        await hear(exchange.url, hyperliquid_action(approval, nonce=1, signature=signature))
        async with opened(exchange.url, private_key=AGENT_KEY) as made:
            ready = prepared(made)
            assert isinstance(await made.submit(ready), Accepted)
            assert isinstance(await made.lookup(ready), Found)
        assert [order.account for order in exchange.orders] == [ADDRESS.lower()]

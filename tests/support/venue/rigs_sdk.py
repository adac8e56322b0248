"""Rigs of the clients that come with an extra: ccxt's binance, hyperliquid, polymarket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import cast

from eth_account import Account

from tests.support.venue.polymarket import TOKEN, Polymarket, PolymarketExchange
from tests.support.venue.rig import Rig, Stage
from tests.support.venue.rigs_practice import HARMLESS, PracticeStage, practice
from venues import (
    Accepted,
    Credentials,
    Mode,
    OrderAction,
    Outcome,
    RateLimited,
    Rejected,
    Route,
    Unknown,
    VenueClient,
    Verb,
    connect,
)
from venues.polymarket.client import PolymarketClient
from venues.practice import BEHAVIOURS

HEX_KEY = "0x" + "c4a7" * 16
CCXT_SECRETS = {
    "apiKey": "CANARYvmPUZE6mv9SD5VNHk4HlWFsOr6aKE2zvsw",
    "secret": "CANARYNhqPtmdSJYdKjVHjA7PZj4Mge3R5YNiP1e3UZ",
}
HYPERLIQUID_SECRETS = {"private_key": HEX_KEY, "account_address": Account.from_key(HEX_KEY).address}
POLYMARKET_SECRETS = {
    "private_key": HEX_KEY,
    "wallet": Account.from_key(HEX_KEY).address,
    "api_key": "canary-9180014b-33c8-9240-a14b",
    "api_secret": "Y2FuYXJ5LXNlY3JldC0wMTIzNDU2Nzg5YWJjZGVm",
    "api_passphrase": "canary-4c1d77e09b2e41f7aa03",
}


def outcomes(definitive: set[str], **others: type[Outcome]) -> dict[str, type[Outcome]]:
    """For every fault that can strike an order: what the client must make of it."""
    table: dict[str, type[Outcome]] = {}
    for name, behaviour in BEHAVIOURS.items():
        if "order" in behaviour.on:
            table[name] = Accepted if name in HARMLESS else Rejected if name in definitive else Unknown
    return {**table, "http_429": RateLimited, **others}


def client(name: str, mode: Mode, secrets: Mapping[str, str], route: Route) -> VenueClient:
    return connect(name, mode, Credentials(secrets), route)


# ccxt

_BINANCE = outcomes({"http_400", "http_401", "http_403", "http_404", "http_410", "http_422", "reject"})


def binance_action(verb: Verb, venue_order_id: str | None) -> OrderAction:
    price = Decimal("50000.12") if verb == "new" else Decimal("49999.5")
    return OrderAction(
        verb, "BTC/USDT", "buy", Decimal("0.02"), "limit", price, order_key="k", venue_order_id=venue_order_id
    )


CCXT = Rig(
    name="ccxt",
    start=practice,
    connect=lambda url, timeout: client("ccxt:binance", "paper", CCXT_SECRETS, Route(timeout, url)),
    action=binance_action,
    outcomes={
        "new": _BINANCE,
        "replace": _BINANCE,
        # A cancelled order is named by the exchange's id; its client order id is the first order's.
        "cancel": {**_BINANCE, "wrong_id_200": Accepted},
    },
    secrets=tuple(CCXT_SECRETS.values()),
    needs_open=True,
    clean_locals=False,  # ccxt's own frames hold the signed request
)

# hyperliquid

_HYPERLIQUID = outcomes({"http_422", "reject"})


def hyperliquid_action(verb: Verb, venue_order_id: str | None) -> OrderAction:
    price = Decimal("1100.5") if verb == "new" else Decimal("1099.9")
    return OrderAction(
        verb, "ETH", "buy", Decimal("0.25"), "limit", price, order_key="k", venue_order_id=venue_order_id
    )


HYPERLIQUID = Rig(
    name="hyperliquid",
    start=practice,
    connect=lambda url, timeout: client("hyperliquid", "paper", HYPERLIQUID_SECRETS, Route(timeout, url)),
    action=hyperliquid_action,
    outcomes={
        "new": _HYPERLIQUID,
        "replace": _HYPERLIQUID,
        # Its answer to a cancel is the word "success": there is no id to be missing or wrong.
        "cancel": {**_HYPERLIQUID, "no_id_200": Accepted, "wrong_id_200": Accepted},
    },
    secrets=(HEX_KEY,),
    needs_open=True,
    own_ids={name: f"0x{number:032x}" for number, name in enumerate(("first", "second", "third"), 1)},
)

# polymarket

_POLYMARKET = outcomes({"http_400", "http_401", "reject"})


class PolymarketStage(PracticeStage):
    def booked(self, client_order_id: str) -> str | None:
        """The venue has no client order ids; in this suite there is one order at most."""
        orders = self.exchange.orders
        assert len(orders) <= 1
        return orders[0].order_id if orders else None


@asynccontextmanager
async def clob() -> AsyncIterator[Stage]:
    async with PolymarketExchange(Polymarket(POLYMARKET_SECRETS["api_secret"])) as exchange:
        yield PolymarketStage(exchange)


def polymarket_client(url: str, timeout: float) -> VenueClient:
    """Live, as there is no paper; knows its market once it is open."""
    made = cast("PolymarketClient", client("polymarket", "live", POLYMARKET_SECRETS, Route(timeout, url)))
    first = made.open

    async def opened() -> None:
        await first()
        assert await made.learn([TOKEN]) == ()
        await made.aclose()  # keeps no connection for tests that go no further

    made.open = opened  # type: ignore[method-assign]  # the suite opens a client, and knows nothing of markets
    return made


def polymarket_action(verb: Verb, venue_order_id: str | None) -> OrderAction:
    return OrderAction(
        verb, TOKEN, "buy", Decimal("10"), "limit", Decimal("0.56"), order_key="k", venue_order_id=venue_order_id
    )


POLYMARKET = Rig(
    name="polymarket",
    start=clob,
    connect=polymarket_client,
    action=polymarket_action,
    outcomes={
        "new": _POLYMARKET,
        # The answer lists what was cancelled: no order id of its own to be missing or wrong.
        "cancel": {**_POLYMARKET, "no_id_200": Accepted, "wrong_id_200": Accepted},
    },
    secrets=tuple(POLYMARKET_SECRETS[name] for name in ("private_key", "api_key", "api_secret", "api_passphrase")),
    needs_open=True,
)

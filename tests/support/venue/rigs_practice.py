"""Rigs of the clients whose wire format the practice exchange speaks: alpaca and kalshi."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import cast

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.venue.rig import Rig, Stage
from venues import (
    Accepted,
    Credentials,
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
from venues.practice import BEHAVIOURS, PracticeExchange
from venues.practice.faults import On

ALPACA_SECRETS = {"api_key": "PKCANARY4C1D77E0", "secret_key": "canary/9b2e+41f7==aa03d5c8e6"}
KALSHI_SECRETS = {
    "api_key_id": "canary-0d5f7c12-4a7e-4b1f-9f3c-2f6f7f1f0a11",
    "private_key": Ed25519PrivateKey.generate()
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode(),
}


class PracticeStage:
    def __init__(self, exchange: PracticeExchange) -> None:
        self.exchange = exchange

    @property
    def url(self) -> str:
        return self.exchange.url

    @property
    def posts(self) -> int:
        return len(self.exchange.received)

    @property
    def looks(self) -> int:
        return self.exchange.kinds["lookup"]

    @property
    def strays(self) -> int:
        return self.exchange.decoyed

    def booked(self, client_order_id: str) -> str | None:
        orders = [order for order in self.exchange.orders if order.client_order_id == client_order_id]
        assert len(orders) <= 1
        return orders[0].order_id if orders else None

    def fault(self, name: str, *, on: str) -> None:
        self.exchange.fault("*", name, on=cast("On", on), times=1)


@asynccontextmanager
async def practice() -> AsyncIterator[Stage]:
    async with PracticeExchange(fsync=False) as exchange:
        yield PracticeStage(exchange)


DEFINITIVE = {
    "alpaca": {"http_400", "http_401", "http_403", "http_404", "http_422", "reject"},
    "kalshi": {"http_400", "http_401", "http_403", "http_404", "http_409", "http_410", "reject"},
}
HARMLESS = {"late_visibility", "wrong_date"}


def outcomes(venue: str) -> dict[str, type[Outcome]]:
    """For every fault that can strike an order: what the client must make of it."""
    table: dict[str, type[Outcome]] = {}
    for name, behaviour in BEHAVIOURS.items():
        if "order" not in behaviour.on:
            continue
        if name in DEFINITIVE[venue]:
            table[name] = Rejected
        elif name == "http_429":
            table[name] = RateLimited
        else:
            table[name] = Accepted if name in HARMLESS else Unknown
    return table


def per_verb(venue: str, *, accepted_cancels: tuple[str, ...]) -> dict[Verb, Mapping[str, type[Outcome]]]:
    table = outcomes(venue)
    cancels: dict[str, type[Outcome]] = dict.fromkeys(accepted_cancels, Accepted)
    return {"new": table, "replace": table, "cancel": {**table, **cancels}}


def alpaca_action(verb: Verb, venue_order_id: str | None) -> OrderAction:
    price = Decimal("180.25") if verb == "new" else Decimal("179.5")
    return OrderAction(verb, "AAPL", "buy", Decimal("10"), "limit", price, order_key="k", venue_order_id=venue_order_id)


def kalshi_action(verb: Verb, venue_order_id: str | None) -> OrderAction:
    price = Decimal("0.56") if verb == "new" else Decimal("0.55")
    return OrderAction(
        verb, "KXSUITE-26", "buy", Decimal("10"), "limit", price, order_key="k", venue_order_id=venue_order_id
    )


def _client(name: str, secrets: Mapping[str, str], url: str, timeout: float) -> VenueClient:
    return connect(name, "paper", Credentials(secrets), Route(timeout=timeout, endpoint=url))


ALPACA = Rig(
    name="alpaca",
    start=practice,
    connect=lambda url, timeout: _client("alpaca", ALPACA_SECRETS, url, timeout),
    action=alpaca_action,
    # Its answer to a cancel is a bare 204: nothing in it could be wrong, cut or missing.
    outcomes=per_verb("alpaca", accepted_cancels=("no_id_200", "wrong_id_200", "truncated_json", "reset_mid_body")),
    secrets=tuple(ALPACA_SECRETS.values()),
)
KALSHI = Rig(
    name="kalshi",
    start=practice,
    connect=lambda url, timeout: _client("kalshi", KALSHI_SECRETS, url, timeout),
    action=kalshi_action,
    # A cancelled order is named by the venue's id; its client order id is the first order's, not ours to know.
    outcomes=per_verb("kalshi", accepted_cancels=("wrong_id_200",)),
    secrets=tuple(KALSHI_SECRETS.values()),
)

"""Hyperliquid on loopback with a few markets and scripted answers, and a client that is open on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from decimal import Decimal

from tests.support.http_server import Answer, Handler, Loopback, Received, reply
from tests.support.venue.rigs_sdk import HYPERLIQUID_SECRETS
from venues import (
    Credentials,
    Mode,
    OrderAction,
    Prepared,
    Route,
    VenueClient,
    connect,
)

CLOID = "0x" + "ab" * 16
ADDRESS = HYPERLIQUID_SECRETS["account_address"]
META = {"universe": [{"name": "BTC", "szDecimals": 5}, {"name": "ETH", "szDecimals": 4}]}
SPOT = {
    "tokens": [
        {"name": "USDC", "index": 0, "szDecimals": 8},
        {"name": "PURR", "index": 1, "szDecimals": 0},
        {"name": "TWIN", "index": 2, "szDecimals": 2},
        {"name": "TWIN", "index": 3, "szDecimals": 2},
    ],
    "universe": [
        {"name": "PURR/USDC", "tokens": [1, 0], "index": 0},
        {"name": "@7", "tokens": [2, 0], "index": 7},
        {"name": "@8", "tokens": [3, 0], "index": 8},
    ],
}


def action(**changes: object) -> OrderAction:
    fields: dict[str, object] = {
        "verb": "new",
        "market_id": "ETH",
        "side": "buy",
        "quantity": Decimal("0.2"),
        "order_type": "limit",
        "price": Decimal("1100"),
        "order_key": "k",
    }
    return OrderAction(**{**fields, **changes})  # type: ignore[arg-type]  # the fields above, by name


def venue(answer: Handler | bytes) -> Handler:
    """Tells the markets; everything else is the test's."""

    def handle(request: Received) -> Answer | Awaitable[Answer]:
        asked = request.json()
        assert isinstance(asked, dict)
        if asked.get("type") in ("meta", "spotMeta"):
            return reply(200, META if asked["type"] == "meta" else SPOT)
        return answer if isinstance(answer, bytes) else answer(request)

    return handle


@asynccontextmanager
async def client(
    answer: Handler | bytes = b"", mode: Mode = "paper", timeout: float = 2.0
) -> AsyncIterator[tuple[VenueClient, Loopback]]:
    async with Loopback(venue(answer)) as server:
        made = connect("hyperliquid", mode, Credentials(HYPERLIQUID_SECRETS), Route(timeout, server.url))
        await made.open()
        server.requests.clear()
        yield made, server
        await made.aclose()


def prepared(made: VenueClient, **changes: object) -> Prepared:
    ready = made.prepare(action(**changes), CLOID)
    assert isinstance(ready, Prepared), ready
    return ready


def status(**entry: object) -> bytes:
    return reply(200, {"status": "ok", "response": {"type": "order", "data": {"statuses": [entry]}}})

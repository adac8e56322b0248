"""An ibkr client that is open on the TWS on loopback."""

from __future__ import annotations

from decimal import Decimal

from tests.support.venue.tws import Tws
from venues import (
    Credentials,
    Mode,
    OrderAction,
    Prepared,
    Route,
    VenueClient,
    connect,
)

TIMEOUT = 0.4


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


def client(gateway: Tws, mode: Mode = "paper", timeout: float = TIMEOUT, number: str | None = None) -> VenueClient:
    route = Route(timeout=timeout, endpoint=gateway.url, account_number=number)
    return connect("ibkr", mode, Credentials({}), route)


async def opened(
    gateway: Tws, mode: Mode = "paper", timeout: float = TIMEOUT, number: str | None = None
) -> VenueClient:
    made = client(gateway, mode, timeout, number)
    await made.open()
    return made


def prepared(made: VenueClient, reference: str = "suite-1", **changes: object) -> Prepared:
    ready = made.prepare(action(**changes), reference)
    assert isinstance(ready, Prepared), ready
    return ready

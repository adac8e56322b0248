"""An Alpaca order as an action and as the venue's own document, and a client for it."""

from __future__ import annotations

from decimal import Decimal

from tests.support.venue.rigs_practice import ALPACA_SECRETS
from venues import (
    Credentials,
    OrderAction,
    Prepared,
    Route,
    Terms,
    VenueClient,
    connect,
)
from venues.alpaca.request import prepare
from venues.terms import ExitTerms

LIMIT = OrderAction("new", "AAPL", "buy", Decimal("100"), "limit", Decimal("180.25"), "k", time_in_force="gtc")
MARKET = OrderAction("new", "SPY", "sell", Decimal("0.5"), "market", None, "k")
COIN = OrderAction("new", "BTC/USD", "buy", Decimal("0.001234567"), "limit", Decimal("17000.129"), "k")
BRACKET = Terms(
    order_class="bracket",
    take_profit=ExitTerms(limit_price=Decimal("200.5")),
    stop_loss=ExitTerms(Decimal("170.25"), Decimal("169.9")),
)
ORDER = {
    "id": "61e69015-8549-4bfd-b9c3-01e75843f47d",
    "client_order_id": "coid-1",
    "symbol": "AAPL",
    "qty": "100",
    "filled_qty": "0",
    "type": "limit",
    "side": "buy",
    "time_in_force": "gtc",
    "limit_price": "180.25",
    "status": "accepted",
}


def client_of(url: str, **secrets: str) -> VenueClient:
    return connect("alpaca", "paper", Credentials({**ALPACA_SECRETS, **secrets}), Route(timeout=2.0, endpoint=url))


def prepared_of(action: OrderAction) -> Prepared:
    prepared = prepare(action, "coid-1")
    assert isinstance(prepared, Prepared), prepared
    return prepared

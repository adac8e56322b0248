"""A Kalshi order as an action and as the venue's own documents, and a client for it."""

from __future__ import annotations

from decimal import Decimal

from tests.support.venue.rigs_practice import KALSHI_SECRETS
from venues import (
    Credentials,
    OrderAction,
    Prepared,
    Route,
    VenueClient,
    connect,
)
from venues.kalshi.request import prepare

YES = OrderAction("new", "KXBTC-26", "buy", Decimal("10"), "limit", Decimal("0.56"), "k", time_in_force="gtc")
OWN = {"error": {"code": "invalid_order", "message": "invalid order", "details": "post only cross"}}
RECEIPT = {"order_id": "ord-1", "client_order_id": "coid-1", "fill_count": "0.00", "remaining_count": "10.00"}
LISTED = {
    "order_id": "ord-1",
    "client_order_id": "coid-1",
    "ticker": "KXBTC-26",
    "outcome_side": "yes",
    "book_side": "bid",
    "type": "limit",
    "status": "resting",
    "yes_price_dollars": "0.5600",
    "no_price_dollars": "0.4400",
    "initial_count_fp": "10.00",
    "fill_count_fp": "0.00",
    "remaining_count_fp": "10.00",
}


def client_of(url: str, private_key: str = KALSHI_SECRETS["private_key"], *, timeout: float = 2.0) -> VenueClient:
    secrets = {**KALSHI_SECRETS, "private_key": private_key}
    return connect("kalshi", "paper", Credentials(secrets), Route(timeout=timeout, endpoint=url))


def prepared_of(action: OrderAction) -> Prepared:
    prepared = prepare(action, "coid-1")
    assert isinstance(prepared, Prepared), prepared
    return prepared

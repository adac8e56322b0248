"""A polymarket client that is open on the CLOB on loopback and knows its market."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

from tests.support.venue.polymarket import TOKEN, Polymarket, PolymarketExchange
from tests.support.venue.rigs_sdk import POLYMARKET_SECRETS
from venues import (
    Credentials,
    OrderAction,
    Prepared,
    Route,
    connect,
)
from venues.polymarket.client import PolymarketClient


def action(**changes: object) -> OrderAction:
    fields: dict[str, object] = {
        "verb": "new",
        "market_id": TOKEN,
        "side": "buy",
        "quantity": Decimal("10"),
        "order_type": "limit",
        "price": Decimal("0.56"),
        "order_key": "k",
    }
    return OrderAction(**{**fields, **changes})  # type: ignore[arg-type]  # the fields above, by name


def connected(url: str, timeout: float = 2.0, **secrets: str) -> PolymarketClient:
    made = connect("polymarket", "live", Credentials({**POLYMARKET_SECRETS, **secrets}), Route(timeout, url))
    assert isinstance(made, PolymarketClient)
    return made


@asynccontextmanager
async def clob(
    *, neg_risk: bool = False, tick: str = "0.01", timeout: float = 2.0, **secrets: str
) -> AsyncIterator[tuple[PolymarketClient, PolymarketExchange]]:
    format_ = Polymarket(POLYMARKET_SECRETS["api_secret"], neg_risk=neg_risk, tick=tick)
    exchange = PolymarketExchange(format_)
    async with exchange:
        made = connected(exchange.url, timeout, **secrets)
        await made.open()
        assert await made.learn([TOKEN]) == ()
        yield made, exchange
        await made.aclose()


def prepared(made: PolymarketClient, **changes: object) -> Prepared:
    ready = made.prepare(action(**changes), "entry-1")
    assert isinstance(ready, Prepared), ready
    return ready

"""Looks at markets through the gateway: quotes, positions and open orders. Only reads; never raises.

Delayed or frozen data is no quote. Must not place anything.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from venues.ibkr.answers import DONE, number_of
from venues.ibkr.contract import Listing
from venues.orders import Refused
from venues.quote import MarketView, Quote, each

LIVE_DATA = 1
_Told = TypeVar("_Told")


class Asked(NamedTuple):
    market_id: str
    account: str | None


class Seen(NamedTuple):
    """A market's contract and quote, or why there is none."""

    listing: Listing | str
    quote: Quote | str | None = None


class Holdings(NamedTuple):
    """What the gateway's accounts hold, or why that is not known."""

    positions: list[Any] | str
    orders: list[Any] | str


@dataclass(frozen=True, slots=True)
class Gateway:
    """What a look asks for: each may raise, and each is given a time to answer in."""

    listing: Callable[[str], Awaitable[Listing | Refused]]
    ticker: Callable[[Listing], Awaitable[Any]]
    positions: Callable[[], Awaitable[list[Any]]]
    orders: Callable[[], Awaitable[list[Any]]]
    faults: tuple[type[Exception], ...]
    seconds: float


async def look(gateway: Gateway, asked: Mapping[str, Asked]) -> Mapping[str, MarketView]:
    """Return the view of each market by its key. All of it takes twice the time for one answer at most."""
    by_id = {one.market_id: one for one in asked.values()}
    until = asyncio.get_running_loop().time() + gateway.seconds

    async def market(market_id: str) -> Seen:
        listing = await _told(gateway, "contract", until, gateway.listing(market_id))
        if isinstance(listing, Refused):
            return Seen(listing.why)
        if isinstance(listing, str):
            return Seen(listing)
        return Seen(listing, await _quote(gateway, listing, until + gateway.seconds))

    markets, positions, orders = await asyncio.gather(
        each(by_id, market),
        _told(gateway, "positions", until, gateway.positions()),
        _told(gateway, "open orders", until, gateway.orders()),
    )
    held = Holdings(positions, orders)
    return {key: _view(one, markets[one.market_id], held) for key, one in asked.items()}


async def _told(gateway: Gateway, what: str, until: float, answer: Awaitable[_Told]) -> _Told | str:
    """Return the answer, or why there is none."""
    try:
        async with asyncio.timeout_at(until):
            return await answer
    except gateway.faults as fault:
        return f"{what}: the gateway did not answer ({str(fault) or type(fault).__name__})"[:200]


async def _quote(gateway: Gateway, listing: Listing, until: float) -> Quote | str:
    ticker = await _told(gateway, "quote", until, gateway.ticker(listing))
    if isinstance(ticker, str):
        return ticker
    if ticker.marketDataType != LIVE_DATA:
        return "quote: the gateway has no live data for this market, only delayed or frozen"
    return Quote(_price(ticker.bid), _price(ticker.ask), ticker.time)


def _price(told: object) -> Decimal | None:
    """Return a price; TWS tells a side without one as -1, 0 or not at all."""
    number = None if isinstance(told, float) and not math.isfinite(told) else number_of(told)
    return number if number is not None and number > 0 else None


def _view(asked: Asked, seen: Seen, held: Holdings) -> MarketView:
    listing, quote, positions, orders = *seen, *held
    problems = [told for told in (listing, quote, positions, orders) if isinstance(told, str)]
    if isinstance(listing, str):
        return MarketView(problems=tuple(problems))
    if asked.account is None:
        problems.append("the account to look at is not known")
    known = asked.account is not None
    return MarketView(
        quote=None if isinstance(quote, str) else quote,
        position=None if isinstance(positions, str) or not known else _held(asked, listing, positions),
        open_orders=None if isinstance(orders, str) or not known else _open(asked, listing, orders),
        currency=listing.currency,
        contract_size=listing.size,
        problems=tuple(problems),
    )


def _held(asked: Asked, listing: Listing, positions: list[Any]) -> Decimal:
    mine = (one for one in positions if one.account == asked.account and listing.is_of(one.contract))
    return sum((number_of(one.position) or Decimal(0) for one in mine), Decimal(0))


def _open(asked: Asked, listing: Listing, trades: list[Any]) -> int:
    mine = (one for one in trades if one.order.account == asked.account and listing.is_of(one.contract))
    return sum(one.orderStatus.status not in DONE for one in mine)

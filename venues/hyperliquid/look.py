"""Looks at markets: the book's best bid and ask, an account's positions and open orders. Only reads; never raises."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from venues.answers import object_of
from venues.hyperliquid.order import Asset
from venues.json_fields import Body, figure, inner, text, unix_moment
from venues.message import Reply, Result
from venues.orders import LookupFailed, OrderAction, Refused
from venues.quote import MarketView, Quote, each

Ask = Callable[[Mapping[str, object]], Awaitable[Result]]


class Asked(NamedTuple):
    key: str
    asset: Asset | None
    user: str | None


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the venue says of one account; None: it did not say, and `problems` says why."""

    perps: Mapping[str, Decimal] | None = None  # by coin
    tokens: Mapping[int, Decimal] | None = None
    orders: Counter[str] | None = None  # by coin
    problems: tuple[str, ...] = field(default=())


def key_of(action: OrderAction, vault: str | Refused | None) -> str:
    return f"{vault}/{action.market_id}" if isinstance(vault, str) else action.market_id


async def look(ask: Ask, asked: Sequence[Asked]) -> Mapping[str, MarketView]:
    """Ask for each market's book and each account's holdings, a few at a time."""
    coins = [one.asset.coin for one in asked if one.asset is not None]
    users = [one.user for one in asked if one.user is not None]
    spot = {one.user for one in asked if one.asset is not None and one.asset.spot}

    async def book(coin: str) -> Quote | str:
        return read_book(await ask({"type": "l2Book", "coin": coin}), coin)

    async def holdings(user: str) -> Holdings:
        return await _holdings(ask, user, spot=user in spot)

    books, held = await asyncio.gather(each(coins, book), each(users, holdings))
    return {one.key: _view(one, books, held) for one in asked}


async def _holdings(ask: Ask, user: str, *, spot: bool) -> Holdings:
    perps = _perps(object_of(await ask({"type": "clearinghouseState", "user": user})))
    tokens = _tokens(object_of(await ask({"type": "spotClearinghouseState", "user": user}))) if spot else None
    orders = _orders(await ask({"type": "frontendOpenOrders", "user": user}))
    problems = tuple(one for one in (perps, tokens, orders) if isinstance(one, str))
    return Holdings(
        None if isinstance(perps, str) else perps,
        None if isinstance(tokens, str) else tokens,
        None if isinstance(orders, str) else orders,
        problems,
    )


def _view(asked: Asked, books: Mapping[str, Quote | str], held: Mapping[str, Holdings]) -> MarketView:
    if asked.asset is None:
        return MarketView(problems=("hyperliquid has no such market",))
    book = books[asked.asset.coin]
    problems = (book,) if isinstance(book, str) else ()
    whose = held.get(asked.user or "", Holdings(problems=("the account to ask about is not known",)))
    return MarketView(
        quote=None if isinstance(book, str) else book,
        position=_position(asked.asset, whose),
        open_orders=None if whose.orders is None else whose.orders[asked.asset.coin],
        currency=asked.asset.quote,
        problems=(*problems, *whose.problems),
    )


def _position(asset: Asset, whose: Holdings) -> Decimal | None:
    if asset.base is not None:
        return None if whose.tokens is None else whose.tokens.get(asset.base, Decimal(0))
    return None if whose.perps is None else whose.perps.get(asset.coin, Decimal(0))


def read_book(result: Result, coin: str) -> Quote | str:
    """Return the best prices of an `l2Book`, else why there are none."""
    told = object_of(result)
    if isinstance(told, LookupFailed):
        return f"no book of {coin}: {told.why}"
    levels = told.get("levels")
    if text(told, "coin") != coin or not isinstance(levels, list) or len(levels) != 2:
        return f"no book of {coin}: the answer is not in the venue's documented form"
    bid, ask = (_best(side) for side in levels)
    return Quote(bid, ask, unix_moment(told, "time", per_second=1000))


def _best(side: object) -> Decimal | None:
    first = side[0] if isinstance(side, list) and side else None
    return figure(first, "px") if isinstance(first, dict) else None


def _perps(told: Body | LookupFailed) -> dict[str, Decimal] | str:
    rows = _rows(told, "assetPositions")
    if isinstance(rows, str):
        return f"positions: {rows}"
    sizes = ((text(inner(row, "position"), "coin"), figure(inner(row, "position"), "szi")) for row in rows)
    found = {coin: size for coin, size in sizes if coin and size is not None}
    return found if len(found) == len(rows) else "positions: not in the venue's documented form"


def _tokens(told: Body | LookupFailed) -> dict[int, Decimal] | str:
    rows = _rows(told, "balances")
    if isinstance(rows, str):
        return f"balances: {rows}"
    totals = ((figure(row, "token"), figure(row, "total")) for row in rows)
    found = {int(token): total for token, total in totals if token is not None and total is not None}
    return found if len(found) == len(rows) else "balances: not in the venue's documented form"


def _rows(told: Body | LookupFailed, name: str) -> list[Body] | str:
    if isinstance(told, LookupFailed):
        return told.why
    return _objects(told.get(name))


def _orders(result: Result) -> Counter[str] | str:
    if not isinstance(result, Reply) or result.status != 200:
        return f"open orders: {result.why if not isinstance(result, Reply) else f'HTTP {result.status}'}"
    try:
        rows = _objects(json.loads(result.body))
    except (ValueError, RecursionError):
        rows = "without a readable answer"
    return f"open orders: {rows}" if isinstance(rows, str) else _counted(rows)


def _counted(rows: Iterable[Body]) -> Counter[str]:
    return Counter(text(row, "coin") for row in rows)


def _objects(rows: object) -> list[Body] | str:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return "not in the venue's documented form"
    return rows

"""Asks Polymarket's order host for books and this account's open orders. Only reads, and never raises.

What could not be read is named in the view's problems. Positions are another host's, which is not asked.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

from venues.answers import object_of
from venues.json_fields import Body, compact, figure, text, unix_moment
from venues.message import Reply, Result
from venues.orders import LookupFailed
from venues.quote import MOST_MARKETS, MarketView, Quote, each

Ask = Callable[..., Awaitable[Result]]
_Value = TypeVar("_Value")
_BOOKS_AT_ONCE = 20  # whole books: more would pass the longest answer
_MOST_PAGES = 10
_LAST_PAGE = ("", "LTE=")
_NO_POSITION = "position: polymarket gives it at another host, which is not asked"


async def look(ask: Ask, get: Ask, tokens: Iterable[str], *, patience: float) -> dict[str, MarketView]:
    """`ask` is open to all, `get` has the account's headers; `patience` is in seconds, for each of the questions."""
    asked = [token for token in dict.fromkeys(tokens) if token.isdecimal() and token.isascii()][:MOST_MARKETS]
    if not asked:
        return {}
    lists = [",".join(asked[at : at + _BOOKS_AT_ONCE]) for at in range(0, len(asked), _BOOKS_AT_ONCE)]
    books, orders = await asyncio.gather(
        each(lists, lambda some: _in_time(_books(ask, some.split(",")), patience)),
        _in_time(_orders(get, asked), patience),
    )
    return {token: _view(token, books, orders) for token in asked}


async def _in_time(question: Coroutine[Any, Any, _Value], seconds: float) -> _Value | LookupFailed:
    try:
        async with asyncio.timeout(seconds):
            return await question
    except TimeoutError:
        return LookupFailed(f"no answer within {seconds:g} s")


async def _books(ask: Ask, tokens: Sequence[str]) -> dict[str, Quote] | LookupFailed:
    result = await ask("POST", "/books", body=compact([{"token_id": token} for token in tokens]))
    if not isinstance(result, Reply):
        return LookupFailed(result.why)
    rows = _rows(result.body) if result.status == 200 else None
    if rows is None:
        return LookupFailed(f"HTTP {result.status} without a list of books")
    answered = result.date() or datetime.now(UTC)
    return {text(row, "asset_id"): _quote(row, answered) for row in rows}


def _rows(content: bytes) -> list[Body] | None:
    """Return a JSON list of objects, with exact numbers."""
    try:
        rows = json.loads(content, parse_float=Decimal, parse_int=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return rows if isinstance(rows, list) and all(isinstance(row, dict) for row in rows) else None


def _quote(book: Body, answered: datetime) -> Quote:
    """Polymarket lists the best price last; the best is taken wherever it stands."""
    bids, asks = _prices(book, "bids"), _prices(book, "asks")
    at = unix_moment(book, "timestamp", per_second=1000)
    return Quote(max(bids, default=None), min(asks, default=None), at or answered)


def _prices(book: Body, name: str) -> list[Decimal]:
    levels = book.get(name)
    told = [figure(level, "price") for level in levels if isinstance(level, dict)] if isinstance(levels, list) else []
    return [price for price in told if price is not None]


async def _orders(get: Ask, tokens: Sequence[str]) -> list[Body] | LookupFailed:
    """This account's open orders, of one market if only one is asked about."""
    asked = {"asset_id": tokens[0]} if len(tokens) == 1 else {}
    found: list[Body] = []
    for _ in range(_MOST_PAGES):
        body = object_of(await get("/data/orders", **asked))
        if isinstance(body, LookupFailed):
            return body
        rows = body.get("data")
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            return LookupFailed("an answer without a list of orders")
        found += rows
        if text(body, "next_cursor") in _LAST_PAGE:
            return found
        asked["next_cursor"] = text(body, "next_cursor")
    return LookupFailed(f"more than {_MOST_PAGES} pages of orders")


def _view(
    token: str, books: Mapping[str, dict[str, Quote] | LookupFailed], orders: list[Body] | LookupFailed
) -> MarketView:
    told = next(one for tokens, one in books.items() if token in tokens.split(","))
    quote = None if isinstance(told, LookupFailed) else told.get(token)
    problems = [_NO_POSITION]
    if quote is None:
        problems.append(f"quote: {told.why if isinstance(told, LookupFailed) else 'polymarket has no such book'}")
    if isinstance(orders, LookupFailed):
        problems.append(f"open orders: {orders.why}")
    return MarketView(
        quote=quote,
        open_orders=None if isinstance(orders, LookupFailed) else sum(text(one, "asset_id") == token for one in orders),
        currency="USDC",
        zero_to_one=True,
        problems=tuple(problems),
    )

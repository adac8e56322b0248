"""Asks Kalshi for quotes, positions and resting orders of some markets, a few requests for all. Only reads.

Never raises: what could not be read is named in the view's problems. Leaves reading to `market`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from venues.answers import object_of
from venues.json_fields import Body, text
from venues.kalshi.market import CURRENCY, positions_of, quotes_of, resting_of, rows_of, split_key
from venues.kalshi.request import ROOT
from venues.message import Reply, Result
from venues.orders import LookupFailed
from venues.quote import MOST_MARKETS, MarketView, Quote, each

Get = Callable[..., Awaitable[Result]]
_Value = TypeVar("_Value")
_MARKETS = f"{ROOT}/markets"
_POSITIONS = f"{ROOT}/portfolio/positions"
_ORDERS = f"{ROOT}/portfolio/orders"
_MARKETS_AT_ONCE = 40  # a market's rules are long: more would pass the longest answer
_ROWS = {_POSITIONS: "500", _ORDERS: "200"}
_MOST_PAGES = 10
_TICKER = re.compile(r"[0-9A-Za-z._-]+")


async def look(get: Get, keys: Iterable[str], *, patience: float) -> dict[str, MarketView]:
    """`get` asks for a path with parameters; `patience` is in seconds, for each of the three questions."""
    asked = [key for key in dict.fromkeys(keys) if _TICKER.fullmatch(split_key(key)[0])][:MOST_MARKETS]
    tickers = list(dict.fromkeys(split_key(key)[0] for key in asked))
    parts: dict[str, list[str]] = {}
    for key in asked:
        ticker, subaccount = split_key(key)
        parts.setdefault(subaccount, []).append(ticker)
    lists = [",".join(tickers[at : at + _MARKETS_AT_ONCE]) for at in range(0, len(tickers), _MARKETS_AT_ONCE)]
    quotes, positions, resting = await asyncio.gather(
        each(lists, lambda some: _in_time(_quotes(get, some), patience)),
        each(parts, lambda part: _in_time(_rows(get, _POSITIONS, "market_positions", part, parts[part]), patience)),
        each(parts, lambda part: _in_time(_rows(get, _ORDERS, "orders", part, parts[part]), patience)),
    )
    return {key: _view(key, quotes, positions, resting) for key in asked}


async def _in_time(ask: Coroutine[Any, Any, _Value], seconds: float) -> _Value | LookupFailed:
    try:
        async with asyncio.timeout(seconds):
            return await ask
    except TimeoutError:
        return LookupFailed(f"no answer within {seconds:g} s")


async def _quotes(get: Get, tickers: str) -> dict[str, Quote] | LookupFailed:
    result = await get(_MARKETS, tickers=tickers, limit=str(_MARKETS_AT_ONCE))
    body = object_of(result)
    if isinstance(body, LookupFailed):
        return body
    rows = rows_of(body, "markets")
    if isinstance(rows, LookupFailed):
        return rows
    # Kalshi's markets do not say when they were quoted: the answer's own time counts.
    date = result.date() if isinstance(result, Reply) else None
    return quotes_of(rows, date or datetime.now(UTC))


async def _rows(get: Get, path: str, name: str, subaccount: str, tickers: list[str]) -> list[Body] | LookupFailed:
    """Every row of a subaccount ("": as the key has it), of one market if only one is asked about."""
    asked = {"limit": _ROWS[path]}
    asked |= {"status": "resting"} if path == _ORDERS else {}
    asked |= {"subaccount": subaccount} if subaccount else {}
    asked |= {"ticker": tickers[0]} if len(tickers) == 1 else {}
    rows: list[Body] = []
    for _ in range(_MOST_PAGES):
        body = object_of(await get(path, **asked))
        if isinstance(body, LookupFailed):
            return body
        some = rows_of(body, name)
        if isinstance(some, LookupFailed):
            return some
        rows += some
        asked["cursor"] = text(body, "cursor")
        if not asked["cursor"]:
            return rows
    return LookupFailed(f"more than {_MOST_PAGES} pages of {name.replace('_', ' ')}")


def _view(
    key: str,
    quotes: Mapping[str, dict[str, Quote] | LookupFailed],
    positions: Mapping[str, list[Body] | LookupFailed],
    resting: Mapping[str, list[Body] | LookupFailed],
) -> MarketView:
    ticker, part = split_key(key)
    problems = []
    quoted = next(told for tickers, told in quotes.items() if ticker in tickers.split(","))
    quote = None if isinstance(quoted, LookupFailed) else quoted.get(ticker)
    if quote is None:
        problems.append(f"quote: {quoted.why if isinstance(quoted, LookupFailed) else 'kalshi lists no such market'}")
    held, orders = positions[part], resting[part]
    problems += [
        f"{what}: {told.why}"
        for what, told in (("position", held), ("open orders", orders))
        if isinstance(told, LookupFailed)
    ]
    return MarketView(
        quote=quote,
        position=None if isinstance(held, LookupFailed) else positions_of(held, ticker),
        open_orders=None if isinstance(orders, LookupFailed) else resting_of(orders, ticker),
        currency=CURRENCY,
        zero_to_one=True,
        problems=tuple(problems),
    )

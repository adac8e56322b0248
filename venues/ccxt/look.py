"""Looks at markets through ccxt's unified reads: quotes, this account's positions and open orders.

One request for all markets of a kind where the exchange has one. Only reads; never raises. Must not know how a single
exchange words its requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

from venues.ccxt import told
from venues.ccxt.order import STUMBLES
from venues.ccxt.transport import Reading, at
from venues.quote import MarketView, Quote, each

_T = TypeVar("_T")
Market = Mapping[str, Any]
_DEPTH = 5


class Looker:
    """The reads of one look; each gives its value, or why there is none as text."""

    def __init__(self, exchange: Any, errors: Any) -> None:
        self._exchange = exchange
        self._errors = errors

    async def views(self, symbols: Sequence[str]) -> dict[str, MarketView]:
        groups: dict[str, list[str]] = {}
        for symbol in symbols:
            groups.setdefault(_kind(self._exchange.markets[symbol]), []).append(symbol)
        seen = await asyncio.gather(*(self._group(kind, group) for kind, group in groups.items()))
        return {symbol: view for views in seen for symbol, view in views.items()}

    async def _group(self, kind: str, symbols: list[str]) -> dict[str, MarketView]:
        """The markets of one kind, which share their requests."""
        holdings = self._balances() if kind == "spot" else self._positions(symbols)
        quotes, held, orders = await asyncio.gather(self._quotes(symbols), holdings, each(symbols, self._open_orders))
        return {
            symbol: _view(self._exchange.markets[symbol], quotes[symbol], held, orders[symbol]) for symbol in symbols
        }

    def _has(self, name: str) -> bool:
        return self._exchange.has.get(name) is True

    async def _asked(self, what: str, call: Callable[[], Awaitable[_T]]) -> _T | str:
        try:
            # ccxt documents these calls as reads, so an exchange that reads by POST may be asked so.
            with at(Reading(about=what)):
                return await call()
        except (self._errors.BaseError, *STUMBLES, OSError, RuntimeError) as error:
            return f"{what}: no answer ({type(error).__name__})"

    async def _quotes(self, symbols: list[str]) -> Mapping[str, Quote | str]:
        together: Mapping[str, Any] = {}
        names = (("fetchBidsAsks", "fetch_bids_asks"), ("fetchTickers", "fetch_tickers"))
        method = next((method for has, method in names if self._has(has)), None)
        if method is not None:
            said = await self._asked("quote", lambda: getattr(self._exchange, method)(symbols))
            together = said if isinstance(said, dict) else {}
        found = {symbol: quote for symbol in symbols if (quote := _ticker(together.get(symbol))) is not None}
        return found | dict(await each([symbol for symbol in symbols if symbol not in found], self._quote))

    async def _quote(self, symbol: str) -> Quote | str:
        if self._has("fetchOrderBook"):
            book = await self._asked("quote", lambda: self._exchange.fetch_order_book(symbol, _DEPTH))
            return book if isinstance(book, str) else _book(book)
        if not self._has("fetchTicker"):
            return "quote: ccxt cannot ask this exchange"
        ticker = await self._asked("quote", lambda: self._exchange.fetch_ticker(symbol))
        return ticker if isinstance(ticker, str) else _ticker(ticker) or Quote(None, None, None)

    async def _balances(self) -> Mapping[str, Decimal] | str:
        """What this account has of each currency."""
        said = await self._asked("position", self._exchange.fetch_balance)
        if isinstance(said, str):
            return said
        total = said.get("total") if isinstance(said, dict) else None
        if not isinstance(total, dict):
            return "position: the answer is not a balance"
        return {str(name): number for name, held in total.items() if (number := told.number(held)) is not None}

    async def _positions(self, symbols: list[str]) -> Mapping[str, Decimal] | str:
        """What this account holds in each contract market; both sides of a hedge added up."""
        if not self._has("fetchPositions"):
            return "position: ccxt cannot ask this exchange"
        # Asked about inverse contracts by their symbols only, some exchanges answer about the linear ones.
        inverse = self._exchange.markets[symbols[0]].get("inverse") is True
        params = {"subType": "inverse"} if inverse else {}
        said = await self._asked("position", lambda: self._exchange.fetch_positions(symbols, params))
        if isinstance(said, str):
            return said
        held: dict[str, Decimal] = {}
        for one in (position for position in said if position.get("symbol") in symbols):
            symbol, many = one["symbol"], told.number(one.get("contracts"))
            if many is None or (many and one.get("side") not in ("long", "short")):
                return "position: the answer has one without its size or side"
            held[symbol] = held.get(symbol, Decimal(0)) + (-abs(many) if one.get("side") == "short" else abs(many))
        return held

    async def _open_orders(self, symbol: str) -> int | str:
        if not self._has("fetchOpenOrders"):
            return "open orders: ccxt cannot ask this exchange"
        said = await self._asked("open orders", lambda: self._exchange.fetch_open_orders(symbol))
        return said if isinstance(said, str) else sum(one.get("symbol") in (symbol, None) for one in said)


def _kind(market: Market) -> str:
    if not market.get("contract"):
        return "spot"
    return f"{market.get('type')} {'inverse' if market.get('inverse') else 'linear'} {market.get('settle')}"


def _view(market: Market, quote: Quote | str, held: Mapping[str, Decimal] | str, orders: int | str) -> MarketView:
    contract, size = bool(market.get("contract")), told.number(market.get("contractSize"))
    name = str(market["symbol"] if contract else market.get("base"))
    problems = [said for said in (quote, held, orders) if isinstance(said, str)]
    # A contract that is paid in a third currency is worth something in that one; no price here says how much.
    paid = (None, market.get("quote"), market.get("base"))
    if contract and (market.get("settle") not in paid or size is None):
        problems.append("the contract's value: ccxt does not know its size or currency")
    counted = not contract or (market.get("settle") in paid and size is not None)
    return MarketView(
        quote=None if isinstance(quote, str) else quote,
        position=None if isinstance(held, str) else held.get(name, Decimal(0)),
        open_orders=None if isinstance(orders, str) else orders,
        currency=market.get("quote") if counted else None,
        contract_size=size if contract and size is not None else Decimal(1),
        inverse=contract and market.get("inverse") is True,
        problems=tuple(problems),
    )


def _ticker(said: object) -> Quote | None:
    """Return the quote in a ticker; None if it has no side, as some exchanges list prices only."""
    if not isinstance(said, dict):
        return None
    bid, ask = told.number(said.get("bid")), told.number(said.get("ask"))
    return None if bid is None and ask is None else Quote(bid, ask, _moment(said))


def _book(said: Mapping[str, Any]) -> Quote:
    sides = (said.get("bids"), said.get("asks"))
    bid, ask = (told.number(side[0][0]) if isinstance(side, list) and side else None for side in sides)
    return Quote(bid, ask, _moment(said))


def _moment(said: Mapping[str, Any]) -> datetime:
    """Return the exchange's own time of a quote; without one it was live just now."""
    at_ms = said.get("timestamp")
    if isinstance(at_ms, int | float) and not isinstance(at_ms, bool) and at_ms > 0:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    return datetime.now(UTC)

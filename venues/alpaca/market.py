"""Reads what Alpaca says of markets now: quotes from its data API, positions and open orders of the account.

Only reads, and never raises for what a venue answers. Must not know how a request is authorized or sent.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, Protocol, TypeVar, cast
from urllib.parse import quote as percent

from venues.alpaca.request import is_crypto, is_multi_leg, is_option
from venues.json_fields import Body, figure, inner, moment, text
from venues.message import Reply, Result
from venues.orders import NotSent, OrderAction, Unknown
from venues.quote import MOST_MARKETS, MarketView, Quote, each

STOCKS, CRYPTO, OPTIONS = "stocks", "crypto", "options"
QUOTES: Mapping[str, str] = {
    STOCKS: "/v2/stocks/quotes/latest",
    CRYPTO: "/v1beta3/crypto/us/latest/quotes",
    OPTIONS: "/v1beta1/options/quotes/latest",
}
POSITIONS, ORDERS = "/v2/positions", "/v2/orders"
MOST_ORDERS = 500  # that one answer lists
MOST_SYMBOLS = 100  # that one request for quotes names
SHARES_OF_AN_OPTION = Decimal(100)
NO_SUCH_BATCH = (400, 404)  # one bad symbol spoils a batch, and not every server has the path
_Value = TypeVar("_Value")


class Getter(Protocol):
    async def __call__(self, path: str, **params: str) -> Result: ...


def market_key(action: OrderAction) -> str:
    if is_multi_leg(action):
        return "mleg " + " ".join(leg.market_id for leg in action.terms.legs or ())
    return action.market_id


def kind_of(action: OrderAction) -> str:
    return CRYPTO if is_crypto(action) else OPTIONS if is_option(action) else STOCKS


@dataclass(frozen=True, slots=True)
class Told(Generic[_Value]):
    """What one question brought, by symbol; `why` says why it brought nothing or not all."""

    found: Mapping[str, _Value]
    why: str | None = None


class Looking:
    """One look at many markets: a request for each kind of quote, one for the positions, one for the open orders."""

    def __init__(self, ask: Getter, ask_data: Getter, *, within: float) -> None:
        self._ask = ask
        self._ask_data = ask_data
        self._within = within

    async def look(self, actions: Sequence[OrderAction]) -> Mapping[str, MarketView]:
        plain = [action for action in actions if not is_multi_leg(action)][:MOST_MARKETS]
        several = [action for action in actions if is_multi_leg(action)][:MOST_MARKETS]
        views = {market_key(action): _multi_leg_view() for action in several}
        if not plain:
            return views
        by_kind: dict[str, list[str]] = {}
        for action in plain:
            by_kind.setdefault(kind_of(action), []).append(action.market_id)
        deadline = asyncio.get_running_loop().time() + self._within
        quoted, held, count = await asyncio.gather(
            each(by_kind, lambda kind: self._quotes(kind, by_kind[kind], deadline)),
            self._ask(POSITIONS),
            self._open_orders([action.market_id for action in plain]),
        )
        held_by, count_by = positions(held), open_orders(count)
        return views | {action.market_id: _view(action, quoted[kind_of(action)], held_by, count_by) for action in plain}

    async def _open_orders(self, symbols: Sequence[str]) -> Result:
        wanted = {"symbols": ",".join(symbols)} if len(symbols) <= MOST_SYMBOLS else {}
        return await self._ask(ORDERS, status="open", limit=str(MOST_ORDERS), **wanted)

    async def _quotes(self, kind: str, symbols: Sequence[str], deadline: float) -> Told[Quote]:
        parts = [symbols[at : at + MOST_SYMBOLS] for at in range(0, len(symbols), MOST_SYMBOLS)]
        found: dict[str, Quote] = {}
        why: str | None = None
        for part in parts:
            result = await self._in_time(deadline, QUOTES[kind], symbols=",".join(part))
            told = quotes(result)
            if told.why is not None and _may_ask_singly(result):
                told = await self._singly(kind, part, deadline)
            found |= told.found
            why = why or told.why
        return Told(found, why)

    async def _singly(self, kind: str, symbols: Sequence[str], deadline: float) -> Told[Quote]:
        async def ask(symbol: str) -> Told[Quote]:
            if kind == STOCKS:
                path = f"/v2/stocks/{percent(symbol, safe='')}/quotes/latest"
                return single_quote(await self._in_time(deadline, path), symbol)
            return quotes(await self._in_time(deadline, QUOTES[kind], symbols=symbol))

        every = await each(symbols, ask)
        found = {name: value for told in every.values() for name, value in told.found.items()}
        return Told(found, next((told.why for told in every.values() if told.why is not None), None))

    async def _in_time(self, deadline: float, path: str, **params: str) -> Result:
        """Ask for quotes; however many requests that takes, the whole look ends by its deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                return await self._ask_data(path, **params)
        except TimeoutError:
            return Unknown("no answer in time")


def _may_ask_singly(result: Result) -> bool:
    return isinstance(result, Reply) and (result.status in NO_SUCH_BATCH or result.status == 200)


def quotes(result: Result) -> Told[Quote]:
    if (why := _failure(result)) is not None:
        return Told({}, why)
    body = cast("Reply", result).json()
    if body is None or not isinstance(body.get("quotes"), dict):
        return Told({}, "an answer without quotes")
    every = inner(body, "quotes")
    return Told({symbol: _quote(inner(every, symbol)) for symbol in every if inner(every, symbol)})


def single_quote(result: Result, symbol: str) -> Told[Quote]:
    if (why := _failure(result)) is not None:
        return Told({}, why)
    quote = inner(cast("Reply", result).json(), "quote")
    return Told({symbol: _quote(quote)}) if quote else Told({}, "an answer without a quote")


def _quote(quote: Body) -> Quote:
    return Quote(figure(quote, "bp"), figure(quote, "ap"), moment(quote, "t"))


def positions(result: Result) -> Told[Decimal]:
    """Return what is held by bare symbol; a short position is negative."""
    held: dict[str, Decimal] = {}
    rows = _rows(result)
    if isinstance(rows, str):
        return Told({}, rows)
    for row in rows:
        quantity = figure(row, "qty")
        if quantity is None:
            return Told({}, f"a position without a quantity: {text(row, 'symbol')}")
        short = text(row, "side") == "short" and quantity > 0
        held[bare(text(row, "symbol"))] = -quantity if short else quantity
    return Told(held)


def open_orders(result: Result) -> Told[int]:
    """Return how many orders are open by bare symbol; those of several markets are none's."""
    rows = _rows(result)
    if isinstance(rows, str):
        return Told({}, rows)
    if len(rows) >= MOST_ORDERS:
        return Told({}, f"{MOST_ORDERS} or more are open")
    return Told(Counter(bare(text(row, "symbol")) for row in rows))


def bare(symbol: str) -> str:
    """Return the symbol as positions have it: a pair without its slash."""
    return symbol.replace("/", "")


def _view(action: OrderAction, quoted: Told[Quote], held: Told[Decimal], count: Told[int]) -> MarketView:
    kind, name = kind_of(action), bare(action.market_id)
    quote = quoted.found.get(action.market_id)
    problems = [f"quote: {quoted.why or 'the venue has none'}"] if quote is None else []
    problems += [f"position: {held.why}"] if held.why is not None else []
    problems += [f"open orders: {count.why}"] if count.why is not None else []
    return MarketView(
        quote=quote,
        position=held.found.get(name, Decimal(0)) if held.why is None else None,
        open_orders=count.found.get(name, 0) if count.why is None else None,
        currency=action.market_id.partition("/")[2] if kind == CRYPTO else "USD",
        contract_size=SHARES_OF_AN_OPTION if kind == OPTIONS else Decimal(1),
        problems=tuple(problems),
    )


def _multi_leg_view() -> MarketView:
    why = "quote: an order of several legs has none of its own"
    return MarketView(currency="USD", contract_size=SHARES_OF_AN_OPTION, problems=(why,))


def _failure(result: Result) -> str | None:
    match result:
        case NotSent(why) | Unknown(why):
            return why
        case Reply(status=200):
            return None
        case Reply(status=status):
            return f"HTTP {status}"


def _rows(result: Result) -> Sequence[Body] | str:
    """Return the objects of a JSON list, or why there is none."""
    if (why := _failure(result)) is not None:
        return why
    try:
        rows = json.loads(cast("Reply", result).body, parse_float=Decimal, parse_int=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return "an answer that is not JSON"
    return _objects(rows) if isinstance(rows, list) else "an answer that is not a list"


def _objects(rows: Iterable[object]) -> list[Body]:
    return [cast("Body", row) for row in rows if isinstance(row, dict)]

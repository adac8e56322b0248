"""What Kalshi says of a market: reads quotes, positions and resting orders, and turns a view to an action. Pure.

Views are of the YES contract in dollars. Must not send requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import cast

from venues.json_fields import Body, figure, text
from venues.kalshi.book import BookPosition, place_of, ticker_of
from venues.kalshi.request import subaccount_of
from venues.orders import LookupFailed, OrderAction, Refused
from venues.quote import MarketView, Quote

CURRENCY = "USD"


def market_key(action: OrderAction) -> str:
    """A market in a subaccount: `TICKER`, or `TICKER/3`. Neither has a slash."""
    ticker = ticker_of(action.market_id)
    name = action.market_id if isinstance(ticker, Refused) else ticker
    number = subaccount_of(action)
    return name if number is None or isinstance(number, Refused) else f"{name}/{number}"


def split_key(key: str) -> tuple[str, str]:
    """(ticker, subaccount, "" where none is named)."""
    ticker, _, subaccount = key.partition("/")
    return ticker, subaccount


def rows_of(body: Body, name: str) -> list[Body] | LookupFailed:
    rows = body.get(name)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return LookupFailed(f"an answer without a list of {name.replace('_', ' ')}")
    return cast("list[Body]", rows)


def quotes_of(rows: Iterable[Body], at: datetime) -> dict[str, Quote]:
    return {
        text(row, "ticker"): Quote(_price(row, "yes_bid_dollars"), _price(row, "yes_ask_dollars"), at) for row in rows
    }


def _price(row: Body, name: str) -> Decimal | None:
    """Kalshi shows an empty side of the book as 0 or 1."""
    price = figure(row, name)
    return price if price is not None and 0 < price < 1 else None


def positions_of(rows: Iterable[Body], ticker: str) -> Decimal | None:
    """Above zero YES contracts, below zero NO contracts; zero where Kalshi lists none."""
    told = [figure(row, "position_fp", "position") for row in rows if text(row, "ticker") == ticker]
    return None if None in told else sum(filter(None, told), Decimal(0))


def resting_of(rows: Iterable[Body], ticker: str) -> int:
    return sum(text(row, "ticker") == ticker for row in rows)


def seen_by(action: OrderAction, view: MarketView) -> MarketView:
    """The view in the action's contract, and its quote in cents where the action's price is."""
    place = place_of(action)
    no = isinstance(place, BookPosition) and place.outcome == "no"
    quote, position = view.quote, view.position
    if no and quote is not None:
        quote = Quote(_other(quote.ask), _other(quote.bid), quote.at)
    if quote is not None and action.price_unit == "cents":
        quote = Quote(_cents(quote.bid), _cents(quote.ask), quote.at)
    held = -position if no and position is not None else position
    return replace(view, quote=quote, position=held, flipped=no)


def _other(price: Decimal | None) -> Decimal | None:
    return None if price is None else 1 - price


def _cents(price: Decimal | None) -> Decimal | None:
    return None if price is None else price * 100

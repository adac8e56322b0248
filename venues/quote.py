"""What a venue says of a market now: its quote, this account's position and open orders. Only reads.

Must not know a venue. A quote that is crossed, one-sided, zero or too old is no quote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TypeVar

MOST_MARKETS = 200  # that one look asks about
AT_ONCE = 4  # requests of one look at the same time
_MAGNITUDE = 30  # powers of ten
_MOST_DIGITS = 60
_FUTURE = 5.0  # seconds by which a venue's clock may be ahead

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Quote:
    """Best bid and ask with the venue's time of it; None: the venue does not say."""

    bid: Decimal | None
    ask: Decimal | None
    at: datetime | None

    @property
    def middle(self) -> Decimal | None:
        return None if self.bid is None or self.ask is None else (self.bid + self.ask) / 2

    def why_none(self, now: datetime, quote_seconds: float) -> str | None:
        """Why this is no quote; None where it is one."""
        if self.bid is None or self.ask is None or self.bid <= 0 or self.ask <= 0:
            return "one-sided"
        if not (is_figure(self.bid) and is_figure(self.ask)):
            return "no price"
        if self.bid > self.ask:
            return "crossed"
        if self.at is None:
            return "without a time"
        age = (now - self.at).total_seconds()
        if age > quote_seconds:
            return f"{age:.0f} s old"
        return "from the future" if age < -max(_FUTURE, quote_seconds) else None


def is_figure(number: Decimal) -> bool:
    """Whether a number is one of a market; the digits of others would fill the screen."""
    return number.is_finite() and abs(number.adjusted()) <= _MAGNITUDE and len(number.as_tuple().digits) <= _MOST_DIGITS


@dataclass(frozen=True, slots=True)
class MarketView:
    """One market as one look saw it. None: the venue did not say."""

    quote: Quote | None = None
    position: Decimal | None = None  # in units of quantity; negative: short
    open_orders: int | None = None  # of this account in this market
    currency: str | None = None  # of price × quantity
    contract_size: Decimal = Decimal(1)  # units of the base that one unit of quantity stands for
    inverse: bool = False  # the contract's size is in the currency itself: its value does not hang on the price
    zero_to_one: bool = False  # a contract priced between 0 and 1
    problems: tuple[str, ...] = ()  # what could not be read, and why
    flipped: bool = False  # seen from the opposite contract of the same market, as NO of a YES market


NO_VIEW = MarketView()


async def each(
    keys: Iterable[str], ask: Callable[[str], Awaitable[_Value]], *, at_once: int = AT_ONCE
) -> Mapping[str, _Value]:
    """Ask about every key, a few at a time."""
    room = asyncio.Semaphore(at_once)

    async def one(key: str) -> tuple[str, _Value]:
        async with room:
            return key, await ask(key)

    return dict(await asyncio.gather(*(one(key) for key in dict.fromkeys(keys))))

"""The market of the practice exchange: quotes that are set, else from the last price, and each account's position.

Must not know HTTP or a venue's field names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

# What the demo trades. Any other market has a quote once somebody sets one or an order names a price.
MARKS: Mapping[str, Decimal] = {
    symbol: Decimal(price)
    for symbol, price in (
        ("AAPL", "180"),
        ("MSFT", "410"),
        ("SPY", "512.4"),
        ("NVDA", "118.2"),
        ("AMD", "160.2"),
        ("TSLA", "240"),
        ("GOOG", "171"),
        ("AMZN", "185.7"),
        ("DROP", "99.5"),
        ("BUSY", "41"),
        ("REJECT", "25"),
        ("QQQ", "505.1"),
        ("META", "602.4"),
        ("INTC", "31.5"),
        ("KXRAINDEMO", "0.44"),
    )
}


@dataclass(frozen=True, slots=True)
class PracticeQuote:
    bid: Decimal
    ask: Decimal
    at: datetime


class Prices:
    """One quote per symbol for every venue; symbols are compared without `/` and case."""

    def __init__(self) -> None:
        self._set: dict[str, tuple[Decimal, Decimal, datetime | None] | None] = {}
        self._held: dict[tuple[str, str, str], Decimal] = {}
        self._has_defaults = True
        self.names: dict[str, str] = {}  # of the symbols that are held, by what they are compared by

    def set(self, symbol: str, bid: Decimal | None, ask: Decimal | None, at: datetime | None = None) -> None:
        """Fix a quote, with the venue's own time of it if `at` is given; without both prices there is none."""
        self._set[_key(symbol)] = None if bid is None or ask is None else (bid, ask, at)

    def clear(self) -> None:
        """No market has a quote until it is set."""
        self._set.clear()
        self._has_defaults = False

    def quote(self, symbol: str, now: datetime, *, last: Decimal | None, tick: Decimal) -> PracticeQuote | None:
        if _key(symbol) in self._set:
            fixed = self._set[_key(symbol)]
            return None if fixed is None else PracticeQuote(fixed[0], fixed[1], fixed[2] or now)
        mark = (last or MARKS.get(_key(symbol))) if self._has_defaults else None
        return None if mark is None else PracticeQuote(mark - tick, mark + tick, now)

    def hold(self, venue: str, account: str, symbol: str, quantity: Decimal) -> None:
        """Give an account ("": every account) a position to begin with."""
        self._held[venue, account, _key(symbol)] = quantity
        self.names[_key(symbol)] = symbol

    def held(self, venue: str, account: str, symbol: str) -> Decimal:
        return sum((self._held.get((venue, one, _key(symbol)), Decimal(0)) for one in {account, ""}), Decimal(0))

    def symbols_held(self, venue: str, account: str) -> Iterable[str]:
        return [symbol for at, whose, symbol in self._held if at == venue and whose in (account, "")]


def _key(symbol: str) -> str:
    return symbol.replace("/", "").replace("-", "").upper()

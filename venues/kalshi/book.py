"""Translates between an action's side and price and Kalshi's one YES book per market. Pure.

Buying NO at q means asking 1 - q for YES. Refuses an action whose parts contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from dlq_sink.terms import fold, is_set

from venues.orders import OrderAction, Refused, places, plain

BookSide = Literal["bid", "ask"]
Outcome = Literal["yes", "no"]
MOST_PLACES = 4

_SIDES: dict[str, tuple[str, Outcome | None]] = {
    "buy": ("buy", None),
    "sell": ("sell", None),
    "yes": ("buy", "yes"),
    "no": ("buy", "no"),
    "buy_yes": ("buy", "yes"),
    "buy_no": ("buy", "no"),
    "sell_yes": ("sell", "yes"),
    "sell_no": ("sell", "no"),
}
_OPPOSITE = {"buy": "sell", "sell": "buy", "yes": "sell_yes", "no": "sell_no"}
# Kalshi's two words for the direction of an order: what it is exposed to, and its side of the YES book.
_DIRECTIONS = {"outcome_side": {"bid": "yes", "ask": "no"}, "book_side": {"bid": "bid", "ask": "ask"}}


@dataclass(frozen=True, slots=True)
class BookPosition:
    """What an action means on the book: the ticker, the contract it names, the side of the YES book."""

    ticker: str
    outcome: Outcome
    side: BookSide
    stated: bool  # the action names the contract itself


def place_of(action: OrderAction) -> BookPosition | Refused:
    direction, by_side = _SIDES.get(action.side, ("", None))
    if not direction:
        return Refused(f"kalshi does not know the side {action.side}")
    ticker, suffix = _split(action.market_id)
    stated = {text for text in (by_side, suffix, *own_words(action, "outcome")) if text}
    if not stated <= {"yes", "no"}:
        return Refused("kalshi: the outcome is neither yes nor no")
    if len(stated) > 1:
        return Refused("kalshi: side, market and outcome name both yes and no")
    outcome: Outcome = "no" if stated == {"no"} else "yes"
    side: BookSide = "bid" if (direction == "buy") == (outcome == "yes") else "ask"
    return _contradiction(action, direction, outcome, side) or BookPosition(ticker, outcome, side, bool(stated))


def _contradiction(action: OrderAction, direction: str, outcome: Outcome, side: BookSide) -> Refused | None:
    """Refuse words for the direction that say another one. They choose nothing: an exposure is no contract."""
    for name, words in _DIRECTIONS.items():
        for said in own_words(action, name):
            if said != words[side]:
                return Refused(
                    f"kalshi: {name} {said} contradicts the action: to {direction} {outcome} is {name} {words[side]}"
                )
    return None


def ticker_of(market_id: str) -> str | Refused:
    """Return the market without the contract that is named behind it."""
    ticker, suffix = _split(market_id)
    return ticker if suffix in ("", "yes", "no") else Refused("kalshi: the outcome is neither yes nor no")


def yes_price(action: OrderAction, place: BookPosition) -> Decimal | Refused:
    """Return the price on the YES book in dollars, exactly."""
    if action.price is None:
        return Refused("kalshi: every order needs a price")
    if action.price_unit is None and action.price >= 1:
        return Refused(f"kalshi: is {plain(action.price)} dollars or cents? The action must say price_unit")
    unit, most = (Decimal(100), MOST_PLACES - 2) if action.price_unit == "cents" else (Decimal(1), MOST_PLACES)
    if not 0 < action.price < unit:
        return Refused(f"kalshi: a price lies between 0 and 1 dollar; {plain(action.price)} does not")
    # Check before dividing, as a division rounds to 28 digits.
    if places(action.price) > most:
        return Refused(f"kalshi: {plain(action.price)} has more than {most} decimals, and it is not rounded")
    dollars = action.price / unit
    return dollars if place.outcome == "yes" else 1 - dollars


def own_price(action: OrderAction, place: BookPosition, *, price: Decimal) -> Decimal:
    """Return a price of the YES book in the action's contract and unit."""
    dollars = price if place.outcome == "yes" else 1 - price
    return dollars * 100 if action.price_unit == "cents" else dollars


def own_side(action: OrderAction, place: BookPosition, *, side: BookSide) -> str:
    """Return a side of the YES book in the action's words."""
    if side == place.side:
        return action.side
    if action.side in _OPPOSITE:
        return _OPPOSITE[action.side]
    direction, _, outcome = action.side.partition("_")
    return f"{_OPPOSITE[direction]}_{outcome}"


def own_words(action: OrderAction, name: str) -> Iterator[str]:
    """Yield what the action says under one of Kalshi's own names, in any spelling, also in a call's params."""
    for document in (action.extra, action.params):
        for key, value in document.items():
            if fold(key) == fold(name) and is_set(key, value):
                yield str(value).lower()


def _split(market_id: str) -> tuple[str, str]:
    """Split off the contract: `KXBTC-26:no` is the NO contract of `KXBTC-26`."""
    ticker, colon, suffix = market_id.rpartition(":")
    return (ticker, suffix.lower()) if colon else (market_id, "")

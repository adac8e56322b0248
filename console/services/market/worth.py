"""Values an order and compares it with the market: amount, drift, rest or cross, position. Pure.

Knows orders and views of a market; must not know entries, plans or how a market is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from console.settings.config import Limits, amount_in
from venues import MarketView, OrderAction, Quote
from venues.quote import is_figure
from venues.terms import WITH_PRICE

_CLOSES = ("buy_to_close", "sell_to_close")
_CENTS = 100
RESTS = "rests: its limit is on its own side of the market"
CROSSES = "crosses: its limit reaches the other side of the market"
EXIT = "exit: it only reduces the position"


@dataclass(frozen=True, slots=True)
class Worth:
    """An order beside its market. None: not known."""

    amount: Decimal | None
    currency: str | None = None
    quote: Quote | None = None  # only one that counts
    drift: Decimal | None = None  # (price - middle) / middle
    through: Decimal | None = None  # how far its limit is through the market; below zero: it rests
    before: Decimal | None = None
    after: Decimal | None = None
    reduces: bool = False  # it only takes from a position
    open_orders: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What its figures mean, in words."""
        words = []
        if self.through is not None:
            words.append(RESTS if self.through < 0 else CROSSES)
        if self.before is not None or self.reduces:
            words.append(EXIT if self.reduces else "adds: it opens or turns a position")
        return tuple(words)

    def standing_at(self, action: OrderAction, before: Decimal | None) -> Worth:
        """The same order where others of its plan change the position first."""
        return replace(self, before=before, after=_after(action, before), reduces=_reduces(action, before))


CANCELS = Worth(amount=Decimal(0))
UNKNOWN = Worth(amount=None)


def buys(action: OrderAction) -> bool:
    return not action.side.startswith("sell")


def worth_of(action: OrderAction, view: MarketView | None, *, at: datetime, quote_seconds: float) -> Worth:
    """`view` is the market in the action's own contract and unit of price; None where nobody looked."""
    if action.verb == "cancel":
        return CANCELS
    seen = view or MarketView()
    quote, notes = _counting(seen, at, quote_seconds)
    price = action.price if action.order_type in WITH_PRICE else None
    far = None if quote is None else (quote.ask if buys(action) else quote.bid)
    made = Worth(
        amount=_amount(action, seen, price if price is not None else far),
        currency=seen.currency,
        quote=quote,
        open_orders=seen.open_orders,
        notes=() if view is None else (*notes, *(one for one in seen.problems if f"no {one}" not in notes)),
    )
    if quote is not None and price is not None:
        made = replace(made, drift=_drift(price, quote), through=_through(action, price, seen=seen, quote=quote))
    held = seen.position if seen.position is not None and is_figure(seen.position) else None
    return made.standing_at(action, held)


def _counting(view: MarketView, at: datetime, quote_seconds: float) -> tuple[Quote | None, tuple[str, ...]]:
    """(the quote if it is one, why not)."""
    if view.quote is None:
        return None, (next((f"no {one}" for one in view.problems if one.startswith("quote")), "no quote"),)
    why = view.quote.why_none(at, quote_seconds)
    return (view.quote, ()) if why is None else (None, (f"no quote: it is {why}",))


def _amount(action: OrderAction, view: MarketView, price: Decimal | None) -> Decimal | None:
    if action.terms.notional is not None:
        return action.terms.notional
    if view.inverse:
        return abs(action.quantity * view.contract_size)
    if price is None:
        return None
    amount = abs(action.quantity * price * view.contract_size)
    return amount / _CENTS if action.price_unit == "cents" else amount


def _drift(price: Decimal, quote: Quote) -> Decimal | None:
    middle = quote.middle
    return None if not middle else (price - middle) / middle


def _through(action: OrderAction, price: Decimal, *, seen: MarketView, quote: Quote) -> Decimal | None:
    """As a share of the far side; of a contract priced 0 to 1 in its price."""
    if quote.bid is None or quote.ask is None:
        return None
    far, gap = (quote.ask, price - quote.ask) if buys(action) else (quote.bid, quote.bid - price)
    if not seen.zero_to_one:
        return gap / far
    return gap / _CENTS if action.price_unit == "cents" else gap


def _signed(action: OrderAction) -> Decimal:
    return action.quantity if buys(action) else -action.quantity


def _after(action: OrderAction, before: Decimal | None) -> Decimal | None:
    if before is None or not action.quantity:
        return None
    after = before + _signed(action)
    if action.terms.reduce_only and (after > 0) != (before > 0):
        return Decimal(0) if before and (before > 0) != buys(action) else before
    return after


def _reduces(action: OrderAction, before: Decimal | None) -> bool:
    if action.verb == "cancel":
        return False
    if action.terms.reduce_only or action.terms.position_intent in _CLOSES:
        return True
    if not before or not action.quantity:
        return False
    return (before > 0) != buys(action) and action.quantity <= abs(before)


def is_valued(worth: Worth, limits: Limits) -> bool:
    """Whether every limit can be held against it."""
    named = (limits.max_notional, limits.four_eyes_over)
    return worth.amount is not None and all(amount_in(limit, worth.currency) is not None for limit in named)


def drifted(worth: Worth, limits: Limits) -> str | None:
    """Why its limit is too far through the market; None where it is not. What only reduces a position is never held."""
    if worth.through is None or worth.quote is None or worth.reduces or worth.through <= limits.max_drift:
        return None
    beyond = "above the ask" if (worth.drift or 0) > 0 else "below the bid"
    far = worth.quote.ask if (worth.drift or 0) > 0 else worth.quote.bid
    return f"its limit is {worth.through:.1%} through the market, {beyond} of {far:,f}; at most {limits.max_drift:.1%}"

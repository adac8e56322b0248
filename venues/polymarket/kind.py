"""Which of Polymarket's four order types an action is, and until when. Pure but for the clock.

GTC and GTD rest and count shares. FOK and FAK take what is there at once: a buy spends money, a sell gives shares.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from venues.orders import OrderAction, Refused

DEFAULT_TIF = "gtc"
MARKET_TIF = "ioc"  # the SDK's own default for a market order
_WIRE = {"gtc": "GTC", "gtd": "GTD", "fok": "FOK", "ioc": "FAK"}
_OWN_WORDS = {"fak": "ioc"}  # fill and kill: fills what it can at once, the rest is cancelled
TIFS = frozenset((*_WIRE, *_OWN_WORDS))
_SOONEST = 180  # seconds; the venue refuses an earlier expiration


@dataclass(frozen=True, slots=True)
class Kind:
    tif: str  # in neutral words
    order_type: str  # the order in neutral words: limit, or market where it spends money
    expiration: int = 0  # seconds since 1970; 0: none

    @property
    def wire(self) -> str:
        return _WIRE[self.tif]


def kind_of(action: OrderAction) -> Kind | Refused:
    by_market = action.order_type == "market"
    stated = action.time_in_force or (MARKET_TIF if by_market else _unsaid(action))
    tif = _OWN_WORDS.get(stated, stated)
    if action.order_type not in ("limit", "market"):
        return Refused(f"polymarket has no {action.order_type} orders")
    if action.price_unit == "cents":
        return Refused("price_unit cents: polymarket takes prices in dollars")
    if tif not in _WIRE:
        return Refused(f"time in force {tif}: polymarket takes gtc, gtd, fok and ioc")
    if by_market:
        return _at_market(action, tif)
    if tif in ("gtc", "gtd"):
        return _resting(action, tif)
    if action.terms.expire_at is not None or action.terms.post_only:
        return Refused(f"polymarket takes expire_at and post_only with gtc and gtd, not with {tif}")
    if action.side == "buy":
        return Refused(
            f"polymarket buys with {tif} by money, not by shares: a better price would buy more than the quantity. "
            "Send a market order with notional and price"
        )
    return Kind(tif, "limit")


def _unsaid(action: OrderAction) -> str:
    return "gtd" if action.terms.expire_at is not None else DEFAULT_TIF


def _resting(action: OrderAction, tif: str) -> Kind | Refused:
    until = action.terms.expire_at
    if tif == "gtc":
        return Kind(tif, "limit") if until is None else Refused("polymarket takes expire_at with gtd, not with gtc")
    if until is None or until.microsecond or until.timestamp() < time.time() + _SOONEST:
        return Refused("gtd needs expire_at in action_json: whole seconds, at least 3 minutes ahead")
    return Kind(tif, "limit", int(until.timestamp()))


def _at_market(action: OrderAction, tif: str) -> Kind | Refused:
    """A market order is signed with the worst price; without one in the action it would be a guess from the book."""
    notional = action.terms.notional
    if tif not in ("fok", "ioc"):
        return Refused(f"time in force {tif}: polymarket takes a market order as fok or ioc")
    if action.price is None:
        return Refused(
            "polymarket signs a market order with the worst price that it takes: the action must say a price"
        )
    if action.side == "buy" and (notional is None or action.quantity):
        return Refused("polymarket buys at market by money: the action must say notional, and no quantity")
    if action.side != "buy" and notional is not None:
        return Refused("polymarket sells at market by shares: the action must say quantity, and no notional")
    # With a worst price, a sale at market is a limit sale that does not rest: the same bytes.
    return Kind(tif, "market" if action.side == "buy" else "limit")


def notes_of(action: OrderAction, kind: Kind) -> list[str]:
    notes = []
    if action.time_in_force is None:
        whose = "polymarket's client's default for a market order" if kind.tif == "ioc" else "the venue's default"
        notes.append(f"time in force: {kind.tif} ({'as there is an expire_at' if kind.expiration else whose})")
    elif kind.tif == "ioc":
        notes.append("time in force: ioc is FAK at polymarket, fill and kill")
    if kind.expiration:
        notes.append("polymarket ends an order a minute before its expiration")
    if action.order_type == "market":
        notes.append(f"at market: {'at most' if action.side == 'buy' else 'at least'} {action.price} a share")
    return notes

"""The words of every venue client: the action to send, the outcome of sending, the order a venue holds.

Standard library only. Must not know stores, entries, venues or transports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from venues.terms import NO_TERMS, WITH_PRICE, ExitTerms, Terms

Mode = Literal["paper", "live"]
Verb = Literal["new", "replace", "cancel"]
Status = Literal["open", "partly_filled", "filled", "cancelled", "expired", "replaced", "rejected", "unclear"]


@dataclass(frozen=True, slots=True)
class OrderAction:
    """One command to a venue, in neutral words. Numbers are exact, text is as stored, enums are lower-case."""

    verb: Verb
    market_id: str
    side: str  # "buy" or "sell"; kalshi also takes "yes", "no", "buy_no", …
    quantity: Decimal
    order_type: str  # one of `terms.TYPES`
    price: Decimal | None
    order_key: str
    account_id: str | None = None
    client_order_id: str | None = None
    time_in_force: str | None = None  # day, gtc, ioc, fok, gtd, opg or cls; None: the venue's default
    venue_order_id: str | None = None  # the order to replace or cancel
    price_unit: str | None = None  # "dollars" or "cents", for venues that use both
    terms: Terms = NO_TERMS
    params: Mapping[str, object] = field(default_factory=dict)  # a ccxt call's, as given, its terms included
    extra: Mapping[str, object] = field(
        default_factory=dict
    )  # set keys of action_json that are no field, term or label


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that is ready to be stored and then sent; `body` holds the bytes to send.

    `request` holds what else the client needs to send or look up this order again: JSON values, no secrets.
    """

    verb: Verb
    client_order_id: str
    method: str
    path: str
    body: bytes
    action: OrderAction
    request: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # for the operator, as "time in force: day (the venue's default)"
    # The order as the request says it, by neutral names: for people, made anew with the request.
    sent: Mapping[str, Any] = field(default_factory=dict, compare=False)
    # A cancel or replace that names its order by client order id only, at a venue that takes its own ids: nothing can
    # be sent before the order is found by this one.
    found_by: str = ""

    @property
    def by_aim(self) -> Prepared:
        """As its order is looked up: by the client order id that it aims at, where that is all it has."""
        return replace(self, verb="new", client_order_id=self.found_by) if self.found_by else self


@dataclass(frozen=True, slots=True)
class Refused:
    """`prepare` makes no request: sending it would change the order or cannot work."""

    why: str
    wrong_account: bool = False  # it belongs to an account that this client cannot send to
    unsent: tuple[str, ...] = ()  # terms that are set and that the request would not carry


@dataclass(frozen=True, slots=True)
class Accepted:
    """The venue has the order and gave a venue order id."""

    venue_order_id: str
    status: Status = "open"


@dataclass(frozen=True, slots=True)
class Rejected:
    """The venue definitely refused the order, with its own code and text."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class RateLimited:
    """Not placed: too many requests. `retry_after` is in seconds, None if the venue gave no time."""

    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class NotSent:
    """No byte of the request left this machine."""

    why: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request may have arrived; `arrived` if the answer proves that the venue has the client order id."""

    why: str
    arrived: bool = False


Outcome = Accepted | Rejected | RateLimited | NotSent | Unknown


@dataclass(frozen=True, slots=True)
class VenueOrder:
    """An order as the venue holds it, with the action's side and unit of price. None: the venue does not say."""

    venue_order_id: str
    client_order_id: str | None
    status: Status
    raw_status: str
    market_id: str | None = None
    side: str | None = None
    quantity: Decimal | None = None
    order_type: str | None = None
    price: Decimal | None = None
    time_in_force: str | None = None
    filled: Decimal | None = None
    created_at: datetime | None = None  # aware, by the venue's clock
    terms: Terms = NO_TERMS  # in it None: the venue does not say
    legs: tuple[VenueOrder, ...] = ()  # the orders that belong to it, as the exits of a bracket


@dataclass(frozen=True, slots=True)
class Found:
    order: VenueOrder


@dataclass(frozen=True, slots=True)
class Absent:
    """A good look-up without the order. Proves its absence only after the profile's `visibility`."""


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """The look-up failed or is not possible; it proves nothing."""

    why: str
    retry_after: float | None = None


Lookup = Found | Absent | LookupFailed


@dataclass(frozen=True, slots=True)
class Readiness:
    """The result of a probe. `ready` if the venue says that it would take an order now."""

    reachable: bool
    ready: bool
    detail: str
    market_open: bool | None = None  # None: the venue does not say
    closed: bool = False  # not ready, and only because the market is shut
    account_usable: bool | None = None
    really_paper: bool | None = None
    session_close: str | None = None  # ISO time of the next close; None: the venue does not say
    server_time: str | None = None  # ISO time by the venue's clock; None: the venue does not say


# A venue that states one of these for an order that was sent without it holds another order. Others, as the
# position intent or the expiry, a venue fills in itself.
_NEVER_FILLED_IN = frozenset(
    {
        "stop_price",
        "trail_price",
        "trail_percent",
        "notional",
        "reduce_only",
        "post_only",
        "extended_hours",
        "order_class",
        "take_profit",
        "stop_loss",
        "legs",
    }
)


def differences(action: OrderAction, order: VenueOrder) -> tuple[str, ...]:
    """List how the venue's order differs from the action; skips what the venue does not say."""
    sized = action.quantity if action.quantity or action.terms.notional is None else None
    pairs: list[tuple[str, object, object]] = [
        ("market", action.market_id or None, order.market_id),
        ("side", action.side or None, order.side),
        ("quantity", sized, order.quantity),
        ("type", action.order_type, order.order_type),
        ("price", action.price if action.order_type in WITH_PRICE else None, order.price),
        ("time in force", action.time_in_force, order.time_in_force),
    ]
    found = [
        f"{name}: {ours} here, {theirs} at the venue"
        for name, ours, theirs in pairs
        if ours is not None and theirs is not None and ours != theirs
    ]
    return (*found, *_other_terms(action.terms, order.terms))


def _other_terms(ours: Terms, theirs: Terms) -> list[str]:
    found = []
    for one in fields(Terms):
        mine, held = getattr(ours, one.name), getattr(theirs, one.name)
        unsaid = held is None or (not mine and (not held or one.name not in _NEVER_FILLED_IN))
        if not unsaid and (mine or None) != (held or None):
            found.append(f"{one.name}: {_term_text(mine)} here, {_term_text(held)} at the venue")
    return found


def _term_text(value: object) -> str:
    match value:
        case None | False | "":
            return "none"
        case True:
            return "yes"
        case ExitTerms():
            parts = (("stop", value.stop_price), ("limit", value.limit_price))
            return " ".join(f"{name} {plain(number)}" for name, number in parts if number is not None) or "none"
        case tuple():
            return ", ".join(f"{leg.side or ''} {plain(leg.ratio)} {leg.market_id}".strip() for leg in value)
        case Decimal():
            return plain(value)
        case _:
            return str(value)


def sent_order(action: OrderAction, client_order_id: str | None, **changed: Any) -> dict[str, Any]:
    """The order by neutral names as a request says it; `changed` replaces values, and removes those that are None."""
    named: dict[str, Any] = {
        "action": action.verb,
        "market_id": action.market_id or None,
        "side": action.side or None,
        "quantity": action.quantity or None,
        "order_type": action.order_type or None,
        "price": action.price if action.order_type in WITH_PRICE else None,
        "time_in_force": action.time_in_force,
        "client_order_id": client_order_id,
        "venue_order_id": action.venue_order_id if action.verb != "new" else None,
    }
    if action.verb == "cancel":
        kept = ("action", "market_id", "client_order_id", "venue_order_id")
        named = {name: named[name] for name in kept}
    else:
        named |= action.terms.document()
    named |= changed
    return {name: value for name, value in named.items() if value is not None}


def default_tif_note(tif: str) -> str:
    return f"time in force: {tif} (the venue's default)"


def plain(number: Decimal) -> str:
    """Return the shortest decimal text of exactly this number, without exponent."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def places(number: Decimal) -> int:
    """Return how many decimals this number needs."""
    return len(plain(number).partition(".")[2])

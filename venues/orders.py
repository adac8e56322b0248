"""The words of every venue client: the action to send, the outcome of sending, the order a venue holds.

Standard library only. Must not know stores, entries, venues or transports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal

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
    order_type: str  # "market" or "limit"
    price: Decimal | None
    order_key: str
    account_id: str | None = None
    client_order_id: str | None = None
    time_in_force: str | None = None  # day, gtc, ioc, fok, gtd, opg or cls; None: the venue's default
    venue_order_id: str | None = None  # the order to replace or cancel
    price_unit: str | None = None  # "dollars" or "cents", for venues that use both
    extra: Mapping[str, object] = field(default_factory=dict)  # keys of action_json that this class has no field for


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


@dataclass(frozen=True, slots=True)
class Refused:
    """`prepare` makes no request: sending it would change the order or cannot work."""

    why: str
    wrong_account: bool = False  # it belongs to an account that this client cannot send to


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


def differences(action: OrderAction, order: VenueOrder) -> tuple[str, ...]:
    """List how the venue's order differs from the action; skips what the venue does not say."""
    pairs: tuple[tuple[str, object, object], ...] = (
        ("market", action.market_id, order.market_id),
        ("side", action.side, order.side),
        ("quantity", action.quantity, order.quantity),
        ("type", action.order_type, order.order_type),
        ("price", action.price if action.order_type == "limit" else None, order.price),
        ("time in force", action.time_in_force, order.time_in_force),
    )
    return tuple(
        f"{name}: {ours} here, {theirs} at the venue"
        for name, ours, theirs in pairs
        if ours is not None and theirs is not None and ours != theirs
    )


ORDER_TERMS = frozenset(
    {
        "expiration_time",
        "expire_time",
        "extended_hours",
        "hidden",
        "leverage",
        "notional",
        "order_class",
        "post_only",
        "reduce_only",
        "stop_loss",
        "stop_price",
        "subaccount",
        "take_profit",
        "trail_percent",
        "trail_price",
    }
)


def unsent(action: OrderAction, *, used: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return a note that names the action's known order terms that are not sent, if there are any."""
    names = sorted(name for name in ORDER_TERMS - used if action.extra.get(name))
    return (f"in the action, but not sent: {', '.join(names)}",) if names else ()


def default_tif_note(tif: str) -> str:
    return f"time in force: {tif} (the venue's default)"


def plain(number: Decimal) -> str:
    """Return the shortest decimal text of exactly this number, without exponent."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def places(number: Decimal) -> int:
    """Return how many decimals this number needs."""
    return len(plain(number).partition(".")[2])

"""Orders as the venues hear of them: the action to send, what a venue answered, what it holds.

Stdlib only. Knows nothing of stores, entries or transports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

Mode = Literal["paper", "live"]
Verb = Literal["new", "replace", "cancel"]
Status = Literal["open", "partly_filled", "filled", "cancelled", "expired", "rejected", "unclear"]


@dataclass(frozen=True, slots=True)
class OrderAction:
    """One command to a venue, in neutral words. Numbers are exact; text is as stored, enums lower-case."""

    verb: Verb
    market_id: str
    side: str  # "buy" or "sell"; kalshi also takes "yes", "no", "buy_no", …
    quantity: Decimal
    order_type: str  # "market" or "limit"
    price: Decimal | None
    order_key: str
    account_id: str | None = None
    client_order_id: str | None = None
    time_in_force: str | None = None  # "day gtc ioc fok gtd opg cls"; None = the venue's default
    venue_order_id: str | None = None  # what replace and cancel aim at
    price_unit: str | None = None  # "dollars" or "cents", where a venue had both
    extra: Mapping[str, object] = field(default_factory=dict)  # keys of action_json that are not ours


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that is ready to be sent and can be stored first. `body` is exactly what goes on the wire.

    `request` holds what else the client needs to send or look up this order again (JSON-able, no secrets).
    """

    verb: Verb
    client_order_id: str
    method: str
    path: str
    body: bytes
    action: OrderAction
    request: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what the operator should know: "time in force: day (the venue's default)"


@dataclass(frozen=True, slots=True)
class Refused:
    """`prepare` will not make this request: sending it would change the order or cannot work."""

    why: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """The venue has the order; a non-empty venue order id was read."""

    venue_order_id: str
    status: Status = "open"


@dataclass(frozen=True, slots=True)
class Rejected:
    """The venue definitely refused it, in its own words."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class RateLimited:
    """Not placed: too many requests. `retry_after` in seconds where the venue said it."""

    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class NotSent:
    """Not one byte of the request left this machine."""

    why: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have arrived. `arrived` when the answer itself proves that the venue knows the client order id."""

    why: str
    arrived: bool = False


Outcome = Accepted | Rejected | RateLimited | NotSent | Unknown


@dataclass(frozen=True, slots=True)
class VenueOrder:
    """An order as the venue holds it, in the action's own terms (side, unit of price). None = it does not say."""

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


@dataclass(frozen=True, slots=True)
class Found:
    order: VenueOrder


@dataclass(frozen=True, slots=True)
class Absent:
    """A good look-up that did not show the order. Proof of absence only after the venue's window."""


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """The look-up itself failed (or cannot be made): proves nothing."""

    why: str
    retry_after: float | None = None


Lookup = Found | Absent | LookupFailed


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a probe saw. `ready` is the venue's word that an order would be taken now."""

    reachable: bool
    ready: bool
    detail: str
    market_open: bool | None = None  # None: the venue does not say
    account_usable: bool | None = None
    really_paper: bool | None = None
    session_close: str | None = None  # ISO time of the next close, where the venue tells it
    server_time: str | None = None  # ISO time by the venue's clock, where it tells it


def differences(action: OrderAction, order: VenueOrder) -> tuple[str, ...]:
    """What the venue's order has otherwise than the action; what the venue does not tell is not compared."""
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
    """A note where the action has terms of an order beyond those that are sent; other unknown keys say nothing."""
    names = sorted(name for name in ORDER_TERMS - used if action.extra.get(name))
    return (f"in the action, but not sent: {', '.join(names)}",) if names else ()


def default_tif_note(tif: str) -> str:
    return f"time in force: {tif} (the venue's default)"


def plain(number: Decimal) -> str:
    """The shortest decimal writing of exactly this number, without exponent."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def places(number: Decimal) -> int:
    """How many decimals it takes to write this number."""
    return len(plain(number).partition(".")[2])

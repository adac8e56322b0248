"""What a look-up at the venue says about an order of this console. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, assert_never

from venues import Absent, Found, Lookup, LookupFailed, OrderAction, VenueOrder, differences

Kind = Literal["ours", "refused", "ended", "conflict", "unclear", "absent", "no-answer"]


@dataclass(frozen=True, slots=True)
class LookupVerdict:
    """ours: it is open or filled, or (a cancel) it took effect · refused: the venue rejected it · ended: cancelled,
    expired or replaced without a fill · conflict: a different order has our id · unclear: an unknown status · absent:
    the venue does not show it, which proves nothing within its window · no-answer: the look-up failed."""

    kind: Kind
    text: str
    order: VenueOrder | None = None
    retry_after: float | None = None

    @property
    def order_id(self) -> str | None:
        return self.order.venue_order_id if self.order else None


def judge(action: OrderAction, lookup: Lookup, *, not_before: datetime | None = None) -> LookupVerdict:
    """`not_before` is the earliest moment at which the order can have been placed: an older one is somebody else's."""
    match lookup:
        case Found(order):
            return _cancelled(order) if action.verb == "cancel" else _found(action, order, not_before)
        case Absent():
            return LookupVerdict("absent", "the venue does not show it")
        case LookupFailed(why, retry_after):
            return LookupVerdict("no-answer", why, retry_after=retry_after)
        case _:
            assert_never(lookup)


def _found(action: OrderAction, order: VenueOrder, not_before: datetime | None) -> LookupVerdict:
    other = list(differences(action, order))
    if not_before is not None and order.created_at is not None and order.created_at < not_before:
        other.append(f"placed at {order.created_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}, before this entry's order")
    if other:
        return LookupVerdict("conflict", f"conflict: {'; '.join(other)}", order)
    shown = shown_status(order)
    if order.status in ("open", "partly_filled", "filled") or (order.filled is not None and order.filled > 0):
        return LookupVerdict("ours", shown, order)
    match order.status:
        case "rejected":
            return LookupVerdict("refused", shown, order)
        case "cancelled" | "expired" | "replaced":
            return LookupVerdict("ended", shown, order)
        case _:
            return LookupVerdict("unclear", shown, order)


def _cancelled(order: VenueOrder) -> LookupVerdict:
    """Judge a cancel by the order that it cancels: the cancel succeeded when that order has ended."""
    shown = shown_status(order)
    if order.status == "cancelled" or "cancel" in order.raw_status.lower():
        return LookupVerdict("ours", shown, order)
    match order.status:
        case "filled" | "expired" | "rejected" | "replaced":
            return LookupVerdict("refused", f"{shown}: there is nothing left to cancel", order)
        case "open" | "partly_filled":
            return LookupVerdict("absent", f"{shown}: the cancel has not taken effect", order)
        case _:
            return LookupVerdict("unclear", shown, order)


def shown_status(order: VenueOrder) -> str:
    """The status in neutral words; one that is not known in the venue's own."""
    return f"found: {order.status if order.status != 'unclear' else order.raw_status or 'an unknown status'}"

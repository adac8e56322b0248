"""What a look-up at the venue says about an order of this console. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from venues import Absent, Found, Lookup, LookupFailed, OrderAction, VenueOrder, differences

Kind = Literal["ours", "refused", "ended", "conflict", "unclear", "absent", "no-answer"]


@dataclass(frozen=True, slots=True)
class LookupVerdict:
    """ours: it is open or filled, or (a cancel) it took effect · refused: the venue rejected it · ended: cancelled or
    expired without a fill · conflict: a different order has our id · unclear: an unknown status · absent: the venue
    does not show it, which proves nothing within its window · no-answer: the look-up failed."""

    kind: Kind
    text: str
    order: VenueOrder | None = None
    retry_after: float | None = None

    @property
    def order_id(self) -> str | None:
        return self.order.venue_order_id if self.order else None


def judge(action: OrderAction, lookup: Lookup) -> LookupVerdict:
    match lookup:
        case Found(order):
            return _cancelled(order) if action.verb == "cancel" else _found(action, order)
        case Absent():
            return LookupVerdict("absent", "the venue does not show it")
        case LookupFailed(why, retry_after):
            return LookupVerdict("no-answer", why, retry_after=retry_after)
        case _:
            assert_never(lookup)


def _found(action: OrderAction, order: VenueOrder) -> LookupVerdict:
    if other := differences(action, order):
        return LookupVerdict("conflict", f"conflict: {'; '.join(other)}", order)
    shown = _shown(order)
    if order.status in ("open", "partly_filled", "filled") or (order.filled is not None and order.filled > 0):
        return LookupVerdict("ours", shown, order)
    match order.status:
        case "rejected":
            return LookupVerdict("refused", shown, order)
        case "cancelled" | "expired":
            return LookupVerdict("ended", f"{shown}, unfilled", order)
        case _:
            return LookupVerdict("unclear", shown, order)


def _cancelled(order: VenueOrder) -> LookupVerdict:
    """Judge a cancel by the order that it cancels: the cancel succeeded when that order has ended."""
    shown = _shown(order)
    if order.status == "cancelled" or "cancel" in order.raw_status.lower():
        return LookupVerdict("ours", shown, order)
    match order.status:
        case "filled" | "expired" | "rejected":
            return LookupVerdict("refused", f"{shown}: there is nothing left to cancel", order)
        case "open" | "partly_filled":
            return LookupVerdict("absent", f"{shown}: the cancel has not taken effect", order)
        case _:
            return LookupVerdict("unclear", shown, order)


def _shown(order: VenueOrder) -> str:
    return f"{order.raw_status or order.status} at the venue"

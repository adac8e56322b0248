"""What is done about an order after the venue was asked for it, before anything is sent. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from backends.store import Result
from console.services.evidence.lookup_verdict import LookupVerdict
from console.services.replay.outcome import OutcomeKind
from venues import OrderAction, differences


@dataclass(frozen=True, slots=True)
class Send:
    """Nothing at the venue stands against sending it."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """The venue has it already: its order is recorded, and nothing is sent."""

    result: Result
    text: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing is sent and nothing is recorded."""

    kind: OutcomeKind
    text: str
    venue_failed: bool = False  # the venue did not answer, which its breaker should know


Decision = Send | Adopt | GiveUp


def decide_new(verdict: LookupVerdict, *, gap: str | None, may_have_arrived: bool, overridden: bool) -> Decision:
    """`gap`: why "not found" proves nothing about the engine's own send; `overridden`: somebody answers for that."""
    match verdict.kind:
        case "ours":
            return _adopted(verdict, Result("accepted", verdict.order_id))
        case "refused":
            return _adopted(verdict, Result("rejected", verdict.order_id, verdict.text))
        case "ended" | "conflict" | "unclear":
            return GiveUp("refused", verdict.text)
        case "absent":
            if gap is None or overridden:
                return Send()
            return GiveUp("refused", f"may-have-arrived: the venue does not show it yet, and {gap}")
        case "no-answer":
            return Send() if overridden else unanswered(verdict, may_have_arrived=may_have_arrived)
        case _:
            assert_never(verdict.kind)


def decide_cancel(verdict: LookupVerdict, *, gap: str | None) -> Decision:
    """Judges by the order that is to be cancelled. A cancel is never held up because the venue does not answer."""
    match verdict.kind:
        case "ours":
            return _adopted(verdict, Result("accepted", verdict.order_id))
        case "refused" | "ended" | "conflict":
            return GiveUp("refused", verdict.text)
        case "absent" if verdict.order is None and gap is None:
            text = "nothing to cancel: the venue has no such order"
            return Adopt(Result("accepted", evidence=text), text)
        case "absent" | "unclear" | "no-answer":
            return Send()
        case _:
            assert_never(verdict.kind)


def decide_replace(action: OrderAction, aim: LookupVerdict) -> Decision:
    """Judges by the order that is to be replaced, as a cancel of it would see it."""
    order = aim.order
    if aim.kind == "no-answer":
        return unanswered(aim, may_have_arrived=False)
    if order is None:
        return GiveUp("refused", "nothing to replace: the venue has no such order")
    if order.status not in ("open", "partly_filled"):
        return GiveUp("refused", f"found: {order.status}")
    if not differences(action, order):
        text = f"found: {order.status}, as it should become"
        return Adopt(Result("accepted", order.venue_order_id, evidence=text), text)
    return Send()


def unanswered(verdict: LookupVerdict, *, may_have_arrived: bool) -> GiveUp:
    text = f"look-up failed: {verdict.text}; nothing was sent"
    failed = verdict.retry_after is None
    if may_have_arrived:
        return GiveUp("refused", f"may-have-arrived: {text}", failed)
    return GiveUp("not_sent", text, failed)


def _adopted(verdict: LookupVerdict, result: Result) -> Adopt:
    evidence = f"looked up before sending: {verdict.text}"
    return Adopt(Result(result.outcome, result.venue_order_id, result.error, evidence), verdict.text)

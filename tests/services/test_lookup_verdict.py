"""What a look-up means, and what reconcile makes of it: the whole tables."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from backends.records import Attempt
from console.services.replay.lookup_verdict import Kind, LookupVerdict, judge
from console.services.replay.reconcile import Waited, decide
from tests.support.planning import command
from venues import Absent, Found, LookupFailed, Status, VenueOrder, Verb

NEW = command(7).action
ORDER = VenueOrder(
    venue_order_id="ord_1",
    client_order_id="cid-7",
    status="open",
    raw_status="new",
    market_id="AAPL",
    side="buy",
    quantity=Decimal(7),
    order_type="limit",
    price=Decimal(10),
    filled=Decimal(0),
)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("open", "ours"),
        ("partly_filled", "ours"),
        ("filled", "ours"),
        ("rejected", "refused"),
        ("cancelled", "ended"),
        ("expired", "ended"),
        ("unclear", "unclear"),
    ],
)
def test_an_equal_order_by_its_status(status: Status, kind: Kind) -> None:
    verdict = judge(NEW, Found(replace(ORDER, status=status, raw_status=f"raw-{status}")))
    assert (verdict.kind, verdict.order_id) == (kind, "ord_1")
    assert f"raw-{status} at the venue" in verdict.text


@pytest.mark.parametrize("status", ["cancelled", "expired", "rejected", "unclear"])
def test_what_has_filled_in_part_is_ours_however_it_ended(status: Status) -> None:
    assert judge(NEW, Found(replace(ORDER, status=status, filled=Decimal(1)))).kind == "ours"


@pytest.mark.parametrize(
    "other",
    [
        {"market_id": "MSFT"},
        {"side": "sell"},
        {"quantity": Decimal(8)},
        {"order_type": "market"},
        {"price": Decimal("10.01")},
    ],
)
@pytest.mark.parametrize("status", ["open", "filled", "rejected", "cancelled"])
def test_a_different_order_is_a_conflict_whatever_its_status(status: Status, other: dict[str, object]) -> None:
    order = replace(ORDER, status=status, **other)  # type: ignore[arg-type]  # fields of VenueOrder
    verdict = judge(NEW, Found(order))
    assert verdict.kind == "conflict"
    assert verdict.text.startswith("conflict: ")


def test_what_the_venue_does_not_tell_is_not_compared() -> None:
    assert judge(NEW, Found(replace(ORDER, price=None, quantity=None, order_type=None))).kind == "ours"


def test_not_found_and_no_answer_are_not_the_same() -> None:
    assert judge(NEW, Absent()).kind == "absent"
    failed = judge(NEW, LookupFailed("HTTP 429", 3.0))
    assert (failed.kind, failed.retry_after) == ("no-answer", 3.0)


@pytest.mark.parametrize(
    ("status", "raw", "kind"),
    [
        ("cancelled", "canceled", "ours"),
        ("partly_filled", "canceled", "ours"),
        ("open", "pending_cancel", "ours"),
        ("open", "new", "absent"),
        ("partly_filled", "partially_filled", "absent"),
        ("filled", "filled", "refused"),
        ("expired", "expired", "refused"),
        ("rejected", "rejected", "refused"),
        ("unclear", "suspended", "unclear"),
    ],
)
def test_a_cancel_has_succeeded_when_its_order_has_ended(status: Status, raw: str, kind: Kind) -> None:
    verb: Verb = "cancel"
    action = replace(NEW, verb=verb, quantity=Decimal(0), venue_order_id="ord_1")
    assert judge(action, Found(replace(ORDER, status=status, raw_status=raw))).kind == kind


ATTEMPT = Attempt(
    "dlq_1", 1, "live", "fake", "cid-7", "h", "unknown", None, None, "2026-04-18T14:00:00Z", None, "a", "a"
)
OVER = Waited(True, "", unbounded=False)
EARLY = Waited(False, "too early", unbounded=False)
OWNED = Waited(False, "its owner may still be sending it", unbounded=False, owned=True)
UNBOUNDED = Waited(True, "", unbounded=True)


@pytest.mark.parametrize("waited", [OVER, EARLY, OWNED, UNBOUNDED])
@pytest.mark.parametrize(
    ("kind", "word"), [("ours", "accepted"), ("refused", "rejected"), ("ended", "rejected"), ("conflict", "unknown")]
)
def test_what_was_found_settles_at_once_lease_or_not(kind: Kind, word: str, waited: Waited) -> None:
    settled = decide(ATTEMPT, LookupVerdict(kind, "text", ORDER), waited, approved=False)
    assert settled.word == word
    assert settled.result is not None
    assert (settled.result.outcome, settled.result.venue_order_id) == (word, "ord_1")


@pytest.mark.parametrize("waited", [OVER, EARLY, OWNED, UNBOUNDED])
def test_no_answer_changes_nothing(waited: Waited) -> None:
    settled = decide(ATTEMPT, LookupVerdict("no-answer", "HTTP 500"), waited, approved=True)
    assert (settled.word, settled.result, settled.needs_second) == ("unknown", None, False)


def test_an_unclear_status_does_not_take_the_attempt_from_its_owner() -> None:
    assert decide(ATTEMPT, LookupVerdict("unclear", "?", ORDER), OWNED, approved=False).result is None
    settled = decide(ATTEMPT, LookupVerdict("unclear", "?", ORDER), OVER, approved=False)
    assert settled.result is not None
    assert settled.result.outcome == "unknown"


@pytest.mark.parametrize(
    ("waited", "mode", "approved", "word", "second"),
    [
        (EARLY, "paper", True, "unknown", False),
        (OWNED, "paper", True, "unknown", False),
        (EARLY, "live", True, "unknown", False),
        (OVER, "paper", False, "not_sent", False),
        (OVER, "live", False, "not_sent", False),
        (UNBOUNDED, "paper", False, "not_sent", False),
        (UNBOUNDED, "live", False, "unknown", True),
        (UNBOUNDED, "live", True, "not_sent", False),
    ],
)
def test_absence_waits_for_the_window_and_where_nothing_bounds_it_for_a_second_person(
    waited: Waited, mode: str, approved: bool, word: str, second: bool
) -> None:
    settled = decide(replace(ATTEMPT, mode=mode), LookupVerdict("absent", "not shown"), waited, approved=approved)
    assert (settled.word, settled.needs_second) == (word, second)
    assert (settled.result is None) == (word == "unknown")

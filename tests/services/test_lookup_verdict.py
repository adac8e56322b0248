"""What a look-up means, and what reconcile makes of it: the whole tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from backends.records import Attempt
from console.services.evidence.absence import AccountMatch, absence_gap, account_match, earliest
from console.services.evidence.lookup_verdict import Kind, LookupVerdict, judge
from console.services.evidence.reconcile import VenueWord, decide
from tests.support.planning import command
from venues import Absent, Found, LookupFailed, Status, VenueOrder, Verb
from venues.client import Reach

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
        ("replaced", "ended"),
        ("unclear", "unclear"),
    ],
)
def test_an_equal_order_by_its_status(status: Status, kind: Kind) -> None:
    verdict = judge(NEW, Found(replace(ORDER, status=status, raw_status=f"raw-{status}")))
    assert (verdict.kind, verdict.order_id) == (kind, "ord_1")
    assert verdict.text == ("found: raw-unclear" if status == "unclear" else f"found: {status}")


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


GAPS = (None, "too early")


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize(
    ("kind", "word"), [("ours", "accepted"), ("refused", "rejected"), ("ended", "accepted"), ("conflict", "unknown")]
)
def test_what_was_found_settles_at_once_lease_or_not(kind: Kind, word: str, gap: str | None, owned: bool) -> None:
    settled = decide(VenueWord(LookupVerdict(kind, "text", ORDER), absence_gap=gap, is_owned=owned))
    assert settled.word == word
    assert settled.result is not None
    assert (settled.result.outcome, settled.result.venue_order_id) == (word, "ord_1")


@pytest.mark.parametrize("gap", GAPS)
def test_no_answer_changes_nothing(gap: str | None) -> None:
    settled = decide(VenueWord(LookupVerdict("no-answer", "HTTP 500"), absence_gap=gap))
    assert (settled.word, settled.result) == ("unknown", None)


def test_an_unclear_status_does_not_take_the_attempt_from_its_owner() -> None:
    assert decide(VenueWord(LookupVerdict("unclear", "?", ORDER), is_owned=True)).result is None
    settled = decide(VenueWord(LookupVerdict("unclear", "?", ORDER)))
    assert settled.result is not None
    assert settled.result.outcome == "unknown"


def test_absence_counts_only_where_nothing_stands_against_it() -> None:
    absent = LookupVerdict("absent", "not shown")
    assert decide(VenueWord(absent, absence_gap="too early")).result is None
    assert decide(VenueWord(absent)).word == "not_sent"


NOW = datetime(2026, 4, 18, 15, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("sent", "reach", "counts"),
    [
        (None, "all", False),
        (NOW - timedelta(seconds=59), "all", False),
        (NOW - timedelta(seconds=60), "all", True),
        (NOW - timedelta(days=3), "all", True),
        (NOW - timedelta(seconds=60), "day", True),
        (NOW - timedelta(days=1), "day", False),
        (NOW.replace(hour=3, minute=0), "day", False),  # yesterday evening in New York
    ],
)
def test_when_not_found_proves_anything(sent: datetime | None, reach: Reach, counts: bool) -> None:
    assert (absence_gap(sent, NOW, window=60, reach=reach) is None) is counts


@pytest.mark.parametrize(
    ("kept", "answers", "match"),
    [
        (("PA1", "k"), ("PA1", "k"), "same"),
        (("PA1", "k"), ("PA1", "rotated"), "same"),
        (("PA1", "k"), ("PA2", "k"), "other"),
        ((None, "k"), (None, "k"), "same"),
        ((None, "k"), (None, "rotated"), "unsure"),
        (("PA1", "k"), (None, "k"), "same"),
        (("PA1", "k"), (None, "rotated"), "unsure"),
        ((None, None), ("PA1", "k"), "unsure"),
        ((None, ""), (None, ""), "unsure"),  # an engine's own venue, and a client without a key
    ],
)
def test_whose_account_answers(
    kept: tuple[str | None, str | None], answers: tuple[str | None, str], match: AccountMatch
) -> None:
    attempt = Attempt("dlq_1", 1, "live", "fake", "c", "h", "unknown", None, None, "", None, "a", "a")
    assert account_match(replace(attempt, account=kept[0], key_digest=kept[1]), *answers) == match


@pytest.mark.parametrize(("minutes", "kind"), [(14, "ours"), (16, "conflict")])
def test_an_order_from_long_before_the_entry_is_not_the_entrys(minutes: int, kind: Kind) -> None:
    order = replace(ORDER, created_at=NOW - timedelta(minutes=minutes))
    assert judge(NEW, Found(order), not_before=earliest(NOW)).kind == kind
    assert judge(NEW, Found(replace(ORDER, created_at=None)), not_before=earliest(NOW)).kind == "ours"

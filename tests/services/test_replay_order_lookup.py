"""For engines: `replay_order` asks the engine's own venue before a new order goes, and believes what it shows."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from backends import DLQSink, InMemoryDLQ
from console import clock
from console.services import replay_order
from tests.support.engine import (
    ARRIVED,
    NOT_SENT,
    READ_TIMEOUT,
    SQL,
    AskableVenue,
    Audit,
    Venue,
    an_order,
    counted,
    in_store,
    opened,
    written,
)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DLQSink]:
    yield from opened(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def sql_sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQL]:
    yield from opened(request, tmp_path)


def test_an_order_that_is_there_is_adopted_and_nothing_is_sent(sink: DLQSink) -> None:
    entry, venue, audit = written(sink, READ_TIMEOUT), AskableVenue(found=an_order(status="filled")), Audit()
    assert replay_order(sink, entry.dlq_id, venue, audit) == (True, "ord_9")
    assert (venue.asked, venue.seen, counted(sink, entry)) == (["cid-1"], [], (True, 0))
    ((category, told),) = audit.events
    assert (category, told["dlq_id"], told["venue_order_id"]) == ("Annotation", entry.dlq_id, "ord_9")


def test_an_order_that_tells_no_id_is_adopted_all_the_same(sink: DLQSink) -> None:
    entry, venue, audit = written(sink), AskableVenue(found={"status": "filled"}), Audit()
    assert replay_order(sink, entry.dlq_id, venue, audit) == (True, "found: filled; nothing was sent")
    ((_, told),) = audit.events
    assert (told["venue_order_id"], venue.seen, counted(sink, entry)) == (None, [], (True, 0))


def test_the_adopted_order_is_an_attempt_that_names_no_account(sql_sink: SQL) -> None:
    entry = written(sql_sink)
    replay_order(sql_sink, entry.dlq_id, AskableVenue(found=an_order(), paper=True))
    (attempt,) = in_store(sql_sink, lambda store: store.attempts(entry.dlq_id))
    assert (attempt.outcome, attempt.venue_order_id, attempt.mode) == ("accepted", "ord_9", "paper")
    assert (attempt.account, attempt.key_digest, attempt.client_order_id) == (None, "", "cid-1")


class OrderStatus(Enum):
    PARTIALLY_FILLED = "partially_filled"


OrderTuple = namedtuple("OrderTuple", "venue_order_id state quantity")


@pytest.mark.parametrize(
    "found",
    [
        {"id": "ord_9", "status": "open", "amount": 100.0, "side": "buy", "price": 180.25, "symbol": "AAPL"},
        {"orderId": "ord_9", "status": "NEW", "origQty": "100.000", "side": "BUY"},
        an_order(status=OrderStatus.PARTIALLY_FILLED),
        an_order(status="OrderStatus.PARTIALLY_FILLED", filled_qty="40"),
        an_order(status="canceled", filled_qty="40"),
        an_order(status="closed", filled=100),
        OrderTuple("ord_9", "PreSubmitted", Decimal(100)),
        {"id": "ord_9"},
        "ord_9",
    ],
)
def test_an_order_of_any_shape_is_compared_as_far_as_it_tells(found: Any) -> None:
    sink = InMemoryDLQ()
    entry, venue = written(sink), AskableVenue(found=found)
    assert (replay_order(sink, entry.dlq_id, venue), venue.seen) == ((True, "ord_9"), [])


@pytest.mark.parametrize(
    "other",
    [
        {"qty": "90"},
        {"side": "sell"},
        {"limit_price": 181},
        {"symbol": "MSFT"},
        {"type": "market"},
        {"client_order_id": "cid-2"},
        {"created_at": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
)
def test_another_order_under_this_id_is_a_conflict(sink: DLQSink, other: dict[str, Any]) -> None:
    entry, venue = written(sink), AskableVenue(found=an_order(**other))
    ok, detail = replay_order(sink, entry.dlq_id, venue, **ARRIVED)
    assert (ok, detail.startswith("conflict: "), venue.seen) == (False, True, [])
    assert counted(sink, entry) == (False, 0)


def test_a_rejected_order_is_recorded_and_the_next_try_has_an_id_of_its_own(sink: DLQSink) -> None:
    entry, venue = written(sink), AskableVenue(found=an_order(status="rejected"))
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, "found: rejected" in detail, venue.seen) == (False, True, [])
    assert counted(sink, entry) == (False, 1)
    venue.found = None
    assert replay_order(sink, entry.dlq_id, venue) == (True, "ord_1")
    assert venue.seen[0].client_order_id == venue.asked[1] != "cid-1"


@pytest.mark.parametrize("status", ["canceled", "expired", "replaced", "closed", "mystery", 5])
def test_an_order_that_has_ended_unfilled_is_refused(sink: DLQSink, status: object) -> None:
    entry, venue = written(sink), AskableVenue(found=an_order(status=status))
    ok, detail = replay_order(sink, entry.dlq_id, venue, **ARRIVED)
    assert (ok, detail.startswith("found: "), venue.seen) == (False, True, [])
    assert counted(sink, entry) == (False, 0)


@pytest.mark.parametrize(
    ("error", "seconds", "sent"), [(READ_TIMEOUT, 30, False), (READ_TIMEOUT, 90, True), (NOT_SENT, 30, True)]
)
def test_absence_counts_only_after_a_while(sink: DLQSink, error: str, seconds: int, sent: bool) -> None:
    entry, venue = written(sink, error, age=timedelta(seconds=seconds)), AskableVenue()
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, bool(venue.seen), venue.asked) == (sent, sent, ["cid-1"])
    assert detail == "ord_1" if sent else detail.startswith("may-have-arrived: ")


def test_the_clock_that_makes_it_younger_counts_for_absence(sql_sink: SQL, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, venue, now = written(sql_sink, READ_TIMEOUT, age=timedelta(seconds=30)), AskableVenue(), clock.now
    monkeypatch.setattr(clock, "now", lambda: now() + timedelta(minutes=2))
    ok, detail = replay_order(sql_sink, entry.dlq_id, venue)
    assert (ok, detail.startswith("may-have-arrived: "), venue.seen) == (False, True, [])


@pytest.mark.parametrize(("error", "begins"), [(READ_TIMEOUT, "may-have-arrived: "), (NOT_SENT, "not sent: look-up")])
@pytest.mark.parametrize("answer", [ConnectionError("away"), False, True, "", [], [an_order()], object()])
def test_a_look_up_that_fails_sends_nothing(sink: DLQSink, error: str, begins: str, answer: Any) -> None:
    entry, venue = written(sink, error), AskableVenue(found=answer)
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, venue.seen, counted(sink, entry)) == (False, [], (False, 0))
    assert detail.startswith(begins), detail


def test_somebody_who_answers_for_it_may_send_without_a_look_up(sink: DLQSink) -> None:
    entry, venue = written(sink, READ_TIMEOUT), AskableVenue(found=ConnectionError("away"))
    assert replay_order(sink, entry.dlq_id, venue, override=["may-have-arrived"], note="n") == (True, "ord_1")


@pytest.mark.parametrize("error", [READ_TIMEOUT, NOT_SENT])
def test_an_async_find_is_no_order_and_no_absence(sink: DLQSink, error: str) -> None:
    class Async(Venue):
        async def find(self, client_order_id: str) -> None:
            return None

    entry, venue = written(sink, error), Async()
    ok, detail = replay_order(sink, entry.dlq_id, venue, **ARRIVED)
    assert (ok, "find is async" in detail, venue.seen) == (False, True, [])


def test_an_async_submit_sends_nothing_and_is_said(sink: DLQSink) -> None:
    class Async(Venue):
        async def submit(self, action: Any) -> str:
            return "ord_1"

    entry = written(sink)
    ok, detail = replay_order(sink, entry.dlq_id, Async())
    assert (ok, detail.startswith("not sent: submit is async")) == (False, True)
    assert replay_order(sink, entry.dlq_id, Venue()) == (True, "ord_1")


def test_an_id_that_the_engine_never_sent_proves_no_absence(sink: DLQSink) -> None:
    entry, venue = written(sink, READ_TIMEOUT, client_order_id=None), AskableVenue()
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, detail.startswith("may-have-arrived: "), venue.seen) == (False, True, [])


def test_an_interrupted_look_up_gives_the_entry_back(sink: DLQSink) -> None:
    entry = written(sink)
    with pytest.raises(KeyboardInterrupt):
        replay_order(sink, entry.dlq_id, AskableVenue(found=KeyboardInterrupt()))
    assert replay_order(sink, entry.dlq_id, Venue()) == (True, "ord_1")

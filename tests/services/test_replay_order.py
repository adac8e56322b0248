"""For engines: `replay_order` has the console's guards, on every sink, and never repeats what is in doubt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from backends import DLQSink, InMemoryDLQ, Store
from backends.records import ActContext, Actor
from console import clock
from console.services import replay_order
from console.services.replay.attempt import AttemptLedger, Lease
from tests.support.engine import (
    ARRIVED,
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

REFUSED = '{"code":40310000,"message":"insufficient buying power"}'
ANN = Actor("ann", "ann", "host", "program")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DLQSink]:
    yield from opened(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def sql_sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQL]:
    yield from opened(request, tmp_path)


def test_a_read_timeout_of_three_days_ago_is_stale_and_not_sent(sink: DLQSink) -> None:
    entry, venue, audit = written(sink, READ_TIMEOUT, age=timedelta(days=3)), AskableVenue(), Audit()
    ok, detail = replay_order(sink, entry.dlq_id, venue, audit)
    assert (ok, detail.startswith("stale: ")) == (False, True)
    assert (venue.seen, venue.asked, audit.events, counted(sink, entry)) == ([], [], [], (False, 0))


def test_overriding_stale_alone_leaves_what_may_have_arrived(sink: DLQSink) -> None:
    entry, venue = written(sink, READ_TIMEOUT, age=timedelta(days=3)), Venue()
    ok, detail = replay_order(sink, entry.dlq_id, venue, override=("stale",), note="wanted still")
    assert (ok, detail.startswith("may-have-arrived: ")) == (False, True)
    assert venue.seen == []
    both = ("stale", "may-have-arrived")
    assert replay_order(sink, entry.dlq_id, venue, override=both, note="looked there") == (True, "ord_1")


@pytest.mark.parametrize(
    ("code", "columns"),
    [
        ("stale", {"age": timedelta(minutes=16)}),
        ("stale", {"age": timedelta(minutes=-5)}),
        ("retry-limit", {"retry_count": 10}),
        ("notional", {"price": 600.0}),
        ("may-have-arrived", {"error": READ_TIMEOUT}),
    ],
)
def test_each_guard_refuses_by_its_code_until_it_is_overridden(
    sink: DLQSink, code: str, columns: dict[str, Any]
) -> None:
    entry, venue = written(sink, **columns), Venue()
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, detail.split(":")[0], venue.seen) == (False, code, [])
    every = ("stale", "retry-limit", "poison", "notional", "may-have-arrived")
    assert replay_order(sink, entry.dlq_id, venue, override=every, note="n") == (True, "ord_1")


def test_an_order_past_its_time_in_force_is_stale(sink: DLQSink) -> None:
    ended = (clock.now() - timedelta(minutes=1)).isoformat()
    entry, venue = written(sink, action={"expire_time": ended}), Venue()
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, detail.startswith("stale: its time in force ended"), venue.seen) == (False, True, [])


def test_what_keeps_failing_in_the_same_way_is_poison(sink: DLQSink) -> None:
    entry, venue = written(sink), Venue([RuntimeError(REFUSED)] * 4)
    details = [replay_order(sink, entry.dlq_id, venue)[1] for _ in range(4)]
    assert details[:3] == [f"RuntimeError: {REFUSED}"] * 3
    assert (details[3].split(":")[0], len(venue.seen)) == ("poison", 3)


def test_the_same_order_a_short_while_ago_is_a_duplicate(sink: DLQSink) -> None:
    first, second = (written(sink, client_order_id=f"cid-{number}") for number in range(2))
    venue = Venue(["ord_1", "ord_2"])
    assert replay_order(sink, first.dlq_id, venue) == (True, "ord_1")
    ok, detail = replay_order(sink, second.dlq_id, venue)
    assert (ok, detail.split(":")[0], len(venue.seen)) == (False, "duplicate", 1)
    assert replay_order(sink, second.dlq_id, venue, override="stale, duplicate", note="two") == (True, "ord_2")


def test_what_takes_risk_away_is_not_held_up_like_what_adds_it(sink: DLQSink) -> None:
    cancel = {"action": "cancel", "venue_order_id": "ord_0"}
    old: dict[str, Any] = {"age": timedelta(days=3), "retry_count": 12, "price": 9000.0}
    entry, venue = written(sink, READ_TIMEOUT, action=cancel, **old), AskableVenue(found=an_order())
    assert replay_order(sink, entry.dlq_id, venue) == (True, "ord_1")
    assert (venue.asked, venue.seen[0].verb, venue.seen[0].venue_order_id) == ([], "cancel", "ord_0")


def test_a_cancel_by_the_venues_id_gets_no_client_id_that_names_nothing(sink: DLQSink) -> None:
    cancel = {"action": "cancel", "venue_order_id": "ord_0"}
    entry, venue = written(sink, action=cancel, client_order_id=None), Venue()
    assert replay_order(sink, entry.dlq_id, venue) == (True, "ord_1")
    assert venue.seen[0].client_order_id is None


def test_a_halt_holds_engines_too(sql_sink: SQL) -> None:
    entry, venue = written(sql_sink), AskableVenue()
    in_store(sql_sink, lambda store: store.halt(ANN, ActContext(datetime.now(UTC), "op", note="stop")))
    assert replay_order(sql_sink, entry.dlq_id, venue) == (False, "halt: halt set by ann: stop")
    assert (venue.seen, venue.asked) == ([], [])


def test_what_a_console_holds_is_claimed(sql_sink: SQL) -> None:
    entry, venue = written(sql_sink), AskableVenue()

    async def claim(store: Store) -> None:
        found = await store.get(entry.dlq_id)
        assert found is not None
        await store.claim(entry.dlq_id, found.version, ANN, 60.0)

    in_store(sql_sink, claim)
    ok, detail = replay_order(sql_sink, entry.dlq_id, venue)
    assert (ok, detail.split(":")[0], venue.seen, venue.asked) == (False, "claimed", [], [])


def test_two_threads_send_an_entry_of_memory_once() -> None:
    sink = InMemoryDLQ()
    entry = written(sink)

    class Slow(AskableVenue):
        def find(self, client_order_id: str) -> Any:
            second.append(pool.submit(replay_order, sink, entry.dlq_id, Venue()).result(10))

    second: list[tuple[bool, str]] = []
    with ThreadPoolExecutor() as pool:
        assert replay_order(sink, entry.dlq_id, Slow()) == (True, "ord_1")
    ((ok, detail),) = second
    assert (ok, detail.split(":")[0]) == (False, "claimed")


def test_it_is_judged_again_just_before_it_goes(sink: DLQSink, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, now = written(sink, age=timedelta(minutes=14)), clock.now

    class Suspended(AskableVenue):
        def find(self, client_order_id: str) -> Any:
            monkeypatch.setattr(clock, "now", lambda: now() + timedelta(minutes=2))

    venue = Suspended()
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, detail.startswith("stale: "), venue.seen) == (False, True, [])
    monkeypatch.undo()
    if not isinstance(sink, InMemoryDLQ):
        assert in_store(cast("SQL", sink), lambda store: store.attempts(entry.dlq_id)) == ()
    assert replay_order(sink, entry.dlq_id, Venue()) == (True, "ord_1")


def test_an_entry_that_changes_while_the_venue_is_asked_stays(sink: DLQSink) -> None:
    entry = written(sink)

    class Meddling(AskableVenue):
        def find(self, client_order_id: str) -> Any:
            sink.bump_retry(entry.dlq_id)

    venue = Meddling()
    assert replay_order(sink, entry.dlq_id, venue) == (False, "changed since it was looked at")
    assert venue.seen == []
    assert replay_order(sink, entry.dlq_id, Venue()) == (True, "ord_1")


def test_a_machine_suspended_over_the_commit_sends_nothing(sink: DLQSink, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, venue, now, intend = written(sink, age=timedelta(minutes=14)), Venue(), clock.now, AttemptLedger.intend

    async def slow(*given: Any) -> object:
        attempt = await intend(*given)
        monkeypatch.setattr(clock, "now", lambda: now() + timedelta(minutes=2))
        return attempt

    monkeypatch.setattr(AttemptLedger, "intend", slow)
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, detail.startswith("stale: "), venue.seen, counted(sink, entry)) == (False, True, [], (False, 0))
    monkeypatch.undo()
    assert replay_order(sink, entry.dlq_id, venue) == (True, "ord_1")


def test_nothing_is_sent_under_a_claim_that_is_about_to_run_out(sink: DLQSink, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, venue = written(sink), Venue()
    monkeypatch.setattr("console.services.engine.replay_order._LEASE", Lease(60.0, sending=120.0))
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, detail) == (False, "not sent: the claim was about to run out: nothing was sent")
    assert venue.seen == []


@pytest.mark.parametrize("note", [None, "", "  "])
def test_an_override_needs_a_note(sink: DLQSink, note: str | None) -> None:
    entry, venue = written(sink, age=timedelta(hours=1)), AskableVenue()
    ok, detail = replay_order(sink, entry.dlq_id, venue, override=("stale",), note=note)
    assert (ok, detail) == (False, "stale: an override needs a note: nothing was sent")
    assert (venue.seen, venue.asked) == ([], [])


@pytest.mark.parametrize("code", ["in-doubt", "halt", "claimed", "unparsable", "nonsense"])
def test_what_cannot_be_overridden_is_refused(sink: DLQSink, code: str) -> None:
    entry, venue = written(sink), Venue()
    ok, detail = replay_order(sink, entry.dlq_id, venue, override=("stale", code), note="n")
    assert (ok, detail.startswith(f"{code}: cannot be overridden"), venue.seen) == (False, True, [])


def test_overrides_and_their_note_are_on_record(sql_sink: SQL) -> None:
    entry = written(sql_sink, READ_TIMEOUT, age=timedelta(hours=1))
    given: dict[str, Any] = {"override": ("stale", "may-have-arrived", "poison"), "note": "ann looked at the venue"}
    assert replay_order(sql_sink, entry.dlq_id, Venue(), **given) == (True, "ord_1")
    events = [json.loads(event.body) for event in in_store(sql_sink, lambda store: store.events(entry.dlq_id))]
    (intent,) = (event for event in events if event["kind"] == "intent")
    assert intent["detail"] == "by the engine's own venue; overridden: stale, may-have-arrived"
    assert intent["note"] == "ann looked at the venue"


@pytest.mark.parametrize("ended", [TimeoutError("no answer"), None, KeyboardInterrupt()])
def test_three_calls_after_a_submit_without_an_answer_submit_once(sink: DLQSink, ended: Any) -> None:
    entry, venue = written(sink, client_order_id=None), AskableVenue([ended, "ord_2", "ord_3"])
    try:
        assert replay_order(sink, entry.dlq_id, venue)[1].startswith("unknown: ")
    except KeyboardInterrupt:
        assert isinstance(ended, KeyboardInterrupt)
    for _ in range(2):
        ok, detail = replay_order(sink, entry.dlq_id, venue, **ARRIVED)
        assert (ok, detail.split(":")[0]) == (False, "in-doubt")
    assert len(venue.seen) == 1
    assert venue.seen[0].client_order_id == venue.asked[0]


def test_another_entry_of_an_order_in_doubt_waits(sink: DLQSink) -> None:
    first, second = written(sink), written(sink, quantity=7.0)
    venue = Venue()
    assert replay_order(sink, first.dlq_id, venue) == (False, f"superseded: {second.dlq_id} waits")
    assert replay_order(sink, second.dlq_id, Venue([TimeoutError("no answer")]))[0] is False
    ok, detail = replay_order(sink, first.dlq_id, venue)
    assert (ok, detail.split(":")[0], venue.seen) == (False, "in-doubt", [])


def test_without_an_id_of_its_own_every_call_sends_the_same_one(sink: DLQSink) -> None:
    entry, venue = written(sink, client_order_id=None), Venue([RuntimeError(REFUSED), "ord_1"])
    replay_order(sink, entry.dlq_id, venue)
    assert replay_order(sink, entry.dlq_id, venue) == (True, "ord_1")
    first, second = (action.client_order_id for action in venue.seen)
    assert (first, len(first)) == (second, 32)


class OwnSink:
    """An engine's own sink: cannot be hashed, nor referred to weakly."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = InMemoryDLQ()

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_kept"), name)


def test_a_sink_of_the_engines_own_remembers_a_doubt_too() -> None:
    sink: Any = OwnSink()
    entry, venue = written(sink), Venue([TimeoutError("no answer")])
    assert replay_order(sink, entry.dlq_id, venue)[1].startswith("unknown: ")
    assert replay_order(sink, entry.dlq_id, venue)[1].startswith("in-doubt: ")

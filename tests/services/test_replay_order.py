"""For engines: `replay_order` has the console's guards and asks the engine's venue first, on every sink."""

from __future__ import annotations

import asyncio
import json
from collections import namedtuple
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from backends import DeadLetteredOrder, DLQSink, InMemoryDLQ, PostgresDLQ, SQLiteDLQ, Store, open_store
from backends.records import ActContext, Actor
from console import clock
from console.services import replay_order

READ_TIMEOUT = "ReadTimeout: no answer in 10 s"
NOT_SENT = "ConnectError: failed to establish a new connection"
REFUSED = '{"code":40310000,"message":"insufficient buying power"}'
ARRIVED: dict[str, Any] = {"override": ("may-have-arrived",), "note": "nothing is there"}
ANN = Actor("ann", "ann", "host", "program")
SQL = SQLiteDLQ | PostgresDLQ
T = TypeVar("T")


@dataclass
class Venue:
    """An engine's venue that cannot be asked."""

    answers: list[Any] = field(default_factory=lambda: ["ord_1"])
    seen: list[Any] = field(default_factory=list)
    paper: bool = False

    def submit(self, action: Any) -> Any:
        self.seen.append(action)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@dataclass
class AskableVenue(Venue):
    found: Any = None
    asked: list[str] = field(default_factory=list)

    def find(self, client_order_id: str) -> Any:
        self.asked.append(client_order_id)
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


@dataclass
class Audit:
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def append(self, category: str, payload: Mapping[str, Any]) -> None:
        self.events.append((category, dict(payload)))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DLQSink]:
    made: DLQSink
    match request.param:
        case "memory":
            made = InMemoryDLQ()
        case "sqlite":
            made = SQLiteDLQ(tmp_path / "orders.db")
        case _:
            made = PostgresDLQ(request.getfixturevalue("postgres_db"))
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def sql_sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQL]:
    sqlite = request.param == "sqlite"
    made = SQLiteDLQ(tmp_path / "orders.db") if sqlite else PostgresDLQ(request.getfixturevalue("postgres_db"))
    yield made
    made.close()


def written(
    sink: DLQSink, error: str = NOT_SENT, *, age: timedelta = timedelta(minutes=2), action: Any = None, **columns: Any
) -> DeadLetteredOrder:
    entry = DeadLetteredOrder(
        dlq_id=f"dlq_{sink.depth():016x}",
        captured_at=clock.now() - age,
        venue_name="alpaca",
        account_id="main",
        market_id="AAPL",
        side="buy",
        quantity=100.0,
        order_type="limit",
        price=180.25,
        client_order_id="cid-1",
        error=error,
        action_json="" if action is None else json.dumps(action),
    )
    entry = replace(entry, **columns)
    sink.write(entry)
    return entry


def an_order(**told: Any) -> SimpleNamespace:
    usual = {"id": "ord_9", "status": "open", "qty": "100", "side": "buy", "limit_price": "180.25", "symbol": "AAPL"}
    return SimpleNamespace(**(usual | told))


def in_store(sink: SQL, work: Callable[[Store], Awaitable[T]]) -> T:
    async def run() -> T:
        store = await open_store(sink.url)
        try:
            return await work(store)
        finally:
            await store.aclose()

    return asyncio.run(run())


def counted(sink: DLQSink, entry: DeadLetteredOrder) -> tuple[bool, int]:
    now = sink.get(entry.dlq_id)
    assert now is not None
    return now.dismissed, now.retry_count


# --- guards ---------------------------------------------------------------------------------------------------------


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
    assert replay_order(sink, second.dlq_id, venue, override="duplicate", note="two are meant") == (True, "ord_2")


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
    assert replay_order(sink, entry.dlq_id, Venue()) == (True, "ord_1")


# --- overrides ------------------------------------------------------------------------------------------------------


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


# --- the venue is asked first ---------------------------------------------------------------------------------------


def test_an_order_that_is_there_is_adopted_and_nothing_is_sent(sink: DLQSink) -> None:
    entry, venue, audit = written(sink, READ_TIMEOUT), AskableVenue(found=an_order(status="filled")), Audit()
    assert replay_order(sink, entry.dlq_id, venue, audit) == (True, "ord_9")
    assert (venue.asked, venue.seen, counted(sink, entry)) == (["cid-1"], [], (True, 0))
    ((category, told),) = audit.events
    assert (category, told["dlq_id"], told["venue_order_id"]) == ("Annotation", entry.dlq_id, "ord_9")


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


@pytest.mark.parametrize("status", ["canceled", "expired", "replaced", "closed", "mystery"])
def test_an_order_that_has_ended_unfilled_is_refused(sink: DLQSink, status: str) -> None:
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


# --- in doubt -------------------------------------------------------------------------------------------------------


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
    assert replay_order(sink, first.dlq_id, Venue([TimeoutError("no answer")]))[0] is False
    venue = Venue()
    ok, detail = replay_order(sink, second.dlq_id, venue)
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

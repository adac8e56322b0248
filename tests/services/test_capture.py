"""For engines: a failed submit is kept and told of, and sent once more; beside any loop, on every sink."""

from __future__ import annotations

import asyncio
import json
from collections import namedtuple
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from dlq_sink.capture.report import REJECTS
from dlq_sink.capture.request import dead_letter

from backends import DeadLetteredOrder, DLQSink, InMemoryDLQ, PostgresDLQ, SQLiteDLQ, open_store
from backends.records import ActContext, Actor, Attempt, Entry
from backends.sql.claims import SQLClaims
from backends.store import Result, StoreError, Unreachable
from console.services import replay_order, submit_or_dead_letter
from console.services.replay import attempt as record

REFUSED = '{"code":40310000,"message":"insufficient buying power"}'
TIMEOUT = TimeoutError("no answer in 10 s")


class Side(Enum):
    BUY = "buy"


@dataclass
class Action:
    market_id: str = "AAPL"
    side: Side = Side.BUY
    quantity: Decimal = Decimal("100")
    order_type: str = "limit"
    price: Decimal | None = Decimal("180.25")
    client_order_id: str | None = "cid-1"
    account_id: str | None = "main"
    tags: tuple[str, ...] = ("x",)


@dataclass
class Venue:
    """An engine's venue: answers with what `answers` holds, raising what is an exception."""

    answers: list[Any] = field(default_factory=lambda: ["ord_1"])
    name: str = "alpaca"
    paper: bool = False
    seen: list[Any] = field(default_factory=list)

    def submit(self, action: Any) -> Any:
        self.seen.append(action)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@dataclass
class Audit:
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def append(self, category: str, payload: Mapping[str, Any]) -> None:
        self.events.append((category, dict(payload)))


@dataclass
class Metrics:
    counted: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def inc(self, name: str, labels: Mapping[str, str]) -> None:
        self.counted.append((name, dict(labels)))


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
def sql_sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQLiteDLQ | PostgresDLQ]:
    sqlite = request.param == "sqlite"
    made = SQLiteDLQ(tmp_path / "orders.db") if sqlite else PostgresDLQ(request.getfixturevalue("postgres_db"))
    yield made
    made.close()


def kept(sink: DLQSink, error: Exception | None = None, action: Any = None) -> DeadLetteredOrder:
    assert submit_or_dead_letter(Venue([error or RuntimeError("HTTP 429")]), action or Action(), sink) is None
    return sink.list()[-1]


def looked(sink: SQLiteDLQ | PostgresDLQ, dlq_id: str) -> tuple[Entry, tuple[Attempt, ...]]:
    async def look() -> tuple[Entry, tuple[Attempt, ...]]:
        store = await open_store(sink.url)
        try:
            entry = await store.get(dlq_id)
            assert entry is not None
            return entry, await store.attempts(dlq_id)
        finally:
            await store.aclose()

    return asyncio.run(look())


def test_a_good_submit_leaves_no_trace(sink: DLQSink) -> None:
    audit, metrics = Audit(), Metrics()
    assert submit_or_dead_letter(Venue(["ord_7"]), Action(), sink, audit, metrics) == "ord_7"
    assert (sink.depth(), audit.events, metrics.counted) == (0, [], [])


def test_a_failed_submit_is_kept_told_and_counted_and_the_loop_goes_on(sink: DLQSink) -> None:
    audit, metrics = Audit(), Metrics()
    venue = Venue([RuntimeError("HTTP 429 after 3 attempts"), "ord_2"])
    assert [submit_or_dead_letter(venue, Action(), sink, audit, metrics) for _ in range(2)] == [None, "ord_2"]
    (entry,) = sink.list()
    assert (entry.venue_name, entry.market_id, entry.side, entry.quantity) == ("alpaca", "AAPL", "buy", 100.0)
    assert (entry.price, entry.client_order_id, entry.account_id) == (180.25, "cid-1", "main")
    assert entry.error == "RuntimeError: HTTP 429 after 3 attempts"
    ((category, told),) = audit.events
    assert (category, told["dlq_id"]) == ("OrderRejected", entry.dlq_id)
    assert metrics.counted == [(REJECTS, {"layer": "venue_exception"})]
    assert REJECTS == "horizon_order_rejects_total"


@pytest.mark.parametrize(
    "answer",
    [
        None, "", "  ", True, {}, [], {"status": "ok"}, {"id": None}, {"order": {"status": "new"}}, ["ord_7"],
        SimpleNamespace(symbol="AAPL"), object(),
    ],
)  # fmt: skip
def test_an_answer_without_an_order_id_is_no_placed_order(answer: object) -> None:
    sink = InMemoryDLQ()
    assert submit_or_dead_letter(Venue([answer]), Action(), sink) is None
    assert "without an order id" in sink.list()[0].error


class OwnId:
    def __str__(self) -> str:
        return "ord_7"


@pytest.mark.parametrize(
    "answer",
    [
        {"id": "ord_7"},
        {"order_id": "ord_7", "status": "open"},
        {"orderId": "ord_7", "clientOrderId": "cid-1"},
        {"orderID": "ord_7", "success": True},
        {"venue_order_id": "ord_7", "id": "row 9"},
        {"order": {"order_id": "ord_7"}},
        SimpleNamespace(id="ord_7", symbol="AAPL"),
        SimpleNamespace(order=SimpleNamespace(orderId="ord_7")),
        OwnId(),
        " ord_7 ",
    ],
)
def test_an_answer_gives_its_order_id_and_not_its_own_text(answer: object) -> None:
    sink = InMemoryDLQ()
    assert submit_or_dead_letter(Venue([answer]), Action(), sink) == "ord_7"
    entry = kept(sink)
    assert replay_order(sink, entry.dlq_id, Venue([answer])) == (True, "ord_7")


@pytest.mark.parametrize("answer", [7, Decimal(7), {"id": 7}, {"orderId": 7}])
def test_an_order_id_may_be_a_number(answer: object) -> None:
    assert submit_or_dead_letter(Venue([answer]), Action(), InMemoryDLQ()) == "7"


def test_an_order_id_may_be_a_uuid() -> None:
    name = UUID("61e69015-8549-4bfd-b9c3-01e75843f47d")
    for answer in (name, {"id": name}, SimpleNamespace(id=name)):
        assert submit_or_dead_letter(Venue([answer]), Action(), InMemoryDLQ()) == str(name)


class Slotted:
    __slots__ = ("market_id", "quantity", "side")

    def __init__(self) -> None:
        self.market_id, self.side, self.quantity = "AAPL", "buy", 3


class Plain:
    def __init__(self) -> None:
        self.market_id, self.side, self.quantity, self._secret = "AAPL", "buy", 3, "no"


Tuple = namedtuple("Tuple", "market_id side quantity")  # the untyped kind is what engines may have
LOOP: dict[str, Any] = {"market_id": "AAPL", "side": "buy", "quantity": 3}
LOOP["self"] = LOOP


@pytest.mark.parametrize(
    "action", [{"market_id": "AAPL", "side": "buy", "quantity": "3"}, Slotted(), Plain(), Tuple("AAPL", "buy", 3), LOOP]
)
def test_an_action_of_any_shape_is_kept(action: Any) -> None:
    entry = dead_letter(Venue(), action, "e")
    assert (entry.market_id, entry.side, entry.quantity, entry.order_type) == ("AAPL", "buy", 3.0, "")
    assert json.loads(entry.action_json)["market_id"] == "AAPL"
    assert "no" not in json.loads(entry.action_json).values()


@pytest.mark.parametrize("action", ["buy 3 AAPL", 7, None, {"quantity": "many", "price": float("nan")}, {1: object()}])
def test_an_action_of_no_shape_is_kept_all_the_same(action: Any) -> None:
    sink = InMemoryDLQ()
    assert submit_or_dead_letter(Venue([RuntimeError("x" * 5000)]), action, sink) is None
    (entry,) = sink.list()
    assert (entry.quantity, entry.price, len(entry.error)) == (0.0, None, 1000)


class Mute:
    """Whose own text cannot be had."""

    def __str__(self) -> str:
        raise LookupError("no text")


class MuteError(Exception):
    def __str__(self) -> str:
        raise LookupError("no text")


class Remote:
    """As a proxy whose other end is gone: whatever is not there raises an error of its own."""

    def __init__(self) -> None:
        self.symbol, self.side, self.qty = "AAPL", "buy", 3

    def __getattr__(self, name: str) -> object:
        raise ConnectionError(name)


@pytest.mark.parametrize(
    "error", [RuntimeError("HTTP 400: \0"), RuntimeError("HTTP 400: \udcff"), MuteError()], ids=["nul", "bytes", "mute"]
)
def test_an_order_is_kept_whatever_its_error_says(sink: DLQSink, error: Exception) -> None:
    entry = kept(sink, error)
    assert (entry.market_id, entry.quantity) == ("AAPL", 100.0)
    assert type(error).__name__ in entry.error


@pytest.mark.parametrize("odd", ["A\0", "A\udcff"], ids=["nul", "bytes"])
def test_an_order_with_a_value_that_no_store_holds_is_kept_and_left_to_a_person(sink: DLQSink, odd: str) -> None:
    entry = kept(sink, action=asdict(Action()) | {"market_id": odd})
    assert (entry.side, entry.quantity, entry.price) == ("buy", 100.0, 180.25)
    assert replay_order(sink, entry.dlq_id, Venue())[1].startswith("unparsable")


def test_an_order_that_raises_when_it_is_looked_at_is_kept(sink: DLQSink) -> None:
    for action in (Remote(), {"symbol": "AAPL", "side": "buy", "qty": 3, "note": Mute()}):
        entry = kept(sink, action=action)
        assert (entry.market_id, entry.side, entry.quantity) == ("AAPL", "buy", 3.0)


@pytest.mark.parametrize(
    "left_open",
    [
        {"venue_name": None},
        {"quantity": None, "qty": "100"},
        {"venue_name": ""},
        {"symbol": "AAPL", "market_id": None},
        {"action": "cancel", "venue_order_id": "ord_0", "quantity": None, "price": None},
    ],
)
def test_what_an_action_leaves_open_does_not_contradict_what_the_columns_were_filled_with(
    sink: DLQSink, left_open: dict[str, Any]
) -> None:
    entry = kept(sink, action=asdict(Action()) | left_open)
    assert replay_order(sink, entry.dlq_id, Venue()) == (True, "ord_1")


def test_reporting_that_fails_does_not_stop_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def append(self, *_: object) -> None:
            raise OSError("audit is full")

        def inc(self, *_: object) -> None:
            raise OSError("metrics are away")

    sink = InMemoryDLQ()
    assert submit_or_dead_letter(Venue([RuntimeError("x")]), Action(), sink, Broken(), Broken()) is None
    assert sink.depth() == 1
    assert len(caplog.records) == 2


def test_a_sink_that_fails_is_heard_and_the_order_is_in_the_audit() -> None:
    class Full(InMemoryDLQ):
        def write(self, entry: DeadLetteredOrder) -> None:
            raise Unreachable("the disk is full")

    audit, metrics = Audit(), Metrics()
    with pytest.raises(Unreachable):
        submit_or_dead_letter(Venue([RuntimeError("x")]), Action(), Full(), audit, metrics)
    assert audit.events[0][1]["lost"] is True
    assert json.loads(audit.events[0][1]["action"])["market_id"] == "AAPL"
    assert len(metrics.counted) == 1


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError()])
def test_what_stops_an_engine_leaves_an_entry_and_goes_on_its_way(stop: BaseException) -> None:
    sink = InMemoryDLQ()
    with pytest.raises(type(stop)):
        submit_or_dead_letter(Venue([stop]), Action(), sink)
    (entry,) = sink.list()
    assert entry.error.startswith(type(stop).__name__)
    assert entry.error.endswith("unknown outcome: the submit was interrupted")


def test_replay_sends_the_rebuilt_action_and_dismisses(sink: DLQSink) -> None:
    entry, venue, audit = kept(sink), Venue(["ord_9"]), Audit()
    assert replay_order(sink, entry.dlq_id, venue, audit_log=audit) == (True, "ord_9")
    (action,) = venue.seen
    assert (action.market_id, action.side, action.quantity, action.price) == ("AAPL", "buy", 100, Decimal("180.25"))
    assert action.client_order_id == "cid-1"
    again = sink.get(entry.dlq_id)
    assert again is not None
    assert (again.dismissed, again.retry_count) == (True, 0)
    ((category, told),) = audit.events
    assert (category, told["dlq_id"], told["venue_order_id"]) == ("Annotation", entry.dlq_id, "ord_9")
    assert replay_order(sink, entry.dlq_id, venue)[0] is False
    assert len(venue.seen) == 1


def test_a_replay_that_fails_bumps_the_retry_count(sink: DLQSink) -> None:
    entry = kept(sink)
    ok, detail = replay_order(sink, entry.dlq_id, Venue([RuntimeError(REFUSED)]))
    assert (ok, detail) == (False, f"RuntimeError: {REFUSED}")
    again = sink.get(entry.dlq_id)
    assert again is not None
    assert (again.dismissed, again.retry_count) == (False, 1)


def test_an_exception_that_may_have_been_sent_is_unknown(sink: DLQSink) -> None:
    entry = kept(sink)
    ok, detail = replay_order(sink, entry.dlq_id, Venue([TIMEOUT]))
    assert (ok, detail) == (False, "unknown: TimeoutError: no answer in 10 s")


def test_on_a_sql_sink_it_leaves_the_entry_in_doubt(sql_sink: SQLiteDLQ | PostgresDLQ) -> None:
    entry = kept(sql_sink)
    replay_order(sql_sink, entry.dlq_id, Venue([TIMEOUT], paper=True))
    found, (attempt,) = looked(sql_sink, entry.dlq_id)
    assert (found.state, found.get("retry_count")) == ("in_doubt", 1)
    assert (attempt.outcome, attempt.mode, attempt.client_order_id) == ("unknown", "paper", "cid-1")
    venue = Venue()
    assert replay_order(sql_sink, entry.dlq_id, venue) == (False, "in-doubt: in doubt: reconcile or settle it first")
    assert venue.seen == []


def test_on_a_sql_sink_the_intent_is_committed_before_the_venue_hears_of_it(sql_sink: SQLiteDLQ | PostgresDLQ) -> None:
    entry = kept(sql_sink)
    states: list[str] = []

    class Watching(Venue):
        def submit(self, action: Any) -> Any:
            with ThreadPoolExecutor() as pool:
                states.append(pool.submit(looked, sql_sink, entry.dlq_id).result()[0].state)
            return super().submit(action)

    assert replay_order(sql_sink, entry.dlq_id, Watching()) == (True, "ord_1")
    assert states == ["in_flight"]
    found, (attempt,) = looked(sql_sink, entry.dlq_id)
    assert (found.state, attempt.outcome, attempt.venue_order_id, attempt.mode) == (
        "replayed",
        "accepted",
        "ord_1",
        "live",
    )


async def test_it_works_beside_a_running_loop(tmp_path: Path) -> None:
    with SQLiteDLQ(tmp_path / "orders.db") as sink:
        entry = kept(sink)
        assert replay_order(sink, entry.dlq_id, Venue()) == (True, "ord_1")


@pytest.mark.parametrize(("answer", "ok"), [(None, False), ("", False), (7, True)])
def test_a_replay_without_an_order_id_is_unknown(sink: DLQSink, answer: object, ok: bool) -> None:
    entry = kept(sink)
    done, detail = replay_order(sink, entry.dlq_id, Venue([answer]))
    assert done is ok
    assert detail == "7" if ok else detail.startswith("unknown: ")


def test_what_cannot_be_sent_is_said(sink: DLQSink) -> None:
    venue = Venue()
    assert replay_order(sink, "dlq_nope", venue) == (False, "no such entry: dlq_nope")
    broken = kept(sink, action={"market_id": "AAPL", "side": "up", "quantity": 1})
    ok, detail = replay_order(sink, broken.dlq_id, venue)
    assert (ok, detail.startswith("unparsable: ")) == (False, True)
    assert venue.seen == []


def test_an_answer_that_cannot_be_recorded_is_unknown_and_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.001)
    monkeypatch.setattr("backends.sql.claims.SQLClaims.conclude", _away)
    with SQLiteDLQ(tmp_path / "orders.db") as sink:
        entry = kept(sink)
        ok, detail = replay_order(sink, entry.dlq_id, Venue())
        assert not ok
        assert detail == "unknown: the outcome accepted ord_1 could not be recorded: the disk is full"
        assert looked(sink, entry.dlq_id)[0].state == "in_flight"


async def _away(*_: object) -> bool:
    raise Unreachable("the disk is full")


def test_a_store_that_is_away_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.sql.claims.SQLClaims.intend", _away)
    with SQLiteDLQ(tmp_path / "orders.db") as sink:
        entry, venue = kept(sink), Venue()
        assert replay_order(sink, entry.dlq_id, venue) == (False, "not sent: the disk is full")
        assert venue.seen == []


def test_an_intent_whose_commit_is_in_doubt_is_withdrawn(
    sql_sink: SQLiteDLQ | PostgresDLQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    intend = SQLClaims.intend

    async def lost(*given: Any) -> object:
        await intend(*given)
        raise StoreError("lost while it committed")

    entry, venue = kept(sql_sink), Venue()
    monkeypatch.setattr("backends.sql.claims.SQLClaims.intend", lost)
    assert replay_order(sql_sink, entry.dlq_id, venue) == (False, "not sent: lost while it committed")
    assert venue.seen == []
    found, (attempt,) = looked(sql_sink, entry.dlq_id)
    assert (found.state, attempt.outcome) == ("pending", "not_sent")
    monkeypatch.undo()
    assert replay_order(sql_sink, entry.dlq_id, venue) == (True, "ord_1")


def test_an_attempt_that_somebody_settled_meanwhile_is_told_as_the_record_has_it(
    sql_sink: SQLiteDLQ | PostgresDLQ,
) -> None:
    entry = kept(sql_sink)

    async def settle() -> None:
        store = await open_store(sql_sink.url)
        (attempt,) = await store.open_attempts()
        why = ActContext(datetime.now(UTC), "op", "reconcile")
        assert await store.settle(attempt, Result("accepted", "ord_7"), Actor("bob", "bob", "h", "p"), why)
        await store.aclose()

    class Settled(Venue):
        def submit(self, action: Any) -> Any:
            with ThreadPoolExecutor() as pool:
                pool.submit(asyncio.run, settle()).result()
            raise TIMEOUT

    assert replay_order(sql_sink, entry.dlq_id, Settled()) == (True, "ord_7")

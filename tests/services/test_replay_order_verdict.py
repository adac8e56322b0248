"""For engines: a failed submit is judged as the console judges the same answer; a doubt ends when it is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends import DLQSink, InMemoryDLQ, SQLiteDLQ
from console.services import replay_order
from tests.support.command import Console
from tests.support.engine import SQL, AskableVenue, Audit, Venue, an_order, counted, in_store, opened, written
from tests.support.exchange import in_thread

OURS = an_order(client_order_id="cid-1")


@pytest.fixture(params=["memory", "sqlite"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DLQSink]:
    yield from opened(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def sql_sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SQL]:
    yield from opened(request, tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        "HTTP 429",
        "HTTP 429 after 3 attempts",
        "429 Client Error: Too Many Requests for url: https://venue/orders",
        "[Errno 111] Connection refused",
        "circuit breaker is open",
    ],
)
def test_what_was_never_taken_is_not_sent_and_counts_no_retry(sink: DLQSink, error: str) -> None:
    entry = written(sink)
    ok, detail = replay_order(sink, entry.dlq_id, Venue([RuntimeError(error)]))
    assert (ok, detail) == (False, f"not sent: RuntimeError: {error}")
    assert counted(sink, entry) == (False, 0)
    assert replay_order(sink, entry.dlq_id, Venue()) == (True, "ord_1")


@pytest.mark.parametrize("error", ["HTTP 401", "HTTP 403 Forbidden", "HTTP 400", "HTTP 404"])
def test_a_bare_status_proves_nothing(sink: DLQSink, error: str) -> None:
    """A gateway in between may have answered: the venue's own clients count it as unknown too."""
    entry, venue = written(sink), Venue([RuntimeError(error)])
    assert replay_order(sink, entry.dlq_id, venue) == (False, f"unknown: RuntimeError: {error}")
    assert counted(sink, entry) == (False, 1)
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, detail.split(":")[0], len(venue.seen)) == (False, "in-doubt", 1)


@pytest.mark.parametrize(
    "error",
    [
        'HTTP 401: {"code":40110000,"message":"request is not authorized"}',
        'HTTP 403: {"code":40310000,"message":"insufficient buying power"}',
        'HTTP 400: {"code":40010001,"message":"qty is required"}',
        'HTTP 404: {"code":40410000,"message":"order not known here"}',
    ],
)
def test_a_refusal_in_the_venues_own_words_is_a_rejection(sink: DLQSink, error: str) -> None:
    entry = written(sink)
    assert replay_order(sink, entry.dlq_id, Venue([RuntimeError(error)])) == (False, f"RuntimeError: {error}")
    assert counted(sink, entry) == (False, 1)
    assert replay_order(sink, entry.dlq_id, Venue()) == (True, "ord_1")


@pytest.mark.parametrize(
    ("fault", "error", "ended"),
    [
        ("html_403", "HTTP 403", ("unknown", 1)),
        ("http_403", 'HTTP 403: {"code":40310000,"message":"forbidden by the venue"}', ("rejected", 1)),
        ("http_429", "HTTP 429", ("not_sent", 0)),
    ],
)
def test_the_command_line_and_an_engine_judge_alike(
    tmp_path: Path, fault: str, error: str, ended: tuple[str, int]
) -> None:
    with in_thread() as exchange, SQLiteDLQ(tmp_path / "orders.db") as sink:
        exchange.fault(fault)
        one, other = written(sink), written(sink, client_order_id="cid-2", quantity=7.0)
        console = Console(tmp_path, sink.url, exchange.url)
        ran = console.inline("replay", one.dlq_id, "--paper", "--json")
        replay_order(sink, other.dlq_id, Venue([RuntimeError(error)], paper=True))
        (attempt,) = in_store(sink, lambda store: store.attempts(other.dlq_id))
        assert (ran.row["outcome"], counted(sink, one)[1]) == ended
        assert (attempt.outcome, counted(sink, other)[1]) == ended


def test_a_doubt_ends_once_the_venue_shows_the_order(sink: DLQSink) -> None:
    entry, venue, audit = written(sink), AskableVenue([TimeoutError("no answer")]), Audit()
    assert replay_order(sink, entry.dlq_id, venue)[1].startswith("unknown: ")
    assert replay_order(sink, entry.dlq_id, venue)[1].startswith("in-doubt: ")
    venue.found = OURS
    assert replay_order(sink, entry.dlq_id, venue, audit) == (True, "ord_9")
    assert (len(venue.seen), counted(sink, entry)) == (1, (True, 1))
    assert [(category, told["venue_order_id"]) for category, told in audit.events] == [("Annotation", "ord_9")]


def test_a_doubt_ends_when_the_venue_shows_that_it_refused_the_order(sink: DLQSink) -> None:
    entry, venue = written(sink), AskableVenue([TimeoutError("no answer"), "ord_2"])
    replay_order(sink, entry.dlq_id, venue)
    venue.found = an_order(client_order_id="cid-1", status="rejected")
    assert replay_order(sink, entry.dlq_id, venue) == (False, "found: rejected")
    assert counted(sink, entry) == (False, 1)
    venue.found = None
    assert replay_order(sink, entry.dlq_id, venue) == (True, "ord_2")


@pytest.mark.parametrize("found", [None, RuntimeError("HTTP 500"), an_order(qty="7"), an_order(status="odd"), ["x"]])
def test_nothing_less_than_the_order_itself_ends_a_doubt(sink: DLQSink, found: Any) -> None:
    """Nor does its absence: whose account answers `find` is not on record."""
    entry, venue = written(sink), AskableVenue([TimeoutError("no answer"), "ord_2"])
    replay_order(sink, entry.dlq_id, venue)
    venue.found = found
    ok, detail = replay_order(sink, entry.dlq_id, venue)
    assert (ok, detail.split(":")[0], len(venue.seen)) == (False, "in-doubt", 1)


def test_an_order_that_is_found_ends_an_interrupted_submit_too(sink: DLQSink) -> None:
    entry, venue = written(sink), AskableVenue([KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        replay_order(sink, entry.dlq_id, venue)
    venue.found = OURS
    assert replay_order(sink, entry.dlq_id, venue) == (True, "ord_9")
    assert counted(sink, entry) == (True, 0)


def test_what_ended_the_doubt_is_on_record(sql_sink: SQL) -> None:
    entry, venue = written(sql_sink), AskableVenue([TimeoutError("no answer")])
    replay_order(sql_sink, entry.dlq_id, venue)
    venue.found = OURS
    replay_order(sql_sink, entry.dlq_id, venue)
    assert (len(venue.seen), counted(sql_sink, entry)) == (1, (True, 1))
    events = [json.loads(event.body) for event in in_store(sql_sink, lambda store: store.events(entry.dlq_id))]
    (settled,) = (event for event in events if event["kind"] == "reconcile")
    assert (settled["outcome"], settled["evidence"]) == ("accepted", "found: open")


def test_an_attempt_of_the_consoles_own_is_not_the_engines_to_settle(tmp_path: Path) -> None:
    """It may have gone to another account than the one the engine's venue asks."""
    with in_thread() as exchange, SQLiteDLQ(tmp_path / "orders.db") as sink:
        exchange.fault("accept_then_drop")
        entry = written(sink)
        console = Console(tmp_path, sink.url, exchange.url)
        assert console.inline("replay", entry.dlq_id, "--paper", "--json").row["outcome"] == "unknown"
        ok, detail = replay_order(sink, entry.dlq_id, AskableVenue(found=OURS, paper=True))
        assert (ok, detail.split(":")[0]) == (False, "in-doubt")


def test_a_sink_in_memory_says_how_its_doubt_ends() -> None:
    sink = InMemoryDLQ()
    entry = written(sink)
    replay_order(sink, entry.dlq_id, Venue([TimeoutError("no answer")]))
    _, detail = replay_order(sink, entry.dlq_id, Venue())
    assert detail.endswith("look at the venue, then mark it dismissed")

"""The verdict of an entry and its next step: by its state and last attempt, and only then by its first error."""

# ruff: noqa: E501 - a case is one line
from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from backends.records import Attempt, AuditEvent, Entry, State
from console.services.layout_fields import INTEGRATION, OUTBOX
from console.services.triage.advice import DEFAULT_KEYS, Advice, EntryPast, advise, next_step
from console.services.triage.marks import MarkFacts, UsualLimits
from console.services.triage.poison import Poison
from console.services.triage.triage import ClassifiedEntry
from tests.support.app import ERRORS, NOW

CANNOT = "ibkr cannot be asked by client order id: look there, then settle it"
UNSURE = ("MAY HAVE ARRIVED", "IN DOUBT", "IN FLIGHT")


def entry(state: State = "pending", error: str = ERRORS["429"], *, minutes: float = 3.0) -> Entry:
    captured = (NOW - timedelta(minutes=minutes)).isoformat()
    row = {"dlq_id": "dlq_1", "captured_at": captured, "venue_name": "alpaca", "error": error, "action_json": "{}"}
    return Entry("orders", "dlq_1", state, (0, False), (1,), tuple(row), tuple(row.values()))


def attempt(outcome: str | None, error: str | None = None, **given: Any) -> Attempt:
    made: dict[str, Any] = {
        "entry_id": "dlq_1",
        "attempt_no": 1,
        "mode": "paper",
        "venue": "alpaca",
        "client_order_id": "cid-1",
        "payload_hash": "0" * 64,
        "outcome": outcome,
        "venue_order_id": "61e69015" if outcome == "accepted" else None,
        "error": error,
        "started_at": (NOW - timedelta(minutes=6)).isoformat(),
        "finished_at": None,
        "operator": "oncall",
        "os_user": "oncall",
    }
    return Attempt(**made | given)


def event(kind: str, **body: object) -> AuditEvent:
    made = {"kind": kind, "at": (NOW - timedelta(minutes=4)).isoformat(), "who": {"operator": "operator-a"}} | body
    return AuditEvent(1, json.dumps(made).encode(), b"")


def facts(*, poison: bool = False) -> MarkFacts:
    bad = {"dlq_1": Poison(entry(), 3, "HTTP 429")} if poison else {}
    return MarkFacts(bad, NOW, UsualLimits())


class Case(NamedTuple):
    state: State
    error: str
    attempts: Sequence[Attempt]
    verdict: str
    told: str  # is among the facts
    step: str  # is part of the next step
    events: Sequence[AuditEvent] = ()
    marks: MarkFacts | None = None
    minutes: float = 3.0


REJECTED = attempt("rejected", "HTTP 422: insufficient day trading buying power")
DOUBTED = attempt("unknown", "ReadTimeout: no answer in 10 s", attempt_no=2)
ACCEPTED = attempt("accepted")
LIVE = attempt("accepted", mode="live", attempt_no=2)
REHEARSED = attempt("accepted", rehearsal=True)
CASES = {
    # No attempt: the engine's error decides, by category and reach.
    "rate limit": Case("pending", ERRORS["429"], (), "NEVER SENT", "transient", "replay (R) when the venue is ready"),
    "refused connection": Case("pending", ERRORS["refused"], (), "NEVER SENT", "transient", "replay (R)"),
    "timeout": Case("pending", ERRORS["timeout"], (), "MAY HAVE ARRIVED", "transient", "ask the venue first (C)"),
    "reset": Case("pending", ERRORS["reset"], (), "MAY HAVE ARRIVED", "transient", "ask the venue first (C)"),
    "funds": Case("pending", ERRORS["funds"], (), "REFUSED BY THE VENUE", "business", "dismiss (D)"),
    "closed": Case("pending", ERRORS["closed"], (), "REFUSED BY THE VENUE", "business", "dismiss (D) as market-closed"),
    "keys": Case("pending", ERRORS["auth"], (), "NO ORDER STANDS", "integration", "dlq secrets check alpaca --paper"),
    "keys refused at a try": Case(
        "pending", ERRORS["429"], (attempt("rejected", "40110000: request is not authorized", mode="live"),),
        "REFUSED BY THE VENUE", "40110000", "dlq secrets set alpaca --live sets others; then replay (R)",
    ),
    "schema": Case("pending", ERRORS["schema"], (), "NO ORDER STANDS", "schema", "dismiss (D)"),
    "unknown words": Case("pending", "zebra", (), "MAY HAVE ARRIVED", "integration", "(C)"),
    "no error": Case("pending", "", (), "MAY HAVE ARRIVED", "integration", "(C)"),
    # A try that ended counts for more than the error before it.
    "rejected": Case("pending", ERRORS["timeout"], (REJECTED,), "REFUSED BY THE VENUE", "buying power", "dismiss (D)"),
    "rejected in words nobody knows": Case(
        "pending", ERRORS["429"], (attempt("rejected", "zebra"),), "REFUSED BY THE VENUE", "zebra", "read the reason"
    ),
    "not sent, slowed down": Case(
        "pending", ERRORS["timeout"], (attempt("not_sent", "HTTP 429: too many requests"),), "NOT SENT", "429",
        "replay (R) when the venue is ready",
    ),
    "proven absent": Case(
        "pending", ERRORS["timeout"], (attempt("not_sent", "the venue does not show it, after its window"),),
        "NOT SENT", "does not show it", "replay (R) sends it",
    ),
    "taken back": Case("pending", ERRORS["429"], (ACCEPTED,), "RESTORED", "try 1 PAPER accepted", "replay (R)"),
    "a try, then the newest": Case(
        "pending", ERRORS["429"], (attempt("not_sent", "HTTP 429"), REJECTED), "REFUSED BY THE VENUE", "422", "(D)"
    ),
    # A rehearsal changes nothing of the entry.
    "rehearsed": Case("pending", ERRORS["429"], (REHEARSED,), "NEVER SENT", "rehearsal accepted", "replay (R) in live"),
    "a rehearsal in doubt": Case(
        "pending", ERRORS["429"], (attempt("unknown", rehearsal=True),), "NEVER SENT", "in doubt", "C asks the venue"
    ),
    "a rehearsal was refused": Case(
        "pending", ERRORS["timeout"], (attempt("rejected", "no such market", rehearsal=True),), "MAY HAVE ARRIVED",
        "no such market", "(C)",
    ),
    # Marks
    "poison": Case("pending", ERRORS["429"], (), "NEVER SENT", "poison", "restore (U)", marks=facts(poison=True)),
    "poison that may have arrived": Case(
        "pending", ERRORS["timeout"], (), "MAY HAVE ARRIVED", "poison", "restore (U)", marks=facts(poison=True)
    ),
    "stale": Case("pending", ERRORS["429"], (), "NEVER SENT", "stale", "replay (R)", marks=facts(), minutes=60),
    "not stale": Case("pending", ERRORS["429"], (), "NEVER SENT", "transient", "replay (R)", marks=facts()),
    # In doubt
    "in doubt": Case("in_doubt", ERRORS["429"], (DOUBTED,), "IN DOUBT", "no answer in 10 s", "C asks the venue, S "),
    "in doubt after a rejection": Case("in_doubt", ERRORS["429"], (REJECTED, DOUBTED), "IN DOUBT", "try 2", "S settles"),
    "in doubt, attempts unread": Case("in_doubt", ERRORS["429"], (), "IN DOUBT", "", "C asks the venue"),
    "conflict": Case(
        "in_doubt", ERRORS["429"], (attempt("unknown", "conflict: quantity 99 there, 36 here"),), "IN DOUBT",
        "quantity 99 there", "settle (S) by what you saw",
    ),
    "cannot be asked": Case(
        "in_doubt", ERRORS["429"], (DOUBTED,), "IN DOUBT", "cannot be asked", "settle (S)",
        events=(event("lookup", note=f"look-up failed: {CANNOT}"),),
    ),
    "no keys": Case(
        "in_doubt", ERRORS["429"], (DOUBTED,), "IN DOUBT", "dlq secrets set", "fix the keys as said here; C asks the venue then",
        events=(event("lookup", note="look-up failed: no credentials: dlq secrets set kalshi --paper"),),
    ),
    "asked, then sent again": Case(
        "in_doubt", ERRORS["429"], (DOUBTED,), "IN DOUBT", "no answer in 10 s", "C asks",
        events=(event("lookup", note=f"look-up failed: {CANNOT}"), event("outcome", outcome="unknown")),
    ),
    # In flight
    "in flight": Case(
        "in_flight", ERRORS["429"], (attempt(None, lease_until=NOW.timestamp() + 30),), "IN FLIGHT", "by oncall", "wait"
    ),
    "its owner is gone": Case(
        "in_flight", ERRORS["429"], (attempt(None, lease_until=NOW.timestamp() - 1),), "IN FLIGHT", "its owner is gone",
        "C asks the venue, S settles it",
    ),
    # Settled
    "replayed on paper": Case("replayed", ERRORS["timeout"], (ACCEPTED,), "REPLAYED", "order 61e69015", "restore (U)"),
    "replayed live": Case("replayed", ERRORS["429"], (ACCEPTED, LIVE), "REPLAYED", "LIVE 6m ago by oncall", "stands at"),
    "replayed, attempts unread": Case("replayed", ERRORS["429"], (), "REPLAYED", "", "accepted"),
    "dismissed": Case(
        "dismissed", ERRORS["timeout"], (), "DISMISSED", "by operator-a 4m ago", "restore (U)",
        events=(event("dismiss", reason="bad-order", note="a text"),),
    ),
    "dismissed, with the reason": Case(
        "dismissed", ERRORS["429"], (), "DISMISSED", "bad-order: a text", "restore (U)",
        events=(event("dismiss", reason="stale"), event("restore"), event("dismiss", reason="bad-order", note="a text")),
    ),
    "dismissed elsewhere": Case("dismissed", ERRORS["429"], (), "DISMISSED", "not from this console", "restore (U)"),
}  # fmt: skip


def advice(case: Case, **keys: str) -> Advice:
    row = ClassifiedEntry(entry(case.state, case.error, minutes=case.minutes), case.marks)
    return advise(row, EntryPast(case.attempts, case.events, NOW), {**DEFAULT_KEYS, **keys})


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_and_the_next_step(name: str) -> None:
    case = CASES[name]
    told = advice(case)
    assert told.verdict == case.verdict
    assert case.told in " · ".join(told.facts)
    assert case.step in told.step
    if name == "not stale":
        assert "stale" not in told.facts


@pytest.mark.parametrize("state", ["in_doubt", "in_flight", "replayed"])
@pytest.mark.parametrize("error", sorted(ERRORS))
def test_what_was_sent_again_is_never_called_unsent(state: State, error: str) -> None:
    """Whatever the first error proved: a later try may stand at the venue, or does."""
    outcome = {"in_doubt": "unknown", "in_flight": None, "replayed": "accepted"}[state]
    told = advise(ClassifiedEntry(entry(state, ERRORS[error])), EntryPast((attempt(outcome),), now=NOW))
    assert told.verdict not in ("NEVER SENT", "NOT SENT", "NO ORDER STANDS", "REFUSED BY THE VENUE")


def test_the_step_names_the_keys_as_they_are_remapped() -> None:
    moved = {"reconcile": "ctrl+a", "settle": "F5", "replay": "r"}
    assert advice(CASES["in doubt"], **moved).step.startswith("ctrl+a asks the venue, F5 settles it")
    assert "replay (r) when" in advice(CASES["rate limit"], **moved).step
    assert "ask the venue first (ctrl+a)" in advice(CASES["timeout"], **moved).step


def test_every_step_of_an_open_entry_names_a_key() -> None:
    for name, case in CASES.items():
        step = advice(case, replay="<r>", dismiss="<d>", reconcile="<c>", settle="<s>", restore="<u>").step
        if case.state in ("pending", "in_doubt") and "dlq secrets" not in step:
            assert "<" in step, name


@pytest.mark.parametrize("layout", [OUTBOX, INTEGRATION])
@pytest.mark.parametrize("state", ["pending", "in_doubt", "replayed", "dismissed"])
def test_messages_and_calls_have_no_venue_to_ask(layout: str, state: State) -> None:
    made = Entry(layout, "7", state, (), (7,), ("id",), (7,))
    told = advise(ClassifiedEntry(made), EntryPast(now=NOW))
    assert told.verdict not in UNSURE or state == "in_doubt"
    assert "venue" not in told.step
    assert next_step(ClassifiedEntry(made)) == told.step

"""Audit lines: act, entry, who, outcome and why of every kind of event, each in one line of the width there is."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.records import AuditEvent
from console.render.evidence.event import event_lines, timeline, trail_line
from console.render.line import plain, width
from console.services.triage.trail import TrailRow, event_body
from console.services.triage.trail_filter import parse_trail_filter

ENTRY = "dlq_9f31c2a07be4d518"
_ANN = {"operator": "oncall", "os_user": "ann", "host": "desk1", "program": "dlq", "db_role": ""}


def event(kind: str, **more: Any) -> AuditEvent:
    body = {"kind": kind, "at": "2026-04-18T14:51:12+00:00", "who": _ANN, "reason": None, "note": None, **more}
    return AuditEvent(7, json.dumps(body).encode(), b"")


def shown(one: AuditEvent, size: int = 140, about: str | None = None) -> str:
    day, text = event_lines([one], size, about=about)
    assert plain(day) == "2026-04-18, UTC"
    return plain(text)


SENT = {"entries": [ENTRY], "attempt_no": 2, "reason": "replay"}
SETTLED = SENT | {"reason": "settle", "note": "seen"}


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (event("intent", **SENT, mode="live", venue="alpaca"), ("replay", ENTRY, "LIVE alpaca", "try 2")),
        (event("intent", **SENT, mode="paper", venue="kalshi", rehearsal=True), ("PAPER kalshi", "rehearsal")),
        (
            event("outcome", **SENT, outcome="unknown", error="ReadTimeout"),
            ("outcome", ENTRY, "in doubt · ReadTimeout"),
        ),
        (event("outcome", **SENT, outcome="accepted", venue_order_id="o-1"), ("accepted · order o-1",)),
        (event("outcome", **SENT, outcome="not_sent", error="HTTP 429"), ("not sent · HTTP 429",)),
        (event("reconcile", **SENT, outcome="rejected", evidence="seen"), ("reconcile", "rejected · seen")),
        (
            event("reconcile", **SETTLED, outcome="accepted", evidence="settled by oncall: seen"),
            ("settle", ENTRY, "accepted · seen"),
        ),
        (event("late-outcome", **SENT, outcome="accepted"), ("late", "accepted")),
        (event("lookup", entries=[ENTRY], reason="reconcile", note="not there yet"), ("look-up", "not there yet")),
        (
            event("dismiss", entries=[[ENTRY, 0, 0]], reason="bad-order", note="sent a text"),
            ("dismiss", ENTRY, "bad-order · sent a text"),
        ),
        (event("dismiss", entries=[["a", 0], ["b", 0]], reason="stale"), ("dismiss", "2 entries", "stale")),
        (event("restore", entries=[[ENTRY, 0, 1]]), ("restore", ENTRY)),
        (event("note", entries=[ENTRY], note="first\n\nlast"), ("note", "first ↵ last")),
        (event("halt", entries=[], note="runaway"), ("halt", "the store", "runaway")),
        (event("resume", entries=[], note="fixed"), ("resume", "the store", "fixed")),
        (
            event("ask-approval", entries=[], plan="64cd", summary="1 live order"),
            ("ask", "64cd", "1 live order"),
        ),
        (event("approve", entries=[], plan="64cd", asked_by="bob"), ("approve", "64cd", "asked by bob")),
        (event("refused-approval", entries=[], plan="64cd", asked_by="bob"), ("refused", "64cd", "approval")),
        (
            event("refused-dismiss", entries=[ENTRY], reason="refused", note="in doubt"),
            ("refused", "dismiss · in doubt"),
        ),
    ],
)
def test_a_line_names_act_entry_who_outcome_and_why(one: AuditEvent, words: tuple[str, ...]) -> None:
    text = shown(one)
    assert text.startswith("    7 14:51:12")
    for word in (*words, "oncall (ann)"):
        assert word in text


def test_what_a_person_settled_is_told_once_and_named_so_in_the_list_the_timeline_and_the_filter() -> None:
    settled = event("reconcile", **SETTLED, outcome="accepted", evidence="settled by oncall: seen")
    asked = event("reconcile", **SENT, outcome="accepted", evidence="found: filled")
    row = TrailRow(settled.seq, event_body(settled), 1)
    for text in (shown(settled), plain(trail_line(row, 140)), plain(timeline(None, (), [settled])[-1])):
        assert re.search(r"\bsettled?\b", text)
        assert "reconcile" not in text
        assert text.count("seen") == 1
    assert "reconcile" in shown(asked)
    for text, which in (("kind:settle", [settled]), ("kind:reconcile", [settled, asked]), ("kind:withdrawn", [])):
        query = parse_trail_filter(text, datetime.now(UTC))
        assert [one for one in (settled, asked) if query.matches(event_body(one), None)] == which


def test_at_80_columns_both_ends_of_the_id_and_the_outcome_are_there() -> None:
    text = shown(event("outcome", **SENT, outcome="unknown", error="ReadTimeout: no answer in 10 s"), 76)
    assert "dlq_9f…e4d518  oncall    in doubt · ReadTimeout" in text


def test_of_one_entry_the_column_is_left_out_and_the_others_are_counted() -> None:
    text = shown(event("dismiss", entries=[[ENTRY, 0], ["x", 0], ["y", 0]], reason="stale"), 76, about=ENTRY)
    assert ENTRY not in text
    assert "stale · with 2 others" in text


def test_what_is_no_event_is_shown_as_malformed() -> None:
    assert "malformed" in plain(event_lines([AuditEvent(1, b"\xff{", b"")], 76)[1])


_BODIES = st.dictionaries(
    st.sampled_from(
        ["kind", "at", "who", "entries", "reason", "note", "outcome", "error", "plan", "attempt_no", "mode"]
    ),
    st.none()
    | st.integers()
    | st.text(max_size=20)
    | st.lists(st.text(max_size=5) | st.lists(st.integers(), max_size=2)),
)


@given(_BODIES, st.integers(20, 160), st.booleans())
def test_any_body_is_one_line_no_wider_than_the_screen(body: dict[str, Any], size: int, named: bool) -> None:
    one = AuditEvent(3, json.dumps(body).encode(), b"")
    lines = event_lines([one], size, about=None if named else "x")
    assert 1 <= len(lines) <= 2
    assert width(lines[-1]) <= size
    assert "\n" not in plain(lines[-1])


@pytest.mark.parametrize(("asked_by", "says"), [("root|", "asked by root"), ("ann|ops", "asked by ann, as role ops")])
def test_who_asked_is_named_without_a_stray_sign(asked_by: str, says: str) -> None:
    text = shown(event("approve", entries=[], plan="64cd", asked_by=asked_by))
    assert text.endswith(says)
    assert "|" not in text

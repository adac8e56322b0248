"""Credentials in an order's error are shown nowhere; the row, and an archive of it, keep what was stored."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backends.layouts.mask import MASKED
from backends.records import Attempt, AuditEvent, Entry
from backends.store import Result
from console.cli.printing.output import event_line
from console.render.entry import Shown, tab_lines, whole_text
from console.render.entry_json import event_pairs
from console.render.evidence.event import event_lines
from console.render.evidence.settlement import SettleDraft, settle_lines
from console.render.value import error_head
from console.screens.export import _entry as copied
from console.services.triage.triage import classified
from tests.cli.conftest import Dlq, Make, fetch
from tests.support.orders import row

SIGNATURE = "4f0c9d3e" * 8
ERROR = f"binance GET https://api.binance.com/api/v3/order?symbol=BTCUSDT&timestamp=17&signature={SIGNATURE} 401"
SHOWN = ERROR.replace(SIGNATURE, MASKED)
NOW = datetime(2026, 4, 18, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    "words",
    ["list", "list --json", "show dlq_0000000000000001", "show dlq_0000000000000001 --json", "export --format csv",
     "export --format jsonl", "groups", "groups --json", "report --since 999999h", "report --since 999999h --json",
     "metrics", "check", "check --json", "list --search api/v3/order"],
)  # fmt: skip
def test_no_verb_prints_a_signature(dlq: Dlq, make: Make, words: str) -> None:
    target = make([row(1, error=ERROR), row(2)])
    ran = dlq(*words.split(), "--db", target)
    assert ran.code in (0, 1)
    assert SIGNATURE[:12] not in ran.out + ran.err
    if words.startswith(("list", "show", "export")):
        assert f"signature={MASKED} 401" in ran.out
    assert fetch(target, "SELECT error FROM order_dlq WHERE dlq_id LIKE '%1'") == [(ERROR,)]


def test_values_as_stored_but_for_the_secret(dlq: Dlq, make: Make) -> None:
    target = make([row(1, error=ERROR)])
    (shown,) = dlq("list", "--json", "--db", target).rows
    assert shown["error"] == SHOWN


def test_the_stored_text_is_searched(dlq: Dlq, make: Make) -> None:
    target = make([row(1, error=ERROR), row(2)])
    assert len(dlq("list", "--json", "--search", SIGNATURE, "--db", target).rows) == 1


def test_an_archive_keeps_the_evidence(dlq: Dlq, make: Make, tmp_path: Path) -> None:
    target, out = make([row(1, error=ERROR)]), tmp_path / "old.zip"
    assert dlq("archive", "--db", target, "--before", "2027-01-01", "--out", str(out)).code == 0
    with zipfile.ZipFile(out) as bundle:
        assert json.loads(bundle.read("entries.jsonl"))["row"]["error"] == ERROR


def test_no_screen_shows_a_signature() -> None:
    values = row(1, error=ERROR)
    entry = Entry("orders", "dlq_1", "pending", (), (1,), tuple(values), tuple(values.values()))
    shown = Shown(classified(entry))
    pane = "".join(cell.text for line in tab_lines(shown, 0, NOW, size=200) for cell in line)
    for text in (pane, whole_text(shown, NOW), error_head(entry, 300), classified(entry).title, copied(entry)):
        assert SIGNATURE[:12] not in text
    assert SHOWN in pane


def test_what_was_recorded_before_is_masked_as_it_is_shown() -> None:
    body = {"kind": "outcome", "at": NOW.isoformat(), "error": ERROR, "evidence": ERROR, "note": ERROR, "n": 1}
    event = AuditEvent(1, json.dumps(body).encode(), b"")
    assert event_pairs(event) == {**body, "error": SHOWN, "evidence": SHOWN, "note": SHOWN, "seq": 1, "hash": ""}
    lines = "".join(cell.text for line in event_lines([event], 400) for cell in line)
    assert SIGNATURE[:12] not in event_line(event) + lines
    values = row(1)
    entry = Entry("orders", "dlq_1", "in_doubt", (), (1,), tuple(values), tuple(values.values()))
    attempt = Attempt("dlq_1", 1, "paper", "x", "c", "", "unknown", None, ERROR, NOW.isoformat(), None, "o", "o")
    gate = "".join(cell.text for line in settle_lines(entry, attempt, SettleDraft(), NOW) for cell in line)
    assert SIGNATURE[:12] not in gate


def test_what_we_record_ourselves_holds_none() -> None:
    made = Result("unknown", error=f"unknown: {ERROR}", evidence=ERROR)
    assert (made.error, made.evidence) == (f"unknown: {SHOWN}", SHOWN)

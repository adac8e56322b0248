"""What waits for a second person is read from a row that others may have written: nothing in it ends in a bug."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from backends.records import Approval
from console import clock
from console.cli.results import say_waiting
from console.render.gates.waiting import waiting_choice, waiting_line, waiting_page, waiting_row_lines
from console.render.line import plain
from console.services.json_lines import json_line
from console.services.triage.approvals import waiting_plan

ODD = (
    "",
    "{",
    "[" * 100_000,
    "[]",
    "null",
    '{"rows": 3, "gross": [], "mode": {}}',
    '{"rows": [1, null, {"order": 7, "guards": {"a": 1}}], "gross": {"USD": "many", "EUR": null, "JPY": "5"}}',
    '{"orders": [{"order": {"action": {}, "side": [1]}, "guards": [1, {}], "notional": {}}], "gross": {"A": "NaN"}}',
    '{"mode": "\\u001b[2J", "rows": [{"dlq_id": "\\u001b[2J"}]}',
    '{"rows": [{"dlq_id": "x", "\\u001b[2J": 1, "order": {"\\u001b[2J": "\\u001b"}, "venue": "\\u001b", "host": {}}]}',
)


@pytest.mark.parametrize("document", ODD)
@pytest.mark.parametrize("asked_at", [0.0, 1e9, -5.0, 1e300, float("inf"), float("nan")])
def test_whatever_the_row_holds_it_is_told(document: str, asked_at: float, capsys: pytest.CaptureFixture[str]) -> None:
    plan = waiting_plan(Approval("h", "ann|role", "s", None, None, asked_at=asked_at, document=document))
    json.loads(json_line(plan.row))
    say_waiting(plan)
    now = clock.now()
    page = waiting_page(plan, now)
    opened = [one for row in page if row.entry_id is not None for one in waiting_row_lines(plan, row.entry_id)]
    painted = [waiting_choice(plan, "waits for you", now), *(row.line for row in page), *opened]
    assert "\x1b" not in capsys.readouterr().err + waiting_line(plan) + "".join(map(plain, painted))


def test_amounts_keep_their_digits() -> None:
    document = (
        '{"mode": "live", "gross": {"USD": "18000.10"}, "orders": {"a": "hash"}, "rows": [{"notional": 18000.10}]}'
    )
    plan = waiting_plan(Approval("h", "ann|role", "s", None, None, document=document))
    assert (plan.gross, plan.mode, plan.asked_by, len(plan.orders)) == ({"USD": Decimal("18000.10")}, "live", "ann", 1)
    assert '"notional": 18000.10' in json_line(plan.row)


def test_a_row_of_the_list_tells_how_much_within_eighty_columns() -> None:
    document = (
        '{"mode": "live", "kind": "replay", "gross": {"USD": "18000.10"}, "rows": [{"dlq_id": "a"}, {"dlq_id": "b"}]}'
    )
    at = clock.now()
    plan = waiting_plan(Approval("7f3a", "ann|role", "s", None, None, asked_at=at.timestamp(), document=document))
    assert "2 orders  18,000.10 USD" in plain(waiting_choice(plan, "waits for you", at))[:76]

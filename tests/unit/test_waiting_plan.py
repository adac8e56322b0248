"""What waits for a second person is read from a row that others may have written: nothing in it ends in a bug."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from dlq_sink.terms import TERMS
from hypothesis import given
from hypothesis import strategies as st

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
    '{"rows": [{"as": "absent", "note": "\\u001b[2J", "attempt_no": {}, "venue_order_id": ["\\u001b"]}]}',
    '{"rows": [{"dlq_id": "x", "\\u001b[2J": 1, "order": {"\\u001b[2J": "\\u001b"}, "venue": "\\u001b", "host": {}}]}',
)


_HELD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([Decimal("1E+999999"), "1e400"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from((*TERMS, "action", "market_id", "side", "quantity", "order_type", "price", "params", "\x1b"))
_ORDERS = st.dictionaries(_NAMES, _HELD, max_size=6).flatmap(
    lambda order: st.sampled_from(({}, {"action": "new", "quantity": 1, "order_type": "limit"})).map(order.__or__)
)


@given(_ORDERS, _HELD, _HELD)
def test_whatever_an_order_holds_its_row_is_short_and_inert(
    order: dict[str, Any], quote: object, worth: object
) -> None:
    row = {"dlq_id": "a", "order": order, "quote": quote, "notional": worth, "position": quote, "drift": worth}
    plan = replace(waiting_plan(Approval("h", "ann|role", "s", None, None)), orders=(row,))
    text = "".join(plain(one.line) for one in waiting_page(plan, clock.now()))
    assert "\x1b" not in text
    assert len(text) < 5000


@pytest.mark.parametrize("order", [{"price": 5}, {"quantity": 3, "price": 5}], ids=["terms", "no-type"])
def test_an_order_that_names_only_some_terms_is_not_read_as_a_market_order(order: dict[str, Any]) -> None:
    row = {"dlq_id": "a", "order": {"action": "replace", **order}, "venue": "alpaca"}
    plan = replace(waiting_plan(Approval("h", "ann|role", "s", None, None)), orders=(row,))
    text = "".join(plain(one.line) for one in waiting_page(plan, clock.now()))
    assert "price=5" in text
    assert "market" not in text


@pytest.mark.parametrize(("claimed", "order"), [("accepted", "61e69015-8549"), ("absent", None)])
def test_a_settlement_is_told_in_words_on_the_screen_and_on_a_terminal(
    claimed: str, order: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    row: dict[str, Any] = {
        "dlq_id": "dlq_1",
        "outcome": "planned",
        "venue_order_id": order,
        "client_order_id": "cid-20",
        "notes": [],
    }
    row |= {"mode": "live", "account": "PA3X", "guards": [], "attempt_no": 2, "venue": "alpaca", "as": claimed}
    document = json.dumps({"mode": "live", "orders": [row | {"note": "seen on the broker's page"}]})
    plan = waiting_plan(Approval("7f3a", "ann|role", "s", None, None, kind="settle", document=document))
    say_waiting(plan)
    page = "\n".join(plain(one.line) for one in waiting_page(plan, clock.now()))
    for text in (page, capsys.readouterr().err):
        for word in (
            f"settle as {claimed}",
            "alpaca · account PA3X",
            "try 2",
            "id cid-20",
            "seen on the broker's page",
        ):
            assert word in text
        assert (f"order {order}" in text) is (order is not None)
        assert not {"planned", "notes", "guards", "attempt_no"} & set(re.findall(r"\w+", text))
    assert "a settlement asked by ann" in page


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


@pytest.mark.parametrize(("asked_by", "says"), [("root|", "by root"), ("root|desk_a", "by root, as role desk_a")])
def test_who_asked_is_told_with_the_role_that_counts(asked_by: str, says: str) -> None:
    """Several people may share an OS user; on Postgres the role that logged in tells them apart."""
    plan = waiting_plan(Approval("h", asked_by, "s", None, None, asked_at=clock.now().timestamp()))
    assert f"{says}, until" in waiting_line(plan)
    assert f"{says} 0s ago" in "".join(plain(row.line) for row in waiting_page(plan, clock.now()))
    assert plan.row["asked_by"] == "root"


@pytest.mark.parametrize("asker", ["ann", "operator-a", "a-very-long-login-name"])
def test_a_row_of_the_list_fits_eighty_columns(asker: str) -> None:
    """How much, whose, how old, how long it still waits, and where to; how it stands is its mark there."""
    rows = [{"dlq_id": "a"}, {"dlq_id": "b"}]
    places = {"a": {"venue": "alpaca", "account_id": "main"}, "b": {"venue": "alpaca", "account_id": "main"}}
    told = {"mode": "live", "gross": {"USD": "298210.10"}, "rows": rows, "places": places}
    at = clock.now()
    asked_at = (at - timedelta(minutes=2)).timestamp()
    asked = Approval("7f3a", f"{asker}|role", "s", None, None, asked_at=asked_at, document=json.dumps(told))
    plan = waiting_plan(asked)
    row = plain(waiting_choice(plan, "waits for you", at, 76))
    shown = {"a-very-long-login-name": "a-very…-name"}.get(asker, asker)
    assert row == f" ● 7f3a LIVE  2 orders 298k USD  {shown} 2m ago, 3:00 left  alpaca main"
    assert len(row) <= 76
    assert plain(waiting_choice(plan, "waits for you", at, 116)).endswith(
        f" {asker} 2m ago, 3:00 left  alpaca main  waits for you"
    )

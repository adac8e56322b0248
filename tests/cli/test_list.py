"""list, show, export: Horizon's lines to the letter, values as stored, filters, streaming order."""

from __future__ import annotations

import csv
import gc
import io
import json
from pathlib import Path

import pytest

from backends.layouts import orders
from tests.cli.conftest import Dlq, Make, fetch
from tests.support.orders import row, sqlite_store

COLUMNS = set(orders.COLUMNS)


def test_the_plain_list_is_horizons(dlq: Dlq, make: Make) -> None:
    target = make([row(1), row(2, price=None, quantity=0.30000000000000004, side="sell", error="a\x1b[2Jb\nc")])
    ran = dlq("list", "--db", target)
    assert ran.code == 0
    assert ran.out == (
        "dlq_0000000000000001  2026-04-18T14:32:16Z  alpaca  buy 100 AAPL @ 180.0  [pending, retries=0]\n"
        "  error: RuntimeError: HTTP 429 after 3 attempts\n"
        "dlq_0000000000000002  2026-04-18T14:32:17Z  alpaca  sell 0.30000000000000004 AAPL @ market  "
        "[pending, retries=0]\n"
        "  error: a<1B>[2Jb<0A>c\n"
    )


def test_json_rows_carry_the_fourteen_columns_and_seven_more(dlq: Dlq, make: Make) -> None:
    target = make([row(1, quantity=1e-12, price=0.30000000000000004, account_id=None)])
    ran = dlq("list", "--db", target, "--json")
    (only,) = ran.rows
    assert COLUMNS | {"state", "category", "fingerprint", "notional", "currency", "origin", "marks"} == set(only)
    assert only["quantity"] == 1e-12
    assert "0.30000000000000004" in ran.out
    assert only["account_id"] is None
    assert only["dismissed"] is False
    assert (only["state"], only["category"]) == ("pending", "transient")


TYPED = (
    "CREATE TABLE q (dlq_id text, captured_at text, venue_name text, market_id text, side text, quantity {kind}, "
    "price {kind}, error text, dismissed integer NOT NULL, action_json text)",
    "INSERT INTO q VALUES ('a', '2026-04-18T14:32:15Z', 'alpaca', 'AAPL', 'buy', '100.00', '0.00000012', 'e', 0, '')",
)


@pytest.mark.parametrize(("engine", "kind"), [("sqlite", "text"), ("postgres", "text"), ("postgres", "numeric")])
def test_numbers_of_other_types_keep_their_own_digits(
    request: pytest.FixtureRequest, dlq: Dlq, tmp_path: Path, engine: str, kind: str
) -> None:
    target = str(tmp_path / "q.db") if engine == "sqlite" else request.getfixturevalue("postgres_db")
    for statement in TYPED:
        fetch(target, statement.format(kind=kind))
    assert "buy 100 AAPL @ 0.00000012  [" in dlq("list", "--db", target).out
    shown = dlq("list", "--db", target, "--json")
    assert "0.00000012" in shown.out
    assert "100.00" in shown.out
    assert "malformed" not in shown.rows[0]


def test_settled_entries_are_hidden_without_all(dlq: Dlq, make: Make) -> None:
    target = make([row(1), row(2, dismissed=True)])
    assert [one["dlq_id"][-1] for one in dlq("list", "--db", target, "--json").rows] == ["1"]
    everything = dlq("list", "--db", target, "--json", "--all").rows
    assert [(one["dlq_id"][-1], one["state"]) for one in everything] == [("1", "pending"), ("2", "dismissed")]


def test_insertion_order_without_a_limit(dlq: Dlq, tmp_path: Path) -> None:
    rows = [row(number, captured_at=f"2026-04-{30 - number % 29:02}T00:00:00Z") for number in range(1, 1203)]
    target = sqlite_store(tmp_path / "many.db", rows)
    listed = [one["dlq_id"] for one in dlq("list", "--db", target, "--json").rows]
    assert listed == [one["dlq_id"] for one in rows]
    assert len(dlq("list", "--db", target, "--json", "--limit", "7").rows) == 7


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--venue", "kalshi"), "2"),
        (("--account", "hedge"), "3"),
        (("--market", "MSFT"), "4"),
        (("--side", "sell"), "5"),
        (("--category", "business"), "6"),
        (("--search", "uniq_e%"), "7"),
        (("--since", "2026-04-18T14:32:23Z"), "8"),
        (("--until", "2026-04-18T14:32:17Z"), "1"),
    ],
)
def test_filters(dlq: Dlq, make: Make, words: tuple[str, ...], expected: str) -> None:
    target = make(
        [
            row(1),
            row(2, venue_name="kalshi"),
            row(3, account_id="hedge"),
            row(4, market_id="MSFT"),
            row(5, side="sell"),
            row(6, error='APIError: {"code":40310000,"message":"insufficient buying power"}'),
            row(7, error="RuntimeError: UNIQ_E%: HTTP 429 after 3 attempts"),
            row(8),
        ]
    )
    assert [one["dlq_id"][-1] for one in dlq("list", "--db", target, "--json", *words).rows] == [expected]


def test_a_group_is_a_filter(dlq: Dlq, make: Make) -> None:
    target = make([row(1), row(2, error="ReadTimeout: no answer in 10 s"), row(3)])
    group = dlq("list", "--db", target, "--json").rows[0]["fingerprint"]
    found = dlq("list", "--db", target, "--json", "--group", group).rows
    assert [one["dlq_id"][-1] for one in found] == ["1", "3"]


def test_show_is_one_object(dlq: Dlq, make: Make) -> None:
    target = make([row(1, retry_count=2)])
    assert dlq("dismiss", "dlq_0000000000000001", "--db", target, "--reason", "test").code == 0
    shown = dlq("show", "dlq_0000000000000001", "--db", target, "--json").rows[0]
    assert shown["entry"]["state"] == "dismissed"
    assert shown["attempts"] == []
    assert [event["kind"] for event in shown["audit"]] == ["dismiss"]
    assert shown["audit"][0]["who"]["os_user"]
    plain = dlq("show", "dlq_0000000000000001", "--db", target).out
    assert "2 earlier, not recorded" in plain
    assert "dismiss by" in plain


def test_an_unknown_id_is_bad_input(dlq: Dlq, make: Make) -> None:
    ran = dlq("show", "dlq_nope", "--db", make([row(1)]))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1


def test_export_csv_and_jsonl_agree_with_the_store(dlq: Dlq, make: Make) -> None:
    target = make([row(1, error='comma, "quote"\nline', price=None), row(2)])
    read = list(csv.DictReader(io.StringIO(dlq("export", "--db", target, "--format", "csv").out)))
    assert [one["error"] for one in read] == ['comma, "quote"\nline', "RuntimeError: HTTP 429 after 3 attempts"]
    assert (read[0]["price"], read[1]["price"]) == ("", "180.0")
    lines = dlq("export", "--db", target, "--format", "jsonl").rows
    assert [one["dlq_id"] for one in lines] == [one["dlq_id"] for one in read]


def test_a_cell_of_csv_is_no_formula_and_no_escape(dlq: Dlq, make: Make) -> None:
    texts = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "  =1", "a\x1b[2Jb", "-5", "-1.5e3"]
    target = make([row(number, error=text) for number, text in enumerate(texts, 1)])
    out = dlq("export", "--db", target, "--format", "csv").out
    found = [one["error"] for one in csv.DictReader(io.StringIO(out))]
    assert found == [*(f"'{text}" for text in texts[:5]), "a<1B>[2Jb", "-5", "-1.5e3"]
    assert "\x1b" not in out
    assert [one["error"] for one in dlq("export", "--db", target, "--format", "jsonl").rows] == texts, "as stored"


def test_an_export_has_every_state(dlq: Dlq, make: Make) -> None:
    target = make([row(1), row(2, dismissed=True)])
    for kind in ("csv", "jsonl"):
        out = dlq("export", "--db", target, "--format", kind).out
        assert all(one in out for one in ("dlq_0000000000000001", "dlq_0000000000000002")), kind
    only = dlq("export", "--db", target, "--format", "jsonl", "--state", "dismissed").rows
    assert [one["dlq_id"] for one in only] == ["dlq_0000000000000002"]


def test_looking_leaves_no_trace(dlq: Dlq, make: Make) -> None:
    target = make([row(1)])
    tables = (
        "SELECT count(*) FROM sqlite_master WHERE name LIKE 'console_%'"
        if "://" not in target
        else "SELECT count(*) FROM pg_namespace WHERE nspname = 'dlq_console'"
    )
    for words in (
        ("list",),
        ("show", "dlq_0000000000000001"),
        ("doctor",),
        ("audit", "verify"),
        ("export", "--format", "csv"),
    ):
        assert dlq(*words, "--db", target).code == 0
    assert fetch(target, tables) == [(0,)]


def test_doctor_reports(dlq: Dlq, make: Make) -> None:
    target = make([row(1)])
    report = json.loads(dlq("doctor", "--db", target, "--json", "--read-only").out)
    assert report["layout"] == "orders"
    assert report["table"] == "order_dlq"
    assert report["read_only"] is True
    assert report["read_only_enforced_by"] == "client"
    assert all(set(one) == {"code", "text", "remedy"} for one in report["findings"])


@pytest.mark.parametrize("words", [("list",), ("check",), ("help",), ("archive", "--verify", "nothing.zip")])
def test_garbage_is_collected_again_once_the_process_has_loaded(
    dlq: Dlq, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """The command starts without: a verb that stays would otherwise grow for as long as it runs."""
    target = sqlite_store(tmp_path / "orders.db", [row(1)])
    before = gc.get_threshold()
    gc.disable()
    try:
        dlq(*words, *(("--db", target) if words[0] in ("list", "check") else ()))
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
        gc.enable()

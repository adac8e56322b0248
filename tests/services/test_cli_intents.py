"""`dlq` on a store beside which an engine left intents open: what its outputs say, and what its verbs do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Console
from tests.support.exchange import Exchange, in_thread
from tests.support.intent import intent_row, make_intents, resolution, run_sql
from tests.support.orders import row, sqlite_store
from tests.support.session import ident


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


@pytest.fixture
def console(tmp_path: Path, exchange: Exchange) -> Any:
    def made(*intents: dict[str, Any], **given: Any) -> Console:
        target = sqlite_store(tmp_path / "orders.db", [row(1), row(2, dismissed=True)])
        make_intents(target, *intents)
        return Console(tmp_path, target, exchange.url, **given)

    return made


def left_open(number: int, **given: Any) -> dict[str, Any]:
    return intent_row(number, **{"venue_name": "alpaca", "price": 18.0, **given})


def test_every_output_knows_what_the_engine_left_open(console: Any) -> None:
    pool: Console = console(left_open(7), left_open(8, lease=600), left_open(9, market_id="MSFT"))
    listed = pool.inline("list", "--json").rows
    assert [(one["dlq_id"], one["state"], one["origin"]) for one in listed] == [
        (ident(1), "pending", "entry"), (ident(7), "in_doubt", "intent"), (ident(9), "in_doubt", "intent"),
    ]  # fmt: skip
    assert list(listed[1])[:14] == list(listed[0])[:14]
    assert (listed[1]["dismissed"], listed[1]["quantity"], listed[1]["price"]) == (False, 7.0, 18.0)
    assert f"{ident(7)}  " in pool.inline("list").out
    assert "buy 7 AAPL @ 18.0  [in_doubt, retries=0]" in pool.inline("list").out

    def ids(*words: str) -> list[str]:
        return [one["dlq_id"] for one in pool.inline("list", "--json", *words).rows]

    assert ids("--all") == [ident(1), ident(2), ident(7), ident(9)]
    assert ids("--limit", "2") == [ident(1), ident(7)]
    assert ids("--filter", "state:in_doubt market:msft") == [ident(9)]
    assert ids("--search", "engine ended") == [ident(7), ident(9)]
    assert ids("--filter", "!state:in_doubt") == [ident(1)]
    exported = [json.loads(line) for line in pool.inline("export", "--format", "jsonl").out.splitlines()]
    assert [one["dlq_id"] for one in exported] == [ident(1), ident(2), ident(7), ident(9)]
    shown = pool.inline("show", ident(7), "--json").row
    assert (shown["entry"]["state"], shown["entry"]["origin"], shown["attempts"]) == ("in_doubt", "intent", [])
    assert (shown["entry"]["owner"], shown["entry"]["host"]) == ("engine-1", "desk9")
    assert "  left open by engine-1 on desk9\n" in pool.inline("show", ident(7)).out
    assert "owner" not in listed[0]
    (group,) = [one for one in pool.inline("groups", "--json").rows if "engine ended" in one["title"]]
    assert (group["count"], group["states"]) == (2, {"in_doubt": 2})
    assert pool.inline("show", ident(8)).code == 2
    checked = pool.inline("check", "--json")
    assert (checked.code, "in-doubt" in checked.out) == (1, True)
    assert 'dlq_in_doubt{venue="alpaca"} 2' in pool.inline("metrics").out
    report = pool.inline("report", "--since", "8h", "--json").row
    assert [one["dlq_id"] for one in report["in_doubt"]] == [ident(7), ident(9)]
    assert "order_dlq_intent" in pool.inline("doctor").out
    refused = pool.inline("list", "--table", "order_dlq_intent")
    assert (refused.code, "not a dead-letter queue" in refused.err) == (2, True)
    assert pool.inline("dismiss", ident(7), "--reason", "stale", "--yes").code == 4
    assert pool.inline("replay", ident(7), "--paper").code == 4


def test_reconcile_adopts_what_arrived_and_frees_what_did_not(console: Any, exchange: Exchange) -> None:
    pool: Console = console(left_open(7), left_open(9))
    exchange.place(client_order_id="cid-7", symbol="AAPL", side="buy", qty="7", limit_price="18")
    assert pool.inline("reconcile", "--paper", "--json").outcomes == {ident(7): "accepted", ident(9): "not_sent"}
    assert resolution(pool.target, 7)[0]
    states = {one["dlq_id"]: (one["state"], one["origin"]) for one in pool.inline("list", "--all", "--json").rows}
    assert (states[ident(7)], states[ident(9)]) == (("replayed", "intent"), ("pending", "entry"))
    assert pool.inline("audit", "verify").code == 0
    assert pool.inline("check", "--json").out.count("in-doubt") == 0


def test_settle_asks_for_the_mode_where_the_store_has_none(console: Any) -> None:
    pool: Console = console(left_open(7))
    words = ("settle", ident(7), "--as", "absent", "--note", "looked", "--yes")
    ran = pool.inline(*words)
    assert (ran.code, "say --paper or --live" in ran.err) == (2, True)
    assert pool.inline(*words, "--paper").code == 0
    assert pool.inline("show", ident(7), "--json").row["entry"]["state"] == "pending"


def test_an_order_that_no_venue_can_be_asked_about_names_the_way_out(console: Any) -> None:
    pool: Console = console(left_open(7, client_order_id="two words"))
    asked = pool.inline("reconcile", ident(7), "--paper")
    assert (asked.code, f"dlq settle {ident(7)}" in asked.out) == (3, True)
    assert pool.inline("settle", ident(7), "--paper", "--as", "absent", "--note", "looked", "--yes").code == 0
    assert pool.inline("show", ident(7), "--json").row["entry"]["state"] == "pending"


@pytest.mark.parametrize(("words", "code"), [(("ask",), 4), (("reconcile",), 4)])
def test_the_other_mode_is_refused(console: Any, words: tuple[str, ...], code: int) -> None:
    pool: Console = console(left_open(7), store={"environment": "paper"})
    ran = pool.inline(*words, ident(7), "--live", "--json")
    assert (ran.code, "say --paper" in ran.out) == (code, True)
    assert resolution(pool.target, 7) == (False, None)


def test_intents_that_cannot_be_read_are_unknown_everywhere(console: Any) -> None:
    pool: Console = console(left_open(7))
    run_sql(pool.target, "ALTER TABLE order_dlq_intent RENAME COLUMN market_id TO market")
    checked = pool.inline("check", "--json")
    assert (checked.code, "ledger-unreadable" in checked.out) == (1, True)
    metrics = pool.inline("metrics").out
    assert "dlq_ledger_readable 0" in metrics
    assert "dlq_in_doubt{" not in metrics
    assert "unknown" in pool.inline("report", "--since", "8h").out
    assert "order_dlq_intent" in pool.inline("list").err
    assert "without the column market_id" in pool.inline("doctor").out
    assert pool.inline("replay", ident(1), "--paper").code == 4

"""Terms, values and the market as `dlq replay` tells them: the dry run's rows, the refusals, and what the venue got."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Console
from tests.support.exchange import Exchange, in_thread
from tests.support.orders import row, sqlite_store
from tests.support.session import ident

DRY = ["order", "notional", "currency", "quote", "drift", "position", "guards"]


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


@pytest.fixture
def console(tmp_path: Path, exchange: Exchange) -> Any:
    def made(rows: list[dict[str, Any]], **given: Any) -> Console:
        return Console(tmp_path, sqlite_store(tmp_path / "orders.db", rows), exchange.url, **given)

    return made


def order(number: int, action: dict[str, Any] | None = None, **given: object) -> dict[str, Any]:
    now = datetime.now(UTC) - timedelta(seconds=5)
    held = {"captured_at": now, "quantity": float(number), "price": 18.0, **given}
    return row(number, **held, action_json=json.dumps(action or {}))


def planned(pool: Console, *ids: int, live: bool = False, extra: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    mode = ("--live", "--yes", "--expect", str(len(ids))) if live else ("--paper",)
    ran = pool.inline("replay", *map(ident, ids), *mode, "--dry-run", "--json", *extra)
    return [*ran.rows]


BRACKET = {
    "symbol": "AAPL",
    "qty": 1,
    "side": "buy",
    "type": "limit",
    "limit_price": 18,
    "time_in_force": "gtc",
    "order_class": "bracket",
    "take_profit": {"limit_price": 20},
    "stop_loss": {"stop_price": 17, "limit_price": 16.5},
}


def test_a_dry_run_tells_the_order_as_it_goes_on_the_wire(console: Any, exchange: Exchange) -> None:
    pool = console([order(1, BRACKET)])
    (one,) = planned(pool, 1)
    assert list(one)[8:] == DRY
    assert one["order"] == {
        "action": "new",
        "market_id": "AAPL",
        "side": "buy",
        "quantity": 1,
        "order_type": "limit",
        "price": 18,
        "time_in_force": "gtc",
        "client_order_id": "cid-1",
        "order_class": "bracket",
        "take_profit": {"limit_price": 20},
        "stop_loss": {"stop_price": 17, "limit_price": 16.5},
    }
    assert exchange.posts == []
    assert pool.inline("replay", ident(1), "--paper", "--json").row["outcome"] == "accepted"
    (post,) = exchange.posts
    assert json.loads(post["body"]) == {
        "symbol": "AAPL",
        "qty": "1",
        "side": "buy",
        "type": "limit",
        "time_in_force": "gtc",
        "limit_price": "18",
        "order_class": "bracket",
        "take_profit": {"limit_price": "20"},
        "stop_loss": {"stop_price": "17", "limit_price": "16.5"},
        "client_order_id": "cid-1",
    }
    (answer,) = pool.inline("ask", ident(1), "--paper", "--json").rows
    assert (answer["answer"], answer["equal"]) == ("found", True)
    assert answer["detail"].count("leg ") == 2


def test_a_dry_run_tells_quote_drift_and_position(console: Any, exchange: Exchange) -> None:
    exchange.quote("AAPL", "17.90", "18.10")
    exchange.hold("alpaca", "AAPL", 3)
    pool = console([order(1), order(2, side="sell")])
    exit_, buy = planned(pool, 1, 2)
    assert (exit_["dlq_id"], exit_["position"]) == (ident(2), {"before": 3, "after": 1})
    assert "exit: it only reduces the position" in exit_["notes"]
    assert (buy["notional"], buy["currency"], buy["drift"], buy["guards"]) == (18, "USD", 0, [])
    assert (buy["quote"]["bid"], buy["quote"]["ask"]) == (17.9, 18.1)
    assert buy["position"] == {"before": 1, "after": 2}
    assert exchange.posts == []


REFUSED: dict[str, tuple[dict[str, Any], dict[str, object], str]] = {
    "reduce-only at a venue without it": ({"reduceOnly": True}, {}, "unsent-terms"),
    "post-only inside params": ({"params": {"postOnly": True}}, {}, "unsent-terms"),
    "a key that nobody knows": ({"iceberg_qty": 5}, {}, "unmapped-terms"),
    "a parameter that nobody knows": ({"params": {"hidden": True}}, {}, "unmapped-terms"),
    "two names that disagree": ({"qty": 1, "amount": 2}, {}, "unparsable"),
    "no type": ({}, {"order_type": "", "price": None}, "unparsable"),
    "a limit through the market": ({}, {"price": 20.0}, "price-drift"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_be_sent_otherwise_is_refused_by_name(console: Any, exchange: Exchange, case: str) -> None:
    action, columns, code = REFUSED[case]
    exchange.quote("AAPL", "17.90", "18.10")
    pool = console([order(1, action, **columns)])
    (one,) = planned(pool, 1)
    assert (one["outcome"], [guard["code"] for guard in one["guards"]]) == ("refused", [code])
    overridable = code not in ("unsent-terms", "unparsable")
    assert (one["guards"][0]["overridable"], one["guards"][0]["overridden"]) == (overridable, False)
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"], exchange.posts) == (4, "refused", [])
    assert ran.row["detail"].startswith(f"{code}: ")
    forced = pool.inline("replay", ident(1), "--paper", "--json", "--override", code, "--note", "looked at it")
    assert (forced.code, len(exchange.posts)) == ((0, 1) if overridable else (2, 0))


def test_a_market_order_is_valued_at_the_far_side_of_the_quote(console: Any, exchange: Exchange) -> None:
    market: dict[str, Any] = {"order_type": "market", "price": None}
    pool = console([order(1, quantity=1_000_000.0, **market), order(2, **market)])
    one, two = planned(pool, 1, 2, live=True)
    assert [guard["text"].partition(":")[0] for guard in two["guards"]] == ["cannot be valued"]
    assert [guard["code"] for guard in one["guards"]] == ["notional"]
    exchange.quote("AAPL", "179.90", "180.10")
    fits, big = sorted(planned(pool, 1, 2, live=True), key=lambda told: -int(told["outcome"] == "planned"))
    assert (fits["dlq_id"], fits["notional"]) == (ident(2), 360.2)
    assert (big["notional"], [guard["code"] for guard in big["guards"]]) == (180_100_000, ["notional"])
    assert exchange.posts == []


def test_in_paper_an_order_without_a_value_is_only_noted(console: Any) -> None:
    pool = console([order(1, order_type="market", price=None)])
    (one,) = planned(pool, 1)
    assert (one["outcome"], one["notional"], one["quote"], one["position"]) == (
        "planned",
        None,
        None,
        {"before": 0, "after": 1},
    )
    assert any(note.startswith("cannot be valued") for note in one["notes"])


def test_a_notional_order_goes_out_in_money(console: Any, exchange: Exchange) -> None:
    action = {"symbol": "AAPL", "qty": None, "notional": "500", "side": "buy", "type": "market"}
    pool = console([order(1, action, quantity=0.0, order_type="market", price=None)])
    ran = pool("replay", ident(1), "--paper")
    assert "buy 500 USD AAPL market" in ran.err
    body = json.loads(exchange.posts[0]["body"])
    assert (body["notional"], "qty" in body) == ("500", False)


def test_a_cancel_sends_none_of_its_other_terms(console: Any, exchange: Exchange) -> None:
    action = {"action": "cancel", "venue_order_id": "o-1", "reduce_only": True, "iceberg": 3, "stop_price": "x"}
    pool = console([order(1, action)])
    (one,) = planned(pool, 1)
    assert (one["outcome"], one["guards"]) == ("planned", [])
    assert one["order"] == {"action": "cancel", "venue_order_id": "o-1"}


def test_labels_of_the_config_mean_nothing_to_a_venue(console: Any) -> None:
    pool = console([order(1, {"desk": "fx", "strategy": "s"})], limits={"labels": ["desk"]})
    (one,) = planned(pool, 1)
    assert (one["outcome"], "desk" in one["order"]) == ("planned", False)


def test_four_eyes_count_what_a_market_order_is_worth(console: Any, exchange: Exchange) -> None:
    exchange.quote("AAPL", "179.90", "180.10")
    pool = console([order(2, order_type="market", price=None)], limits={"four_eyes_over": 300})
    ran = pool.inline("replay", ident(2), "--paper", "--json")
    assert (ran.code, exchange.posts) == (4, [])
    assert "gross 360.20 USD is over 300" in ran.err


def test_a_cancel_without_an_order_id_finds_its_order_at_the_venue(console: Any, exchange: Exchange) -> None:
    placed = exchange.place(symbol="AAPL", qty="1", side="buy", limit_price="18", client_order_id="c-1")
    pool = console([order(1, {"action": "cancel"}, client_order_id="c-1")])
    (one,) = planned(pool, 1)
    assert one["order"] == {"action": "cancel"}
    assert "its order is found by client order id c-1 before it is sent" in one["notes"]
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"]) == (0, "accepted")
    assert (exchange.posts[-1]["method"], exchange.posts[-1]["path"]) == ("DELETE", f"/v2/orders/{placed['id']}")
    assert [one["state"] for one in exchange.orders] == ["cancelled"]


def test_a_replace_without_an_order_id_finds_its_order_at_the_venue(console: Any, exchange: Exchange) -> None:
    placed = exchange.place(symbol="AAPL", qty="1", side="buy", limit_price="18", client_order_id="c-1")
    action = {"action": "replace", "order_key": "c-1"}
    pool = console([order(1, action, client_order_id="c-2", price=19.0)])
    ran = pool.inline("replay", ident(1), "--paper", "--json")
    assert (ran.code, ran.row["outcome"]) == (0, "accepted")
    assert (exchange.posts[-1]["method"], exchange.posts[-1]["path"]) == ("PATCH", f"/v2/orders/{placed['id']}")


def test_a_new_order_and_its_cancel_that_never_reached_the_venue_cancel_out(console: Any, exchange: Exchange) -> None:
    old = datetime.now(UTC) - timedelta(minutes=3)
    rows = [
        order(1, client_order_id="c-1", captured_at=old),
        order(2, {"action": "cancel"}, client_order_id="c-1", captured_at=old),
    ]
    pool = console(rows)
    alone = pool.inline("replay", ident(1), "--paper", "--json")
    assert (alone.code, alone.row["detail"]) == (4, f"superseded: {ident(2)} waits")
    ran = pool.inline("replay", ident(2), "--paper", "--json")
    assert {one["dlq_id"]: one["outcome"] for one in ran.rows} == {ident(2): "accepted", ident(1): "superseded"}
    assert (ran.code, exchange.posts) == (0, [])

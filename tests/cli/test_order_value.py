"""What a list says an order is worth, in which currency, and how its line tells a stop and an amount of money."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Dlq, Make
from tests.support.orders import row, sqlite_store

OPTION = "AAPL260619C00200000"


def _action(**given: object) -> str:
    return json.dumps(given)


@pytest.mark.parametrize(
    ("given", "notional", "currency"),
    [
        ({}, "18000", "USD"),
        ({"quantity": 0.1, "price": 0.3}, "0.03", "USD"),
        ({"market_id": "BTC/USDC"}, "18000", "USDC"),
        ({"price": None, "order_type": "market"}, None, "USD"),
        ({"price": None, "order_type": "stop", "action_json": _action(stop_price=170.0)}, None, "USD"),
        ({"order_type": "stop_limit", "action_json": _action(stop_price=170.0)}, "18000", "USD"),
        ({"quantity": 0, "price": None, "order_type": "market", "action_json": _action(notional="500.50")},
         "500.50", "USD"),
        ({"venue_name": "ccxt:kraken", "market_id": "BTC/EUR", "quantity": 0, "price": None, "order_type": "market",
          "action_json": _action(params={"cost": 250})}, "250", "EUR"),
        ({"action_json": _action(action="cancel")}, None, "USD"),
        ({"market_id": OPTION}, None, "USD"),
        ({"venue_name": "kalshi", "market_id": "KX-1", "price": 0.45}, "45", "USD"),
        ({"venue_name": "kalshi", "market_id": "KX-1", "price": 45.0}, None, "USD"),
        ({"venue_name": "kalshi", "market_id": "KX-1", "price": 45.0, "action_json": _action(price_unit="cents")},
         "45", "USD"),
        ({"venue_name": "polymarket", "market_id": "7132", "price": 0.45}, "45", "USDC"),
        ({"venue_name": "hyperliquid", "market_id": "BTC"}, "18000", "USDC"),
        ({"venue_name": "ccxt:binance", "market_id": "BTC/USDT"}, "18000", "USDT"),
        ({"venue_name": "ccxt:binance", "market_id": "BTC/USDT:USDT"}, None, "USDT"),
        ({"venue_name": "ccxt:binance", "market_id": "BTCUSDT"}, None, None),
        ({"venue_name": "ibkr", "market_id": "SAP:STK:IBIS:EUR"}, "18000", "EUR"),
        ({"venue_name": "ibkr", "market_id": "ES:FUT:CME:USD"}, None, "USD"),
        ({"venue_name": "ibkr", "market_id": "265598"}, None, None),
        ({"venue_name": "mine", "market_id": "BTC/USDT"}, "18000", None),
        ({"action_json": "no JSON"}, None, "USD"),
        ({"action_json": '{"price": 1, "notional": '}, None, "USD"),
        ({"action_json": _action(notional=500)}, "500", "USD"),
        ({"quantity": -1.0}, None, "USD"),
    ],
)  # fmt: skip
def test_the_value_of_an_order(
    dlq: Dlq, tmp_path: Path, given: dict[str, Any], notional: str | None, currency: str | None
) -> None:
    ran = dlq("list", "--json", "--db", sqlite_store(tmp_path / "orders.db", [row(1, **given)]))
    told = json.loads(ran.out, parse_float=Decimal, parse_int=Decimal)
    assert told["notional"] == (None if notional is None else Decimal(notional))
    assert (told["currency"], told["origin"]) == (currency, "entry")
    assert list(told)[14:] == ["state", "category", "fingerprint", "notional", "currency", "origin", "marks"] + [
        name for name in told if name == "malformed"
    ]


@pytest.mark.parametrize("verb", ["list", "show", "export"])
def test_every_json_row_of_an_order_has_its_value(dlq: Dlq, make: Make, verb: str) -> None:
    words = {"list": ["--json"], "show": [row(1)["dlq_id"], "--json"], "export": ["--format", "jsonl"]}[verb]
    told = json.loads(dlq(verb, *words, "--db", make([row(1)])).out)
    told = told["entry"] if verb == "show" else told
    assert (told["notional"], told["currency"], told["origin"]) == (18000, "USD", "entry")


def test_the_config_says_what_a_venue_of_another_name_is(dlq: Dlq, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[venues.desk-2]\ntype = "ccxt:kraken"\n')
    target = sqlite_store(
        tmp_path / "orders.db",
        [
            row(1, venue_name="desk-2", market_id="BTC/EUR"),
            row(2, venue_name="desk-2", market_id="BTC/EUR", quantity=0, price=None, action_json=_action(cost=50)),
        ],
    )
    rows = dlq("list", "--json", "--db", target, "--config", str(config)).rows
    assert [(one["notional"], one["currency"]) for one in rows] == [(18000, "EUR"), (None, "EUR")]
    assert "  buy 50 EUR BTC/EUR @ market  " in dlq("list", "--db", target, "--config", str(config)).out


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"price": None, "order_type": "stop", "action_json": '{"stop_price": 170.0}'},
         "buy 100 AAPL @ market stop 170.0"),
        ({"price": 169.5, "order_type": "stop_limit", "action_json": '{"stopPrice": "170.10"}'},
         "buy 100 AAPL @ 169.5 stop 170.10"),
        ({"venue_name": "ccxt:x", "action_json": '{"params": {"triggerPrice": 170}}'}, "buy 100 AAPL @ 180.0 stop 170"),
        ({"quantity": 0, "price": None, "order_type": "market", "action_json": '{"notional": 500.0}'},
         "buy 500 USD AAPL @ market"),
        ({"venue_name": "mine", "quantity": 0, "price": None, "action_json": '{"notional": 500}'},
         "buy 500 of AAPL @ market"),
        ({"action_json": '{"stop_price": null, "notional": 500}'}, "buy 100 AAPL @ 180.0"),
        ({"action_json": '{"stop_price": "\\u001b[2J", "x": 1}'}, "buy 100 AAPL @ 180.0"),
        ({"action_json": '{"stop_loss": {"stop_price": 150}}'}, "buy 100 AAPL @ 180.0"),
    ],
)  # fmt: skip
def test_a_line_tells_a_stop_and_an_amount(dlq: Dlq, tmp_path: Path, given: dict[str, Any], line: str) -> None:
    out = dlq("list", "--db", sqlite_store(tmp_path / "orders.db", [row(1, **given)])).out
    assert out.splitlines()[0].split("  ")[3] == line

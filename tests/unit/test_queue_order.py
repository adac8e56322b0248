"""The order of a row in the queue: a stop is not shown as a market order, nor money as a quantity."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backends.records import Entry
from console.render.value import order

ROWS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "limit": ({}, {}, "SELL 10 AAPL @ 180.0"),
    "market": ({"order_type": "market", "price": None}, {}, "SELL 10 AAPL market"),
    "stop": ({"order_type": "stop", "price": None}, {"stop_price": 170.0}, "SELL 10 AAPL stop 170.0"),
    "stop limit": ({"order_type": "stop_limit"}, {"stopPrice": 170}, "SELL 10 AAPL @ 180.0 stop 170"),
    "trailing": ({"order_type": "trailing_stop", "price": None}, {"trail_price": 2}, "SELL 10 AAPL trailing stop"),
    "a stop without its price": ({"order_type": "stop", "price": None}, {}, "SELL 10 AAPL stop"),
    "money": ({"order_type": "market", "price": None, "quantity": 0.0}, {"notional": 500}, "SELL 500 USD AAPL market"),
    "no type": ({"order_type": "", "price": None}, {}, "SELL 10 AAPL market"),
}


@pytest.mark.parametrize("case", ROWS)
def test_a_row_says_what_kind_of_order_it_is(case: str) -> None:
    columns, action, text = ROWS[case]
    row = {
        "venue_name": "alpaca",
        "market_id": "AAPL",
        "side": "sell",
        "quantity": 10.0,
        "order_type": "limit",
        "price": 180.0,
        **columns,
        "action_json": json.dumps(action),
    }
    entry = Entry("orders", "dlq_1", "pending", (0, 0), (1,), tuple(row), tuple(row.values()))
    assert order(entry) == text

"""parse_action under random columns and JSON: it never raises, and a number survives exactly."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from venues import OrderAction, parse_action
from venues.action import SIDES

EXAMPLES = int(os.environ.get("DLQ_EXAMPLES", "60"))
COLUMNS: Mapping[str, object] = {
    "dlq_id": "dlq_1",
    "venue_name": "alpaca",
    "account_id": "acct-1",
    "market_id": "AAPL",
    "side": "buy",
    "quantity": 100.0,
    "order_type": "limit",
    "price": 180.1,
    "client_order_id": "coid-1",
}


def row(**changes: object) -> dict[str, object]:
    return {**COLUMNS, **changes}


def action_of(columns: Mapping[str, object], action_json: str | None) -> OrderAction:
    parsed = parse_action(columns, action_json)
    assert parsed.findings == ()
    assert parsed.action is not None
    return parsed.action


KEYS = st.sampled_from([*COLUMNS, "action", "tif", "time_in_force", "order_key", "venue_order_id", "price_unit", "x"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["buy", "limit", "market", "100", "1e5", "NaN", "new", "cancel", "GTC", 100, 180.1])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
CELLS = SCALARS | st.binary() | st.decimals() | st.sampled_from([10**400, Decimal("1e999999"), Decimal("-0")])


@settings(max_examples=EXAMPLES)
@given(st.dictionaries(KEYS, CELLS), st.none() | st.text() | st.dictionaries(KEYS, VALUES).map(json.dumps))
def test_it_never_raises(columns: dict[str, object], text: str | None) -> None:
    parsed = parse_action(columns, text)
    assert (parsed.action is None) == bool(parsed.findings)
    if parsed.action is not None:
        assert parsed.action.quantity.is_finite()
        assert parsed.action.quantity > 0 or parsed.action.verb == "cancel"
        assert parsed.action.price is None or parsed.action.price > 0
        assert parsed.action.side in SIDES
        assert parsed.action.market_id.isprintable()


@settings(max_examples=EXAMPLES)
@given(st.text(alphabet='{}[]",:\\u0019eE+-.NaInfity \n\ud800é', max_size=60))
def test_it_never_raises_on_broken_json(text: str) -> None:
    parse_action(COLUMNS, text)


@settings(max_examples=EXAMPLES)
@given(
    st.decimals(min_value="0.00000001", max_value="1e12", allow_nan=False, allow_infinity=False, places=8),
)
def test_a_number_survives_exactly(number: Decimal) -> None:
    token = format(number, "f")
    assert action_of(row(price=float(number)), f'{{"price": {token}}}').price == number
    assert action_of(row(price=float(number)), f'{{"price": "{token}"}}').price == number

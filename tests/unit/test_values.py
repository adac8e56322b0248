"""An order as its column shows it: what an operator judges by stays, whatever the room."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pytest

from backends.records import Entry
from console.render.value import money, order
from tests.support.app import order as dead_order


def entry(**given: Any) -> Entry:
    made = dead_order(1, **given)
    names = ("market_id", "side", "quantity", "price", "action_json")
    values = tuple(getattr(made, name) for name in names)
    return Entry("orders", "x", "pending", (0, False), (0, "x"), names, values)


LONG = "KXPRESPERSON-28NOV07-JVANCE-T4.25"


def test_where_there_is_room_all_of_it_is_shown() -> None:
    assert order(entry(market_id=LONG, side="yes", quantity=25.0, price=0.62)) == f"yes 25 {LONG} @ 0.62 gtc"


@pytest.mark.parametrize("room", [22, 25, 28, 34])
def test_a_long_market_is_cut_in_the_middle_and_the_price_stays(room: int) -> None:
    text = order(entry(market_id=LONG, side="yes", quantity=25.0, price=0.62), room)
    assert len(text) == room
    assert text.startswith("yes 25 KX")
    assert text.endswith(".25 @ 0.62")
    assert "…" in text


def test_the_time_in_force_goes_before_any_of_the_market() -> None:
    assert order(entry(market_id="AMZN", side="sell", quantity=37.0, price=106.75), 22) == "SELL 37 AMZN @ 106.75"


def test_an_order_at_market_says_so() -> None:
    assert order(entry(market_id=LONG, side="buy", quantity=1.0, price=None), 25).endswith(" market")


def test_a_cancel_keeps_its_price_in_the_narrowest_column() -> None:
    action = '{"action": "cancel", "market_id": "TSLA", "side": "buy", "quantity": 12, "price": 240.0}'
    made = entry(market_id="TSLA", side="buy", quantity=12.0, price=240.0, action_json=action)
    assert order(made, 25) == "cancel buy 12 TSLA @240.0"


def test_money_reads_the_same_whatever_a_library_did_to_the_context() -> None:
    with localcontext() as context:
        context.rounding, context.prec = ROUND_HALF_UP, 3
        assert money(Decimal("21061.125")) == "21,061.12"
        assert money(Decimal("-0.005"), signed=True) == "−0.00"

"""Values are kept exactly by every sink, or refused by the name of their column with nothing written."""

from __future__ import annotations

import math
import os
import struct
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from dlq_sink import BadEntry
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends import DLQSink
from tests.support.sink import Kind, entry

TEXTS = ("venue_name", "account_id", "market_id", "side", "order_type", "client_order_id", "error", "action_json")
EXAMPLES = int(os.environ.get("DLQ_EXAMPLES", "40"))


def bits(number: float | None, kind: Kind) -> bytes:
    if number == 0 and kind == "sqlite":
        return b"a zero, whose sign SQLite does not keep"
    if number is None or math.isnan(number):
        return repr(number).encode()
    return struct.pack(">d", number)


_floats = st.floats(width=64)


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


_values = st.fixed_dictionaries(
    {
        "quantity": _floats,
        "price": st.none() | _floats,
        "captured_at": st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.timezones()),  # noqa: DTZ001 - the strategy adds the zone
        "retry_count": st.integers(0, 2**31 - 1),
        **{name: _texts for name in TEXTS if name not in ("account_id", "client_order_id")},
        **{name: st.none() | _texts for name in ("account_id", "client_order_id")},
    }
)


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(values=_values)
def test_values_come_back_exactly(kind: Kind, sink: DLQSink, values: dict[str, Any]) -> None:
    order = entry(**values)
    holding_nul = [name for name in TEXTS if "\0" in (getattr(order, name) or "")]
    if kind == "postgres" and holding_nul:
        with pytest.raises(BadEntry, match=f"{holding_nul[0]}.*NUL"):
            sink.write(order)
        assert sink.get(order.dlq_id) is None
        return
    sink.write(order)
    found = sink.get(order.dlq_id)
    assert found is not None
    for name in TEXTS:
        assert getattr(found, name) == getattr(order, name)
    assert bits(found.quantity, kind) == bits(order.quantity, kind)
    assert bits(found.price, kind) == bits(order.price, kind)
    assert found.captured_at.astimezone(UTC) == order.captured_at.astimezone(UTC)
    assert found.captured_at.utcoffset() is not None
    assert found.retry_count == order.retry_count


@pytest.mark.parametrize(
    "number", [0.30000000000000004, 1e-12, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan]
)
def test_awkward_numbers_come_back_bit_for_bit(kind: Kind, sink: DLQSink, number: float) -> None:
    order = entry(quantity=number, price=number)
    sink.write(order)
    found = sink.get(order.dlq_id)
    assert found is not None
    assert bits(found.quantity, kind) == bits(found.price, kind) == bits(number, kind)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"error": "not text: \udc80"}, "error"),
        ({"market_id": None}, "market_id"),
        ({"quantity": Decimal("0.1")}, "quantity.*Decimal"),
        ({"quantity": None}, "quantity"),
        ({"price": 2**53 + 1}, "price.*exactly"),
        ({"price": 10**400}, "price.*too large"),
        ({"quantity": True}, "quantity"),
        ({"retry_count": 2**31}, "retry_count"),
        ({"retry_count": -1}, "retry_count"),
        ({"dismissed": 1}, "dismissed"),
        ({"captured_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}, "captured_at"),
    ],
)
def test_what_cannot_be_kept_exactly_is_refused_by_name(sink: DLQSink, changes: dict[str, Any], said: str) -> None:
    order = entry(**changes)
    with pytest.raises(BadEntry, match=said) as refusal:
        sink.write(order)
    assert isinstance(refusal.value, ValueError)
    assert sink.list(include_dismissed=True) == []


def test_a_whole_number_may_be_given_as_int(sink: DLQSink) -> None:
    order = entry(quantity=100, price=0)
    sink.write(order)
    assert sink.get(order.dlq_id) == order


def test_a_long_error_is_cut_to_a_thousand_characters(sink: DLQSink) -> None:
    order = entry(error="é" * 5000)
    sink.write(order)
    found = sink.get(order.dlq_id)
    assert found is not None
    assert found.error == "é" * 1000


def test_a_large_action_is_kept_whole(sink: DLQSink) -> None:
    order = entry(action_json='{"note":"' + "x€" * 500_000 + '"}')
    sink.write(order)
    assert sink.get(order.dlq_id) == order

"""An order found at a gateway is compared by every term: equal is equal, one other term is a difference."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.support.venue.ibkr import opened, prepared
from tests.support.venue.tws import Tws
from venues import Accepted, Found, differences
from venues.terms import Terms

D = Decimal
UNTIL = datetime(2026, 12, 18, 20, 30, tzinfo=UTC)
STOP: dict[str, object] = {"order_type": "stop", "price": None, "terms": Terms(stop_price=D("170.5"))}
STOP_LIMIT: dict[str, object] = {"order_type": "stop_limit", "terms": Terms(stop_price=D("170.5"))}
TRAIL: dict[str, object] = {"order_type": "trailing_stop", "price": None, "terms": Terms(trail_price=D("2.5"))}
PERCENT: dict[str, object] = {"order_type": "trailing_stop", "price": None, "terms": Terms(trail_percent=D("1.5"))}
GTD: dict[str, object] = {"time_in_force": "gtd", "terms": Terms(expire_at=UNTIL)}
GROUP: dict[str, object] = {"terms": Terms(oca_group="g", oca_type="1", extended_hours=True)}
CASES: list[tuple[dict[str, object], dict[str, str], tuple[str, ...]]] = [
    ({}, {}, ()),
    ({}, {"outside_rth": "1"}, ("extended_hours",)),
    ({}, {"type": "MIT"}, ("type",)),
    ({}, {"type": "STP", "aux": "170.5"}, ("type", "stop_price")),
    ({}, {"limit": "180.26"}, ("price",)),
    ({"time_in_force": "day"}, {"tif": "GTC"}, ("time in force",)),
    (STOP, {}, ()),
    (STOP, {"aux": "170.51"}, ("stop_price",)),
    (STOP_LIMIT, {}, ()),
    (STOP_LIMIT, {"aux": "171"}, ("stop_price",)),
    (STOP_LIMIT, {"limit": "181"}, ("price",)),
    (TRAIL, {}, ()),
    (TRAIL, {"aux": "2.6"}, ("trail_price",)),
    (TRAIL, {"aux": "", "trailing_percent": "2.5"}, ("trail_percent",)),
    (PERCENT, {}, ()),
    (PERCENT, {"trailing_percent": "1.6"}, ("trail_percent",)),
    (GTD, {}, ()),
    (GTD, {"good_till": "20261218 15:30:00 US/Eastern"}, ()),
    (GTD, {"good_till": "20261218 15:30:01 US/Eastern"}, ("expire_at",)),
    (GTD, {"good_till": "20261218-20:30:01"}, ("expire_at",)),
    (GTD, {"good_till": "20261218 20:30:00"}, ()),  # of no zone: it says nothing
    (GTD, {"good_till": "soon"}, ()),
    (GTD, {"good_till": "20261218 20:30:00 Nowhere/None"}, ()),
    (GROUP, {}, ()),
    (GROUP, {"oca_group": "h"}, ("oca_group",)),
    (GROUP, {"oca_type": "2"}, ("oca_type",)),
    (GROUP, {"outside_rth": "0"}, ("extended_hours",)),
]


@pytest.mark.parametrize("status", ["Submitted", "Cancelled"])
async def test_each_term_is_compared(status: str) -> None:
    async with Tws() as gateway:
        made = await opened(gateway, timeout=5)
        for number, (changes, told, _) in enumerate(CASES):
            ready = prepared(made, f"suite-{number}", **changes)
            assert isinstance(await made.submit(ready), Accepted)
            booked = gateway.orders[-1]
            gateway.orders[-1] = replace(booked, fields={**booked.fields, **told}, status=status)
        await made.aclose()  # a client remembers what it placed itself
        for number, (changes, told, other) in enumerate(CASES):
            ready = prepared(made, f"suite-{number}", **changes)
            found = await made.lookup(ready)
            assert isinstance(found, Found)
            names = tuple(one.partition(":")[0] for one in differences(ready.action, found.order))
            assert names == other, (changes, told, names)
        await made.aclose()

"""An order found at hyperliquid is compared by every term: equal is equal, one other term is a difference."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from tests.support.http_server import reply
from tests.support.venue.hyperliquid import CLOID, action, client, prepared
from tests.support.venue.rigs_sdk import HYPERLIQUID_SECRETS
from tests.support.venue.wire_hyperliquid import as_read
from venues import Accepted, Credentials, Found, Prepared, Route, connect, differences
from venues.practice import PracticeExchange
from venues.terms import ExitTerms, Terms

D = Decimal
LIMIT: Mapping[str, object] = {
    "coin": "ETH",
    "side": "B",
    "limitPx": "1100.0",
    "sz": "0.2",
    "oid": 9,
    "timestamp": 1_794_790_933_250,
    "triggerCondition": "N/A",
    "isTrigger": False,
    "triggerPx": "0.0",
    "children": [],
    "isPositionTpsl": False,
    "reduceOnly": False,
    "orderType": "Limit",
    "origSz": "0.2",
    "tif": "Gtc",
    "cloid": CLOID,
}
TRIGGER = {**LIMIT, "isTrigger": True, "triggerPx": "1200.0", "tif": None}
CHILD = {**LIMIT, "side": "A", "oid": 10, "cloid": None, "isTrigger": True, "reduceOnly": True}
PROFIT = {**CHILD, "orderType": "Take Profit Limit", "triggerPx": "1300.0", "limitPx": "1290.0"}
LOSS = {**CHILD, "orderType": "Stop Limit", "triggerPx": "1000.0", "limitPx": "990.5", "oid": 11}
EXITS = Terms(take_profit=ExitTerms(D(1300), D(1290)), stop_loss=ExitTerms(D(1000), D("990.5")))


def stop(**terms: Any) -> dict[str, object]:
    return {"order_type": "stop_limit", "terms": Terms(**terms)}


CASES: list[tuple[dict[str, object], dict[str, object], tuple[str, ...]]] = [
    ({}, {}, ()),
    ({}, {"reduceOnly": True}, ("reduce_only",)),
    ({}, {"tif": "Alo"}, ("post_only",)),
    ({}, {"tif": "Ioc"}, ()),  # no time in force was asked for
    ({"time_in_force": "gtc"}, {"tif": "Ioc"}, ("time in force",)),
    ({"time_in_force": "gtc"}, {**TRIGGER, "orderType": "Stop Limit"}, ("type", "stop_price")),
    ({"time_in_force": "alo"}, {"tif": "Alo"}, ()),
    ({"time_in_force": "alo"}, {"tif": "Gtc"}, ("time in force",)),
    ({"terms": Terms(post_only=True)}, {"tif": "Alo"}, ()),
    ({"terms": Terms(post_only=True)}, {"tif": "Gtc"}, ("post_only",)),
    ({"terms": Terms(post_only=True), "time_in_force": "alo"}, {"tif": "Alo"}, ()),
    ({"terms": Terms(reduce_only=True)}, {"reduceOnly": True}, ()),
    ({"terms": Terms(reduce_only=True)}, {}, ("reduce_only",)),
    (stop(stop_price=D(1200)), {**TRIGGER, "orderType": "Stop Limit"}, ()),
    (stop(stop_price=D(1201)), {**TRIGGER, "orderType": "Stop Limit"}, ("stop_price",)),
    (stop(stop_price=D(1200)), {**TRIGGER, "orderType": "Stop Market"}, ("type",)),
    (stop(stop_price=D(1200)), {**TRIGGER, "orderType": "Stop Limit", "reduceOnly": True}, ("reduce_only",)),
    (stop(stop_loss_price=D(1200)), {**TRIGGER, "orderType": "Stop Limit"}, ()),
    (stop(stop_price=D(1200)), {**TRIGGER, "orderType": "Take Profit Limit"}, ("type", "stop_price")),
    ({}, {**TRIGGER, "orderType": "Take Profit Limit"}, ("type",)),
    ({"terms": Terms(take_profit_price=D(1200))}, {}, ("take_profit_price",)),
    ({"terms": Terms(stop_loss_price=D(1200))}, {}, ("stop_loss_price",)),
    (
        {"order_type": "stop", "terms": Terms(stop_price=D(1200))},
        {**TRIGGER, "orderType": "Stop Market", "limitPx": "1100.0"},
        (),
    ),
    (
        {"order_type": "stop", "terms": Terms(stop_price=D(1200))},
        {**TRIGGER, "orderType": "Stop Market", "limitPx": "1090.0"},
        ("type",),
    ),
    ({"terms": Terms(stop_loss_price=D(1200))}, {**TRIGGER, "orderType": "Stop Limit"}, ()),
    ({"terms": Terms(stop_loss_price=D(1201))}, {**TRIGGER, "orderType": "Stop Limit"}, ("stop_loss_price",)),
    ({"terms": Terms(take_profit_price=D(1200))}, {**TRIGGER, "orderType": "Take Profit Limit"}, ()),
    (
        {"terms": Terms(take_profit_price=D(1201))},
        {**TRIGGER, "orderType": "Take Profit Limit"},
        ("take_profit_price",),
    ),
    ({"terms": EXITS}, {"children": [PROFIT, LOSS]}, ()),
    ({"terms": EXITS}, {"children": [PROFIT]}, ("stop_loss",)),
    ({"terms": EXITS}, {"children": []}, ("take_profit", "stop_loss")),
    ({"terms": EXITS}, {"children": [PROFIT, {**LOSS, "triggerPx": "1001.0"}]}, ("stop_loss",)),
    ({"terms": EXITS}, {"children": [PROFIT, {**LOSS, "orderType": "Stop Market"}]}, ("stop_loss",)),
    ({}, {"children": [LOSS]}, ("stop_loss",)),
]


@pytest.mark.parametrize(("changes", "told", "other"), CASES)
async def test_each_term_is_compared(
    changes: dict[str, object], told: dict[str, object], other: tuple[str, ...]
) -> None:
    answer = {"status": "order", "order": {"order": {**LIMIT, **told}, "status": "open"}}
    async with client(reply(200, answer)) as (made, _):
        ready = prepared(made, **changes)
        found = await made.lookup(ready)
        assert isinstance(found, Found)
        assert tuple(one.partition(":")[0] for one in differences(ready.action, found.order)) == other


async def test_exits_are_shown_as_legs_and_say_nothing_once_the_order_is_filled() -> None:
    for word, told in (("open", True), ("filled", False)):
        row = {**LIMIT, "children": [PROFIT, LOSS] if told else []}
        answer = {"status": "order", "order": {"order": row, "status": word}}
        async with client(reply(200, answer)) as (made, _):
            ready = prepared(made, terms=EXITS)
            found = await made.lookup(ready)
            assert isinstance(found, Found)
            assert differences(ready.action, found.order) == ()
            assert [(leg.venue_order_id, leg.side) for leg in found.order.legs] == (
                [("10", "sell"), ("11", "sell")] if told else []
            )


SENT: list[dict[str, object]] = [
    {},
    {"time_in_force": "alo"},
    {"terms": Terms(post_only=True, reduce_only=True)},
    {"order_type": "stop", "terms": Terms(stop_price=D(1200))},
    stop(stop_price=D(1200), reduce_only=True),
    {"terms": Terms(take_profit_price=D(1000))},
    {"terms": Terms(stop_loss_price=D(1000))},
    {"terms": EXITS},
    {"terms": EXITS, "time_in_force": "ioc"},
    {"terms": Terms(stop_loss=EXITS.stop_loss)},
]


async def test_what_was_placed_on_the_practice_exchange_is_found_and_equal() -> None:
    async with PracticeExchange(fsync=False) as exchange:
        made = connect("hyperliquid", "paper", Credentials(HYPERLIQUID_SECRETS), Route(5.0, exchange.url))
        await made.open()
        meant = [action(**changes) for changes in SENT]
        for number, changes in enumerate(SENT):
            ready = made.prepare(action(**changes), f"0x{number:032x}")
            assert isinstance(ready, Prepared)
            assert isinstance(await made.submit(ready), Accepted), changes
            found = await made.lookup(ready)
            assert isinstance(found, Found)
            assert differences(ready.action, found.order) == (), changes
            for other in meant if found.order.status == "open" else ():
                asked = made.prepare(other, ready.client_order_id)
                assert isinstance(asked, Prepared)
                held = await made.lookup(asked)
                assert isinstance(held, Found)
                same = as_read(other) == as_read(ready.action)
                assert (differences(other, held.order) == ()) is same, (changes, other)
        await made.aclose()

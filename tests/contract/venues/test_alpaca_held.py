"""An order that Alpaca holds beside the action: equal where it is the same, and different by name in one term."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.support.http_server import Answer, Loopback, Received, reply
from tests.support.venue.alpaca import BRACKET, LIMIT, ORDER, client_of, prepared_of
from tests.support.venue.alpaca_shapes import CALL, PUT, SHAPES, Shape
from venues import Accepted, Found, OrderAction, Terms, VenueOrder, differences, parse_action
from venues.alpaca.answers import lookup_of
from venues.http import Reply
from venues.practice import PracticeExchange
from venues.terms import ExitTerms, Leg

BY_NAME = {shape.name: shape for shape in SHAPES}
TAKEN = [shape.name for shape in SHAPES if shape.verb == "new" and shape.refused is None]


def action_of(shape: Shape) -> OrderAction:
    parsed = parse_action(shape.columns(labels=True), shape.document(nulls=False))
    assert parsed.action is not None, parsed.findings
    return replace(parsed.action, client_order_id="coid-1")


async def test_every_order_that_is_sent_is_found_equal() -> None:
    for name in TAKEN:
        action = action_of(BY_NAME[name])
        async with PracticeExchange(fsync=False) as exchange:
            client = client_of(exchange.url)
            prepared = prepared_of(action)
            assert isinstance(await client.submit(prepared), Accepted), name
            told = await client.lookup(prepared)
            await client.aclose()
        assert isinstance(told, Found), name
        assert differences(action, told.order) == (), name
    assert len(TAKEN) == 33


# One order in Alpaca's own words, as https://docs.alpaca.markets shows it

NOTHING = dict.fromkeys(("notional", "stop_price", "trail_price", "trail_percent", "hwm", "legs", "ratio_qty"))
PLAIN = {**ORDER, **NOTHING, "order_class": "", "extended_hours": False, "position_intent": "buy_to_open"}
EXIT = {**PLAIN, "side": "sell", "order_class": "bracket", "status": "held", "position_intent": "sell_to_close"}
PROFIT = {**EXIT, "id": "tp", "client_order_id": "x1", "limit_price": "200.5"}
LOSS = {
    **EXIT,
    "id": "sl",
    "client_order_id": "x2",
    "type": "stop_limit",
    "stop_price": "170.25",
    "limit_price": "169.9",
}
HELD: dict[str, dict[str, Any]] = {
    "limit": PLAIN,
    "stop": {**PLAIN, "type": "stop", "limit_price": None, "stop_price": "170.5"},
    "trail": {**PLAIN, "type": "trailing_stop", "limit_price": None, "trail_price": "1.5", "stop_price": "178.5"},
    "money": {**PLAIN, "type": "market", "limit_price": None, "qty": None, "notional": "500.25"},
    "late": {**PLAIN, "extended_hours": True},
    "bracket": {**PLAIN, "order_class": "bracket", "legs": [PROFIT, LOSS]},
    "oto": {**PLAIN, "order_class": "oto", "legs": [LOSS]},
    "oco": {**PLAIN, "order_class": "oco", "limit_price": "200.5", "legs": [LOSS]},
    "spread": {
        **PLAIN,
        "order_class": "mleg",
        "symbol": "",
        "side": "",
        "position_intent": "",
        "legs": [
            {"id": "2", "symbol": PUT, "side": "sell", "ratio_qty": "2", "position_intent": "sell_to_open"},
            {"id": "1", "symbol": CALL, "side": "buy", "ratio_qty": "1", "position_intent": "buy_to_open"},
        ],
    },
}
LEGS = (Leg(CALL, Decimal(1), "buy"), Leg(PUT, Decimal(2), position_intent="sell_to_open"))
LOST = Terms(order_class="oto", stop_loss=BRACKET.stop_loss)
MEANT: dict[str, OrderAction] = {
    "limit": LIMIT,
    "stop": replace(LIMIT, order_type="stop", price=None, terms=Terms(stop_price=Decimal("170.5"))),
    "trail": replace(LIMIT, order_type="trailing_stop", price=None, terms=Terms(trail_price=Decimal("1.5"))),
    "money": replace(
        LIMIT, order_type="market", price=None, quantity=Decimal(0), terms=Terms(notional=Decimal("500.25"))
    ),
    "late": replace(LIMIT, terms=Terms(extended_hours=True, position_intent="buy_to_open")),
    "bracket": replace(LIMIT, terms=BRACKET),
    "oto": replace(LIMIT, terms=LOST),
    "oco": replace(LIMIT, price=None, terms=replace(BRACKET, order_class="oco")),
    "spread": replace(LIMIT, terms=Terms(order_class="mleg", legs=LEGS)),
}


def found(action: OrderAction, held: dict[str, Any]) -> VenueOrder:
    told = lookup_of(Reply(200, {}, json.dumps(held).encode()), prepared_of(action))
    assert isinstance(told, Found)
    return told.order


def names(action: OrderAction, held: dict[str, Any]) -> list[str]:
    return [text.partition(":")[0] for text in differences(action, found(action, held))]


@pytest.mark.parametrize("name", HELD)
def test_the_same_order_has_no_difference(name: str) -> None:
    assert differences(MEANT[name], found(MEANT[name], HELD[name])) == ()


@pytest.mark.parametrize("word", ["", "simple", None])
def test_a_plain_order_whatever_it_is_called(word: str | None) -> None:
    assert names(LIMIT, {**PLAIN, "order_class": word}) == []


def test_an_answer_without_the_fields_says_nothing_of_them() -> None:
    for action in MEANT.values():
        bare = {"id": "1", "client_order_id": "coid-1", "status": "new"}
        assert names(action, bare) == []


def leg(number: int, **changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda held: held["legs"][number].update(changes)


def top(**changes: object) -> Callable[[dict[str, Any]], None]:
    return lambda held: held.update(changes)


@pytest.mark.parametrize(
    ("name", "change", "different"),
    [
        ("limit", top(type="stop_limit", stop_price="181"), ["type", "stop_price"]),
        ("limit", top(extended_hours=True), ["extended_hours"]),
        ("limit", top(notional="500"), ["notional"]),
        ("limit", top(order_class="oto", legs=[LOSS]), ["order_class", "stop_loss"]),
        ("limit", top(order_class="bracket", legs=[PROFIT, LOSS]), ["order_class", "take_profit", "stop_loss"]),
        ("stop", top(stop_price="170.51"), ["stop_price"]),
        ("stop", top(type="market", stop_price=None), ["type", "stop_price"]),
        ("trail", top(trail_price="1.6"), ["trail_price"]),
        ("trail", top(trail_price=None, trail_percent="1.5"), ["trail_price", "trail_percent"]),
        ("money", top(notional="500.26"), ["notional"]),
        ("money", top(notional=None, qty="500.25"), ["notional"]),
        ("late", top(extended_hours=False), ["extended_hours"]),
        ("late", top(position_intent="buy_to_close"), ["position_intent"]),
        ("bracket", top(order_class="", legs=None), ["order_class"]),
        ("bracket", leg(0, limit_price="201"), ["take_profit"]),
        ("bracket", leg(1, stop_price="170"), ["stop_loss"]),
        ("bracket", leg(1, type="stop", limit_price=None), ["stop_loss"]),
        ("bracket", top(legs=[LOSS]), ["take_profit"]),
        ("bracket", top(legs=[PROFIT]), ["stop_loss"]),
        ("bracket", top(order_class="oto"), ["order_class"]),
        ("oto", top(legs=[PROFIT, LOSS]), ["take_profit"]),
        ("oco", top(limit_price="201"), ["take_profit"]),
        ("oco", leg(0, stop_price="170"), ["stop_loss"]),
        ("spread", leg(0, ratio_qty="1"), ["legs"]),
        ("spread", leg(1, side="sell", position_intent="sell_to_open"), ["legs"]),
        ("spread", leg(0, position_intent="sell_to_close"), ["legs"]),
        ("spread", leg(0, symbol="AAPL261218P00185000"), ["legs"]),
        ("spread", lambda held: held["legs"].pop(), ["legs"]),
        ("spread", top(qty="99"), ["quantity"]),
    ],
)
def test_one_other_term_is_one_difference(
    name: str, change: Callable[[dict[str, Any]], None], different: list[str]
) -> None:
    held = copy.deepcopy(HELD[name])
    change(held)
    assert names(MEANT[name], held) == different


def test_a_leg_that_was_replaced_is_not_the_brackets() -> None:
    old = {**PROFIT, "limit_price": "199", "status": "replaced"}
    assert names(MEANT["bracket"], {**HELD["bracket"], "legs": [old, PROFIT, LOSS]}) == []


def test_the_orders_that_belong_to_it_are_shown() -> None:
    order = found(MEANT["bracket"], HELD["bracket"])
    profit, loss = order.legs
    assert (profit.venue_order_id, profit.order_type, profit.price, profit.side) == (
        "tp",
        "limit",
        Decimal("200.5"),
        "sell",
    )
    assert (loss.terms.stop_price, loss.price, loss.raw_status) == (Decimal("170.25"), Decimal("169.9"), "held")
    assert order.terms.take_profit == ExitTerms(limit_price=Decimal("200.5"))
    assert found(LIMIT, PLAIN).terms.names == ("position_intent",)


def without_legs(whole: Answer) -> Callable[[Received], Answer]:
    """A server that leaves the legs out of the look-up by client id."""
    flat = {**HELD["bracket"], "legs": None}
    return lambda got: reply(200, flat) if "by_client" in got.path else whole


@pytest.mark.parametrize(
    ("whole", "told"),
    [(reply(200, {**HELD["bracket"], "legs": [LOSS]}), ["take_profit"]), (reply(404, {}), []), (None, [])],
)
async def test_legs_that_are_left_out_are_asked_for(whole: Answer, told: list[str]) -> None:
    async with Loopback(without_legs(whole)) as server:
        client = client_of(server.url)
        looked = await client.lookup(prepared_of(MEANT["bracket"]))
        await client.aclose()
    assert isinstance(looked, Found)
    assert [text.partition(":")[0] for text in differences(MEANT["bracket"], looked.order)] == told
    assert [(got.path, got.params) for got in server.requests] == [
        ("/v2/orders:by_client_order_id", {"client_order_id": "coid-1", "nested": "true"}),
        (f"/v2/orders/{ORDER['id']}", {"nested": "true"}),
    ]

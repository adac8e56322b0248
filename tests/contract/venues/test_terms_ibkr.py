"""What is sent to TWS is what was meant: equal to what a plain ib_async client sends, or refused by name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any

import ib_async
import pytest
from dlq_sink.terms import TERMS

from tests.support.venue.ibkr import action, opened
from tests.support.venue.tws import AAPL, Listed, Tws
from tests.support.venue.wire_ibkr import ACCOUNT, as_read, read_order, wire_client
from venues import Accepted, OrderAction, Prepared, Refused, venue_profile
from venues.client import AccountClient
from venues.terms import TYPES, ExitTerms, Leg, Terms

D = Decimal
UNTIL = datetime(2026, 12, 18, 20, 30, tzinfo=UTC)
STOCK = ib_async.Stock("AAPL", "SMART", "USD")
ES = Listed(495512563, "ES", "FUT", "CME", month="20261218", multiplier="50")
CALL = Listed(700123, "AAPL", "OPT", local="AAPL  261218C00200000", multiplier="100")
OWN = {"orderRef": "suite-1", "account": ACCOUNT}


@dataclass(frozen=True)
class Shape:
    """One order of ib_async's, and the action that means the same. Its defaults: buy 100 AAPL, day."""

    order: Any
    terms: Mapping[str, object] = field(default_factory=dict)
    changes: Mapping[str, object] = field(default_factory=dict)
    contract: Any = STOCK

    @property
    def action(self) -> OrderAction:
        return action(terms=Terms(**self.terms), **self.changes)  # type: ignore[arg-type]  # each of its type


def market(**more: object) -> Any:
    return ib_async.MarketOrder("BUY", 100, **{"tif": "DAY", **OWN, **more})


def limit(**more: object) -> Any:
    return ib_async.LimitOrder("BUY", 100, 180.25, **{"tif": "DAY", **OWN, **more})


def stop(**more: object) -> Any:
    return ib_async.StopOrder("SELL", 100, 170.5, **{"tif": "DAY", **OWN, **more})


def stop_limit(**more: object) -> Any:
    return ib_async.StopLimitOrder("BUY", 100, 180.25, 179.9, **{"tif": "DAY", **OWN, **more})


def trail(**more: object) -> Any:
    return ib_async.Order(orderType="TRAIL", action="SELL", totalQuantity=100, **{"tif": "DAY", **OWN, **more})


MARKET = {"order_type": "market", "price": None}
STOP = {"order_type": "stop", "price": None, "side": "sell"}
STOP_LIMIT = {"order_type": "stop_limit"}
TRAIL = {"order_type": "trailing_stop", "price": None, "side": "sell"}
GTD = {"tif": "GTD", "goodTillDate": "20261218-20:30:00"}
SHAPES: Mapping[str, Shape] = {
    "market": Shape(market(), {}, MARKET),
    "market, gtc": Shape(market(tif="GTC"), {}, {**MARKET, "time_in_force": "gtc"}),
    "market at the opening": Shape(market(tif="OPG"), {}, {**MARKET, "time_in_force": "opg"}),
    "limit": Shape(limit()),
    "limit, gtc": Shape(limit(tif="GTC"), {}, {"time_in_force": "gtc"}),
    "limit, ioc": Shape(limit(tif="IOC"), {}, {"time_in_force": "ioc"}),
    "limit, fok": Shape(limit(tif="FOK"), {}, {"time_in_force": "fok"}),
    "limit, gtd": Shape(limit(**GTD), {"expire_at": UNTIL}, {"time_in_force": "gtd"}),
    "limit, outside hours": Shape(limit(outsideRth=True), {"extended_hours": True}),
    "limit in a group": Shape(limit(ocaGroup="g 1", ocaType=1), {"oca_group": "g 1", "oca_type": "1"}),
    "limit in a group of no type": Shape(limit(ocaGroup="g"), {"oca_group": "g"}),
    "stop": Shape(stop(), {"stop_price": D("170.5")}, STOP),
    "stop, gtc, in a group": Shape(
        stop(tif="GTC", ocaGroup="g", ocaType=3),
        {"stop_price": D("170.5"), "oca_group": "g", "oca_type": "3"},
        {**STOP, "time_in_force": "gtc"},
    ),
    "stop-limit": Shape(stop_limit(), {"stop_price": D("179.9")}, STOP_LIMIT),
    "stop-limit, gtd, outside hours": Shape(
        stop_limit(outsideRth=True, **GTD),
        {"stop_price": D("179.9"), "extended_hours": True, "expire_at": UNTIL},
        {**STOP_LIMIT, "time_in_force": "gtd"},
    ),
    "trail by an amount": Shape(trail(auxPrice=2.5), {"trail_price": D("2.5")}, TRAIL),
    "trail by percent, gtc": Shape(
        trail(trailingPercent=1.5, tif="GTC"), {"trail_percent": D("1.5")}, {**TRAIL, "time_in_force": "gtc"}
    ),
    "by number": Shape(limit(), {}, {"market_id": "265598"}, ib_async.Contract(conId=265598, exchange="SMART")),
    "by number at its exchange": Shape(
        limit(), {}, {"market_id": "495512563@CME"}, ib_async.Contract(conId=495512563, exchange="CME")
    ),
    "a stock's symbol": Shape(limit(), {}, {"market_id": "AAPL"}, ib_async.Contract(conId=265598, exchange="SMART")),
    "a future's month": Shape(
        stop_limit(),
        {"stop_price": D("179.9")},
        {**STOP_LIMIT, "market_id": "ES 202612"},
        ib_async.Contract(conId=495512563, exchange="CME"),
    ),
    "an option's symbol": Shape(
        limit(), {}, {"market_id": "AAPL  261218C00200000"}, ib_async.Contract(conId=700123, exchange="SMART")
    ),
    # What needs another order's number, several messages, or another client's order.
    "a child": Shape(limit(parentId=7), {"parent_client_order_id": "p"}),
    "bracket": Shape(
        limit(transmit=False), {"take_profit": ExitTerms(limit_price=D(200)), "stop_loss": ExitTerms(D(170))}
    ),
    "by money": Shape(market(cashQty=500), {"notional": D(500)}, MARKET),
    "trail from a price": Shape(
        trail(auxPrice=2.5, trailStopPrice=170), {"trail_price": D("2.5"), "stop_price": D(170)}, TRAIL
    ),
    "replace": Shape(limit(), {}, {"verb": "replace", "venue_order_id": "7"}),
    "cancel": Shape(limit(), {}, {"verb": "cancel", "venue_order_id": "7"}),
}
REFUSED = {
    "a child": "parent_client_order_id",
    "bracket": "take_profit, stop_loss",
    "by money": "notional",
    "trail from a price": "stop_price",
    "replace": "do it in TWS",
    "cancel": "do it in TWS",
}
LEARNT = dict.fromkeys(("a stock's symbol", "a future's month", "an option's symbol"), "the gateway is asked first")


def same(ours: str, theirs: str) -> bool:
    """Whether two fields say the same; a plain client writes its floats with a point."""
    try:
        return ours == theirs or D(ours) == D(theirs)
    except InvalidOperation:
        return False


async def plain_messages(gateway: Tws, shapes: Mapping[str, Shape]) -> list[list[str]]:
    """What ib_async itself sends for these orders."""
    host, _, port = gateway.url.partition(":")
    ib = ib_async.IB()
    await ib.connectAsync(host, int(port), clientId=7, fetchFields=ib_async.StartupFetchNONE)
    before = len(gateway.placed)
    for shape in shapes.values():
        ib.placeOrder(shape.contract, shape.order)
    async with asyncio.timeout(30):
        while len(gateway.placed) < before + len(shapes):
            await asyncio.sleep(0.001)
    gone = ib.client.conn.disconnected
    ib.disconnect()
    await gone
    return gateway.placed[before:]


async def test_every_shape_equals_a_plain_client_s_or_is_refused() -> None:
    counts = {"equal": 0, "refused": 0, "different": 0}
    async with Tws() as gateway:
        gateway.listed = [AAPL, ES, CALL]
        made: Any = await opened(gateway, timeout=5)
        await made.learn([shape.action.market_id for shape in SHAPES.values()])
        for name, shape in SHAPES.items():
            ready = made.prepare(shape.action, "suite-1")
            if isinstance(ready, Refused):
                assert REFUSED[name] in ready.why, name
                counts["refused"] += 1
            else:
                assert isinstance(await made.submit(ready), Accepted), name
        sent = {name: shape for name, shape in SHAPES.items() if name not in REFUSED}
        ours = list(gateway.placed)
        await made.aclose()
        for name, mine, theirs in zip(sent, ours, await plain_messages(gateway, sent), strict=True):
            assert len(mine) == len(theirs)
            other = [number for number in range(len(mine)) if number != 1 and not same(mine[number], theirs[number])]
            counts["different" if other else "equal"] += 1
            assert not other, (name, [(mine[number], theirs[number]) for number in other])
    print(counts)
    assert counts == {"equal": len(SHAPES) - len(REFUSED), "refused": len(REFUSED), "different": 0}
    assert counts["equal"] >= max(15, 0.7 * len(SHAPES))


@pytest.fixture(scope="module")
def made() -> AccountClient:
    return wire_client()


@pytest.mark.parametrize("name", [name for name in SHAPES if name not in REFUSED | LEARNT])
def test_what_is_read_back_is_what_was_meant_and_what_is_shown(name: str, made: AccountClient) -> None:
    meant = SHAPES[name].action
    ready = made.prepare(meant, "suite-1")
    assert isinstance(ready, Prepared)
    read = read_order(ready)
    plain = Terms(**{term: held for term, held in read.items() if term in TERMS}).document()  # type: ignore[arg-type]
    assert {**read, **plain} == ready.sent
    assert {term: held for term, held in read.items() if term in TERMS} == {
        term: getattr(meant.terms, term) for term in meant.terms.names
    }
    expected = as_read(meant)
    assert (read["order_type"], read.get("price"), read["time_in_force"], read["market_id"]) == (
        expected.order_type,
        expected.price,
        expected.time_in_force,
        expected.market_id,
    )


VALUES: Mapping[str, object] = {
    "stop_price": D(170),
    "stop_loss_price": D(170),
    "take_profit_price": D(200),
    "trail_price": D(5),
    "trail_percent": D(5),
    "notional": D(500),
    "reduce_only": True,
    "post_only": True,
    "extended_hours": True,
    "position_intent": "sell_to_close",
    "order_class": "bracket",
    "take_profit": ExitTerms(limit_price=D(200)),
    "stop_loss": ExitTerms(D(170)),
    "legs": (Leg("AAPL", D(1)),),
    "expire_at": UNTIL,
    "margin_mode": "isolated",
    "leverage": D(5),
    "subaccount": "7",
    "vault_address": "0x1",
    "order_group_id": "g",
    "cancel_on_pause": True,
    "oca_group": "g",
    "oca_type": "1",
    "parent_client_order_id": "p",
}
NEEDED: Mapping[str, dict[str, object]] = {
    "stop": {"stop_price": D(160)},
    "stop_limit": {"stop_price": D(160)},
    "trailing_stop": {"trail_price": D(3)},
}


@pytest.mark.parametrize("order_type", TYPES)
def test_the_declaration_is_what_the_wire_carries(order_type: str, made: AccountClient) -> None:
    declared = venue_profile("ibkr").sends.new[order_type]
    assert VALUES.keys() == TERMS.keys()
    for name, value in VALUES.items():
        base = {} if name == "trail_percent" else NEEDED.get(order_type, {})
        terms = {**base, **({"oca_group": "g"} if name == "oca_type" else {}), name: value}
        meant = action(
            order_type=order_type,
            price=D(180) if order_type in ("limit", "stop_limit") else None,
            time_in_force="gtd" if name == "expire_at" else None,
            terms=Terms(**terms),  # type: ignore[arg-type]  # each of its type
        )
        ready = made.prepare(meant, "suite-1")
        if name in declared:
            assert isinstance(ready, Prepared), (name, ready)
            assert {term: read_order(ready)[term] for term in terms} == terms
        else:
            assert isinstance(ready, Refused), name
            assert name in ready.unsent


@pytest.mark.parametrize(
    ("terms", "changes", "why"),
    [
        ({}, {"time_in_force": "gtd"}, "belong together"),
        ({"expire_at": UNTIL}, {}, "belong together"),
        ({"expire_at": UNTIL}, {"time_in_force": "gtc"}, "belong together"),
        ({"expire_at": UNTIL + timedelta(milliseconds=1)}, {"time_in_force": "gtd"}, "whole seconds"),
        ({"oca_group": "g", "oca_type": "4"}, {}, "oca_type 4"),
        ({"oca_type": "1"}, {}, "without an oca_group"),
        ({}, {"order_type": "stop", "price": None}, "needs a stop_price"),
        ({}, {"order_type": "trailing_stop", "price": None}, "either a trail_price or"),
        ({"trail_price": D(1), "trail_percent": D(1)}, {"order_type": "trailing_stop", "price": None}, "either"),
        ({"stop_price": D(170)}, {"order_type": "stop"}, "price cannot be sent to"),
        ({}, {"order_type": "market"}, "price cannot be sent to"),
    ],
)
def test_what_would_change_the_meaning_is_refused(
    terms: dict[str, object], changes: dict[str, object], why: str, made: AccountClient
) -> None:
    refused = made.prepare(action(terms=Terms(**terms), **changes), "suite-1")  # type: ignore[arg-type]
    assert isinstance(refused, Refused)
    assert why in refused.why


def test_a_time_of_another_zone_is_sent_as_the_same_moment(made: AccountClient) -> None:
    east = timezone(timedelta(hours=-5))
    meant = action(terms=Terms(expire_at=UNTIL.astimezone(east)), time_in_force="gtd")
    ready = made.prepare(meant, "suite-1")
    assert isinstance(ready, Prepared)
    assert read_order(ready)["expire_at"] == UNTIL

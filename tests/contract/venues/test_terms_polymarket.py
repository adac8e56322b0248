"""Polymarket's requests against those that its own client sends, and what is declared to be sent against the wire."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from dlq_sink.terms import TERMS
from hypothesis import given
from hypothesis import strategies as st

from tests.support.venue.polymarket import TOKEN
from tests.support.venue.polymarket_client import action, clob
from tests.support.venue.rigs_sdk import POLYMARKET_SECRETS
from tests.support.venue.term_samples import LATER, SAMPLES, only
from tests.support.venue.wire_polymarket import read_order, wire_client
from venues import OrderAction, Prepared, Refused, Verb
from venues.polymarket.client import PROFILE, PolymarketClient
from venues.polymarket.order import Market, amounts
from venues.terms import TYPES, Terms

UNTIL = int(LATER.timestamp())
OWN = ("salt", "timestamp", "signature")  # of each signing


class Shape(NamedTuple):
    """An action, and the call of Polymarket's own client that means the same."""

    ours: dict[str, Any]
    call: str
    theirs: dict[str, Any]
    tick: str = "0.01"


def limit(ours: dict[str, Any], tick: str = "0.01", **theirs: Any) -> Shape:
    return Shape(ours, "create_limit_order", {"side": "BUY", "price": "0.56", "size": "10", **theirs}, tick)


def market(ours: dict[str, Any], tick: str = "0.01", **theirs: Any) -> Shape:
    sized = {"quantity": Decimal(0)} if theirs["side"] == "BUY" else {}
    return Shape({"order_type": "market", **sized, **ours}, "create_market_order", theirs, tick)


def spends(money: str) -> Terms:
    return Terms(notional=Decimal(money))


SHAPES = {
    "buy": limit({}),
    "sell": limit({"side": "sell"}, side="SELL"),
    "gtc": limit({"time_in_force": "gtc"}),
    "parts of a share": limit({"quantity": Decimal("10.25")}, size="10.25"),
    "a finer tick": limit({"price": Decimal("0.565")}, "0.001", price="0.565"),
    "the finest tick": limit({"price": Decimal("0.0001"), "side": "sell"}, "0.0001", price="0.0001", side="SELL"),
    "gtd": limit({"time_in_force": "gtd", "terms": Terms(expire_at=LATER)}, expiration=UNTIL),
    "an expiry alone": limit({"terms": Terms(expire_at=LATER)}, expiration=UNTIL),
    "post only": limit({"terms": Terms(post_only=True)}, post_only=True),
    "post only until": limit(
        {"terms": Terms(post_only=True, expire_at=LATER), "side": "sell"}, side="SELL", post_only=True, expiration=UNTIL
    ),
    "fok sale": market(
        {"order_type": "limit", "side": "sell", "time_in_force": "fok"},
        side="SELL",
        shares="10",
        min_price="0.56",
        order_type="FOK",
    ),
    "ioc sale": market(
        {"order_type": "limit", "side": "sell", "time_in_force": "ioc"}, side="SELL", shares="10", min_price="0.56"
    ),
    "fak sale": market(
        {"order_type": "limit", "side": "sell", "time_in_force": "fak"}, side="SELL", shares="10", min_price="0.56"
    ),
    "market sale": market({"side": "sell"}, side="SELL", shares="10", min_price="0.56"),
    "market sale, fok": market(
        {"side": "sell", "time_in_force": "fok", "quantity": Decimal("0.5")},
        side="SELL",
        shares="0.5",
        min_price="0.56",
        order_type="FOK",
    ),
    "market buy": market({"terms": spends("5.60")}, side="BUY", amount="5.60", max_price="0.56"),
    "market buy, fok": market(
        {"terms": spends("100"), "time_in_force": "fok"}, side="BUY", amount="100", max_price="0.56", order_type="FOK"
    ),
    "market buy, uneven": market(
        {"terms": spends("10"), "price": Decimal("0.57")}, side="BUY", amount="10", max_price="0.57"
    ),
    "market buy at a fine tick": market(
        {"terms": spends("33.33"), "price": Decimal("0.0037")}, "0.0001", side="BUY", amount="33.33", max_price="0.0037"
    ),
    "rounded size": limit({"quantity": Decimal("10.123")}, size="10.123"),
    "rounded money": market({"terms": spends("5.601")}, side="BUY", amount="5.601", max_price="0.56"),
    "fok buy by shares": market(
        {"order_type": "limit", "quantity": Decimal(10), "time_in_force": "fok"},
        side="BUY",
        amount="5.6",
        max_price="0.56",
        order_type="FOK",
    ),
}
REFUSED = {"rounded size": "10.123", "rounded money": "5.601", "fok buy by shares": "by money"}


@contextmanager
def their_client(url: str) -> Iterator[Any]:
    """Polymarket's own client, with every host of its environment on loopback."""
    from polymarket.clients.secure import SecureClient
    from polymarket.environments import PRODUCTION, _create_environment
    from polymarket.models.clob.api_key import ApiKeyCreds

    config = PRODUCTION._config
    here = {one.name: url for one in dataclasses.fields(config) if one.name.endswith("_url")}
    made = SecureClient._create(
        private_key=POLYMARKET_SECRETS["private_key"],
        wallet=POLYMARKET_SECRETS["wallet"],
        environment=_create_environment(name="loopback", config=dataclasses.replace(config, **here)),
        credentials=ApiKeyCreds(
            key=POLYMARKET_SECRETS["api_key"],
            secret=POLYMARKET_SECRETS["api_secret"],
            passphrase=POLYMARKET_SECRETS["api_passphrase"],
        ),
        validate_credentials=False,
    )
    try:
        yield made
    finally:
        made.close()


def they_send(url: str, shapes: list[Shape]) -> None:
    with their_client(url) as theirs:
        for shape in shapes:
            theirs.post_order(getattr(theirs, shape.call)(token_id=TOKEN, **shape.theirs))


def bare(body: bytes) -> dict[str, Any]:
    """Without what is new in each signing."""
    read = json.loads(body)
    return {**read, "order": {name: held for name, held in read["order"].items() if name not in OWN}}


async def verdicts(tick: str) -> list[str]:
    chosen = {name: shape for name, shape in SHAPES.items() if shape.tick == tick}
    found = []
    async with clob(tick=tick) as (made, exchange):
        await asyncio.to_thread(they_send, exchange.url, list(chosen.values()))
        bodies = [one.body for one in exchange.format.requests if (one.method, one.path) == ("POST", "/order")]
        for (name, shape), theirs in zip(chosen.items(), bodies, strict=True):
            ready = made.prepare(action(**shape.ours), "entry-1")
            if isinstance(ready, Refused):
                assert REFUSED[name] in ready.why
                found.append("refused")
                continue
            ours = ready.body.replace(b"{api_key}", POLYMARKET_SECRETS["api_key"].encode())
            assert bare(ours) == bare(theirs), name
            found.append("equal")
    return found


async def test_every_request_is_their_own_client_s_or_refused() -> None:
    counts: Counter[str] = Counter()
    for tick in dict.fromkeys(shape.tick for shape in SHAPES.values()):
        counts.update(await verdicts(tick))
    assert counts == {"equal": 19, "refused": 3}


async def test_a_cancel_is_their_own_client_s() -> None:
    def they_cancel(url: str, aim: str) -> None:
        with their_client(url) as theirs:
            theirs.cancel_order(order_id=aim)

    async with clob() as (made, exchange):
        aim = "0x" + "ab" * 32
        await asyncio.to_thread(they_cancel, exchange.url, aim)
        theirs = exchange.format.requests[-1]
        # Of a cancel only the order counts: the rest of it may say anything.
        for odd in ({}, {"side": "", "order_type": "", "quantity": Decimal(0), "price": None, "terms": spends("1")}):
            ours = made.prepare(action(verb="cancel", venue_order_id=aim, **odd), "entry-1")
            assert isinstance(ours, Prepared)
            assert (ours.method, ours.path, json.loads(ours.body)) == (theirs.method, theirs.path, theirs.object())


@given(
    tick=st.sampled_from(["0.1", "0.01", "0.005", "0.0025", "0.001", "0.0001"]),
    ticks=st.integers(1, 9999),
    cents=st.integers(1, 10_000_000),
)
def test_the_shares_of_a_market_buy_equal_their_client_s(tick: str, ticks: int, cents: int) -> None:
    from polymarket._internal.actions.orders.market import _compute_market_order_amounts

    step = Decimal(tick)
    price, money = step * (1 + ticks % (int(1 / step) - 1)), Decimal(cents) / 100
    spending = action(order_type="market", price=price, quantity=Decimal(0), terms=Terms(notional=money))
    ours = amounts(spending, Market(step, neg_risk=False))
    theirs = _compute_market_order_amounts(amount=money, price=price, side="BUY", tick_size=step)
    if isinstance(ours, Refused):  # as their client does: the amounts would reach the next price
        assert theirs[0] >= theirs[1] * (price + Decimal("0.0001"))
    else:
        assert ours == theirs


@pytest.fixture(scope="module")
def made() -> PolymarketClient:
    return wire_client()


def fitting(name: str, order_type: str) -> OrderAction:
    """An action with this term in which Polymarket takes it."""
    quantity = Decimal(0) if name == "notional" else Decimal(10)
    if order_type == "limit":
        return action(terms=only(name), quantity=quantity, time_in_force="gtd" if name == "expire_at" else None)
    side = "buy" if name == "notional" else "sell"
    return action(terms=only(name), quantity=quantity, side=side, order_type=order_type)


@pytest.mark.parametrize("order_type", ["limit", "market"])
@pytest.mark.parametrize("name", TERMS)
def test_a_declared_term_is_on_the_wire_and_every_other_one_is_refused(
    made: PolymarketClient, name: str, order_type: str
) -> None:
    ready = made.prepare(fitting(name, order_type), "entry-1")
    if name in PROFILE.sends.new[order_type]:
        assert isinstance(ready, Prepared), ready
        assert read_order(ready)[name] == SAMPLES[name]
    else:
        assert isinstance(ready, Refused)
        assert ready.unsent == (name,)


def test_the_worst_price_of_a_market_order_is_on_the_wire(made: PolymarketClient) -> None:
    for side, sized in (("buy", {"quantity": Decimal(0), "terms": spends("7")}), ("sell", {})):
        ready = made.prepare(action(order_type="market", side=side, **sized), "entry-1")
        assert isinstance(ready, Prepared)
        assert read_order(ready)["price"] == Decimal("0.56")
    assert "price" in PROFILE.sends.new["market"]


@pytest.mark.parametrize("order_type", [one for one in TYPES if one not in ("limit", "market")])
def test_other_types_are_refused(made: PolymarketClient, order_type: str) -> None:
    for price in (None, Decimal("0.56")):
        assert isinstance(made.prepare(action(order_type=order_type, price=price), "entry-1"), Refused)


@given(
    verb=st.sampled_from(["new", "new", "cancel", "replace"]),
    order_type=st.sampled_from(["limit", "market"]),
    side=st.sampled_from(["buy", "sell", ""]),
    quantity=st.decimals(0, 500, places=2),
    ticks=st.integers(0, 100),
    tif=st.sampled_from([None, "gtc", "gtd", "ioc", "fok", "fak", "day"]),
    terms=st.builds(
        Terms,
        expire_at=st.sampled_from([None, None, LATER]),
        post_only=st.sampled_from([None, None, True]),
        notional=st.sampled_from([None, None, Decimal("5.5"), Decimal("1000")]),
    ),
)
def test_any_action_is_on_the_wire_as_it_was_meant_or_refused(
    made: PolymarketClient,
    verb: Verb,
    order_type: str,
    side: str,
    quantity: Decimal,
    ticks: int,
    tif: str | None,
    terms: Terms,
) -> None:
    meant = action(
        verb=verb,
        order_type=order_type,
        side=side,
        quantity=quantity,
        price=Decimal(ticks) / 100,
        time_in_force=tif,
        terms=terms,
        venue_order_id="0x" + "ab" * 32,
    )
    ready = made.prepare(meant, "entry-1")
    if isinstance(ready, Refused):
        return
    told = read_order(ready)
    plain = {name: one.isoformat() if isinstance(one, datetime) else one for name, one in told.items()}
    assert plain == {name: held for name, held in ready.sent.items() if name != "action"}
    if verb == "cancel":
        assert told == {"venue_order_id": meant.venue_order_id}
        return
    assert (told["market_id"], told["side"], told["price"]) == (TOKEN, side, meant.price)
    assert told.get("quantity", Decimal(0)) == quantity
    assert {name: told[name] for name in terms.names} == {name: getattr(terms, name) for name in terms.names}
    assert not (set(TERMS) & told.keys()) - set(terms.names)
    if tif is not None:
        assert told["time_in_force"] == ("ioc" if tif == "fak" else tif)

"""Random actions with any terms at every venue: all that is set is found in the request, or nothing would be sent.

The actions are JSON documents, spelled at random, as engines store them; an independent reader of each venue's wire
format says what a request means.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from dlq_sink.terms import TERMS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.venue import (
    wire_alpaca,
    wire_ccxt,
    wire_hyperliquid,
    wire_ibkr,
    wire_kalshi,
    wire_polymarket,
)
from tests.support.venue.polymarket import TOKEN
from venues import OrderAction, Prepared, Terms, VenueClient, parse_action
from venues.terms import TYPES, ExitTerms

EXAMPLES = int(os.environ.get("DLQ_EXAMPLES", "200"))  # at each venue
SENT: Counter[str] = Counter()


@dataclass(frozen=True)
class Ground:
    """What makes an action of this venue likely to be taken, and how its requests are read."""

    wire: ModuleType
    client: Callable[[], VenueClient]
    market: str
    prices: tuple[str, ...]
    quantities: tuple[str, ...]
    tifs: tuple[str, ...]
    likely: tuple[str, ...]  # terms that it may send
    client_order_id: str = "c-1"
    types: tuple[str, ...] = TYPES


GROUNDS: Mapping[str, Ground] = {
    "alpaca": Ground(
        wire_alpaca,
        wire_alpaca.wire_client,
        "AAPL",
        ("180.25", "9", "170.5"),
        ("1", "2.5", "10"),
        ("day", "gtc", "ioc"),
        (
            "stop_price",
            "trail_price",
            "trail_percent",
            "notional",
            "extended_hours",
            "position_intent",
            "order_class",
            "take_profit",
            "stop_loss",
        ),
    ),
    "kalshi": Ground(
        wire_kalshi,
        wire_kalshi.wire_client,
        "KXBTC-26",
        ("0.56", "0.9", "0.0101"),
        ("1", "10", "2.5"),
        ("gtc", "ioc", "fok", "gtd"),
        ("post_only", "reduce_only", "order_group_id", "cancel_on_pause", "expire_at", "subaccount"),
        types=("limit", "limit", "limit", "market"),
    ),
    "hyperliquid": Ground(
        wire_hyperliquid,
        wire_hyperliquid.wire_client,
        "ETH",
        ("1100.5", "990", "1000"),
        ("0.2", "1", "3"),
        ("gtc", "ioc", "alo"),
        (
            "stop_price",
            "stop_loss_price",
            "take_profit_price",
            "reduce_only",
            "post_only",
            "take_profit",
            "stop_loss",
            "order_class",
            "vault_address",
        ),
        "0x" + "ab" * 16,
    ),
    "ibkr": Ground(
        wire_ibkr,
        wire_ibkr.wire_client,
        "AAPL:STK:SMART:USD",
        ("180.25", "9", "170.5"),
        ("1", "10", "2"),
        ("day", "gtc", "gtd", "ioc"),
        ("stop_price", "trail_price", "trail_percent", "expire_at", "extended_hours", "oca_group", "oca_type"),
    ),
    "polymarket": Ground(
        wire_polymarket,
        wire_polymarket.wire_client,
        TOKEN,
        ("0.56", "0.9", "0.12"),
        ("10", "25", "5"),
        ("gtc", "gtd", "fok", "fak"),
        ("post_only", "expire_at", "notional"),
        types=("limit", "limit", "market"),
    ),
    "ccxt:binance": Ground(
        wire_ccxt,
        wire_ccxt.wire_client,
        "BTC/USDT",
        ("50000", "49000.5", "51000"),
        ("0.5", "1", "2"),
        ("gtc", "ioc", "fok"),
        ("stop_price", "stop_loss_price", "take_profit_price", "post_only", "reduce_only", "trail_percent"),
    ),
    "ccxt:binanceusdm": Ground(
        wire_ccxt,
        lambda: wire_ccxt.wire_client("binanceusdm", spot=False),
        "BTC/USDT:USDT",
        ("50000", "49000.5", "51000"),
        ("0.5", "1", "2"),
        ("gtc", "ioc", "fok"),
        ("stop_price", "stop_loss_price", "take_profit_price", "post_only", "reduce_only", "trail_percent"),
    ),
}


@cache
def client_of(venue: str) -> VenueClient:
    return GROUNDS[venue].client()


def _value(name: str, ground: Ground) -> st.SearchStrategy[Any]:
    price = st.sampled_from(ground.prices)
    words = {
        "order_class": st.sampled_from(["simple", "bracket", "oto", "oco"]),
        "position_intent": st.sampled_from(["buy_to_open", "sell_to_close"]),
        "vault_address": st.just("0x" + "Cd" * 20),
        "subaccount": st.sampled_from([0, 3, "7"]),
        "oca_type": st.sampled_from([1, 2, 9]),
        "take_profit": st.fixed_dictionaries({"limit_price": price}, optional={"stop_price": price}),
        "stop_loss": st.fixed_dictionaries({"stop_price": price}, optional={"limit_price": price}),
    }
    by_kind: dict[str, st.SearchStrategy[Any]] = {
        "number": st.sampled_from([*ground.prices, "1", "0.5", "2"]),
        "flag": st.sampled_from([True, True, False]),
        "word": st.just("isolated"),
        "text": st.just("g-1"),
        "moment": st.sampled_from(["2035-01-02T03:04:05+00:00", 2051233445]),
        "legs": st.just([{"symbol": "AAPL261218C00200000", "ratio_qty": 1, "side": "buy"}]),
    }
    return words[name] if name in words else by_kind[TERMS[name][0]]


def _spelled(name: str, how: int) -> str:
    first, *rest = name.split("_")
    return (name, first + "".join(word.capitalize() for word in rest), name.upper())[how]


@st.composite
def documents(draw: st.DrawFn, ground: Ground) -> dict[str, Any]:
    unlikely = st.sampled_from(sorted(TERMS))
    names = draw(st.lists(st.sampled_from(ground.likely), max_size=3, unique=True))
    if draw(st.integers(0, 5)) == 0:
        names = list(dict.fromkeys([*names, draw(unlikely)]))
    kind = draw(st.sampled_from(ground.types))
    if kind.startswith("stop") and "stop_price" not in names:
        names.append("stop_price")
    if kind == "trailing_stop" and not {"trail_price", "trail_percent"} & set(names):
        names.append(draw(st.sampled_from(["trail_price", "trail_percent"])))
    document: dict[str, Any] = {
        "action": draw(st.sampled_from(["new", "new", "new", "replace"])),
        "symbol": ground.market,
        "side": draw(st.sampled_from(["buy", "SELL"])),
        "type": kind,
        "client_order_id": ground.client_order_id,
        "venue_order_id": draw(st.sampled_from([None, "42"])),
    }
    if "notional" not in names or draw(st.booleans()):
        document["qty"] = draw(st.sampled_from(ground.quantities))
    if kind in ("limit", "stop_limit") or draw(st.integers(0, 4)) == 0:
        document["limit_price"] = draw(st.sampled_from(ground.prices))
    if draw(st.booleans()):
        document["timeInForce"] = draw(st.sampled_from(ground.tifs))
    inside: dict[str, Any] = {}
    for name in names:
        home = inside if draw(st.integers(0, 4)) == 0 else document
        home[_spelled(name, draw(st.integers(0, 2)))] = draw(_value(name, ground))
    return document | ({"params": inside} if inside else {})


def parsed(document: Mapping[str, Any]) -> OrderAction | None:
    """As the console reads an entry whose columns say the same."""
    columns = {
        "dlq_id": "dlq_1",
        "account_id": None,
        "market_id": document["symbol"],
        "side": document["side"],
        "quantity": Decimal(document.get("qty", "0")),
        "order_type": document["type"],
        "price": Decimal(document["limit_price"]) if "limit_price" in document else None,
        "client_order_id": document["client_order_id"],
    }
    return parse_action(columns, json.dumps(document)).action


def check(venue: str, action: OrderAction, prepared: Prepared) -> None:
    wire = GROUNDS[venue].wire
    read = wire.read_order(prepared)
    meant = wire.as_read(action) if hasattr(wire, "as_read") else action
    wanted = {name: getattr(meant.terms, name) for name in meant.terms.names}
    found = {name: held for name, held in read.items() if name in TERMS}
    assert found == wanted, (prepared.path, prepared.body)
    for name in ("quantity", "side"):
        if name in read:
            assert read[name] == (getattr(action, name) or None), name
    if "notional" not in wanted:
        assert read.get("quantity") == action.quantity
    if "price" in read or action.price is not None:
        assert read.get("price") == action.price
    if action.time_in_force and "time_in_force" in read and "expire_at" not in wanted:
        assert read["time_in_force"] == (meant.time_in_force or "").replace("fak", "ioc")
    shown = {name: held for name, held in prepared.sent.items() if name in TERMS}
    # Where the wire has one form for two names, the order is shown by either.
    assert shown in ({name: _plain(held) for name, held in found.items()}, action.terms.document())


def _plain(held: object) -> object:
    if isinstance(held, datetime):
        return held.isoformat()
    return Terms(take_profit=held).document()["take_profit"] if isinstance(held, ExitTerms) else held


@pytest.mark.parametrize("venue", GROUNDS)
def test_all_that_is_set_is_on_the_wire_or_nothing_is_sent(venue: str) -> None:
    ground, client = GROUNDS[venue], client_of(venue)

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(documents(ground))
    def run(document: dict[str, Any]) -> None:
        action = parsed(document)
        if action is None:
            return
        prepared = client.prepare(action, ground.client_order_id)
        if isinstance(prepared, Prepared) and prepared.found_by:
            return  # its order has to be found first: then it is prepared again
        if isinstance(prepared, Prepared):
            SENT[venue] += 1
            check(venue, action, prepared)
        else:
            assert prepared.why

    run()
    assert SENT[venue] >= 10, "too few of the actions could be sent: the test would show nothing"

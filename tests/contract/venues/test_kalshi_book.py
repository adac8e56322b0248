"""Where a Kalshi order stands in the YES book, and what is refused rather than guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.support.venue.kalshi import YES, prepared_of
from venues import (
    OrderAction,
    Prepared,
    Refused,
)
from venues.kalshi.request import EVENT_ORDERS, prepare
from venues.terms import Terms

LATER = datetime(2035, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "side", "price"),
    [
        ({"side": "buy"}, "bid", "0.5600"),
        ({"side": "sell"}, "ask", "0.5600"),
        ({"side": "yes"}, "bid", "0.5600"),
        ({"side": "buy_yes"}, "bid", "0.5600"),
        ({"side": "sell_yes"}, "ask", "0.5600"),
        ({"side": "no"}, "ask", "0.4400"),
        ({"side": "buy_no"}, "ask", "0.4400"),
        ({"side": "sell_no"}, "bid", "0.4400"),
        ({"extra": {"outcome": "NO"}}, "ask", "0.4400"),
        ({"side": "sell", "extra": {"outcome_side": "no"}}, "ask", "0.5600"),
        ({"side": "sell", "extra": {"outcome_side": "no", "book_side": "ask"}}, "ask", "0.5600"),
        ({"side": "buy", "extra": {"outcomeSide": "YES", "book_side": "bid"}}, "bid", "0.5600"),
        ({"side": "sell", "extra": {"outcome": "no", "outcome_side": "yes"}}, "bid", "0.4400"),
        ({"side": "sell_no", "extra": {"book_side": "bid"}}, "bid", "0.4400"),
        ({"side": "no", "params": {"outcome_side": "no"}}, "ask", "0.4400"),
        ({"market_id": "KXBTC-26:no"}, "ask", "0.4400"),
        ({"market_id": "KXBTC-26:YES", "extra": {"outcome": "yes"}, "side": "buy_yes"}, "bid", "0.5600"),
        ({"price": Decimal("56"), "price_unit": "cents"}, "bid", "0.5600"),
        ({"price": Decimal("56.25"), "price_unit": "cents", "side": "no"}, "ask", "0.4375"),
        ({"price": Decimal("1"), "price_unit": "cents"}, "bid", "0.0100"),
        ({"price": Decimal("0.0001"), "price_unit": "dollars", "side": "no"}, "ask", "0.9999"),
    ],
)
def test_its_place_in_the_yes_book(changes: dict[str, object], side: str, price: str) -> None:
    action = replace(YES, **changes)  # type: ignore[arg-type]  # a table of fields
    body = json.loads(prepared_of(action).body)
    assert (body["ticker"], body["side"], body["price"]) == ("KXBTC-26", side, price)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"price": Decimal("56")}, "price_unit"),
        ({"price": Decimal("1")}, "price_unit"),
        ({"price": Decimal("1"), "price_unit": "dollars"}, "between"),
        ({"price": Decimal("100"), "price_unit": "cents"}, "between"),
        ({"price": Decimal("0.56789")}, "decimals"),
        ({"price": Decimal("56.123"), "price_unit": "cents"}, "decimals"),
        ({"price": Decimal("56.00000000000000000000000000001"), "price_unit": "cents"}, "decimals"),
        ({"price": None}, "price"),
        ({"quantity": Decimal("0.005")}, "count"),
        ({"quantity": Decimal("0")}, "count"),
        ({"order_type": "market"}, "limit order with time in force ioc"),
        ({"side": "buy_no", "extra": {"outcome": "yes"}}, "both yes and no"),
        ({"side": "yes", "market_id": "KXBTC-26:no"}, "both yes and no"),
        ({"extra": {"outcome": "yes"}, "params": {"Outcome": "no"}}, "both yes and no"),
        ({"extra": {"outcome": "yes", "outcome_side": "no"}}, "outcome_side no contradicts"),
        ({"side": "buy", "extra": {"outcome_side": "no"}}, "outcome_side no contradicts"),
        ({"side": "buy", "extra": {"book_side": "ask"}}, "book_side ask contradicts"),
        ({"side": "sell", "params": {"bookSide": "bid"}}, "book_side bid contradicts"),
        ({"side": "sell", "extra": {"outcome_side": "yes"}}, "outcome_side yes contradicts"),
        ({"side": "buy_no", "extra": {"outcome_side": "yes"}}, "outcome_side yes contradicts"),
        ({"market_id": "KXBTC-26:no", "extra": {"book_side": "bid"}}, "book_side bid contradicts"),
        ({"extra": {"outcome_side": "long"}}, "outcome_side long contradicts"),
        ({"extra": {"outcome": "maybe"}}, "neither"),
        ({"market_id": "KXBTC-26:x"}, "neither"),
        ({"time_in_force": "day"}, "not day"),
        ({"time_in_force": "gtd"}, "expire_at"),
        ({"time_in_force": "gtd", "terms": Terms(expire_at=LATER.replace(microsecond=1))}, "whole seconds"),
        ({"time_in_force": "gtd", "terms": Terms(expire_at=LATER.replace(year=2020))}, "past"),
        ({"time_in_force": "ioc", "terms": Terms(expire_at=LATER)}, "not with ioc"),
        ({"time_in_force": "fok", "terms": Terms(expire_at=LATER)}, "not with fok"),
        ({"time_in_force": "ioc", "terms": Terms(post_only=True)}, "post_only"),
        ({"time_in_force": "fok", "terms": Terms(post_only=True)}, "post_only"),
        ({"time_in_force": "gtc", "terms": Terms(reduce_only=True)}, "reduce_only"),
        ({"time_in_force": "fok", "terms": Terms(reduce_only=True)}, "reduce_only"),
        ({"extra": {"self_trade_prevention_type": "both"}}, "self_trade_prevention_type"),
        ({"verb": "replace", "venue_order_id": "o", "time_in_force": "ioc"}, "does not rest"),
        (
            {"verb": "replace", "venue_order_id": "o", "extra": {"self_trade_prevention_type": "maker"}},
            "self_trade_prevention_type",
        ),
        ({"verb": "replace"}, "venue_order_id"),
        ({"verb": "cancel"}, "venue_order_id"),
    ],
)
def test_what_is_refused_rather_than_guessed(changes: dict[str, object], word: str) -> None:
    refused = prepare(replace(YES, **changes), "coid-1")  # type: ignore[arg-type]  # a table of fields
    assert isinstance(refused, Refused)
    assert word in refused.why


@pytest.mark.parametrize(
    ("tif", "wire"), [("gtc", "good_till_canceled"), ("ioc", "immediate_or_cancel"), ("fok", "fill_or_kill")]
)
def test_time_in_force(tif: str, wire: str) -> None:
    assert json.loads(prepared_of(replace(YES, time_in_force=tif)).body)["time_in_force"] == wire


def test_what_was_not_said_is_shown() -> None:
    assert prepared_of(replace(YES, time_in_force=None)).notes == (
        "time in force: gtc (the venue's default)",
        "outcome: yes (the action does not say)",
    )


def test_an_expiry_makes_it_gtd_also_in_kalshi_s_own_words() -> None:
    for said in ("gtd", "gtc", "good_till_canceled", None):
        prepared = prepared_of(replace(YES, time_in_force=said, terms=Terms(expire_at=LATER)))
        body = json.loads(prepared.body)
        assert (body["time_in_force"], body["expiration_time"]) == ("good_till_canceled", int(LATER.timestamp()))
        assert prepared.sent["time_in_force"] == "gtd"
        assert any("expire_at" in note for note in prepared.notes) is (said != "gtd")


def test_what_is_sent_is_shown_in_the_words_of_the_yes_book() -> None:
    action = replace(YES, side="buy_no", price=Decimal("44"), price_unit="cents", market_id="KXBTC-26:no")
    prepared = prepared_of(action)
    assert prepared.sent == {
        "action": "new",
        "market_id": "KXBTC-26",
        "side": "sell",
        "quantity": Decimal("10"),
        "order_type": "limit",
        "price": Decimal("0.56"),
        "time_in_force": "gtc",
        "client_order_id": "coid-1",
        "self_trade_prevention_type": "taker_at_cross",
    }
    assert prepared.notes == ("sent as sell yes at 0.56 dollars",)


def test_a_cancel_needs_the_order_and_its_market_only() -> None:
    action = OrderAction("cancel", "KXBTC-26:no", "", Decimal(0), "", None, "k", venue_order_id="ord-1")
    odd = replace(action, side="long", extra={"outcome_side": "no"}, price=Decimal(7), order_type="stop")
    for one in (action, odd):
        prepared = prepare(one, "not a client order id")
        assert isinstance(prepared, Prepared)
        assert prepared.path == f"{EVENT_ORDERS}/ord-1?market_ticker=KXBTC-26"
        assert prepared.sent == {"action": "cancel", "market_id": "KXBTC-26", "venue_order_id": "ord-1"}


@pytest.mark.parametrize("client_order_id", ["", "a b", "x" * 65, "é", "a.b"])
def test_a_client_order_id_it_would_not_take(client_order_id: str) -> None:
    assert isinstance(prepare(YES, client_order_id), Refused)

"""Where a Kalshi order stands in the YES book, and what is refused rather than guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from tests.support.venue.kalshi import YES, prepared_of
from venues import (
    Refused,
)
from venues.kalshi.client import prepare


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
        ({"side": "sell", "extra": {"outcome_side": "no"}}, "bid", "0.4400"),
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
        ({"extra": {"outcome": "yes", "outcome_side": "no"}}, "both yes and no"),
        ({"extra": {"outcome": "maybe"}}, "neither"),
        ({"market_id": "KXBTC-26:x"}, "neither"),
        ({"time_in_force": "day"}, "not day"),
        ({"time_in_force": "gtd"}, "expiration_time"),
        ({"time_in_force": "gtd", "extra": {"expiration_time": "tomorrow"}}, "expiration_time"),
        ({"time_in_force": "gtc", "extra": {"expiration_time": 1794790933}}, "gtd"),
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


def test_terms_that_are_not_sent_are_shown() -> None:
    action = replace(YES, side="yes", time_in_force="gtd", extra={"expiration_time": 1794790933, "post_only": True})
    assert prepared_of(action).notes == ("in the action, but not sent: post_only",)


@pytest.mark.parametrize("client_order_id", ["", "a b", "x" * 65, "é", "a.b"])
def test_a_client_order_id_it_would_not_take(client_order_id: str) -> None:
    assert isinstance(prepare(YES, client_order_id), Refused)

"""Terms of an order: every name of them is read, nothing is guessed, and what a client does not send is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from dlq_sink.terms import LABELS, TERMS

from console.services.evidence import payload
from tests.support.venue.term_samples import SAMPLES
from venues import OrderAction, Prepared, SentTerms, Terms, parse_action
from venues.orders import VenueOrder, differences, sent_order
from venues.terms import ExitTerms, Leg, for_types, read_terms

COLUMNS: Mapping[str, object] = {
    "dlq_id": "dlq_1",
    "venue_name": "alpaca",
    "account_id": None,
    "market_id": "AAPL",
    "side": "sell",
    "quantity": 10.0,
    "order_type": "limit",
    "price": 180.1,
    "client_order_id": "c-1",
}


def read(document: Mapping[str, object], **columns: object) -> OrderAction:
    parsed = parse_action({**COLUMNS, **columns}, json.dumps(document))
    assert parsed.findings == ()
    assert parsed.action is not None
    return parsed.action


def found(document: Mapping[str, object], **columns: object) -> list[str]:
    return [finding.code for finding in parse_action({**COLUMNS, **columns}, json.dumps(document)).findings]


def test_the_table_and_the_class_name_the_same_terms() -> None:
    assert [one.name for one in fields(Terms)] == list(TERMS)


SAID: dict[str, tuple[Mapping[str, object], Terms]] = {
    "snake": ({"stop_price": 170, "reduce_only": True}, Terms(stop_price=Decimal(170), reduce_only=True)),
    "camel": ({"stopPrice": "170.0", "postOnly": True}, Terms(stop_price=Decimal("170.0"), post_only=True)),
    "shouted": ({"TRIGGERPRICE": 170.5}, Terms(stop_price=Decimal("170.5"))),
    "in params": ({"params": {"triggerPrice": 1, "reduceOnly": True}}, Terms(stop_price=Decimal(1), reduce_only=True)),
    "ccxt's own exits": (
        {"params": {"stopLossPrice": 1, "takeProfitPrice": 2}},
        Terms(stop_loss_price=Decimal(1), take_profit_price=Decimal(2)),
    ),
    "trailing": ({"trailingAmount": 3}, Terms(trail_price=Decimal(3))),
    "trailing percent": ({"trail_percent": "0.5"}, Terms(trail_percent=Decimal("0.5"))),
    "a bracket": (
        {"order_class": "BRACKET", "take_profit": {"limit_price": 9}, "stop_loss": {"stop_price": 7, "limit_price": 6}},
        Terms(
            order_class="bracket",
            take_profit=ExitTerms(limit_price=Decimal(9)),
            stop_loss=ExitTerms(Decimal(7), Decimal(6)),
        ),
    ),
    "ccxt's bracket": (
        {"params": {"takeProfit": {"triggerPrice": 9}, "stopLoss": {"triggerPrice": 7, "price": 6}}},
        Terms(take_profit=ExitTerms(Decimal(9)), stop_loss=ExitTerms(Decimal(7), Decimal(6))),
    ),
    "outside regular hours": ({"outsideRth": True}, Terms(extended_hours=True)),
    "seconds": ({"expiration_time": 1794790933}, Terms(expire_at=datetime.fromtimestamp(1794790933, UTC))),
    "milliseconds": ({"goodTillDate": 1794790933000}, Terms(expire_at=datetime.fromtimestamp(1794790933, UTC))),
    "ISO": ({"expire_at": "2026-11-17T10:00:00+02:00"}, Terms(expire_at=datetime(2026, 11, 17, 8, tzinfo=UTC))),
    "legs": (
        {"legs": [{"symbol": "A C1", "ratio_qty": "1", "side": "BUY", "position_intent": "buy_to_open"}]},
        Terms(legs=(Leg("A C1", Decimal(1), "buy", "buy_to_open"),)),
    ),
    "a subaccount by number": ({"subaccount": 3}, Terms(subaccount="3")),
    "two names that agree": ({"stop_price": 170, "stopPrice": "170.00"}, Terms(stop_price=Decimal(170))),
}


@pytest.mark.parametrize("case", SAID)
def test_every_spelling_is_read(case: str) -> None:
    document, terms = SAID[case]
    action = read(document)
    assert action.terms == terms
    assert action.extra == {}
    assert read_terms(json.loads(json.dumps(terms.document(), default=str))) == terms


@pytest.mark.parametrize("unset", [None, False, "", [], {}])
def test_what_says_nothing_is_not_set(unset: object) -> None:
    document = {"reduce_only": unset, "stop_price": unset, "iceberg": unset, "legs": unset, "order_class": "Simple"}
    action = read(document)
    assert (action.terms, action.extra) == (Terms(), {})


BAD: dict[str, tuple[Mapping[str, object], str]] = {
    "two names": ({"stop_price": 1, "triggerPrice": 2}, "two-names"),
    "in params and beside it": ({"stop_price": 1, "params": {"stopPrice": 2}}, "two-names"),
    "quantity by two names": ({"quantity": 10, "qty": 11}, "two-names"),
    "price by two names": ({"price": 180.1, "limit_price": 181}, "two-names"),
    "a client id in params": ({"params": {"clientOrderId": "c-2"}}, "disagreement"),
    "a flag as text": ({"reduce_only": "false"}, "bad-term"),
    "a flag as number": ({"post_only": 1}, "bad-term"),
    "a price of zero": ({"stop_price": 0}, "bad-term"),
    "no number": ({"trail_price": "much"}, "bad-term"),
    "a time without zone": ({"expire_at": "2026-11-17T10:00:00"}, "bad-term"),
    "a time that could be anything": ({"expire_at": 12345}, "bad-term"),
    "a class that is none": ({"order_class": "triangle"}, "bad-term"),
    "an exit without price": ({"take_profit": {"type": "market"}}, "bad-term"),
    "legs that are none": ({"legs": "two"}, "bad-term"),
    "a leg without ratio": ({"legs": [{"symbol": "A"}]}, "bad-term"),
    "params that are none": ({"params": [1]}, "bad-type"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_blocks(case: str) -> None:
    document, code = BAD[case]
    assert found(document) == [code]


def test_no_type_and_no_price_is_no_market_order() -> None:
    assert found({}, order_type=None, price=None) == ["missing"]
    assert found({}, order_type="", price=None) == ["missing"]
    assert found({"limit_price": 180.5}, order_type="market", price=None) == ["disagreement"]


def test_a_notional_order_has_no_quantity() -> None:
    document = {"symbol": "AAPL", "qty": None, "notional": "500", "type": "market"}
    action = read(document, quantity=0.0, order_type="market", price=None)
    assert (action.quantity, action.terms.notional) == (Decimal(0), Decimal(500))
    assert found({}, quantity=0.0) == ["not-positive"]


def test_legs_need_no_market_of_their_own() -> None:
    legs = [{"symbol": "A", "ratio_qty": 1}, {"symbol": "B", "ratio_qty": 1}]
    action = read({"legs": legs, "order_class": "mleg"}, market_id="", side="")
    assert (action.market_id, action.side) == ("", "")


def test_labels_pass_and_other_keys_are_kept_as_unknown() -> None:
    document = dict.fromkeys(LABELS - {"dlq_id"}, "x") | {"Strategy-ID": 1, "iceberg": 5, "params": {"foo": 1}}
    action = read(document)
    assert action.extra == {"iceberg": 5}
    sends = SentTerms()
    assert sends.unmapped(action) == ("iceberg", "params.foo")
    assert sends.unmapped(action, labels=("ICE_BERG", "foo")) == ()
    assert SentTerms(params=True).unmapped(action) == ("iceberg",)
    assert SentTerms(own=frozenset({"iceberg"}), params=True).unmapped(action) == ()


def test_a_key_inside_an_exit_that_nobody_knows_is_named() -> None:
    action = read({"stop_loss": {"stop_price": 7, "type": "market"}, "legs": [{"symbol": "A", "ratio": 1, "x": 2}]})
    assert set(SentTerms().unmapped(action)) == {"stop_loss.type", "legs.0.x"}


def test_of_a_cancel_only_what_names_the_order_counts() -> None:
    document = {
        "action": "cancel",
        "venue_order_id": "o-1",
        "stop_price": "nonsense",
        "qty": 77,
        "side": "sideways",
        "iceberg": 5,
        "subaccount": 2,
    }
    action = read(document, order_type=None, price=None)
    assert (action.verb, action.venue_order_id, action.terms) == ("cancel", "o-1", Terms(subaccount="2"))
    assert SentTerms().unsent(action) == SentTerms().unmapped(action) == ()
    assert found({"action": "cancel", "subaccount": 1, "sub_account": 2}) == ["two-names"]


@pytest.mark.parametrize("aim", [".", "..", "..."])
def test_an_order_id_of_dots_is_none(aim: str) -> None:
    """In a path they would name the folder of all orders, and a DELETE of that cancels all."""
    assert found({"action": "cancel", "venue_order_id": aim}) == ["bad-id"]


def test_blanks_inside_a_market_are_fine() -> None:
    assert read({}, market_id="ES 202612").market_id == "ES 202612"
    assert read({}, market_id="AAPL  261218C00200000").market_id == "AAPL  261218C00200000"


def test_what_a_client_does_not_declare_is_unsent() -> None:
    sends = SentTerms(new=for_types(("stop_price",), ("stop",)) | for_types((), ("limit",)))
    stop = read({"type": "stop", "stop_price": 9, "reduceOnly": True}, order_type="stop", price=None)
    assert sends.unsent(stop) == ("reduce_only",)
    assert sends.unsent(read({"stop_price": 9})) == ("stop_price",)
    assert SentTerms(everything=True).unsent(stop) == ()


def _order(**terms: object) -> VenueOrder:
    return VenueOrder("o", "c", "open", "open", terms=Terms(**terms))  # type: ignore[arg-type]  # tests name terms


@pytest.mark.parametrize(
    ("ours", "theirs", "differ"),
    [
        ({}, {}, False),
        ({"stop_price": Decimal(1)}, {"stop_price": Decimal("1.0")}, False),
        ({"stop_price": Decimal(1)}, {"stop_price": Decimal(2)}, True),
        ({"stop_price": Decimal(1)}, {}, False),
        ({}, {"stop_price": Decimal(2)}, True),
        ({"reduce_only": True}, {"reduce_only": False}, True),
        ({}, {"reduce_only": False}, False),
        ({}, {"reduce_only": True}, True),
        ({}, {"position_intent": "buy_to_open"}, False),
        ({"position_intent": "buy_to_close"}, {"position_intent": "buy_to_open"}, True),
        ({"take_profit": ExitTerms(limit_price=Decimal(9))}, {"take_profit": ExitTerms(limit_price=Decimal(8))}, True),
        ({}, {"expire_at": datetime(2026, 1, 1, tzinfo=UTC)}, False),
    ],
)
def test_a_venues_order_is_compared_in_every_term(
    ours: Mapping[str, object], theirs: Mapping[str, object], differ: bool
) -> None:
    action = read({})
    action = OrderAction(**{one.name: getattr(action, one.name) for one in fields(action)} | {"terms": Terms(**ours)})  # type: ignore[arg-type]  # tests name terms
    assert bool(differences(action, _order(**theirs))) is differ


def test_the_order_as_sent_leaves_out_what_is_not_there() -> None:
    action = read({"stop_price": 9, "type": "stop"}, order_type="stop", price=None)
    assert sent_order(action, "c-1", time_in_force="day") == {
        "action": "new",
        "market_id": "AAPL",
        "side": "sell",
        "quantity": Decimal("10.0"),
        "order_type": "stop",
        "time_in_force": "day",
        "client_order_id": "c-1",
        "stop_price": Decimal(9),
    }


@pytest.mark.parametrize("term", TERMS)
def test_the_ledger_gives_every_term_back(term: str) -> None:
    """What cannot be read again could not be reconciled."""
    action = replace(read({}), terms=Terms(**{term: SAMPLES[term]}), params={"x": Decimal("1.5"), "y": [1, None]})
    prepared = Prepared("new", "c-1", "POST", "/orders", b"{}", action)
    kept = payload.decode(payload.encode(prepared))
    assert kept is not None
    assert kept.action.terms == action.terms

"""parse_action: exact where it can be, a named finding where it cannot, and never an exception."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal

import pytest

from venues import OrderAction, SentTerms, parse_action
from venues.action import SIDES
from venues.json_fields import MAX_BYTES, MAX_DEPTH
from venues.terms import for_types

COLUMNS: Mapping[str, object] = {
    "dlq_id": "dlq_1",
    "venue_name": "alpaca",
    "account_id": "acct-1",
    "market_id": "AAPL",
    "side": "buy",
    "quantity": 100.0,
    "order_type": "limit",
    "price": 180.1,
    "client_order_id": "coid-1",
}


def row(**changes: object) -> dict[str, object]:
    return {**COLUMNS, **changes}


def action_of(columns: Mapping[str, object], action_json: str | None) -> OrderAction:
    parsed = parse_action(columns, action_json)
    assert parsed.findings == ()
    assert parsed.action is not None
    return parsed.action


def codes(columns: Mapping[str, object], action_json: str | None) -> list[str]:
    parsed = parse_action(columns, action_json)
    assert (parsed.action is None) == bool(parsed.findings)
    return [finding.code for finding in parsed.findings]


def test_every_field_from_the_json() -> None:
    document = {
        "action": "Replace",
        "venue_name": "ALPACA",
        "account_id": "acct-1",
        "market_id": "AAPL",
        "side": "BUY",
        "quantity": "100",
        "order_type": "LIMIT",
        "price": 180.1,
        "client_order_id": "coid-1",
        "time_in_force": "GTC",
        "order_key": "key-1",
        "venue_order_id": "ord-9",
        "price_unit": "Dollars",
        "strategy": {"name": "mean", "legs": [1, 2.5]},
    }
    assert action_of(COLUMNS, json.dumps(document)) == OrderAction(
        verb="replace",
        market_id="AAPL",
        side="buy",
        quantity=Decimal(100),
        order_type="limit",
        price=Decimal("180.1"),
        order_key="key-1",
        account_id="acct-1",
        client_order_id="coid-1",
        time_in_force="gtc",
        venue_order_id="ord-9",
        price_unit="dollars",
    )


@pytest.mark.parametrize("text", [None, "", "  \n", "{}"])
def test_without_json_it_is_rebuilt_from_the_columns_and_says_so(text: str | None) -> None:
    parsed = parse_action(COLUMNS, text)
    assert parsed.action == OrderAction(
        verb="new",
        market_id="AAPL",
        side="buy",
        quantity=Decimal("100.0"),
        order_type="limit",
        price=Decimal("180.1"),
        order_key="coid-1",
        account_id="acct-1",
        client_order_id="coid-1",
    )
    assert parsed.notes == ("no action JSON: rebuilt from the columns",)


def test_absent_keys_come_from_the_columns_without_a_note() -> None:
    parsed = parse_action(COLUMNS, '{"tif": "IOC"}')
    assert parsed.notes == ()
    assert parsed.action is not None
    assert (parsed.action.market_id, parsed.action.time_in_force) == ("AAPL", "ioc")


def test_the_json_has_the_better_digits() -> None:
    action = action_of(row(price=0.1), '{"price": 0.1000000000000000055511151231257827}')
    assert action.price == Decimal("0.1000000000000000055511151231257827")
    assert action_of(row(quantity=1e22), '{"quantity": 10000000000000000000000}').quantity == Decimal(10**22)


@pytest.mark.parametrize(
    ("stored", "token"),
    [
        (180.1, "180.1"),
        (180.1, '"180.10"'),
        (180.1, "1801e-1"),
        (1e-7, "1E-7"),
        (100, "100.0"),
        (Decimal("1.50"), "1.5"),
        ("1.5", "1.50"),
    ],
)
def test_equal_numbers_agree_however_they_are_written(stored: object, token: str) -> None:
    assert action_of(row(price=stored), f'{{"price": {token}}}').price == Decimal(token.strip('"'))


@pytest.mark.parametrize(
    ("changes", "key"),
    [({}, "coid-1"), ({"client_order_id": None}, "dlq_1"), ({"client_order_id": ""}, "dlq_1")],
)
def test_the_order_key_falls_back(changes: dict[str, object], key: str) -> None:
    assert action_of(row(**changes), None).order_key == key


def test_an_identifier_written_as_a_number_keeps_its_digits() -> None:
    token = "1" + "0" * 39
    assert action_of(row(market_id=token), f'{{"market_id": {token}}}').market_id == token


def test_a_market_order_needs_no_price_and_one_that_is_stated_is_not_dropped() -> None:
    assert action_of(row(order_type="market", price=None), "{}").price is None
    priced = action_of(row(order_type="market"), "{}")
    assert SentTerms(new=for_types(())).unsent(priced) == ("price",)


def test_a_cancel_needs_no_quantity() -> None:
    action = action_of(row(quantity=0, price=None), '{"action": "cancel", "venue_order_id": "ord-1"}')
    assert (action.verb, action.quantity, action.venue_order_id) == ("cancel", Decimal(0), "ord-1")


@pytest.mark.parametrize("side", sorted(SIDES))
def test_every_known_side(side: str) -> None:
    assert action_of(row(side=side.upper()), "{}").side == side


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[]", "not-object"),
        ("null", "not-object"),
        ('"buy"', "not-object"),
        ("{", "bad-json"),
        ("{'side': 'buy'}", "bad-json"),
        ('{"side": "buy"} x', "bad-json"),
        ('{"side": "b\x01y"}', "bad-json"),
        ('{"quantity": 100, "quantity": 1000}', "duplicate-key"),
        ('{"note": {"a": 1, "a": 1}}', "duplicate-key"),
        ('{"quantity": 100, "\\u0071uantity": 1}', "duplicate-key"),
        ('{"price": NaN}', "not-finite"),
        ('{"price": Infinity}', "not-finite"),
        ('{"note": -Infinity}', "not-finite"),
        ('{"price": "NaN"}', "bad-number"),
        ('{"price": 1e400}', "out-of-range"),
        ('{"price": 1e99999999999999999999}', "out-of-range"),
        ('{"price": "1e-400"}', "out-of-range"),
        ('{"price": 0.' + "1" * 60 + "}", "out-of-range"),
        ('{"x":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH, None),
        ('{"x":' * MAX_DEPTH + "{}" + "}" * MAX_DEPTH, "too-deep"),
        ('{"x":' + "[" * 30_000 + "]" * 30_000 + "}", "too-deep"),
        ('{"x":"' + "y" * MAX_BYTES + '"}', "too-long"),
        ('{"x":"' + "é" * (MAX_BYTES // 2) + '"}', "too-long"),
        ('{"action": "amend"}', "unknown-verb"),
        ('{"action": 1}', "unknown-verb"),
        ('{"action": ["new"]}', "bad-type"),
        ('{"price_unit": "pence"}', "unknown-unit"),
        ('{"tif": "day", "time_in_force": "GTC"}', "two-names"),
        ('{"tif": 1.5}', "bad-type"),
        ('{"order_key": "a b"}', "unprintable"),
        ('{"venue_order_id": "x\\u202ey"}', "unprintable"),
    ],
)
def test_what_the_json_may_not_hold(text: str, code: str | None) -> None:
    assert codes(COLUMNS, text) == ([] if code is None else [code])


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("venue_name", "kalshi"),
        ("account_id", "acct-2"),
        ("market_id", "aapl"),
        ("side", "sell"),
        ("quantity", 100.5),
        ("quantity", "1000"),
        ("order_type", "market"),
        ("price", 180.11),
        ("price", None),
        ("client_order_id", "coid-2"),
        ("client_order_id", None),
        ("market_id", None),
        ("dlq_id", "dlq_2"),
    ],
)
def test_json_and_columns_must_agree(name: str, stated: object) -> None:
    assert "disagreement" in codes(COLUMNS, json.dumps({name: stated}))


@pytest.mark.parametrize(("name", "value"), [("price", 180.1), ("client_order_id", "coid-1"), ("account_id", "acct-1")])
def test_a_value_beside_an_empty_column_is_a_disagreement(name: str, value: object) -> None:
    changes: dict[str, object] = {name: None, "order_type": "market" if name == "price" else "limit"}
    assert codes(row(**changes), json.dumps({name: value})) == ["disagreement"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"side": "long"}, "unknown-side"),
        ({"side": None}, "missing"),
        ({"side": b"buy"}, "bad-type"),
        ({"market_id": ""}, "missing"),
        ({"market_id": 1.5}, "bad-type"),
        ({"market_id": " AAPL"}, "unprintable"),
        ({"market_id": "AAPL "}, "unprintable"),
        ({"market_id": "AA\tPL"}, "unprintable"),
        ({"client_order_id": "a b"}, "unprintable"),
        ({"market_id": "AAPL\u00a0"}, "unprintable"),
        ({"market_id": "AA\u202ePL"}, "unprintable"),
        ({"market_id": "AAPL\u3164"}, "unprintable"),
        ({"market_id": "AAPL\u0301"}, "unprintable"),
        ({"market_id": "A" * 129}, "unprintable"),
        ({"account_id": "a\x1b[2Jb"}, "unprintable"),
        ({"account_id": "desk 1 "}, "unprintable"),
        ({"account_id": "desk\u00a01"}, "unprintable"),
        ({"client_order_id": "a\nb"}, "unprintable"),
        ({"client_order_id": "\ud800"}, "unprintable"),
        ({"order_type": "stop"}, "missing-stop"),
        ({"order_type": "stop_market"}, "unknown-type"),
        ({"order_type": "trailing_stop"}, "missing-trail"),
        ({"order_type": None}, "missing"),
        ({"price": None}, "missing-price"),
        ({"price": 0.0}, "not-positive"),
        ({"price": -1}, "not-positive"),
        ({"price": float("nan")}, "not-finite"),
        ({"price": Decimal("sNaN")}, "not-finite"),
        ({"price": True}, "bad-number"),
        ({"price": "1_000"}, "bad-number"),
        ({"price": " 1"}, "bad-number"),
        ({"price": "\u0661"}, "bad-number"),
        ({"price": b"1"}, "bad-number"),
        ({"quantity": None}, "missing"),
        ({"quantity": 0}, "not-positive"),
        ({"quantity": float("inf")}, "not-finite"),
        ({"quantity": 10**5000}, "out-of-range"),
    ],
)
def test_what_the_columns_may_not_hold(changes: dict[str, object], code: str) -> None:
    assert code in codes(row(**changes), "{}")
    assert codes(row(**changes), "{}").count(code) == 1


def test_several_things_wrong_are_all_named() -> None:
    found = codes(row(side="long", quantity=-1), '{"price": "x"}')
    assert found == ["unknown-side", "not-positive", "bad-number"]


def test_a_blob_in_the_store_is_a_finding() -> None:
    assert codes(COLUMNS, b"{}") == ["bad-json"]  # type: ignore[arg-type]  # what SQLite may hand out


def test_letters_outside_ascii_are_noted() -> None:
    parsed = parse_action(row(market_id="\u0391APL"), None)  # a Greek Alpha
    assert parsed.action is not None
    assert any("outside ASCII" in note for note in parsed.notes)


def test_findings_show_little_and_only_ascii() -> None:
    parsed = parse_action(row(side="\x1b]52;c;" + "\u202e" * 5000), None)
    assert all(finding.text.isascii() and finding.text.isprintable() for finding in parsed.findings)
    assert all(len(finding.text) < 200 for finding in parsed.findings)


@pytest.mark.parametrize("action", ["new", "cancel"])
def test_an_account_may_have_a_name_of_several_words(action: str) -> None:
    document = json.dumps({"action": action, "account_id": "desk 1", "venue_order_id": "o-1"})
    parsed = parse_action({**COLUMNS, "account_id": "desk 1"}, document)
    assert parsed.action is not None, parsed.findings
    assert parsed.action.account_id == "desk 1"

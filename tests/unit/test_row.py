"""A row of the queue: its signs, its value and its numbers, at every width, without colours."""

# ruff: noqa: E501 - a case is one line
from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from rich.cells import cell_len

from backends.records import Entry, State
from console.render.line import plain, width
from console.render.order_row import is_exit
from console.render.row import header, legend, row_line, table_columns
from console.render.value import price, quantity, short, short_amounts, short_value
from console.services.layout_fields import INTEGRATION, ORDERS, OUTBOX
from console.services.market.entry_value import summed
from console.services.triage.marks import MarkFacts, UsualLimits
from console.services.triage.poison import Poison
from console.services.triage.triage import ClassifiedEntry
from tests.support.app import ERRORS, NOW, order

SIZES = (76, 116, 196)


def entry(state: State = "pending", **given: Any) -> Entry:
    made = order(1, **({"minutes": 3} | given))
    names = (
        "dlq_id", "captured_at", "venue_name", "account_id", "market_id", "side", "quantity", "order_type", "price",
        "error", "retry_count", "action_json",
    )  # fmt: skip
    values = tuple(getattr(made, name) for name in names)
    return Entry("orders", made.dlq_id, state, (0, False), (1,), names, values)


def line(of: Entry, size: int = 116, facts: MarkFacts | None = None, **given: Any) -> str:
    row = ClassifiedEntry(of, facts)
    return plain(row_line(row, NOW, size, **({"marked": False, "fresh": False} | given)))


def poisoned(of: Entry) -> MarkFacts:
    return MarkFacts({of.id: Poison(of, 3, "x")}, NOW, UsualLimits())


SIGNS = {
    "pending": (entry(), None, "   "),
    "in doubt": (entry("in_doubt"), None, " ? "),
    "in flight": (entry("in_flight"), None, " » "),
    "replayed": (entry("replayed"), None, " ✓ "),
    "dismissed": (entry("dismissed"), None, " – "),
    "may have arrived": (entry(error="timeout"), None, " ≈ "),
    "stale": (entry(minutes=60), None, " · "),
    "poison": (entry(), poisoned(entry()), " ☠ "),
    "poison is more than stale": (entry(minutes=60), poisoned(entry()), " ☠ "),
    "exit": (entry(action_json='{"reduceOnly": true}'), None, "  ⚑"),
    "in doubt is more than stale": (entry("in_doubt", minutes=60), None, " ? "),
}


@pytest.mark.parametrize("name", SIGNS)
def test_a_sign_tells_state_and_marks(name: str) -> None:
    of, facts, signs = SIGNS[name]
    assert line(of, facts=facts)[:4] == f"{signs} "
    assert line(of, facts=facts, marked=True)[:4] == f"●{signs[1:]} "


def test_every_sign_has_its_meaning_in_the_legend() -> None:
    known = {one.sign for one in legend(ORDERS)}
    assert {sign for _, _, signs in SIGNS.values() for sign in signs if sign != " "} | {"●", "+"} == known
    assert not {one.sign for one in legend(OUTBOX)} & {"⚑", "≈"}
    assert all(cell_len(one.sign) == 1 and one.meaning for one in legend(ORDERS))


@pytest.mark.parametrize("size", [20, 40, 64, *SIZES, 400])
def test_a_row_is_exactly_as_wide_as_the_table(size: int) -> None:
    rows = (
        entry(),
        entry(market_id="漢字" * 30, error="x" * 900, account_id="a" * 90),
        entry(quantity=1e18, price=1e-9),
    )
    for of in rows:
        assert width(row_line(ClassifiedEntry(of), NOW, size, marked=True, fresh=True)) == width(header(size, ORDERS))


@pytest.mark.parametrize("layout", [ORDERS, OUTBOX, INTEGRATION])
@pytest.mark.parametrize("size", SIZES)
def test_no_column_repeats_a_word_and_the_error_grows(layout: str, size: int) -> None:
    columns = {column.title: column.size for column in table_columns(size, layout).columns}
    assert "STATE" not in columns
    narrower = {column.title: column.size for column in table_columns(size - 40, layout).columns}
    assert columns["ERROR"] >= narrower["ERROR"] or size == 76


def test_at_80_columns_a_market_stands_whole() -> None:
    shown = line(entry(market_id="BTC/USDT", venue_name="ccxt:binance", side="sell", quantity=2.5, price=92641.0), 76)
    assert "binance  SELL 2.5 BTC/USDT @92,641.0 " in shown
    assert "232k" in shown


def test_sides_are_told_apart_without_colours() -> None:
    assert "SELL" in line(entry(side="SELL"))
    assert "SELL" in line(entry(side="sell"))
    assert " buy " in line(entry(side="BUY"))
    assert "SELL_SHORT" in line(entry(side="sell_short"))


def test_only_what_is_held_is_bold() -> None:
    for state, bold in (("pending", False), ("in_doubt", True), ("in_flight", True), ("dismissed", False)):
        cells = row_line(ClassifiedEntry(entry(state)), NOW, 116, marked=False, fresh=False)  # type: ignore[arg-type]
        assert any(cell.tone == "strong" for cell in cells) is bold


def test_tries_are_blank_at_none() -> None:
    assert line(entry(retry_count=0)).endswith("   ")
    assert line(entry(retry_count=4)).endswith("4")


@pytest.mark.parametrize(
    ("amount", "shown"),
    [("0", "0.00"), ("0.62", "0.62"), ("9.3", "9.30"), ("24.4", "24.4"), ("512", "512"), ("999.4", "999"),
     ("999.6", "1.0k"), ("4728", "4.7k"), ("18000", "18.0k"), ("99960", "100k"), ("231602", "232k"), ("999600", "1.0M"),
     ("2100000", "2.1M"), ("9960000", "10.0M"), ("7e9", "7.0B"), ("8e12", "8.0T"), ("-4728", "−4.7k")],
)  # fmt: skip
def test_an_amount_is_short(amount: str, shown: str) -> None:
    assert short(Decimal(amount)) == shown


@pytest.mark.parametrize(
    ("currency", "room", "shown"),
    [("USD", 7, "18.0k"), ("USDT", 7, "18.0k"), ("EUR", 7, "18kEUR"), ("EUR", 11, "18.0k EUR"), ("USD", 11, "18.0k USD"),
     (None, 7, "18.0k")],
)  # fmt: skip
def test_only_dollars_stand_without_their_name(currency: str | None, room: int, shown: str) -> None:
    assert short_value(Decimal(18000), currency, room) == shown


def test_currencies_are_never_added() -> None:
    rows = [
        entry(quantity=10.0, price=100.0),
        entry(quantity=1.0, price=100.0),
        entry(venue_name="ccxt:kraken", market_id="BTC/EUR", quantity=1.0, price=900.0),
        entry(price=None),
    ]
    total = summed(rows, {})
    assert total == {"USD": Decimal(1100), "EUR": Decimal(900)}
    assert short_amounts(total) == "1.1k USD + 900 EUR"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [(1.214e-05, "0.00001214"), (92641.0, "92,641.0"), ("92641", "92,641"), (180.0, "180.0"), (1e22, "10,000,000,000,000,000,000,000"),
     (Decimal("0.1000"), "0.1000"), ("zebra", "zebra")],
)  # fmt: skip
def test_a_price_has_separators_and_no_exponent(stored: object, shown: str) -> None:
    assert price(stored) == shown


def test_a_quantity_has_separators_and_no_exponent() -> None:
    assert [quantity(one) for one in (1e6, 2.5, 1e-7, 1200000.5)] == ["1,000,000", "2.5", "0.0000001", "1,200,000.5"]


@pytest.mark.parametrize(
    ("action", "is_one"),
    [({"reduce_only": True}, True), ({"reduceOnly": "true"}, True), ({"params": {"reduceOnly": True}}, True),
     ({"position_intent": "sell_to_close"}, True), ({"reduce_only": False}, False), ({"note": "close it"}, False),
     ({"position_intent": "buy_to_open", "x": "close"}, False)],
)  # fmt: skip
def test_an_exit_says_so_itself(action: dict[str, object], is_one: bool) -> None:
    assert is_exit(entry(action_json=json.dumps(action))) is is_one


@pytest.mark.parametrize("text", ["", "null", "[1]", '{"reduce', "[" * 5000 + "reduce"])
def test_an_action_that_cannot_be_read_is_no_exit(text: str) -> None:
    assert is_exit(entry(action_json=text)) is False


def test_a_row_shows_what_the_error_says() -> None:
    traceback = "Traceback (most recent call last):\n  File \"/srv/e.py\", line 1, in submit\n    x()\nKeyError: 'qty'"
    assert "KeyError: qty" in line(entry(error=traceback))
    assert "Traceback" not in line(entry(error=traceback))
    assert "Connection reset by peer" in line(entry(error=ERRORS["reset"]))


@pytest.mark.parametrize(("layout", "title", "least"), [(INTEGRATION, "REQUEST", 48), (OUTBOX, "MESSAGE", 60)])
def test_what_a_layout_s_entry_is_about_grows_with_the_width(layout: str, title: str, least: int) -> None:
    sizes = {column.title: column.size for column in table_columns(196, layout).columns}
    assert sizes[title] >= least
    assert sizes["ERROR"] >= least

"""What an order is worth and where it stands in its market, against an oracle that is written another way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from console.services.market.exposure import over_limit
from console.services.market.worth import drifted, is_valued, worth_of
from console.services.replay.guards import OrderFacts
from console.services.replay.plan import plan
from console.settings.config import Limits
from tests.support.planning import NOW, command, entry, facts
from venues import MarketView, OrderAction, Quote, Terms

BID, ASK = Decimal("99"), Decimal("101")
QUOTES = {
    "good": (BID, ASK, 1),
    "locked": (ASK, ASK, 1),
    "at the age": (BID, ASK, 60),
    "too old": (BID, ASK, 61),
    "crossed": (ASK, BID, 1),
    "no bid": (None, ASK, 1),
    "zero ask": (BID, Decimal(0), 1),
    "zero bid": (Decimal(0), ASK, 1),
    "none": None,
}
PRICES = ("50", "94.05", "94.04", "99", "100", "101", "106.05", "106.06", "200")
POSITIONS = (None, "0", "4", "10", "11", "-10", "-4")
CURRENCIES = (("USD", True), ("JPY", False))
LIMITS = Limits(max_notional={"USD": Decimal(1000)}, four_eyes_over={"USD": Decimal(5000)})


@dataclass(frozen=True)
class Cell:
    side: str
    kind: str
    price: str | None
    quote: str
    position: str | None
    currency: tuple[str, bool]
    size: int

    @property
    def action(self) -> OrderAction:
        return OrderAction(
            verb="new",
            market_id="M",
            side=self.side,
            quantity=Decimal(10),
            order_type=self.kind,
            price=None if self.price is None else Decimal(self.price),
            order_key="k",
            terms=Terms(stop_price=Decimal(90)) if "stop" in self.kind else Terms(),
        )

    @property
    def view(self) -> MarketView:
        told = QUOTES[self.quote]
        quote = None if told is None else Quote(told[0], told[1], NOW - timedelta(seconds=told[2]))
        held = None if self.position is None else Decimal(self.position)
        return MarketView(quote, held, currency=self.currency[0], contract_size=Decimal(self.size))


CELLS = [
    Cell(side, kind, price if kind in ("limit", "stop_limit") else None, quote, position, currency, size)
    for side, (kind, price), quote, position, currency, size in product(
        ("buy", "sell"),
        [*product(("limit", "stop_limit"), PRICES), ("market", ""), ("stop", "")],
        QUOTES,
        POSITIONS,
        CURRENCIES,
        (1, 5),
    )
]


def expected(cell: Cell) -> dict[str, Any]:
    """By hand, in whole fractions."""
    counts = cell.quote in ("good", "locked", "at the age")
    bid, ask = {"locked": (101, 101)}.get(cell.quote, (99, 101))
    at = Fraction(cell.price) if cell.price else (Fraction(ask if cell.side == "buy" else bid) if counts else None)
    held = None if cell.position is None else int(cell.position)
    after = None if held is None else held + (10 if cell.side == "buy" else -10)
    if held is None:
        closes = False
    elif cell.side == "sell":
        closes = held >= 10
    else:
        closes = held <= -10
    drift = None
    if counts and cell.price:
        middle = Fraction(bid + ask, 2)
        drift = (Fraction(cell.price) - middle) / middle
    through = counts and cell.price is not None and not closes
    if through and cell.side == "buy":
        through = Fraction(cell.price or 0) > Fraction(ask) * Fraction(105, 100)
    elif through:
        through = Fraction(cell.price or 0) < Fraction(bid) * Fraction(95, 100)
    return {
        "amount": None if at is None else at * 10 * cell.size,
        "after": after,
        "closes": closes,
        "drift": drift,
        "held back": through,
        "valued": at is not None and cell.currency[1],
    }


def test_value_drift_and_position_in_every_cell() -> None:
    assert len(CELLS) >= 1000
    for cell in CELLS:
        made = worth_of(cell.action, cell.view, at=NOW, quote_seconds=60)
        wanted = expected(cell)
        assert (None if made.amount is None else Fraction(made.amount)) == wanted["amount"], cell
        assert (made.after, made.reduces) == (wanted["after"], wanted["closes"]), cell
        assert (drifted(made, LIMITS) is not None) == wanted["held back"], cell
        assert is_valued(made, LIMITS) == wanted["valued"], cell
        drift = wanted["drift"]
        assert (made.drift is None) == (drift is None), cell
        assert drift is None or abs(Fraction(made.drift or 0) - drift) < Fraction(1, 10**12), cell


def _worth(action: OrderAction, **view: object) -> Decimal | None:
    quote = Quote(Decimal("0.40"), Decimal("0.42"), NOW)
    return worth_of(action, MarketView(quote, **view), at=NOW, quote_seconds=60).amount  # type: ignore[arg-type]  # fields of MarketView


def test_what_else_an_order_can_be_counted_by() -> None:
    assert _worth(command(3).action) == 30
    assert _worth(command(3, price_unit="cents").action) == Decimal("0.3")
    assert _worth(command(3, verb="cancel").action) == 0
    assert _worth(command(3, quantity=Decimal(0), terms=Terms(notional=Decimal(500))).action) == 500
    assert _worth(command(3).action, contract_size=Decimal(100), inverse=True) == 300
    unseen = worth_of(command(3, price=None, order_type="market").action, None, at=NOW, quote_seconds=60)
    assert (unseen.amount, unseen.notes) == (None, ())


def test_numbers_that_no_market_has_count_for_nothing() -> None:
    huge = Decimal("1E+999999")
    for view in (MarketView(Quote(Decimal(1), huge, NOW), huge), MarketView(Quote(Decimal("1E-999999"), huge, NOW))):
        made = worth_of(command(price=None, order_type="market").action, view, at=NOW, quote_seconds=60)
        assert (made.amount, made.quote, made.before) == (None, None, None)


def test_what_could_not_be_read_is_said_once() -> None:
    view = MarketView(problems=("quote: HTTP 404", "position: HTTP 404"))
    made = worth_of(command().action, view, at=NOW, quote_seconds=60)
    assert made.notes == ("no quote: HTTP 404", "position: HTTP 404")
    assert worth_of(command().action, MarketView(), at=NOW, quote_seconds=60).notes == ("no quote",)
    old = MarketView(Quote(Decimal(1), Decimal(2), NOW - timedelta(seconds=61)))
    assert worth_of(command().action, old, at=NOW, quote_seconds=60).notes == ("no quote: it is 61 s old",)


@pytest.mark.parametrize(("price", "held"), [("0.46", False), ("0.47", False), ("0.48", True)])
def test_a_contract_between_zero_and_one_is_measured_in_its_price(price: str, held: bool) -> None:
    view = MarketView(Quote(Decimal("0.40"), Decimal("0.42"), NOW), zero_to_one=True)
    for unit, number in (("dollars", Decimal(price)), ("cents", Decimal(price) * 100)):
        seen = view
        if unit == "cents":
            seen = MarketView(Quote(Decimal(40), Decimal(42), NOW), zero_to_one=True)
        made = worth_of(command(price=number, price_unit=unit).action, seen, at=NOW, quote_seconds=60)
        assert (drifted(made, Limits()) is not None) is held


def test_reduce_only_and_closing_intents_only_reduce() -> None:
    for terms in (Terms(reduce_only=True), Terms(position_intent="sell_to_close")):
        made = worth_of(command(terms=terms).action, MarketView(), at=NOW, quote_seconds=60)
        assert made.reduces
    opening = Terms(position_intent="sell_to_open")
    assert not worth_of(command(terms=opening).action, MarketView(), at=NOW, quote_seconds=60).reduces


def _held(number: int, position: str) -> dict[str, OrderFacts]:
    view = MarketView(Quote(Decimal("9.99"), Decimal(10), NOW), Decimal(position), currency="USD")
    return {command(number).entry_id: OrderFacts(view=view, market="AAPL")}


def test_exits_go_first_and_each_order_meets_the_position_that_the_one_before_it_left() -> None:
    one = command(1, quantity=Decimal(5))
    first = command(2, quantity=Decimal(6), side="sell")
    second = command(3, quantity=Decimal(6), side="sell", price=Decimal(11))
    third = command(4, quantity=Decimal(4), side="sell")
    commands = [one, first, second, third]
    orders = {key: value for number in range(1, 5) for key, value in _held(number, "10").items()}
    made = plan([entry(each) for each in commands], facts(commands, orders=orders))
    told: list[Any] = [
        (step.command.entry_id, step.worth.before, step.worth.after, step.worth.reduces) for step in made.steps
    ]
    assert told == [
        (first.entry_id, 10, 4, True),
        (third.entry_id, 4, 0, True),
        (one.entry_id, 0, 5, False),
        (second.entry_id, 5, -1, False),
    ]
    remarks = [one.notes[-1] for one in made.planned()]
    assert [text.partition(":")[0] for text in remarks] == ["exit", "exit", "adds", "adds"]


def test_exits_take_the_room_of_a_full_batch() -> None:
    commands = [command(1), command(2, side="sell", quantity=Decimal(2))]
    orders = _held(1, "10") | _held(2, "10")
    made = plan([entry(each) for each in commands], facts(commands, orders=orders, limits=Limits(max_batch=1)))
    assert made.going_ids == (commands[1].entry_id,)
    assert [guard.code for guard in made.blocked[0].guards] == ["max-batch"]


def test_a_contract_seen_from_its_other_side_moves_the_same_position() -> None:
    yes, no = command(1, quantity=Decimal(3)), command(2, quantity=Decimal(3), price=Decimal(11))
    seen = MarketView(position=Decimal(0))
    flipped = MarketView(position=Decimal(0), flipped=True)
    orders = {yes.entry_id: OrderFacts(view=seen, market="K"), no.entry_id: OrderFacts(view=flipped, market="K")}
    made = plan([entry(yes), entry(no)], facts([yes, no], orders=orders))
    told: list[Any] = [(step.worth.before, step.worth.after) for step in made.steps]
    assert told == [(0, 3), (-3, 0)]


@pytest.mark.parametrize(
    ("gross", "limit", "over"),
    [
        ({"USD": "10"}, Decimal(10), False),
        ({"USD": "10.01"}, Decimal(10), True),
        ({"USD": "6", "EUR": "4"}, Decimal(10), False),
        ({"USD": "6", "EUR": "5"}, Decimal(10), True),
        ({"USD": "6", "JPY": "500"}, {"USD": Decimal(10), "JPY": Decimal(1000)}, True),
        ({"USD": "5", "JPY": "500"}, {"USD": Decimal(10), "JPY": Decimal(1000)}, False),
        ({"CHF": "1"}, {"USD": Decimal(10)}, True),
        ({"CHF": "1"}, {"USD": Decimal(10), "default": Decimal(2)}, False),
        ({"": "11"}, Decimal(10), True),
        ({"USD": "0"}, Decimal(0), False),
    ],
)
def test_four_eyes_are_needed_over_one_currencys_limit_or_over_all_together(
    gross: dict[str, str], limit: Decimal | dict[str, Decimal], over: bool
) -> None:
    amounts = {currency: Decimal(amount) for currency, amount in gross.items()}
    assert (over_limit(amounts, limit) is not None) is over

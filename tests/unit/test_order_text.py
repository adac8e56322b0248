"""An order in one line: every term that is set is in it, and nothing a terminal would obey."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from dlq_sink.terms import TERMS

from console.render.order_text import market_text, order_text
from console.services.market.worth import Worth
from tests.support.planning import command
from tests.support.venue.term_samples import SAMPLES
from venues import Quote, Terms
from venues.terms import ExitTerms, Leg

TEXTS = {
    "limit": (command(3).action, "buy 3 AAPL @ 10"),
    "cancel": (command(3, verb="cancel").action, "cancel buy 3 AAPL"),
    "market": (command(3, price=None, order_type="market").action, "buy 3 AAPL market"),
    "stop": (
        command(3, side="sell", price=None, order_type="stop", terms=Terms(stop_price=Decimal("170.0"))).action,
        "sell 3 AAPL market stop 170.0",
    ),
    "notional": (
        command(quantity=Decimal(0), price=None, order_type="market", terms=Terms(notional=Decimal(500))).action,
        "buy 500 USD AAPL market",
    ),
    "bracket": (
        command(
            3,
            time_in_force="gtc",
            terms=Terms(
                order_class="bracket",
                take_profit=ExitTerms(limit_price=Decimal(12)),
                stop_loss=ExitTerms(Decimal(9), Decimal("8.5")),
            ),
        ).action,
        "buy 3 AAPL @ 10 gtc bracket take-profit limit 12 stop-loss stop 9 limit 8.5",
    ),
    "legs": (
        command(3, market_id="", side="", terms=Terms(legs=(Leg("A", Decimal(1), "buy"), Leg("B", Decimal(2))))).action,
        "3 @ 10 legs buy 1 A + 2 B",
    ),
    "params": (command(3, params={"hidden": True, "x": 1}).action, "buy 3 AAPL @ 10 params hidden=True, x=1"),
    "exits alone": (command(3, price=None, terms=Terms(order_class="oco")).action, "buy 3 AAPL limit oco"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_each_order_reads_as_it_goes(case: str) -> None:
    action, text = TEXTS[case]
    assert order_text(action, "USD").strip() == text


@pytest.mark.parametrize("term", TERMS)
def test_no_term_is_left_out(term: str) -> None:
    plain, told = command().action, command(terms=Terms(**{term: SAMPLES[term]})).action
    assert order_text(plain) != order_text(told)


def test_nothing_in_it_is_obeyed_by_a_terminal() -> None:
    evil = "A\x1b[2J\u202eB"
    action = command(market_id=evil, side=evil, params={evil: evil}, terms=Terms(oca_group=evil)).action
    assert not {"\x1b", "\u202e"} & set(order_text(action, evil))


def test_the_market_beside_it() -> None:
    quote = Quote(Decimal("9.99"), Decimal("10.01"), datetime(2026, 1, 1, tzinfo=UTC))
    worth = Worth(
        amount=Decimal(10),
        quote=quote,
        drift=Decimal("-0.012"),
        through=Decimal("-0.01"),
        before=Decimal(-3),
        after=Decimal(0),
        open_orders=2,
    )
    assert market_text(worth) == "now 9.99/10.01 −1.2% rests, position −3 → 0, 2 open there"
    assert market_text(Worth(None)) == ""

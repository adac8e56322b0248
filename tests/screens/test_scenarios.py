"""What an operator does at three in the morning, scenario by scenario, with the keys it takes: never more than these.

A text that is typed (a filter, a note, a word a gate asks for) is not counted, the keys around it are.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from console.screens.evidence.answer import AnswerDialog
from console.screens.gates.approve import ApproveGate
from console.screens.gates.page import RowDialog
from console.screens.gates.settle import SettleGate
from console.settings.config import Limits
from tests.screens.test_evidence_actions import in_doubt
from tests.screens.test_replay_actions import over, stage_with
from tests.screens.test_second_person import asked, both, pair
from tests.support.app import (
    Stage,
    answer,
    app_of,
    current,
    ident,
    ids,
    make_store,
    notice,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    until,
)
from tests.support.exchange import Exchange


class Hand:
    """Presses keys and counts them; text that is typed counts nothing, its Enter does."""

    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot
        self.app = app_of(pilot)
        self.keys = 0

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)
        self.keys += len(keys)

    async def text(self, text: str) -> None:
        """What a gate asks for, and Enter."""
        await answer(self.pilot, text)
        self.keys += 1

    async def filter(self, line: str) -> None:
        await self.press("slash")
        for char in line:
            await self.pilot.press("space" if char == " " else char)
        await self.press("enter")
        await settled(self.pilot)

    async def reconcile(self) -> None:
        """C, and the end of what it begins."""
        before = self.app.activity.run
        await self.press("C")
        await until(self.pilot, lambda: self.app.activity.run is not before)
        await over(self.pilot)

    async def sees(self, *words: str) -> None:
        for word in words:
            await until(self.pilot, lambda word=word: word in shown(self.app))  # type: ignore[misc]


def shown(app: Any) -> str:
    return " ".join(screen_text(app).replace("│", " ").split())


KALSHI: dict[str, Any] = {
    "venue_name": "Kalshi",
    "market_id": "KXFED",
    "price": 0.5,
    "quantity": 200_000.0,
    "minutes": 90.0,
}


async def test_0_the_biggest_problem_is_one_key(stage: Stage) -> None:
    async with stage.console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.press("f")
        await hand.sees("HTTP 429 after")
        assert hand.keys == 1


async def test_1_one_venue_is_left_out(tmp_path: Path) -> None:
    entries = [order(1), order(2, **KALSHI), order(3), order(4, **KALSHI)]
    async with Stage(make_store(tmp_path / "o.db", entries)).console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.filter("!venue:kalshi")
        await until(pilot, lambda: ids(hand.app) == [ident(3), ident(1)])
        await hand.press("a")
        await until(pilot, lambda: set(hand.app.queue.marks) == {ident(1), ident(3)})
        assert hand.keys == 3, "and the next keys act on the others alone"


async def test_2_sells_over_50k_at_kalshi_older_than_an_hour_without_timeouts_are_one_line(tmp_path: Path) -> None:
    sell = {**KALSHI, "side": "sell"}
    entries = [
        order(1, **sell, error="timeout"),
        order(2, **{**sell, "minutes": 5.0}),
        order(3, **{**sell, "quantity": 10.0}),
        order(4, **{**KALSHI, "side": "buy"}),
        order(5, **sell),
        order(6, side="sell"),
    ]
    async with Stage(make_store(tmp_path / "o.db", entries)).console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.filter("side:sell notional>50k venue:kalshi age>1h !timeout")
        await until(pilot, lambda: ids(hand.app) == [ident(5)])
        assert hand.keys == 2


async def test_3_a_text_is_found_in_errors_and_markets_and_marked_there(tmp_path: Path) -> None:
    entries = [order(0x429, error="timeout", client_order_id="c-429-x"), order(2), order(3, error="reset")]
    async with Stage(make_store(tmp_path / "o.db", entries)).console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.filter("429")
        await until(pilot, lambda: ids(hand.app) == [ident(2)])
        assert hand.keys == 2


async def test_4_a_dismissal_says_what_it_takes_with_it(tmp_path: Path) -> None:
    entries = [order(1, error="timeout"), order(2, error="timeout", account_id="hedge"), order(3)]
    async with Stage(make_store(tmp_path / "o.db", entries)).console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.press("a", "D")
        await hand.sees("Dismiss 3 entries · 3.62k USD", "alpaca main 2", "alpaca hedge 1", "oldest 3m", "! 2 may have")
        await hand.press("6")
        await hand.text("3")
        assert "3 dismissed" in notice(hand.app)
        assert hand.keys == 4
        await hand.press("z")
        await until(pilot, lambda: len(ids(hand.app)) == 3)


async def test_5_the_second_person_looks_and_signs(tmp_path: Path, venue: Exchange) -> None:
    async with both(*pair(tmp_path, venue)) as (first, second):
        await asked(first, "2")
        hand = Hand(second)
        await hand.sees("P 1 waits for you")
        await hand.press("P")
        await hand.sees("asked by ann", "buy 11 MSFT @ 100.25 gtc", "buy 12 SPY @ 100.5 gtc")
        await hand.press("enter")
        assert isinstance(hand.app.screen, ApproveGate)
        await hand.sees("type approve 2")
        await hand.text("approve 2")
        await until(second, lambda: "approved: " in notice(hand.app))
        assert hand.keys <= 4
        await until(first, lambda: "approved by bob" in screen_text(app_of(first)))


@pytest.mark.parametrize("word", ["conflict", "cannot be asked"])
async def test_6_a_conflict_and_what_cannot_be_asked_have_a_way_out(tmp_path: Path, venue: Exchange, word: str) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    async with stage.console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        fault = "lookup_different" if word == "conflict" else "http_500"
        venue.fault(fault, on="lookup", times=None)
        hand = Hand(pilot)
        if word == "conflict":
            await hand.press("C")
            await hand.sees("conflict: quantity", "S settles it by what you saw")  # both orders are shown
        else:
            await hand.reconcile()
        if not on_queue(hand.app):
            await hand.press("escape")
        await settled(pilot)
        await hand.sees("IN DOUBT", "S settles it by what you saw")
        await hand.press("S")
        await until(pilot, lambda: isinstance(hand.app.screen, SettleGate))
        await hand.sees("press 1 or 2")
        await hand.press("2")
        await hand.text("looked at the broker's page")
        await hand.text("settle")
        await until(pilot, lambda: on_queue(hand.app))
        assert "settled: " in notice(hand.app)
        assert hand.keys <= 6


async def test_7_c_on_any_entry_shows_the_venues_answer_beside_ours(tmp_path: Path, venue: Exchange) -> None:
    venue.place(symbol="MSFT", side="buy", qty="11", limit_price="100.25", client_order_id="cid-1")
    async with stage_with(tmp_path, venue, [order(1, error="timeout")]).console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.sees("MAY HAVE ARRIVED", "ask the venue first (C)")
        await hand.press("C")
        await until(pilot, lambda: isinstance(hand.app.screen, AnswerDialog))
        await hand.sees("found", "cid-1", "Nothing was written")
        assert hand.keys == 1


async def test_8_an_accepted_entry_says_what_stands_and_not_what_its_first_error_was(
    tmp_path: Path, venue: Exchange
) -> None:
    async with stage_with(tmp_path, venue, [order(1, error="timeout")]).console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        await until(pilot, lambda: "to send" in screen_text(app_of(pilot)))
        await answer(pilot, "1")
        await over(pilot)
        await press(pilot, "escape")
        hand = Hand(pilot)
        await hand.filter("state:replayed")
        await until(pilot, lambda: ids(hand.app) == [ident(1)])
        await hand.sees("REPLAYED", "nothing to do: accepted on paper; restore (U)")
        assert "MAY HAVE ARRIVED" not in shown(hand.app)
        assert hand.keys == 2


async def test_9_the_replay_gate_names_every_venue_and_account_and_opens_what_it_holds(
    tmp_path: Path, venue: Exchange
) -> None:
    few = [order(n, account_id=f"desk-{n}") for n in range(1, 6)]
    stage = stage_with(tmp_path, venue, [*few, order(9, quantity=5000.0)], limits=Limits(max_notional=Decimal(50_000)))
    async with stage.console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.press("a", "R")
        await hand.sees("sends 5", "holds 1: notional 1", *(f"desk-{n}" for n in range(1, 6)))
        await hand.press("up", "enter")  # the held one stands last
        assert isinstance(hand.app.screen, RowDialog)
        await hand.sees(ident(9), "50,000")
        await hand.press("escape")
        await hand.text("5")
        await over(pilot)
        assert hand.keys == 6
    assert len(venue.orders) == 5


async def test_12_after_a_batch_what_is_in_doubt_is_reached_from_its_report(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1), order(2, market_id="DROP"), order(3)])
    async with stage.console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.press("a", "R")
        await hand.sees("to send")
        await hand.text("3")
        await over(pilot)
        await hand.sees("in doubt")
        await hand.press("escape")
        await until(pilot, lambda: on_queue(hand.app) and current(hand.app) == ident(2))
        await hand.reconcile()
        assert hand.keys == 5
    assert len(venue.orders) == 3

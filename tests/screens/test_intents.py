"""What an engine left open, on the screens: on top of the queue, in the frame, reconciled by C and settled by S."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from console.screens.batch import BatchScreen
from tests.screens.test_evidence_actions import claim
from tests.screens.test_replay_actions import over, stage_with
from tests.support.app import current, ident, on_queue, order, press, screen_text, settled, until
from tests.support.exchange import Exchange
from tests.support.intent import intent_row, make_intents, resolution


def left_open(number: int, **given: Any) -> dict[str, Any]:
    return intent_row(number, **{"venue_name": "alpaca", "price": 18.0, **given})


async def test_it_is_on_top_opens_and_is_reconciled(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1), order(2)])
    make_intents(str(stage.path), left_open(7), left_open(8, lease=900))
    venue.place(client_order_id="cid-7", symbol="AAPL", side="buy", qty="7", limit_price="18")
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await until(pilot, lambda: "in doubt 1" in screen_text(app), "the frame")
        await press(pilot, "g")
        assert current(app) == ident(7)
        assert ident(8) not in screen_text(app)
        await press(pilot, "enter")
        await until(pilot, lambda: not on_queue(app), "the entry")
        assert "in doubt" in screen_text(app).lower()
        await until(pilot, lambda: "left open by engine-1 on desk9" in screen_text(app), "whose it was")
        await press(pilot, "escape")
        await until(pilot, lambda: on_queue(app), "the queue")
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, BatchScreen), "the report")
        await over(pilot)
        await press(pilot, "escape")
        await until(pilot, lambda: "in doubt 0" in screen_text(app), "the frame")
    assert resolution(str(stage.path), 7)[0]


async def test_an_open_console_shows_what_an_engine_leaves_in_a_table_that_it_makes_later(
    tmp_path: Path, venue: Exchange
) -> None:
    stage = stage_with(tmp_path, venue, [order(1), order(2)])
    stage.watch = True
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "in doubt 0" in screen_text(app), "the frame")
        make_intents(str(stage.path), left_open(7))
        await until(pilot, lambda: "in doubt 1" in screen_text(app), "the frame")
        await press(pilot, "g")
        assert current(app) == ident(7)


async def test_a_person_settles_it_where_the_venue_does_not_answer(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    make_intents(str(stage.path), left_open(7))
    venue.fault("http_500", on="lookup", times=None)
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await until(pilot, lambda: "in doubt 1" in screen_text(app), "the frame")
        await press(pilot, "g")
        await claim(pilot, "2", "looked at the venue", "settle")
        await until(pilot, lambda: resolution(str(stage.path), 7)[0], "it is settled")
        await until(pilot, lambda: "in doubt 0" in screen_text(app), "the frame")
        await press(pilot, "G")
        await until(pilot, lambda: current(app) in (ident(7), ident(1)), "it is an entry now")

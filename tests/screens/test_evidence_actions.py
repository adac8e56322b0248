"""Asking the venue, reconciling and settling from the screens, against a real store and a practice venue."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.records import ActContext
from backends.store import Claim, Intent
from console import clock
from console.screens.batch import BatchScreen
from console.screens.evidence.answer import AnswerDialog
from console.screens.gates.settle import SettleGate
from console.services.replay.flow_control import Wait
from console.settings.config import StoreConfig
from tests.screens.test_gates import states
from tests.screens.test_replay_actions import over, stage_with
from tests.support.app import (
    ANN,
    Stage,
    answer,
    app_of,
    current,
    gate_message,
    ident,
    notice,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    until,
)
from tests.support.exchange import Exchange

BOB = replace(ANN, operator="bob", os_user="bob")


async def in_doubt(pilot: Any, typed: str = "1") -> None:
    """Send the entry under the cursor, to an exchange that takes it and drops the connection."""
    app = app_of(pilot)
    await press(pilot, "R")
    await until(pilot, lambda: "to send" in screen_text(app))
    await answer(pilot, typed)
    await over(pilot)
    await press(pilot, "escape")
    assert "in doubt 1" in screen_text(app)


def blind(venue: Exchange) -> None:
    """The venue answers no look-up any more."""
    venue.fault("http_500", on="lookup", times=None)


async def bodies(app: Any) -> list[dict[str, Any]]:
    return [json.loads(event.body) async for events in app.session.store.audit() for event in events]


async def test_what_is_in_doubt_is_reconciled_without_a_typed_number(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, BatchScreen))
        await over(pilot)
        assert "PAPER · reconcile · done" in screen_text(app)
    assert set((await states(stage)).values()) == {"replayed"}
    assert len(venue.posts) == 1, "reconciling sends nothing"


async def test_a_stop_ends_a_reconcile_between_two_attempts(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(n, market_id="DROP") for n in (1, 2, 3)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        await answer(pilot, "3")
        await over(pilot)
        await press(pilot, "escape")
        assert "in doubt 3" in screen_text(app)
        venue.keep_waiting(on="lookup")
        await press(pilot, "a")
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, BatchScreen))
        await pilot.press("exclamation_mark")
        venue.clear()
        await over(pilot)
        run = app.activity.run
        assert run is not None
        assert [one.detail for one in run.landed].count("stopped: nothing was asked") >= 1
        assert "PAPER · reconcile · stopped" in screen_text(app)
    assert "in_doubt" in set((await states(stage)).values())


async def test_c_on_a_pending_entry_shows_what_the_venue_has_of_it(tmp_path: Path, venue: Exchange) -> None:
    placed = venue.place(symbol="MSFT", side="buy", qty="11", limit_price="100.25", client_order_id="cid-1")
    stage = stage_with(tmp_path, venue, [order(1)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "C")
        await until(pilot, lambda: "found" in screen_text(app))
        shown = screen_text(app)
        assert isinstance(app.screen, AnswerDialog)
        for word in ("PAPER", placed["id"], "cid-1", "status", "filled", "account", "asked at", "Nothing was written"):
            assert word in shown, word
        await press(pilot, "escape")
        assert on_queue(app)
        assert await bodies(app) == []
        assert app.activity.run is None
    assert set((await states(stage)).values()) == {"pending"}


async def test_the_venues_order_stands_beside_ours_and_what_differs_has_a_sign(tmp_path: Path, venue: Exchange) -> None:
    venue.place(symbol="MSFT", side="buy", qty="99", limit_price="100.25", client_order_id="cid-1")
    stage = stage_with(tmp_path, venue, [order(1)])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "C")
        await until(pilot, lambda: "at the venue" in screen_text(app))
        shown = [" ".join(row.split()) for row in screen_text(app).replace("│", " ").splitlines()]
        assert "this entry at the venue" in shown
        assert "≠ quantity 11.0 99" in shown
        assert "side buy buy" in shown, "what is equal has no sign"
        assert any("→ next D (handled-at-venue) if that order is this one" in row for row in shown)


async def test_c_on_several_gives_a_row_for_each(tmp_path: Path, venue: Exchange) -> None:
    venue.place(symbol="MSFT", side="buy", qty="99", limit_price="100.25", client_order_id="cid-1")
    stage = stage_with(tmp_path, venue, [order(n) for n in (1, 2)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "C")
        await until(pilot, lambda: "Nothing was written" in screen_text(app))
        shown = screen_text(app)
        assert "2 entries" in shown
        assert "found   with other terms than the entry's" in shown
        assert "quantity" in shown, "what differs is named"
        assert shown.count(ident(2)) >= 1
        assert ("absent" in shown) or ("unknown" in shown)


async def test_an_ask_is_bounded(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(n) for n in range(53)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "C")
        await until(pilot, lambda: "only the first 50 of 53" in screen_text(app))


async def test_a_read_only_console_says_why_it_asks_nobody(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    stage.read_only = True
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for key in ("C", "S", "D", "U"):
            await press(pilot, key)
            assert on_queue(app)
            assert f"READ-ONLY: {key} does nothing here" in notice(app)
        await press(pilot, "colon")
        await answer(pilot, "settle")
        assert "READ-ONLY: S does nothing here" in notice(app)
    assert venue.requests["total"] == 0, "nobody was asked"


async def claim(pilot: Any, digit: str, *answers: str) -> None:
    """Open the settle gate, choose, and hand in each answer; an empty one is Enter alone."""
    await press(pilot, "S")
    await until(pilot, lambda: "press 1 or 2" in screen_text(app_of(pilot)))
    await press(pilot, digit)
    for text in answers:
        await answer(pilot, text)


async def test_settle_shows_the_attempt_and_asks_for_the_word_last(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        blind(venue)
        await press(pilot, "S")
        await until(pilot, lambda: "press 1 or 2" in screen_text(app))
        shown = screen_text(app)
        for word in (ident(1), "PAPER", "alpaca · main", "cid-1", "in doubt", "since", "1 accepted", "2 absent"):
            assert word in shown, word
        await press(pilot, "enter")
        assert "press 1 or 2 first" in gate_message(app)
        await press(pilot, "1", "enter")
        assert "none is known" in screen_text(app)
        await press(pilot, "enter")
        assert "type the answer first" in gate_message(app), "the note is needed"
        await answer(pilot, "seen on the broker's page")
        await answer(pilot, "yes")
        assert "that is not settle" in gate_message(app)
        assert set((await states(stage)).values()) == {"in_doubt"}
        await answer(pilot, "settle")
        await until(pilot, lambda: on_queue(app))
        assert f"settled: {ident(1)} was accepted" in notice(app)
    assert set((await states(stage)).values()) == {"replayed"}


async def test_settled_as_absent_it_is_pending_again(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        blind(venue)
        await claim(pilot, "2", "the desk has no such order", "settle")
        await until(pilot, lambda: on_queue(app))
        assert "is absent at the venue" in notice(app)
        (event,) = [body for body in await bodies(app) if body.get("reason") == "settle"]
        assert event["note"] == "the desk has no such order"
    assert set((await states(stage)).values()) == {"pending"}


async def test_an_order_id_is_typed_and_kept(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        blind(venue)
        await claim(pilot, "1", "ord-77", "seen there", "settle")
        await until(pilot, lambda: on_queue(app))
        assert "order ord-77" in notice(app)
        assert app.session is not None
        (attempt,) = await app.session.store.attempts(ident(1))
        assert attempt.venue_order_id == "ord-77"


async def test_where_the_venue_says_otherwise_its_words_stay_in_the_gate(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        await claim(pilot, "2", "nobody has seen it", "settle")
        await until(pilot, lambda: "the venue says otherwise" in gate_message(app))
        assert isinstance(app.screen, SettleGate)
        assert "nobody has seen it" in screen_text(app), "what was typed is kept"
        await press(pilot, "escape")
    assert set((await states(stage)).values()) == {"in_doubt"}


async def test_backspace_takes_the_last_answer_back(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        await claim(pilot, "1", "ord-1", "not so")
        await press(pilot, "backspace")
        assert "what did you see" in screen_text(app)
        await press(pilot, *["backspace"] * 7)
        assert "order id, or Enter for none: ord-1" in screen_text(app)
        await press(pilot, *["backspace"] * 6)
        assert "press 1 or 2" in screen_text(app)


async def test_a_live_one_waits_for_a_second_person_and_is_confirmed_then(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    stage.store = StoreConfig(name="prod", url=str(stage.path), mode="live")
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await in_doubt(pilot, "live 1")
        blind(venue)
        await claim(pilot, "1", "", "seen on the broker's page", "settle")
        await until(pilot, lambda: "dlq approve " in gate_message(app))
        assert app.screen.has_class("-live")
        said = gate_message(app)
        assert "P in their console, or dlq approve " in said
        plan = said.split("dlq approve ")[1].split(";")[0]
        await answer(pilot, "settle")
        await until(pilot, lambda: "dlq approve " in gate_message(app))
        await press(pilot, "escape")
        bob = await Stage(stage.path, config=stage.config, clock=clock.now, actor=BOB, store=stage.store).attach(
            stage.store
        )
        assert await bob.approve(plan) == "approved"
        await bob.aclose()
        await press(pilot, "S")
        await until(pilot, lambda: "type settle to end it as accepted" in screen_text(app))
        assert "seen on the broker's page" in screen_text(app), "what was typed is kept"
        await answer(pilot, "settle")
        await until(pilot, lambda: on_queue(app))
        assert "settled" in notice(app)
    assert set((await states(stage)).values()) == {"replayed"}


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_settlement_outlives_its_gate(tmp_path: Path, venue: Exchange, leaves: bool) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        venue.keep_waiting(on="lookup")
        await claim(pilot, "1", "", "seen there")
        await pilot.press(*"settle", "enter")
        if leaves:
            await pilot.press("escape")
        venue.clear()
        await settled(pilot)
        await until(pilot, lambda: "settled" in notice(app))
    assert set((await states(stage)).values()) == {"replayed"}


async def test_what_is_not_in_doubt_cannot_be_settled(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "S")
        await until(pilot, lambda: "not in doubt: there is nothing to settle" in screen_text(app))
        await answer(pilot, "1")
        assert isinstance(app.screen, SettleGate)
        await press(pilot, "escape")
        assert current(app) == ident(1)


async def replayed(pilot: Any, typed: str = "1") -> None:
    app = app_of(pilot)
    await press(pilot, "R")
    await until(pilot, lambda: "to send" in screen_text(app))
    await answer(pilot, typed)
    await over(pilot)
    await press(pilot, "escape", "slash")
    await answer(pilot, "state:replayed")
    assert current(app) == ident(1)


async def test_a_paper_replay_is_taken_back(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await replayed(pilot)
        await until(pilot, lambda: "U restore" in screen_text(app))
        await press(pilot, "U")
        assert "Restore 1 entry" in screen_text(app)
        await answer(pilot, "1")
        assert "1 restored" in notice(app)
    assert set((await states(stage)).values()) == {"pending"}


async def test_a_live_replay_stays_and_that_is_said(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    stage.store = StoreConfig(name="prod", url=str(stage.path), mode="live")
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await replayed(pilot, "live 1")
        await app.queue._read_entry()
        await settled(pilot)
        assert "U restore" not in screen_text(app)
        await press(pilot, "U")
        await answer(pilot, "1")
        assert f"0 restored, {ident(1)} is replayed in live" in notice(app)
    assert set((await states(stage)).values()) == {"replayed"}


async def test_an_entry_in_doubt_names_both_ways_out_and_the_account_of_its_attempt(
    tmp_path: Path, venue: Exchange
) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        await press(pilot, "enter")
        shown = screen_text(app)
        assert "C asks the venue, S settles it by what you saw" in shown
        assert "C ask venue" in shown
        assert "S settle" in shown
        assert app.session is not None
        (attempt,) = await app.session.store.attempts(ident(1))
        assert attempt.account, "the venue told it"
        await press(pilot, "right_square_bracket", "right_square_bracket")
        assert f"account {attempt.account}" in screen_text(app)


async def test_a_batch_says_what_it_waits_for(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(n) for n in (1, 2)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        venue.keep_waiting()
        await answer(pilot, "2")
        await until(pilot, lambda: isinstance(app.screen, BatchScreen))
        run = app.activity.run
        assert run is not None
        run.batch.handle.wait_for("alpaca main", Wait(900.0, "it asked to slow down"))
        await until(pilot, lambda: re.search(r"waiting  alpaca main waits 900 s: it asked to slow", screen_text(app)))
        await until(
            pilot, lambda: re.search(r"waiting  alpaca main waits 89\d s: ", screen_text(app)), "it counts down"
        )
        await pilot.press("escape")
        await until(pilot, lambda: "PAPER: alpaca main waits 8" in screen_text(app), "in the frame too")
        run.batch.handle.wait_for("alpaca main", None)
        await until(pilot, lambda: "main waits" not in screen_text(app))
        venue.clear()
        await over(pilot)
        await press(pilot, "b")
        assert "account " in screen_text(app), "where the venue tells its account, the report does"


async def begun(stage: Stage, lease: float) -> None:
    """An attempt without an outcome, as a console leaves it that ended while it sent."""
    store = await stage.open()
    entry = await store.get(ident(1))
    assert entry is not None
    claim_ = await store.claim(entry.id, entry.version, BOB, lease)
    assert isinstance(claim_, Claim)
    why = ActContext(at=clock.now(), operation="0" * 32, reason="replay")
    await store.intend(claim_, Intent("paper", "alpaca", "cid-1", b"{}", "0" * 64), BOB, why)
    await store.aclose()


async def test_what_is_being_sent_waits_for_its_owner(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    await begun(stage, lease=600.0)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "S")
        await until(pilot, lambda: "its owner may still be sending it" in screen_text(app))


async def test_what_was_left_in_flight_is_settled(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    await begun(stage, lease=0.2)
    await asyncio.sleep(0.4)  # the store's own clock decides
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "S")
        await until(pilot, lambda: "press 1 or 2" in screen_text(app))
        assert "its owner is gone without an answer" in screen_text(app)
        await press(pilot, "2")
        await answer(pilot, "the desk has no such order")
        await answer(pilot, "settle")
        await until(pilot, lambda: on_queue(app))
    assert set((await states(stage)).values()) == {"pending"}


@pytest.mark.parametrize("digit", ["1", "2"])
async def test_settling_takes_at_most_six_keys_besides_the_note_and_the_word(
    tmp_path: Path, venue: Exchange, digit: str
) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        blind(venue)
        keys = ["S", digit, *(["enter"] if digit == "1" else [])]  # no order id is known
        await press(pilot, "S")
        await until(pilot, lambda: "press 1 or 2" in screen_text(app))
        await press(pilot, *keys[1:])
        for text in ("seen on the broker's page", "settle"):
            await answer(pilot, text)
            keys.append("enter")
        assert len(keys) <= 6
        await until(pilot, lambda: on_queue(app))
        assert "settled: " in notice(app)

"""Replay and reconcile from the screens against a real store and a practice venue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from backends import DeadLetteredOrder
from console import clock
from console.screens.batch import BatchScreen
from console.screens.gates.gate import Gate
from console.screens.gates.replay import ReplayGate
from console.services.triage.approvals import resume_hash
from console.settings.config import Limits, StoreConfig
from tests.screens.test_gates import states
from tests.support.app import (
    Stage,
    answer,
    app_of,
    config,
    current,
    gate_message,
    ident,
    ids,
    is_painted,
    make_store,
    notice,
    order,
    press,
    screen_text,
    settled,
    until,
)
from tests.support.exchange import Exchange


def stage_with(path: Path, venue: Exchange, entries: Iterable[DeadLetteredOrder], **changes: Any) -> Stage:
    """A stage with the real time, which venue and store use too."""
    moved = [replace(entry, captured_at=clock.now() - timedelta(minutes=1)) for entry in entries]
    return Stage(make_store(path / "orders.db", moved), config=config(venue.url, **changes), clock=clock.now)


async def over(pilot: Any) -> None:
    """Wait until the batch has ended and the queue has read its outcomes."""
    app = app_of(pilot)
    await until(pilot, lambda: app.activity.run is not None and app.activity.run.over)
    await settled(pilot)


async def test_replay_shows_the_plan_then_sends_exactly_it(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(n) for n in range(3)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        shown = screen_text(app)
        for word in ("Replay 3 entries · PAPER", "PAPER  alpaca · main · account", "at 127.0.0.1", "sends 3"):
            assert word in shown
        assert " · 1 as a test, then 2; at most " in shown
        assert "gross 3,308.75" in shown
        assert "sell 10 AAPL @ 100.0 gtc" in shown
        assert not venue.posts, "a plan sends nothing"
        await answer(pilot, "4")
        assert "that is not 3" in gate_message(app)
        await answer(pilot, "3")
        await over(pilot)
        assert isinstance(app.screen, BatchScreen)
        assert "PAPER · done" in screen_text(app)
        assert "3 of 3 sent" in screen_text(app)
        assert len(re.findall(r"accepted   (?:buy|SELL) ", screen_text(app))) == 3, "one row an order"
        await press(pilot, "escape")
        assert ids(app) == []
    assert set((await states(stage)).values()) == {"replayed"}
    assert sorted(line["client_order_id"] for line in venue.orders) == ["cid-0", "cid-1", "cid-2"]


async def test_a_long_plan_leaves_the_frame_and_the_answer_in_sight(tmp_path: Path, venue: Exchange) -> None:
    limits = Limits(max_batch=8, four_eyes_over=Decimal(1))
    stage = stage_with(tmp_path, venue, [order(n) for n in range(30)], limits=limits)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        await answer(pilot, "8")
        await until(pilot, lambda: "Waiting for a second person" in gate_message(app))
        shown = screen_text(app)
        for word in ("PAPER", "operator oncall", "pending 30", "in doubt 0", "type 8 to send"):
            assert word in shown, word


async def test_a_plan_names_every_entry_it_leaves_out_and_every_one_it_sends(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(n) for n in range(30)], limits=Limits(max_batch=8))
    app = stage.console()
    seen = ""
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        for _ in range(12):
            seen += screen_text(app)
            await press(pilot, "pagedown")
    assert [n for n in range(8) if f"id cid-{n}" not in seen] == []
    assert [n for n in range(8, 30) if ident(n) not in seen] == []


async def test_a_batch_shows_its_report_when_it_is_opened_again(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        await answer(pilot, "1")
        await over(pilot)
        before = screen_text(app)
        await press(pilot, "escape", "b")
        assert screen_text(app) == before
        assert "PAPER · done" in before


async def test_one_in_doubt_is_reconciled_by_evidence(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP"), order(2)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        await answer(pilot, "2")
        await over(pilot)
        assert "in doubt" in screen_text(app)
        await press(pilot, "escape")
        assert current(app) == ident(1), "what is in doubt stands first"
        assert "in doubt 1" in screen_text(app)
        assert "IN DOUBT · try 1 PAPER " in screen_text(app), "the stored error says nothing of the replay"
        await press(pilot, "D")
        assert "reconcile (C) first" in notice(app)
        await pilot.press("C")
        await until(pilot, lambda: "PAPER · reconcile · done" in screen_text(app))
        await over(pilot)
    assert set((await states(stage)).values()) == {"replayed"}
    assert len(venue.orders) == 2


async def test_what_is_blocked_is_named_and_left_out(tmp_path: Path, venue: Exchange) -> None:
    broken = order(2, action_json='{"quantity": 1, "quantity": 10}')
    stage = stage_with(tmp_path, venue, [order(1), broken])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        assert "unparsable" in screen_text(app)
        await answer(pilot, "1")
        await over(pilot)
        assert "held 1: unparsable 1" in screen_text(app)
    assert len(venue.orders) == 1


async def test_nothing_to_send_cannot_be_confirmed(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, action_json="{")])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        await until(pilot, lambda: "nothing to send" in screen_text(app))
        await answer(pilot, "0")
        assert isinstance(app.screen, ReplayGate)
        await press(pilot, "escape")
    assert not venue.posts


async def test_a_replay_that_is_refused_whole_is_on_record(tmp_path: Path, venue: Exchange) -> None:
    """As the command line records it, though the gate lets no such plan out."""
    app = stage_with(tmp_path, venue, [order(1, action_json="{")]).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        await until(pilot, lambda: "nothing to send" in screen_text(app))
        await settled(pilot)
        assert app.session is not None
        bodies = [event.body async for events in app.session.store.audit() for event in events]
    assert [json.loads(body)["kind"] for body in bodies] == ["refused-replay"]


async def test_live_asks_for_the_word_and_the_number(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    stage.store = StoreConfig(name="prod", url=str(stage.path), mode="live")
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "LIVE" in screen_text(app)
        await press(pilot, "R")
        await until(pilot, lambda: "type live 1 to send" in screen_text(app))
        for wrong in ("1", "live", "LIVE 1", "live 2"):
            await answer(pilot, wrong)
            assert "that is not live 1" in gate_message(app)
        assert not venue.posts
        await answer(pilot, "live 1")
        await over(pilot)
    assert len(venue.orders) == 1


async def test_an_override_needs_a_note_and_in_live_a_second_person(tmp_path: Path, venue: Exchange) -> None:
    limits = Limits(max_notional=Decimal(10))
    stage = stage_with(tmp_path, venue, [order(1)], limits=limits)
    stage.store = StoreConfig(name="prod", url=str(stage.path), mode="live")
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        await until(pilot, lambda: "nothing to send, ctrl+o" in screen_text(app))
        await press(pilot, "ctrl+o")
        await answer(pilot, "stale")
        assert "stale cannot be overridden here" in gate_message(app)
        await answer(pilot, "notional")
        await answer(pilot, "the desk agreed")
        await until(pilot, lambda: "type live 1 to send" in screen_text(app))
        assert "a second person" in screen_text(app)
        await answer(pilot, "live 1")
        assert "Waiting for a second person" in gate_message(app)
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert "Then type it again" in screen_text(app), "all of it is to be read on the smallest screen"
        assert not venue.posts


async def test_stopping_never_asks(tmp_path: Path, venue: Exchange) -> None:
    venue.keep_waiting()
    stage = stage_with(tmp_path, venue, [order(n) for n in range(12)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        await answer(pilot, "12")
        await until(pilot, lambda: isinstance(app.screen, BatchScreen))
        await until(pilot, lambda: venue.posts)  # some are under way, and the batch waits for them
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "nothing new is begun" in notice(app))
        venue.clear()
        await over(pilot)
        assert re.search(r"PAPER · stopped, (\d+) not sent +█*░+ \d+ of 12 sent", screen_text(app)), "never full"
        assert "x export" in screen_text(app), "no word of stopping once it has stopped"
        run = app.activity.run
        assert run is not None
        assert run.rate * run.seconds / 60 < 11.5, "what was not begun counts for nothing"
    sent, kept = len(venue.orders), list((await states(stage)).values())
    assert sent < 12
    assert kept.count("replayed") == sent
    assert kept.count("pending") == 12 - sent


async def test_a_batch_outlives_its_screen_and_quit_asks_then_drains(tmp_path: Path, venue: Exchange) -> None:
    venue.keep_waiting()
    stage = stage_with(tmp_path, venue, [order(n) for n in range(8)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        await answer(pilot, "8")
        await until(pilot, lambda: isinstance(app.screen, BatchScreen))
        await pilot.press("escape")
        await until(pilot, lambda: "replay" in screen_text(app) and "/8 PAPER" in screen_text(app))
        await pilot.press("R")
        assert "a batch is running" in notice(app)
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Gate) and is_painted(app))
        assert "Quit while something runs" in screen_text(app)
        await pilot.press(*"quit")
        venue.clear()  # the app itself waits for what was sent
        await pilot.press("enter")
        await until(pilot, lambda: app._exit)
    app.activity.drain()
    kept = list((await states(stage)).values())
    assert kept.count("replayed") == len(venue.orders)
    assert "in_flight" not in kept


async def test_a_report_is_exported(tmp_path: Path, venue: Exchange, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    stage = stage_with(tmp_path, venue, [order(1)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        await answer(pilot, "1")
        await over(pilot)
        await press(pilot, "x")
        await until(pilot, lambda: "written to" in notice(app))
    (file,) = tmp_path.glob("dlq-replay-*.jsonl")
    assert '"outcome": "accepted"' in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


async def test_what_changed_since_it_was_marked_is_not_sent(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1), order(2)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a")
        elsewhere = stage.console()
        async with elsewhere.run_test(size=(80, 24)) as other:
            await settled(other)
            await press(other, "D", "1")
            await answer(other, "1")
        await press(pilot, "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        assert "changed since it was marked: now dismissed" in screen_text(app)
        await answer(pilot, "1")
        await over(pilot)
    assert len(venue.orders) == 1


async def test_who_resumes_a_live_store_reads_what_a_second_person_approves(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)])
    stage.store = StoreConfig(name="prod", url=str(stage.path), environment="live")
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "H")
        await answer(pilot, "the venue melts")
        halt = app.header_state.halt
        assert halt is not None
        await press(pilot, "H")
        await answer(pilot, "all is well")
        await until(pilot, lambda: f"dlq approve {resume_hash(halt)}, or P there; then H" in screen_text(app))
    assert app.header_state.halt == halt

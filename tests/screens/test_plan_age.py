"""A plan that waits too long for its confirmation is made again: the same one goes, another one is asked for anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from backends.records import Selection
from console import clock
from console.screens.batch import BatchScreen
from console.screens.gates.replay import ReplayGate
from console.services.replay.plan import ReplayPlan
from console.services.replay.preflight import ReplayRequest
from console.services.replay.target import SendPlan
from console.settings.config import Limits
from tests.screens.test_gates import states
from tests.screens.test_replay_actions import over, stage_with
from tests.support.app import (
    Stage,
    answer,
    app_of,
    gate_message,
    ident,
    notice,
    order,
    press,
    screen_text,
    settled,
    typed,
    until,
)
from tests.support.exchange import Exchange


class Later:
    """The real time, and what a test adds to it."""

    def __init__(self) -> None:
        self.by = timedelta(0)

    def __call__(self) -> datetime:
        return clock.now() + self.by


def stage_of(path: Path, venue: Exchange, count: int, **changes: Any) -> tuple[Stage, Later]:
    stage, later = stage_with(path, venue, [order(n) for n in range(1, count + 1)], **changes), Later()
    stage.clock = later
    return stage, later


async def planned(pilot: Any) -> None:
    await press(pilot, "a", "R")
    await until(pilot, lambda: "to send" in screen_text(app_of(pilot)))


async def dismissed_elsewhere(stage: Stage, number: int) -> None:
    session = await stage.attach(stage.store_config)
    found, _ = await session.triage.chosen((ident(number),))
    await session.triage.dismiss(Selection.of(list(found.values())), reason="stale")
    await session.aclose()


async def test_the_gate_shows_how_long_the_plan_still_lives(tmp_path: Path, venue: Exchange) -> None:
    stage, later = stage_of(tmp_path, venue, 1)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await planned(pilot)
        assert "1:00 left" in screen_text(app) or "0:5" in screen_text(app)
        later.by = timedelta(seconds=30)
        await until(pilot, lambda: "0:2" in screen_text(app) or "0:30 left" in screen_text(app))
        later.by = timedelta(seconds=90)
        await until(pilot, lambda: "too old: it will be made again" in screen_text(app))
        gate = app.screen
        await press(pilot, "escape")
        await until(pilot, lambda: not gate.is_running and not gate._timers, "no clock ticks without a gate")


async def test_an_old_plan_that_is_the_same_goes_out(tmp_path: Path, venue: Exchange) -> None:
    stage, later = stage_of(tmp_path, venue, 2)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await planned(pilot)
        later.by = timedelta(seconds=90)
        await answer(pilot, "2")
        await over(pilot)
        assert isinstance(app.screen, BatchScreen)
    assert len(venue.orders) == 2


async def test_what_an_old_plan_lost_is_named_and_ends_not_sent(tmp_path: Path, venue: Exchange) -> None:
    stage, later = stage_of(tmp_path, venue, 3)
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await planned(pilot)
        await dismissed_elsewhere(stage, 2)
        later.by = timedelta(seconds=90)
        await answer(pilot, "3")
        await over(pilot)
        assert f"{ident(2)} no longer goes: changed" in notice(app)
        run = app.activity.run
        assert run is not None
        assert sorted((one.entry_id, one.outcome) for one in run.landed) == [
            (ident(1), "accepted"),
            (ident(2), "not_sent"),
            (ident(3), "accepted"),
        ]
        assert run.total == 3
    assert len(venue.orders) == 2


async def test_what_was_held_before_is_still_in_the_report_of_a_plan_made_again(
    tmp_path: Path, venue: Exchange
) -> None:
    stage = stage_with(tmp_path, venue, [order(1), order(2, action_json="{")])
    later = stage.clock = Later()
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await planned(pilot)
        later.by = timedelta(seconds=90)
        await answer(pilot, "1")
        await over(pilot)
        run = app.activity.run
        assert run is not None
        assert sorted((one.entry_id, one.outcome) for one in run.landed) == [
            (ident(1), "accepted"),
            (ident(2), "refused"),
        ]


async def test_a_plan_that_changed_is_shown_and_asked_for_again(tmp_path: Path, venue: Exchange) -> None:
    stage, later = stage_of(tmp_path, venue, 2)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await planned(pilot)
        session = app.session
        assert session is not None
        make = session.plan

        async def another(selection: Selection, request: ReplayRequest) -> SendPlan:
            made = await make(selection, request)
            assert isinstance(made, ReplayPlan)
            return replace(made, steps=tuple(replace(step, host="elsewhere.example") for step in made.steps))

        session.plan = another  # type: ignore[method-assign]  # as if the venue had moved
        later.by = timedelta(seconds=90)
        await answer(pilot, "2")
        await until(pilot, lambda: "plan made again: 2 changed (2 are sent otherwise)" in screen_text(app))
        assert isinstance(app.screen, ReplayGate)
        assert "✓ changed: buy 11 MSFT" in screen_text(app), "which ones"
        assert typed(app) == ""
        assert not venue.posts, "nothing goes by an answer to another plan"
        await answer(pilot, "2")
        await over(pilot)
    assert len(venue.orders) == 2


async def test_a_plan_of_which_nothing_is_left_cannot_be_confirmed(tmp_path: Path, venue: Exchange) -> None:
    stage, later = stage_of(tmp_path, venue, 1)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await planned(pilot)
        await dismissed_elsewhere(stage, 1)
        later.by = timedelta(seconds=90)
        await answer(pilot, "1")
        await until(pilot, lambda: "Nothing of it goes any more" in screen_text(app))
        assert "nothing to send" in screen_text(app)
        await answer(pilot, "0")
        assert isinstance(app.screen, ReplayGate)
    assert not venue.posts
    assert set((await states(stage)).values()) == {"dismissed"}


async def test_a_plan_that_waited_for_a_second_person_is_made_again_too(tmp_path: Path, venue: Exchange) -> None:
    stage, later = stage_of(tmp_path, venue, 2, limits=Limits(four_eyes_over=Decimal(1)))
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await planned(pilot)
        await answer(pilot, "2")
        await until(pilot, lambda: "Waiting for a second person" in gate_message(app))
        plan = gate_message(app).split("dlq approve ")[1].split(".")[0]
        other = replace(stage, actor=replace(stage.actor, operator="bob", os_user="bob"))
        bob = await other.attach(stage.store_config)
        assert await bob.approve(plan) == "approved"
        await bob.aclose()
        await dismissed_elsewhere(stage, 2)
        later.by = timedelta(seconds=90)
        await answer(pilot, "2")
        await over(pilot)
        run = app.activity.run
        assert run is not None
        assert run.tally == {"accepted": 1, "not_sent": 1}
    assert len(venue.orders) == 1

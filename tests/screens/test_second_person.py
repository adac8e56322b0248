"""The second person is told what waits, sees every order as the asker saw it, and signs; each sees the other live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from dlq_sink import DeadLetteredOrder

from console.app import ConsoleApp
from console.render.line import plain
from console.screens.gates.approve import ApproveGate
from console.screens.gates.page import RowDialog
from console.screens.gates.replay import ReplayGate
from console.screens.people.approvals import ApprovalsScreen
from console.settings.config import Limits, StoreConfig
from console.widgets.row_pane import RowPane
from tests.screens.test_replay_actions import over, stage_with
from tests.support.app import (
    Stage,
    answer,
    app_of,
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

TWO = Limits(four_eyes_over=Decimal(1))


def pair(
    path: Path, venue: Exchange, count: int = 2, more: Sequence[DeadLetteredOrder] = (), **config: Any
) -> tuple[Stage, Stage]:
    """The asker's console and the second person's, on one store."""
    asker = stage_with(path, venue, [*(order(n) for n in range(1, count + 1)), *more], **({"limits": TWO} | config))
    asker.watch = True
    return asker, replace(asker, actor=replace(asker.actor, operator="operator-b", os_user="bob"))


@asynccontextmanager
async def both(asker: Stage, other: Stage, size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[Any, Any]]:
    async with asker.console().run_test(size=size) as first, other.console().run_test(size=size) as second:
        await settled(first)
        await settled(second)
        yield first, second


async def asked(pilot: Any, typed: str) -> None:
    app = app_of(pilot)
    await press(pilot, "a", "R")
    await until(pilot, lambda: "to send" in screen_text(app))
    await answer(pilot, typed)
    await until(pilot, lambda: "Waiting for a second person" in gate_message(app))


async def seen(pilot: Any, app: ConsoleApp, text: str) -> None:
    await until(pilot, lambda: text in screen_text(app))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_frame_counts_what_waits_and_p_shows_every_order(
    tmp_path: Path, venue: Exchange, size: tuple[int, int]
) -> None:
    async with both(*pair(tmp_path, venue), size=size) as (first, second):
        ann, bob = app_of(first), app_of(second)
        assert "waits for you" not in screen_text(bob)
        await asked(first, "2")
        await seen(second, bob, "P 1 waits for you")
        assert "waits for you" not in screen_text(ann), "not for the one who asked"
        await press(second, "P")
        assert isinstance(bob.screen, ApprovalsScreen)
        await seen(second, bob, "asked by ann")
        shown = screen_text(bob)
        for word in (
            "1 for you to look at and sign",
            "replay",
            "PAPER",
            "2 orders",
            "2,308.75 USD",
            "2.3k USD  ann ",
            "ago, ",
            " left  alpaca main",
        ):
            assert word in shown, word
        await press(second, "enter")
        assert isinstance(bob.screen, ApproveGate)
        shown = " ".join(screen_text(bob).replace("│", " ").split())
        for word in (
            "buy 11 MSFT @ 100.25 gtc alpaca · main · account PRACTICE",
            "buy 12 SPY @ 100.5 gtc alpaca · main · account PRACTICE",
            "at 127.0.0.1",
        ):
            assert word in shown, word
        assert "type approve 2 to sign it" in shown
        assert "4:5" in shown or "5:00 left" in shown


async def test_approving_takes_three_keys_and_the_words_and_the_asker_sees_it_arrive(
    tmp_path: Path, venue: Exchange
) -> None:
    async with both(*pair(tmp_path, venue)) as (first, second):
        ann, bob = app_of(first), app_of(second)
        await asked(first, "2")
        await seen(second, bob, "P 1 waits for you")
        keys = 0
        for key in ("P", "enter"):
            await press(second, key)
            await seen(second, bob, "asked by ann" if key == "P" else "type approve 2")
            keys += 1
        await answer(second, "approve 2")
        keys += 1  # Enter
        assert keys <= 4
        await until(second, lambda: "approved: " in notice(bob))
        await seen(second, bob, "approved by you, not sent yet")
        await until(first, lambda: "approved by bob: type 2 to send" in gate_message(ann))
        assert isinstance(ann.screen, ReplayGate)
        assert not venue.posts, "the one who asked sends it"
        await answer(first, "2")
        await over(first)
        await seen(second, bob, "approved by you, 2 of 2 sent")
        await press(second, "escape")
        await until(second, lambda: on_queue(bob) and "waits for you" not in screen_text(bob))
    assert len(venue.orders) == 2


async def test_an_asker_who_left_the_gate_is_told_in_the_frame(tmp_path: Path, venue: Exchange) -> None:
    asker, other = pair(tmp_path, venue)
    async with asker.console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app = app_of(pilot)
        await asked(pilot, "2")
        plan = gate_message(app).split("dlq approve ")[1].split(".")[0]
        await press(pilot, "escape")
        bob = await other.attach(other.store_config)
        assert await bob.approve(plan) == "approved"
        await bob.aclose()
        await until(pilot, lambda: "replay of 2 approved by bob: R again sends it" in notice(app))


async def test_the_words_must_be_right_and_nobody_approves_their_own(tmp_path: Path, venue: Exchange) -> None:
    asker, _ = pair(tmp_path, venue)
    async with asker.console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app = app_of(pilot)
        await asked(pilot, "2")
        await press(pilot, "escape", "P")
        await seen(pilot, app, "yours, waits for another")
        await press(pilot, "enter")
        await answer(pilot, "approve 3")
        assert "that is not approve 2" in gate_message(app)
        await press(pilot, "enter")
        assert "Enter alone confirms nothing" in gate_message(app)
        await answer(pilot, "approve 2")
        await until(pilot, lambda: "not approved: " in gate_message(app))
        assert "cannot approve" in gate_message(app)
        assert isinstance(app.screen, ApproveGate), "a refusal leaves the gate open"


BRACKET = (
    '{"action": "new", "time_in_force": "gtc", "order_class": "bracket", "take_profit": {"limit_price": "120.5"}, '
    '"stop_loss": {"stop_price": "90.5"}}'
)
TERMS: tuple[dict[str, Any], ...] = (
    {},
    {"action_json": BRACKET},
    {"order_type": "market", "price": None, "client_order_id": ""},
    {"quantity": 2000.0},
)


@pytest.mark.parametrize("terms", TERMS, ids=["limit", "bracket", "market-without-id", "overridden"])
async def test_the_second_person_reads_the_rows_that_the_asker_read(
    tmp_path: Path, venue: Exchange, terms: dict[str, Any]
) -> None:
    venue.quote("MSFT", "100.00", "100.02")
    venue.quote("AMZN", "100.90", "101.10")
    asker, other = pair(tmp_path, venue, more=[order(7, **terms)])
    async with both(asker, other, size=(200, 60)) as (first, second):
        ann, bob = app_of(first), app_of(second)
        await press(first, "a", "R")
        await until(first, lambda: "to send" in screen_text(ann))
        if "quantity" in terms:
            await press(first, "ctrl+o")
            await answer(first, "notional")
            await answer(first, "checked by phone")
        await until(first, lambda: "type 3 to send" in screen_text(ann))
        before = rows_of(ann)
        assert len(before) == 3
        assert any("now 100/100.02" in row for row in before)
        await answer(first, "3")
        await until(first, lambda: "Waiting for a second person" in gate_message(ann))
        await seen(second, bob, "P 1 waits for you")
        await press(second, "P")
        await seen(second, bob, "asked by ann")
        await press(second, "enter")
        assert isinstance(bob.screen, ApproveGate)
        assert rows_of(bob) == [row.replace("  now ", "  when asked ") for row in before]


def rows_of(app: ConsoleApp) -> list[str]:
    """The orders that go, as the gate has them."""
    lines = map(plain, app.screen.query_one(RowPane).lines)
    return [row for row in lines if row.startswith(" ✓ ")]


async def test_an_order_of_the_plan_opens_in_full(tmp_path: Path, venue: Exchange) -> None:
    async with both(*pair(tmp_path, venue)) as (first, second):
        bob = app_of(second)
        await asked(first, "2")
        await seen(second, bob, "P 1 waits for you")
        await press(second, "P")
        await seen(second, bob, "asked by ann")
        await press(second, "enter", "down", "enter")
        assert isinstance(bob.screen, RowDialog)
        for word in (ident(1), "order.market_id", "MSFT", "client_order_id", "cid-1"):
            assert word in screen_text(bob), word
        await press(second, "escape")
        assert isinstance(bob.screen, ApproveGate)


async def test_two_approvers_the_slower_one_sees_that_it_is_done(tmp_path: Path, venue: Exchange) -> None:
    asker, other = pair(tmp_path, venue)
    async with both(asker, other) as (first, second):
        bob = app_of(second)
        await asked(first, "2")
        plan = gate_message(app_of(first)).split("dlq approve ")[1].split(".")[0]
        await seen(second, bob, "P 1 waits for you")
        await press(second, "P")
        await seen(second, bob, "asked by ann")
        await press(second, "enter")
        carol = replace(asker, actor=replace(asker.actor, operator="operator-c", os_user="carol"))
        session = await carol.attach(carol.store_config)
        assert await session.approve(plan) == "approved"
        await session.aclose()
        await until(second, lambda: "it no longer waits: carol approved it" in gate_message(bob))


async def test_the_asker_takes_it_back_and_the_second_person_sees_it_at_once(tmp_path: Path, venue: Exchange) -> None:
    async with both(*pair(tmp_path, venue)) as (first, second):
        ann, bob = app_of(first), app_of(second)
        await asked(first, "2")
        await seen(second, bob, "P 1 waits for you")
        await press(second, "P")
        await seen(second, bob, "asked by ann")
        await press(second, "w")
        await until(second, lambda: "ann asked for it: only they can withdraw it" in notice(bob))
        await press(second, "enter")
        assert isinstance(bob.screen, ApproveGate)
        await press(first, "escape", "P")
        await seen(first, ann, "yours, waits for another")
        await press(first, "w")
        await until(first, lambda: "withdrawn: " in notice(ann))
        await until(second, lambda: "the one who asked withdrew it" in gate_message(bob))
        await press(second, "escape", "escape")
        await until(second, lambda: on_queue(bob) and "waits for you" not in screen_text(bob))
        await press(first, "escape")
        await asked(first, "2")
        await seen(second, bob, "P 1 waits for you")
        await press(first, "ctrl+x")
        await until(first, lambda: "withdrawn: nobody can approve it now" in gate_message(ann))
        assert isinstance(ann.screen, ReplayGate)
        await until(second, lambda: "waits for you" not in screen_text(bob))
    assert not venue.posts


async def test_a_resume_is_approved_by_its_own_words(tmp_path: Path, venue: Exchange) -> None:
    asker, other = pair(tmp_path, venue)
    store = StoreConfig(name="prod", url=str(asker.path), environment="live")
    asker.store = other.store = store
    async with both(asker, other, size=(80, 24)) as (first, second):
        ann, bob = app_of(first), app_of(second)
        await press(first, "H", "enter")
        await until(first, lambda: ann.header_state.halt is not None)
        await press(first, "H")
        await answer(first, "all is well")
        await until(first, lambda: "two resume a live store" in notice(ann))
        await seen(second, bob, "P 1 waits for you")
        await press(second, "P")
        await seen(second, bob, "resume")
        await press(second, "enter")
        await seen(second, bob, "type approve resume")
        await answer(second, "approve resume")
        await until(second, lambda: "approved: " in notice(bob))
        await until(first, lambda: "resume approved by bob: H again resumes" in notice(ann))
        await press(first, "H")
        await answer(first, "all is well")
        await until(first, lambda: "resumed" in notice(ann))


async def test_a_read_only_console_counts_nothing_and_says_why_p_does_nothing(tmp_path: Path, venue: Exchange) -> None:
    asker, other = pair(tmp_path, venue)
    async with asker.console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await asked(pilot, "2")
    other.read_only = True
    async with other.console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "P")
        assert "READ-ONLY: P does nothing here" in notice(app_of(pilot))

"""The replay gate names where every order goes and why others stay, opens any row, and shows a plan made again."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from console.screens.gates.page import RowDialog
from console.screens.gates.replay import ReplayGate
from console.settings.config import Limits, StoreConfig
from console.settings.secret_remedies import set_missing
from tests.screens.test_replay_actions import over, stage_with
from tests.support.app import (
    Stage,
    answer,
    app_of,
    gate_message,
    ident,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    typed,
    until,
)
from tests.support.exchange import Exchange
from venues import BadCredentials, Credentials, SecretSet


async def planned(pilot: Any) -> str:
    await press(pilot, "a", "R")
    await until(pilot, lambda: "to send" in screen_text(app_of(pilot)))
    return screen_text(app_of(pilot))


async def test_it_counts_what_it_sends_and_groups_what_it_holds_by_reason(tmp_path: Path, venue: Exchange) -> None:
    big = [order(n, quantity=2000.0) for n in (1, 2)]
    broken = [order(n, action_json="{") for n in (3, 4, 5)]
    stage = stage_with(tmp_path, venue, [*big, *broken, *(order(n) for n in range(6, 14))])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = await planned(pilot)
        assert "sends 8 · 1 as a test, then 5, then 2; at most" in shown
        assert "holds 5: unparsable 3 · notional 2" in shown
        assert "✗ buy 2,000 MSFT @ 100.25 gtc  alpaca · main  notional: " in shown, "the order, not only its id"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_row_parts_no_number_from_its_unit_and_is_one_line_where_there_is_room(
    tmp_path: Path, venue: Exchange, size: tuple[int, int]
) -> None:
    app = stage_with(tmp_path, venue, [order(n, client_order_id=f"engine-7-{n}") for n in (1, 2)]).console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        shown = await planned(pilot)
        rows = [row.strip("│┃ ") for row in shown.splitlines()]
        for whole in ("alpaca · main · account PRACTICE", "position 0 → 11", "1,102.75 USD", "id engine-7-1"):
            assert any(whole in row for row in rows), whole
        if size[0] == 200:
            assert any("✓ buy 11 MSFT" in row and "id engine-7-1" in row for row in rows), "one row an order"


async def test_a_reason_stands_in_the_first_sight_on_the_smallest_screen(tmp_path: Path, venue: Exchange) -> None:
    broken = [order(n, action_json="{") for n in range(10, 20)]
    stage = stage_with(tmp_path, venue, [*(order(n) for n in range(1, 9)), *broken])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        shown = await planned(pilot)
        assert "holds 10: unparsable 10" in shown
        assert "✗ " in shown, "and one of them"
        assert "type 8 to send" in shown


async def test_every_account_is_named_with_its_number_and_host_or_counted(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(n, account_id=f"desk-{n}") for n in range(1, 7)])
    stage.config = replace(
        stage.config, venues={"alpaca": replace(stage.config.venues["alpaca"], default_account=None)}
    )
    app = stage.console()
    async with app.run_test(size=(120, 50)) as pilot:
        await settled(pilot)
        shown = await planned(pilot)
        assert "… and 3 more accounts with 3 orders, listed at the end" in shown
        assert shown.count(f"at 127.0.0.1:{venue.url.rpartition(':')[2]}") >= 9, "three above, all six at the end"
        for n in range(1, 7):
            assert f"alpaca · desk-{n} · account PRACTICE" in shown, "every order with its venue, account and number"


async def test_any_row_opens_and_esc_returns_to_the_gate(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1), order(2, action_json="{", error="timeout")])
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await planned(pilot)
        await press(pilot, "enter")
        assert "Enter alone confirms nothing" in gate_message(app)
        await press(pilot, "down", "enter")
        assert isinstance(app.screen, RowDialog)
        shown = screen_text(app)
        for word in ("As it is planned", ident(1), "buy 11 MSFT @ 100.25 gtc", "on the wire", "cid-1"):
            assert word in shown, word
        await press(pilot, "pagedown")
        assert "HTTP 429" in screen_text(app), "the entry it comes from"
        await press(pilot, "escape")
        assert isinstance(app.screen, ReplayGate)
        await press(pilot, "down", "enter")
        assert "unparsable" in screen_text(app)
        assert "ReadTimeout" in screen_text(app)
        await press(pilot, "escape")
        assert not venue.posts
        await answer(pilot, "1")
        await over(pilot)
    assert len(venue.orders) == 1


async def test_enter_sends_what_was_typed_though_a_row_is_chosen(tmp_path: Path, venue: Exchange) -> None:
    app = stage_with(tmp_path, venue, [order(1)]).console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await planned(pilot)
        await press(pilot, "down")
        await answer(pilot, "1")
        await over(pilot)
    assert len(venue.orders) == 1


async def test_a_collapsed_order_is_shown_and_opens(tmp_path: Path, venue: Exchange) -> None:
    terms = '"market_id": "MSFT", "side": "buy", "quantity": 12, "price": 100.5'
    cancel = order(2, client_order_id="cid-1", market_id="MSFT", action_json=f'{{"action": "cancel", {terms}}}')
    app = stage_with(tmp_path, venue, [order(1), cancel]).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = await planned(pilot)
        assert "collapses 1: NEW cid-1 by CANCEL cid-1" in shown
        assert "− buy 11 MSFT @ 100.25 gtc  alpaca · main  collapses into CANCEL cid-1" in shown
        await press(pilot, "down", "down", "enter")
        assert f"into {ident(2)}, which stands for it" in screen_text(app)


async def test_nothing_to_send_is_called_so(tmp_path: Path, venue: Exchange) -> None:
    app = stage_with(tmp_path, venue, [order(1, action_json="{")]).console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        shown = await planned(pilot)
        assert "nothing can be sent" in shown
        assert "nowhere" not in shown


async def test_exposure_is_told_by_currency(tmp_path: Path, venue: Exchange) -> None:
    coins = order(2, market_id="BTC/EUR", quantity=0.5, price=100.0)
    app = stage_with(tmp_path, venue, [order(1), coins]).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = await planned(pilot)
        assert "1,102.75 USD" in shown
        assert "50.00 EUR" in shown
        assert "1,152.75" not in shown, "never added"


async def test_a_plan_made_again_after_an_override_clears_what_was_said(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)], limits=Limits(max_notional=Decimal(10)))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await planned(pilot)
        await press(pilot, "ctrl+o")
        await answer(pilot, "notional")
        await answer(pilot, "the desk agreed")
        await until(pilot, lambda: "type 1 to send" in screen_text(app))
        assert "planning anew" not in screen_text(app)
        assert typed(app) == ""
        assert "overridden: notional" in " ".join(screen_text(app).split())


async def test_a_plan_that_could_not_be_made_again_clears_what_was_said(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)], limits=Limits(max_notional=Decimal(10)))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await planned(pilot)
        await press(pilot, "ctrl+o")
        await answer(pilot, "notional")
        stage.path.rename(tmp_path / "elsewhere.db")
        await answer(pilot, "the desk agreed")
        await until(pilot, lambda: "no plan could be made" in screen_text(app))
        assert "planning anew" not in screen_text(app)


async def test_the_hash_is_told_only_once_the_plan_can_be_approved(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1)], limits=Limits(four_eyes_over=Decimal(1)))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        shown = await planned(pilot)
        assert (
            "needs a second person: gross 1,102.75 USD is over 1" in shown
            or "needs a second person: gross 1102.75" in shown
        )
        assert "dlq approve" not in shown
        await answer(pilot, "1")
        await until(pilot, lambda: "Waiting for a second person" in gate_message(app))
        assert "dlq approve " in " ".join(gate_message(app).split())
        await press(pilot, "escape")
        assert on_queue(app)


@pytest.mark.parametrize("mode", ["paper", "live"])
async def test_a_single_replay_takes_three_keys_and_what_is_typed(tmp_path: Path, venue: Exchange, mode: Any) -> None:
    stage: Stage = stage_with(tmp_path, venue, [order(1)])
    stage.store = StoreConfig(name="prod", url=str(stage.path), mode=mode)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        await until(pilot, lambda: "to send" in screen_text(app))
        await answer(pilot, "1" if mode == "paper" else "live 1")
        await over(pilot)
    assert len(venue.orders) == 1


async def test_missing_and_refused_keys_name_the_command_in_the_gate(tmp_path: Path, venue: Exchange) -> None:
    """A known venue without usable keys is neither an unknown venue nor nowhere."""
    wanted = "dlq secrets set alpaca --account main --paper"

    def missing(asked: SecretSet) -> Credentials:
        raise BadCredentials(set_missing(asked))

    for refused in (False, True):
        (folder := tmp_path / str(refused)).mkdir()
        stage = stage_with(folder, venue, [order(1)])
        if refused:
            venue.fault("http_401", on="probe", times=None)
        app = stage.console() if refused else replace(stage, credentials=missing).console()
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            await press(pilot, "R")
            await until(pilot, lambda: "holds 1" in screen_text(app))  # noqa: B023 - waited for within the turn
            shown = " ".join(screen_text(app).replace("│", " ").split())
            assert "unknown venue" not in shown
            assert "nowhere" not in shown
            assert ("not ready 1" if refused else "unknown account 1") in shown
            await press(pilot, "down", "enter")
            assert isinstance(app.screen, RowDialog)
            assert wanted in " ".join(screen_text(app).replace("│", " ").split())
    assert not venue.posts

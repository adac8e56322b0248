"""The dismiss gate says what is at stake before it asks: worth, venues, accounts, age, and what may stand there."""

from __future__ import annotations

import asyncio
import json
import time
from decimal import Decimal
from pathlib import Path

import pytest

from backends import DeadLetteredOrder
from backends.records import Entry
from console.render.gates.dismissal import DismissalStake, dismiss_title, short_amount, short_amounts, stake_lines
from console.render.line import plain
from tests.support.app import (
    NOW,
    Stage,
    answer,
    gate_message,
    ident,
    in_gate,
    make_store,
    notice,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    until,
)


def many_places(count: int) -> list[DeadLetteredOrder]:
    """Orders at two venues and eleven accounts, most of which may have reached their venue."""
    kalshi = {
        "venue_name": "kalshi",
        "market_id": "KXFED-26APR-T4.25",
        "side": "yes",
        "price": 0.5,
        "account_id": "events",
    }
    made: list[DeadLetteredOrder] = []
    for n in range(count):
        error = "timeout" if n % 10 else "429"
        own = kalshi if n % 4 == 0 else {"account_id": f"desk-{n % 10}"}
        made.append(order(n, minutes=5 + n / 100, error=error, **own))
    return made


async def test_the_gate_says_worth_places_age_and_what_may_stand_there(tmp_path: Path) -> None:
    app = Stage(make_store(tmp_path / "orders.db", many_places(200))).console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "D")
        shown = screen_text(app)
        assert "Dismiss 200 entries · " in shown
        assert "k USD" in shown or "M USD" in shown
        for word in ("alpaca 150", "kalshi 50", "11 accounts", "oldest 6m", "! 180 may have reached the venue"):
            assert word in shown, word
        assert "dismissing cancels nothing" in shown
        for number, reason in enumerate(app.setup.config.reasons, start=1):
            assert f"{number} {reason}" in shown, "every reason is in sight on the smallest screen"


async def test_few_accounts_are_named_with_their_counts_and_currencies_are_never_added(tmp_path: Path) -> None:
    euros = order(3, venue_name="ccxt:kraken", account_id="mm", market_id="BTC/EUR", quantity=2.0, price=50_000.0)
    stage = Stage(make_store(tmp_path / "orders.db", [order(1), order(2), euros]))
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "D")
        shown = screen_text(app)
        assert "Dismiss 3 entries · 100k EUR, 2.31k USD" in shown
        assert "alpaca main 2" in shown
        assert "ccxt:kraken mm 1" in shown
        assert "may have reached" not in shown


async def test_one_entry_takes_three_keys_and_enter(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "orders.db", [order(1)]))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "6", "1", "enter")
        assert "1 dismissed" in notice(app)


async def _event(stage: Stage, number: int) -> dict[str, object]:
    store = await stage.open()
    (event,) = await store.events(ident(number))
    await store.aclose()
    body: dict[str, object] = json.loads(event.body)
    return body


@pytest.mark.parametrize("before", [True, False])
async def test_n_adds_a_note_with_any_reason(tmp_path: Path, before: bool) -> None:
    stage = Stage(make_store(tmp_path / "orders.db", [order(1)]))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", *(("n",) if before else ("1", "n")))
        await answer(pilot, "closed for the holiday, none of 9")
        assert "closed for the holiday, none of 9" in screen_text(app), "it stands on the page"
        await press(pilot, *(("1",) if before else ()))
        await answer(pilot, "1")
        assert on_queue(app)
    body = await _event(stage, 1)
    assert (body["reason"], body["note"]) == ("market-closed", "closed for the holiday, none of 9")


async def test_a_note_that_is_there_already_serves_for_other(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "orders.db", [order(1)]))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "n")
        await answer(pilot, "done by hand")
        await press(pilot, "9")
        assert "type 1 to dismiss" in screen_text(app)
        await answer(pilot, "1")
    assert (await _event(stage, 1))["note"] == "done by hand"


async def test_a_reason_beyond_the_digits_is_picked_by_the_arrows(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "orders.db", [order(1)]))
    stage.config = stage.config.__class__(reasons=(*stage.config.reasons, "exchange-outage"))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "up", "up")
        assert "exchange-outage ←" in screen_text(app)
        await press(pilot, "enter")
        assert "exchange-outage ✓" in screen_text(app)
        await answer(pilot, "1")
    assert (await _event(stage, 1))["reason"] == "exchange-outage"


async def test_the_number_does_not_count_before_the_sum_is_shown(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "orders.db", [order(n) for n in range(300)]))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "a")
        session = app.session
        assert session is not None
        held = asyncio.Event()
        many = session.store.many

        async def slow(ids: tuple[str, ...]) -> object:
            await held.wait()
            return await many(ids)

        session.store.many = slow  # type: ignore[method-assign, assignment]
        await pilot.press("D")
        await until(pilot, lambda: in_gate(app) and app.screen.is_mounted and "adding up" in screen_text(app))
        await until(pilot, lambda: app.screen.is_open)  # type: ignore[attr-defined]
        await pilot.press("1", "3", "0", "0", "enter")
        await until(pilot, lambda: "still being added up" in gate_message(app))
        held.set()
        await until(pilot, lambda: "alpaca main 300" in screen_text(app))
        await answer(pilot, "300")
        assert "300 dismissed" in notice(app)


async def test_five_thousand_marked_entries_are_added_up_at_once(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "orders.db", many_places(5000)))
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a")
        began = time.perf_counter()
        await pilot.press("D")
        await until(pilot, lambda: "alpaca 3,750" in screen_text(app))
        took = time.perf_counter() - began
        assert "! 4,500 may have reached the venue" in screen_text(app)
        assert took < 10, "many times what it takes: 0.2 s"


def test_amounts_are_short_and_never_added_across_currencies() -> None:
    said = {"9960000": "9.96M", "18000": "18.0k", "950": "950", "999.9": "1.00k", "0.5": "0.5", "1.2e9": "1.20B"}
    assert {text: short_amount(Decimal(text)) for text in said} == said
    worth = {"USD": Decimal(100), "EUR": Decimal(2000), "JPY": Decimal(3), "": Decimal(50), "GBP": Decimal(1)}
    assert short_amounts(worth) == "2.00k EUR, 100 USD, 50 of no known currency, 2 more currencies"


def test_what_is_cut_says_how_much_it_is() -> None:
    stake = DismissalStake()
    stake.add([_entry(n) for n in range(9)], {})
    text = " ".join(plain(one) for one in stake_lines(stake, NOW, "C"))
    assert "… 3 more accounts" in text
    assert plain(dismiss_title(9, stake)).startswith("Dismiss 9 entries · ")


def _entry(number: int) -> Entry:
    made = order(number, venue_name=f"ccxt:ex{number}", account_id=f"a{number % 2}", market_id="BTC/USD")
    names = ("venue_name", "account_id", "market_id", "quantity", "price", "captured_at", "error", "action_json")
    values = tuple(getattr(made, name) for name in names)
    return Entry("orders", made.dlq_id, "pending", (), (number,), names, values)

"""More of what an operator, an auditor and a newcomer do, with the keys it takes: never more than these.

Counted as in `test_scenarios`: a text that is typed is not counted, the keys around it are.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from backends import open_store
from backends.records import ActContext, Selection
from console import clock
from console.cli.demo import demo_config, demo_entries, demo_ids
from console.screens.attach import AttachScreen
from console.services.index.keeper import IndexJob
from console.settings.config import load_config
from console.settings.secret_remedies import set_missing
from tests.screens.test_attach import first_run
from tests.screens.test_evidence_actions import in_doubt
from tests.screens.test_replay_actions import over, stage_with
from tests.screens.test_scenarios import KALSHI, Hand, shown
from tests.support.app import (
    ANN,
    NOW,
    Stage,
    ident,
    ids,
    make_store,
    notice,
    on_queue,
    order,
    screen_text,
    settled,
    until,
)
from tests.support.exchange import Exchange
from venues import BadCredentials, Credentials, SecretSet

TRACEBACK = (
    'Traceback (most recent call last):\n  File "/srv/bot/engine.py", line 210, in submit\n'
    "    await self.venue.send(order)\nhttpx.ConnectTimeout: timed out\n\n"
    "The above exception was the direct cause of the following exception:\n\n"
    'Traceback (most recent call last):\n  File "/srv/bot/engine.py", line 215, in submit\n    raise lost\n'
    "engine.VenueUnreachable: VenueUnreachable(venue='alpaca', attempt=3)"
)


async def test_10_amounts_of_two_currencies_are_never_added(tmp_path: Path) -> None:
    """In the list's sum, in the group's, and in the gate before an act."""
    euro = {"venue_name": "ccxt:binance", "market_id": "BTC/EUR", "quantity": 2.0, "price": 1000.0}
    path = make_store(tmp_path / "o.db", [order(1, quantity=10.0, price=100.0), order(2, **euro)])  # type: ignore[arg-type]
    async with Stage(path).console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.sees("2.0k EUR + 1.0k USD")
        await hand.press("f")
        await hand.sees("notional 2,000.00 EUR, 1,000.00 USD")
        await hand.press("D")
        await hand.sees("Dismiss 2 entries · 2.00k EUR, 1.00k USD")
        assert hand.keys == 2


async def test_11_a_traceback_says_its_last_line_in_the_row_and_the_verdict_stands_above_it(tmp_path: Path) -> None:
    path = make_store(tmp_path / "o.db", [order(1, error=TRACEBACK)])
    async with Stage(path).console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.sees("NEVER SENT", "→ replay (R)", "← ConnectTimeout")
        rows = screen_text(hand.app).splitlines()
        row = next(text for text in rows if "alpaca" in text)
        assert "VenueUnreachable" in row
        assert "Traceback" not in row
        first = next(n for n, text in enumerate(rows) if "NEVER SENT" in text)
        assert first < next(n for n, text in enumerate(rows) if "VenueUnreachable:" in text)
        assert hand.keys == 0


async def test_13_an_auditor_finds_a_dismissed_entry_by_its_id_and_reads_who_and_why(tmp_path: Path) -> None:
    path = make_store(tmp_path / "o.db", [order(1), order(2)])
    store = await open_store(str(path))
    why = ActContext(at=NOW, operation="x", reason="bad-order", note="a text where a price belongs")
    await store.dismiss(
        Selection.of(tuple((await store.many((ident(1),))).values())), replace(ANN, operator="bob"), why
    )
    await store.aclose()
    async with Stage(path).console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.filter(ident(1))
        await until(pilot, lambda: "1 dismissed entry has this id: add state:all" in notice(hand.app))
        await hand.filter("operator:bob state:all")
        await until(pilot, lambda: ids(hand.app) == [ident(1)])
        await hand.sees("DISMISSED · by bob", "bad-order: a text where a price belongs")
        assert hand.keys == 4


async def test_14_a_filter_is_completed_from_the_store_and_minds_no_case(tmp_path: Path) -> None:
    path = make_store(tmp_path / "o.db", [order(1), order(2, **KALSHI)])
    async with Stage(path).console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.press("slash")
        await hand.sees("tab complete")
        for part in ("VEN", "kal"):
            for char in part:
                await pilot.press(char)
            await hand.press("tab")
        await hand.press("enter")
        await until(pilot, lambda: ids(hand.app) == [ident(2)])
        await hand.press("slash")
        await hand.sees("filter: ▏")
        assert hand.keys == 5


async def test_15_the_gravest_alert_is_two_keys_from_its_entries(tmp_path: Path) -> None:
    old = [order(n, minutes=180, venue_name="kalshi", error="timeout") for n in range(1, 4)]
    stage = Stage(make_store(tmp_path / "o.db", [*old, order(9)]))
    async with stage.console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        assert hand.app.session is not None
        await IndexJob(hand.app.session.store, lambda: NOW, folder=stage.cache).build()
        await (await hand.app.session.index_status()).look()
        await hand.press("i")
        await hand.sees("▸! kalshi oldest 3h (limit 30m)", "now 4 open")
        await hand.press("enter")
        await until(pilot, lambda: on_queue(hand.app) and len(ids(hand.app)) == 3)
        assert hand.keys == 2


async def test_16_missing_keys_name_the_command_that_sets_them(tmp_path: Path, venue: Exchange) -> None:
    def missing(wanted: SecretSet) -> Credentials:
        raise BadCredentials(set_missing(wanted))

    stage = replace(stage_with(tmp_path, venue, [order(1)]), credentials=missing)
    async with stage.console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.press("R")
        await hand.sees("nothing can be sent", "dlq secrets set alpaca --account main --paper")
        assert "unknown-venue" not in shown(hand.app)
        assert "nowhere" not in shown(hand.app)
        assert hand.keys == 1


async def test_17_a_first_run_takes_a_path_as_it_is_typed(tmp_path: Path) -> None:
    """No letter of it is a key, and Enter is the only one."""
    path = make_store(tmp_path / "quit-jkq.db", [order(1)])
    async with first_run(tmp_path).console().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        assert isinstance(hand.app.screen, AttachScreen)
        await hand.sees("the demo", "just type it", "no config yet")
        await hand.text(str(path))
        await until(pilot, lambda: hand.app.session is not None and on_queue(hand.app))
        assert hand.keys == 1


async def test_18_the_demo_is_as_fresh_after_days(tmp_path: Path, venue: Exchange) -> None:
    """What it shows can be sent for as long as it is open: its config says how old an order may be."""
    demo_config(tmp_path, venue.url)
    path = make_store(tmp_path / "demo.db", demo_entries(clock.now() - timedelta(days=3)))
    settings = load_config(str(tmp_path / "config.toml"), {})
    stage = Stage(path, config=settings, clock=clock.now)
    async with stage.console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        hand = Hand(pilot)
        await hand.press("a", "R")
        await hand.sees(f"Replay {len(demo_ids())} entries", "sends ")
        await hand.sees("stale 1 ·")  # the one of nine days that shows what stale is
        assert hand.keys == 2


async def test_20_a_halt_is_one_key_and_a_question_needs_no_number(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="DROP")])
    async with stage.console().run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await in_doubt(pilot)
        hand = Hand(pilot)
        await hand.press("H")
        assert hand.app.session is not None
        assert await hand.app.session.store.halted() is not None, "before anything is asked"
        await hand.press("escape")
        await hand.sees("HALT by oncall")
        await hand.reconcile()
        await over(pilot)
        assert "type " not in shown(hand.app)
        assert hand.keys == 3

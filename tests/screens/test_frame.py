"""The frame, read-only mode, sizes, themes, the attach screen, a lost store, and a crash that shows no secret."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.worker import WorkerFailed

from backends.store import Unreachable
from console import keymap as keys
from console.screens.attach import AttachScreen
from console.screens.frame import FramedScreen
from console.services.session import StoreSession
from console.settings.config import StoreConfig
from tests.support.app import (
    NOW,
    Stage,
    answer,
    config,
    ident,
    make_store,
    notice,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    until,
)
from tests.support.intent import add_intents, intent_row, make_intents

ACTS = ("D", "R", "C", "S", "U", "z", "N", "P", "H", "m", "exclamation_mark")


async def test_read_only_has_no_acting_key_anywhere(stage: Stage) -> None:
    stage.read_only = True
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "READ-ONLY" in screen_text(app)
        for key in ACTS:
            await press(pilot, key)
            assert on_queue(app), key
        for word in ("dismiss", "replay", "ask venue", "settle", "halt", "paper/live", "undo"):
            assert word not in screen_text(app)
        await press(pilot, "question_mark")
        assert not [key.id for key in keys.KEYS if key.dangerous and key.tooltip in screen_text(app)]
        await press(pilot, "escape", "A", "v")
        await until(pilot, lambda: "the chain holds: 0 events" in screen_text(app))


async def test_read_only_commands_do_not_act_either(stage: Stage) -> None:
    stage.read_only = True
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for word in ("dismiss", "replay", "halt", "undo", "settle"):
            await press(pilot, "colon")
            await answer(pilot, word)
            assert "READ-ONLY" in notice(app)
            assert on_queue(app)


def test_a_read_only_console_never_loads_what_can_send(tmp_path: Path) -> None:
    store = make_store(tmp_path / "orders.db", [order(1)])
    program = f"""
import asyncio, sys
from pathlib import Path
from console.app import ConsoleApp
from tests.support.app import Stage, settled, press
async def main():
    app = Stage(Path({str(store)!r}), read_only=True).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "enter", "right_square_bracket", "right_square_bracket", "escape", "A", "v", "escape", "f")
loaded = [name for name in sys.modules if name.startswith("venues.")]
asyncio.run(main())
senders = ("venues.http", "venues.alpaca.client", "console.services.replay.submit", "httpx")
new = [n for n in sys.modules if n.startswith(senders)]
print(new)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (300, 100)])
async def test_every_size_has_the_frame_s_words(stage: Stage, size: tuple[int, int]) -> None:
    app = stage.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        shown = screen_text(app)
        for word in ("prod-orders", "PAPER", "operator oncall", "pending 12", "in doubt 0", "? help"):
            assert word in shown, word
        assert all(len(line) <= size[0] for line in shown.splitlines())


@pytest.mark.parametrize("size", [(79, 24), (80, 23), (40, 10), (20, 5), (3, 2), (1, 1)])
async def test_a_small_screen_still_looks(stage: Stage, size: tuple[int, int]) -> None:
    app = stage.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "j", "D", "enter", "escape")
        if size[0] >= 40:
            assert "too small to act" in screen_text(app)
        await pilot.resize_terminal(120, 40)
        await settled(pilot)
        assert "too small" not in screen_text(app)


async def test_a_storm_of_resizes(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for n in range(60):
            await pilot.resize_terminal(1 + (n * 37) % 220, 1 + (n * 13) % 70)
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert "pending 12" in screen_text(app)


async def test_themes_take_turns(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        names = [app.theme]
        for _ in range(3):
            await press(pilot, "t")
            names.append(app.theme)
        assert names == ["dlq-dark", "dlq-light", "dlq-contrast", "dlq-dark"]


async def test_help_has_every_key_of_the_place(stage: Stage) -> None:
    """In columns a long text goes on in the next row; below 100 columns each has a row to itself."""
    app = stage.console()
    async with app.run_test(size=(120, 100)) as pilot:
        await settled(pilot)
        await press(pilot, "question_mark")
        beside = screen_text(app)
        await pilot.resize_terminal(99, 160)
        await settled(pilot)
        whole = screen_text(app)
        for key in keys.at("queue"):
            assert " ".join(key.tooltip.split()[:3]) in beside
            assert key.tooltip in whole


async def test_attach_lists_stores_and_says_what_is_wrong_inline(tmp_path: Path) -> None:
    good = make_store(tmp_path / "good.db", [order(1)])
    stores = {
        "good": StoreConfig(name="good", url=str(good)),
        "gone": StoreConfig(name="gone", url=str(tmp_path / "gone.db")),
        "secret": StoreConfig(name="secret", url="postgresql://ops:HUNTER2@db/trading"),
    }
    stage = Stage(good, config=config(stores=stores), changes={"store": None, "recent": ("/lately/orders.db",)})
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert isinstance(app.screen, AttachScreen)
        for word in ("good", "gone", "postgres db/trading", "/lately/orders.db", "opened lately"):
            assert word in screen_text(app)
        assert "HUNTER2" not in screen_text(app)
        await press(pilot, "j", "enter")
        await until(pilot, lambda: "no such file" in screen_text(app))
        await press(pilot, "G", "enter")
        await answer(pilot, "mysql://x")
        assert "unknown kind of target" in screen_text(app)
        await press(pilot, "g", "enter")
        await until(pilot, lambda: app.session is not None)
        await settled(pilot)
        assert on_queue(app)
        assert ident(1) in screen_text(app)


async def test_a_store_that_cannot_be_opened_is_said_and_the_exit_code_tells(stage: Stage) -> None:
    async def refused(_: StoreConfig) -> StoreSession:
        raise Unreachable("postgres db1/trading does not answer: is the server up?")

    stage.attaching = refused
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "does not answer" in screen_text(app))
        assert isinstance(app.screen, AttachScreen)
        await pilot.press("ctrl+q")  # a letter would begin the address of another store
    assert app.return_code == 5


async def test_a_lost_store_is_said_and_so_is_its_return(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.update_header(lost="the connection was lost")
        await pilot.pause()
        assert "STORE LOST, as of 0s ago: the connection was lost" in screen_text(app)
        later = NOW + timedelta(minutes=7)
        app.setup = replace(app.setup, clock=lambda: later)
        await press(pilot, "enter")
        await until(pilot, lambda: "STORE LOST, as of 7m ago: " in screen_text(app), "its age, on every screen")
        await press(pilot, "escape")
        app.update_header(lost=None)
        app.queue.tell_back()
        await pilot.pause()
        assert "the store is back" in screen_text(app)


async def test_who_quits_while_the_store_is_being_attached_did_nothing_wrong(stage: Stage) -> None:
    async def never(_: StoreConfig) -> StoreSession:
        await asyncio.Event().wait()
        raise AssertionError

    stage.attaching = never
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "attaching" in screen_text(app))
        await pilot.press("q")
    assert app.return_code == 0


@pytest.mark.parametrize("wanted", [False, True])
async def test_a_new_entry_in_doubt_rings_and_stands_in_the_title_where_it_is_wanted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    written: list[str] = []
    monkeypatch.setattr(HeadlessDriver, "write", lambda _, data: written.append(data))
    make_intents(str(stage.path), intent_row(71))
    stage.config, stage.watch = config(alarm=wanted), True
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "in doubt 1" in screen_text(app))
        assert "\x07" not in written, "what is there when the console opens is no news"
        add_intents(str(stage.path), intent_row(72))
        await until(pilot, lambda: "in doubt 2" in screen_text(app))
        assert ("\x07" in written) is wanted
        assert ("\x1b]2;2 in doubt · dlq prod-orders\x07" in written) is wanted
    assert ("\x1b[23;2t" in written) is wanted, "the title from before is given back"


class Canary(Exception):
    """An error with a secret in every part."""


@pytest.mark.parametrize("where", ["key", "worker", "timer", "render"])
async def test_a_crash_shows_no_values(stage: Stage, where: str, capfd: Any) -> None:
    secret = "CANARY-" + "HUNTER2"

    def bug(*_: object) -> None:
        password = secret
        raise Canary(password)

    async def async_bug() -> None:
        bug()

    app = stage.console()

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            match where:
                case "key":
                    app.queue.do_sort = bug  # type: ignore[method-assign]  # a bug in a key's method
                    await pilot.press("s")
                case "worker":
                    app.queue.start(async_bug, group="x", exclusive=False)
                case "timer":
                    app.queue.set_timer(0.001, bug)
                case _:
                    app.queue.table.render_line = bug  # type: ignore[assignment, method-assign]  # a bug in painting
                    app.queue.table.refresh()
            # Not by the pilot: its pause paints too, and would meet the bug before the app does.
            await asyncio.wait_for(app._exception_event.wait(), 60)

    with pytest.raises((Canary, WorkerFailed)):  # the harness raises what the app caught
        await run()
    assert app.return_code == 70
    assert app.crashed is not None
    assert "Canary" in app.crashed
    assert "reference" in app.crashed
    out, err = capfd.readouterr()
    assert "HUNTER2" not in app.crashed + out + err


async def test_every_key_of_every_screen_has_a_meaning(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for opening in ((), ("enter",), ("A",), ("f",), ("question_mark",), ("o",)):
            await press(pilot, *opening)
            screen = app.screen
            assert isinstance(screen, FramedScreen)
            missing = [key.id for key in app.keys_at(screen.key_context) if not hasattr(screen, f"do_{key.action}")]
            assert not missing, (screen.key_context, missing)
            if opening:
                await press(pilot, "escape")


async def test_entry_tabs_tell_the_whole_story(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "enter")
        assert "RuntimeError: HTTP 429 after 3 attempts" in screen_text(app)
        assert "→ replay (R) when" in screen_text(app)
        await press(pilot, "right_square_bracket")
        for word in ("buy 21 NVDA @ 102.75 gtc", "client_order_id", "cid-11", '"quantity": 21.0'):
            assert word in screen_text(app)
        await press(pilot, "right_square_bracket")
        assert "never sent from here" in screen_text(app)


async def test_mismatches_of_the_action_are_named(tmp_path: Path) -> None:
    odd = order(1, action_json='{"quantity": 99, "market_id": "AAPL", "side": "buy", "price": 100.25}')
    stage = Stage(make_store(tmp_path / "odd.db", [odd]))
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "enter", "right_square_bracket")
        assert "✗" in screen_text(app)
        assert "quantity" in screen_text(app)


async def test_why_the_store_is_lost_is_whole_in_the_smallest_terminal(stage: Stage) -> None:
    why = "postgres db1/trading ended the connection or is not ready; is the server up, and are host and port right?"
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app.update_header(lost=why)
        later = NOW + timedelta(minutes=7)
        app.setup = replace(app.setup, clock=lambda: later)
        await until(pilot, lambda: "as of 7m ago" in screen_text(app), "the data's age grows while the store is lost")
        shown = " ".join(_as_one(app).split())
        lost = f"STORE LOST, as of 7m ago: {why} pending 12 in doubt 0 oldest "
        assert lost in shown, "what was read last stays, with its age"
        app.update_header(lost=None)
        await settled(pilot)
        assert "STORE LOST" not in screen_text(app)
        assert screen_text(app).split("\n")[3].lstrip("│ ").startswith("AGE"), "the table has its place again"


async def test_a_warning_longer_than_a_line_is_whole(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "slash")
        await answer(pilot, "oparator:bob")
        sentence = 'did you mean operator? Or put it in quotes to search it as text: "oparator:bob"'
        await until(pilot, lambda: sentence in _as_one(app))
        await press(pilot, "escape")
        assert "quotes" not in screen_text(app)


def _as_one(app: Any) -> str:
    """The screen without its frame, as one line."""
    return " ".join(line.strip("│ ") for line in screen_text(app).split("\n"))

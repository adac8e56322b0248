"""The console says in queue and history that a message came back, and lets its poison go with a note only."""

from __future__ import annotations

from pathlib import Path

import pytest

from console import clock
from console.app import ConsoleApp
from tests.support.app import answer, app_of, ids, in_gate, press, screen_text, settled, until
from tests.support.outbox import OutboxRig, dead_row, requeue
from tests.support.snapshots.layout_stores import LayoutStage

BAD = "ValueError('no such instrument')"


@pytest.fixture
async def stage(postgres_db: str) -> LayoutStage:
    """Message 4 is message 1 that came back twice; 2 never did."""
    rig = OutboxRig(postgres_db)
    await rig.tables()
    await rig.dead(dead_row(1, last_exception=BAD), 2)
    store = await rig.store()
    for entry_id in ("1", "3"):
        await requeue(store, entry_id)
        await rig.fail_again(BAD)
    await rig.aclose()
    return LayoutStage(Path("unused"), target=postgres_db, clock=clock.now)


def _words(app: ConsoleApp) -> str:
    """What is on screen, without its lines."""
    return " ".join(screen_text(app).replace("│", " ").split())


@pytest.mark.parametrize(
    ("size", "says"), [((80, 24), "back 2x: "), ((120, 40), "came back 2 times: no such instrument")]
)
async def test_the_queue_and_the_history_say_that_it_came_back(
    stage: LayoutStage, size: tuple[int, int], says: str
) -> None:
    app = stage.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await until(pilot, lambda: says in screen_text(app))
        assert ids(app) == ["4", "2"]
        await press(pilot, "enter")
        await until(pilot, lambda: "came back 2 times" in _words(app))
        assert "☠ poison: failed 3 times in the same way" in screen_text(app)
        await press(pilot, "]", "]", "]")
        await until(pilot, lambda: "came back 2 times; before that it was" in screen_text(app))
        shown = screen_text(app)
        assert "· 1  failed 2026-04-18 14:32:16Z  retry_terminal" in shown
        assert "· 3  failed" in shown
        assert shown.count("replayed 2026-04-18") == 2


async def test_a_poisoned_message_goes_only_once_the_guard_is_overridden_with_a_note(stage: LayoutStage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "R")
        await until(pilot, lambda: "poison: failed 3 times in the same way" in screen_text(app))
        assert "nothing to send, ctrl+o to override a guard" in screen_text(app)
        await press(pilot, "ctrl+o")
        await answer(pilot, "poison")
        await answer(pilot, "the instrument is there now")
        await until(pilot, lambda: "to send again" in screen_text(app))
        await answer(pilot, "1")
        await until(pilot, lambda: not in_gate(app))
        await until(pilot, lambda: (run := app_of(pilot).activity.run) is not None and run.over)
    rig = OutboxRig(stage.target)
    assert [row["payload"] for row in await rig.outbox_rows()] == [b'{"n": 1}']

"""H halts at once and asks for a note afterwards; on a halted store it opens the gate that resumes."""

from __future__ import annotations

import pytest

from console.screens.gates.prompts import NoteGate
from tests.support.app import Stage, answer, in_gate, notice, on_queue, press, screen_text, settled, until


async def halt_note(stage: Stage) -> str | None:
    store = await stage.open()
    halt = await store.halted()
    await store.aclose()
    return None if halt is None else halt.note


@pytest.mark.parametrize("leave", ["enter", "escape"])
async def test_one_key_halts_and_the_note_may_stay_empty(stage: Stage, leave: str) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "H")
        assert await halt_note(stage) == "", "before anything else was pressed"
        assert isinstance(app.screen, NoteGate)
        await press(pilot, leave)
        assert on_queue(app)
        assert "HALT by oncall" in screen_text(app)
    assert await halt_note(stage) == ""


async def test_the_note_is_put_on_the_halt(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "H")
        await answer(pilot, "runaway strategy")
        assert "HALT by oncall: runaway strategy" in screen_text(app)
    assert await halt_note(stage) == "runaway strategy"


async def test_a_second_h_resumes_with_a_note(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "H", "enter", "H")
        assert in_gate(app)
        assert "without a note" in screen_text(app)
        await answer(pilot, "over")
        assert "resumed" in notice(app)
    assert await halt_note(stage) is None


async def test_a_halt_of_somebody_else_is_left_as_it_is(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        other = await stage.attach(stage.store_config)
        await other.triage.halt("theirs")
        await other.aclose()
        await press(pilot, "H")
        await answer(pilot, "mine")
        await until(pilot, lambda: "the note was not kept" in notice(app))
    assert await halt_note(stage) == "theirs"


async def test_a_note_comes_too_late_for_a_halt_that_was_resumed(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "H")
        other = await stage.attach(stage.store_config)
        await other.triage.resume("false alarm")
        await other.aclose()
        await answer(pilot, "mine")
        await until(pilot, lambda: "the note was not kept" in notice(app))
    assert await halt_note(stage) is None, "a late note halts nothing again"


async def test_the_note_on_a_halt_says_that_leaving_it_takes_nothing_back(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "H")
        await until(pilot, lambda: "esc leaves none" in screen_text(app))
        assert "esc cancels" not in screen_text(app)

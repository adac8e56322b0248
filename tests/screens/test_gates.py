"""Gates: esc cancels at any time, and only the typed answer confirms."""

from __future__ import annotations

import pytest
from textual import events
from textual.pilot import Pilot

from backends.records import STATES, Filter
from console.app import ConsoleApp
from console.screens.gates.gate import Gate
from tests.support.app import (
    Stage,
    answer,
    app_of,
    config,
    current,
    gate_message,
    ident,
    ids,
    in_gate,
    notice,
    on_queue,
    press,
    screen_text,
    settled,
    typed,
    until,
)


async def states(stage: Stage) -> dict[str, str]:
    store = await stage.open()
    page = await store.page(Filter(states=frozenset(STATES)), limit=1000)
    await store.aclose()
    return {entry.id: entry.state for entry in page.entries}


async def dismissed(stage: Stage) -> set[str]:
    return {entry_id for entry_id, state in (await states(stage)).items() if state == "dismissed"}


async def test_dismiss_asks_reason_then_number_then_enter(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "space", "space", "D")
        assert "Dismiss 2 entries" in screen_text(app)
        for number, reason in enumerate(app.setup.config.reasons, start=1):
            assert f"{number} {reason}" in screen_text(app)
        await press(pilot, "6")
        await answer(pilot, "2")
        assert on_queue(app)
        assert "2 dismissed" in notice(app)
        assert not app.queue.marks
    assert await dismissed(stage) == {ident(11), ident(10)}


async def test_undo_brings_back_at_once(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "a", "D", "1")
        await answer(pilot, "12")
        assert len(await dismissed(stage)) == 12
        await press(pilot, "z")
        assert "12 restored" in notice(app)
        assert not await dismissed(stage)
        await press(pilot, "z")
        assert "nothing to undo" in notice(app)


async def test_reason_other_asks_for_a_note(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "9")
        assert "say why" in screen_text(app)
        await press(pilot, "enter")
        assert "type the answer first" in gate_message(app)
        await answer(pilot, "1")
        assert in_gate(app), "a note that is a number is still only a note"
        await answer(pilot, "1")
        assert on_queue(app)
    store = await stage.open()
    (event,) = await store.events(ident(11))
    await store.aclose()
    assert b'"note":"1"' in event.body
    assert b'"reason":"other"' in event.body


@pytest.mark.parametrize("wrong", ["1", "3", "22", "two", "2 "])
async def test_a_wrong_number_leaves_the_gate_open_with_a_word(stage: Stage, wrong: str) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "space", "space", "D", "1")
        await answer(pilot, wrong)
        if wrong.strip() == "2":
            assert on_queue(app)
        else:
            assert "that is not 2" in gate_message(app)
            assert not await dismissed(stage)


async def test_enter_alone_never_confirms(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "enter", "enter", "1", "enter", "enter", "enter")
        assert in_gate(app)
        assert "Enter alone confirms nothing" in gate_message(app)
        assert not await dismissed(stage)


@pytest.mark.parametrize("before", [(), ("1",), ("1", "1"), ("9", "x")])
async def test_esc_cancels_at_any_moment(stage: Stage, before: tuple[str, ...]) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", *before, "escape")
        assert on_queue(app)
        assert not await dismissed(stage)


async def test_keys_before_the_gate_was_seen_do_not_count(stage: Stage) -> None:
    stage.changes = {"dead_seconds": 3600.0}
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "1", "1", "enter")
        assert in_gate(app)
        assert typed(app) == ""
        assert "why? press the reason's key, n adds a note: …" in screen_text(app), (
            "it is to be read before it can be answered"
        )
        await press(pilot, "escape")
        assert on_queue(app)
        assert not await dismissed(stage)


async def test_arrows_before_the_gate_was_seen_choose_nothing(stage: Stage) -> None:
    stage.changes = {"dead_seconds": 3600.0}
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "down", "down")
        assert "←" not in screen_text(app)


async def test_a_key_made_before_the_gate_does_not_count_however_late_it_is_handled(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        early = [events.Key(key, key if len(key) == 1 else None) for key in ("1", "1", "enter")]
        await press(pilot, "D")
        for event in early:
            app.post_message(event)
        await settled(pilot)
        assert in_gate(app)
        assert typed(app) == ""


async def test_a_paste_is_no_answer(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "1")
        app.post_message(events.Paste("1\r"))
        await settled(pilot)
        assert "a paste is not an answer" in gate_message(app)
        assert in_gate(app)
        assert typed(app) == ""
    assert not await dismissed(stage)


async def test_a_flood_of_keys_confirms_nothing(stage: Stage) -> None:
    """A thousand keys a second, with the right answer among them, before and after the gate opens."""
    stage.changes = {"dead_seconds": 0.4}
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D")
        gate = app.screen
        assert isinstance(gate, Gate)
        await until(pilot, lambda: gate.is_open)
        began = gate._open_from - 0.4
        for n in range(4000):
            key = ("1", "1", "enter", "backspace", "backspace")[n % 5]
            event = events.Key(key, key if len(key) == 1 else None)
            event.time = began + n / 1000
            app.post_message(event)
        await settled(pilot)
        assert in_gate(app)
    assert not await dismissed(stage)


async def test_no_click_confirms(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "1", "1")
        for y in range(24):
            for x in range(y % 5, 80, 20):
                await pilot.click(offset=(x, y))
        assert in_gate(app)
        assert not await dismissed(stage)


async def test_what_changed_since_it_was_seen_is_left_alone_and_said(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "space", "space", "D", "1")
        other = stage.console()
        async with other.run_test(size=(80, 24)) as elsewhere:
            await settled(elsewhere)
            await press(elsewhere, "D", "2")
            await answer(elsewhere, "1")
        await answer(pilot, "2")
        assert "1 dismissed, 1 had changed and was left alone" in notice(app)


async def test_restore_asks_for_the_number(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "U")
        assert "nothing to restore here" in notice(app)
        await press(pilot, "D", "1")
        await answer(pilot, "1")
        await press(pilot, "slash")
        await answer(pilot, "state:dismissed")
        assert ids(app) == [ident(11)]
        await press(pilot, "U")
        await answer(pilot, "2")
        assert "that is not 1" in gate_message(app)
        await answer(pilot, "1")
        assert "1 restored" in notice(app)
    assert not await dismissed(stage)


async def test_halt_asks_for_a_note_and_the_frame_says_it(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "H")
        assert app.header_state.halt is not None, "before the note"
        await answer(pilot, "runaway strategy")
        assert "HALT by oncall: runaway strategy" in screen_text(app)
        await press(pilot, "H")
        assert "Resume replays" in screen_text(app)
        await answer(pilot, "fixed")
        assert "HALT" not in screen_text(app)


async def test_live_asks_for_the_word_and_paper_does_not(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "m")
        await answer(pilot, "LIVE")
        assert "that is not live" in gate_message(app)
        await answer(pilot, "live")
        assert app.header_state.mode == "live"
        assert "LIVE" in screen_text(app)
        assert "PAPER" not in screen_text(app)
        assert app.queue.has_class("-live")
        await press(pilot, "m")
        assert "PAPER" in screen_text(app)
        assert not app.queue.has_class("-live")


async def test_a_note_is_written_and_shown(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "N")
        await answer(pilot, "asked the desk")
        assert "noted" in notice(app)
        await _last_tab(pilot)
        assert "asked the desk" in screen_text(app)
        assert "Notes (1)" in screen_text(app)


async def _last_tab(pilot: Pilot[int]) -> None:
    await press(pilot, "left_square_bracket")
    app = app_of(pilot)
    await app.queue._read_entry()
    await settled(pilot)


@pytest.mark.parametrize("key", ["D", "R", "C", "S", "m", "N", "H", "U", "P"])
async def test_on_a_small_screen_nothing_is_acted_on(stage: Stage, key: str) -> None:
    app = stage.console()
    async with app.run_test(size=(79, 24)) as pilot:
        await settled(pilot)
        await press(pilot, key)
        assert on_queue(app)
        assert "too small to act" in notice(app)


async def test_a_gate_on_a_screen_made_small_confirms_nothing(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "1")
        await pilot.resize_terminal(60, 20)
        await answer(pilot, "1")
        assert "too small" in gate_message(app)
        assert not await dismissed(stage)


async def test_reasons_of_the_config_come_after_the_nine(stage: Stage) -> None:
    stage.config = config(reasons=(*config().reasons, "desk-said-no"))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D")
        assert "a desk-said-no" in screen_text(app)
        await press(pilot, "a")
        await answer(pilot, "1")
        assert "1 dismissed" in notice(app)


async def test_every_reason_is_in_sight_however_many_there_are_and_whatever_else_is_said(stage: Stage) -> None:
    stage.config = config(reasons=(*config().reasons, *(f"desk-rule-{n}" for n in range(9))))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "1")
        await answer(pilot, "1")
        await press(pilot, "slash")
        await answer(pilot, "state:all")
        await settled(pilot)
        await press(pilot, "a", "D")
        shown = screen_text(app)
        assert "replayed already" in shown
        assert [reason for reason in app.setup.config.reasons if reason not in shown] == []
        assert "pending 11" in shown


async def test_remapped_keys_work_and_the_old_ones_do_not(stage: Stage) -> None:
    stage.config = config(keymap={"dismiss": "ctrl+d"})
    app: ConsoleApp = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D")
        assert on_queue(app)
        await press(pilot, "ctrl+d")
        assert in_gate(app)
        await press(pilot, "escape")
        assert current(app) == ident(11)
        assert "ctrl+d dismiss" in screen_text(app)

"""Poison on the screens: the queue and the pane say it, a filter finds it, U clears it with a note."""

from __future__ import annotations

from pathlib import Path

from console.screens.gates.prompts import WordGate
from tests.screens.test_replay_actions import over, stage_with
from tests.support.app import answer, gate_message, notice, order, press, screen_text, settled, until
from tests.support.exchange import Exchange


async def test_what_keeps_failing_is_marked_until_a_note_clears_it(tmp_path: Path, venue: Exchange) -> None:
    stage = stage_with(tmp_path, venue, [order(1, market_id="REJECT"), order(2)])
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "j")
        for _ in range(3):
            await press(pilot, "R")
            await until(pilot, lambda: "to send" in screen_text(app))
            await answer(pilot, "1")
            await over(pilot)
            await press(pilot, "escape")
        await until(pilot, lambda: "☠" in screen_text(app))
        shown = screen_text(app)
        (line,) = [one for one in shown.splitlines() if "REJECT" in one and "☠" in one]
        assert line.lstrip("│ ").startswith("☠"), line
        await until(pilot, lambda: "☠ poison: failed 3 times in the same way" in screen_text(app))
        assert "fix the cause, then restore (U) with a note clears the mark" in screen_text(app)

        await press(pilot, "slash", *"mark:poison", "enter")
        await until(pilot, lambda: "MSFT" not in screen_text(app))
        assert "REJECT" in screen_text(app)

        await press(pilot, "U")
        await until(pilot, lambda: isinstance(app.screen, WordGate))
        assert "Clear the poison of 1 entry" in screen_text(app)
        await answer(pilot, "")
        assert (isinstance(app.screen, WordGate), bool(gate_message(app))) == (True, True), "a note must be said"
        await answer(pilot, "the venue mended it")
        await until(pilot, lambda: "1 cleared" in notice(app))
        await until(pilot, lambda: "nothing matches" in screen_text(app) or "REJECT" not in screen_text(app))


async def test_u_on_a_plain_pending_entry_says_what_it_is_for(tmp_path: Path, venue: Exchange) -> None:
    app = stage_with(tmp_path, venue, [order(1)]).console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "U")
        await until(pilot, lambda: "only what is dismissed, replayed in paper, or poisoned" in notice(app))

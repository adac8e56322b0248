"""The mouse: tabs, titles of columns and the hints of the footer can be clicked; a click is never more than its key."""

from __future__ import annotations

from typing import Any

from textual.pilot import Pilot

from console.screens.groups import GroupsScreen
from tests.support.app import Stage, app_of, ids, in_gate, on_queue, press, screen_text, settled


async def click(pilot: Pilot[Any], word: str, *, last: bool = False) -> None:
    """On the first place where the word is shown."""
    rows = screen_text(app_of(pilot)).splitlines()
    found = [(row.find(word) + 1, y) for y, row in enumerate(rows) if word in row]
    await pilot.click(offset=found[-1 if last else 0])
    await settled(pilot)


async def test_a_column_s_title_sorts_and_another_click_turns_it_round(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        newest = ids(app)
        await click(pilot, "VALUE")
        assert "largest value first" in screen_text(app)
        await click(pilot, "VALUE")
        assert "smallest value first" in screen_text(app)
        assert ids(app) != newest
        await click(pilot, "AGE")
        assert ids(app) == newest
        await click(pilot, "AGE")
        assert ids(app) == newest[::-1]
        await click(pilot, "ERROR")
        assert ids(app) == newest[::-1], "nobody sorts by that"


async def test_a_tab_is_chosen_by_a_click(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await click(pilot, " Order ")
        assert "[Order]" in screen_text(app)
        await click(pilot, " Notes ")
        assert "[Notes]" in screen_text(app)
        await press(pilot, "enter")
        await click(pilot, " Audit ")
        assert "[Audit]" in screen_text(app)


async def test_a_hint_of_the_footer_is_its_key(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await click(pilot, "f groups", last=True)
        assert isinstance(app.screen, GroupsScreen)
        await click(pilot, "COUNT")
        await click(pilot, "NOTIONAL")
        assert "most value first" in screen_text(app)
        await click(pilot, "esc back", last=True)
        assert on_queue(app)
        await click(pilot, "dismiss", last=True)
        assert in_gate(app), "a gate, as its key opens it"

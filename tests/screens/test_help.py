"""The help: keys in columns by task, as they are mapped, with what the signs mean; readable on a small terminal."""

from __future__ import annotations

import pytest

from console import keymap as keys
from console.screens.help import HelpScreen
from tests.support.app import Stage, config, press, screen_text, settled


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_tasks_stand_in_columns_beside_the_signs(stage: Stage, size: tuple[int, int]) -> None:
    app = stage.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "question_mark")
        assert isinstance(app.screen, HelpScreen)
        rows = screen_text(app).splitlines()
        first = next(row for row in rows if "Move" in row)
        assert len(first.replace("│", "").split()) >= 2, "another task stands beside it"
        seen = "\n".join(rows)
        assert "≈  may have arrived" in seen
        assert "dismiss" in seen
        assert "halt" in seen or "stop every replay" in seen
        assert max(map(len, rows)) <= size[0]


async def test_keys_are_named_as_they_are_mapped(stage: Stage) -> None:
    stage.config = config(keymap={"dismiss": "X", "down": "n", "groups": "ctrl+g"})
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "X dismiss" in screen_text(app), "the footer"
        await press(pilot, "question_mark")
        text = screen_text(app)
        assert "n ↓" in text
        assert "ctrl+g" in text
        await press(pilot, "pagedown")
        assert " X  close without sending" in text + screen_text(app)


@pytest.mark.parametrize("place", [place for place in keys.EVERYWHERE if place != "help"])
def test_every_key_of_a_place_is_in_its_help(place: keys.KeyContext) -> None:
    from console.render.help import help_lines
    from console.render.line import plain

    there = keys.at(place)
    for size in (76, 116, 196):
        text = "\n".join(map(plain, help_lines(there, "orders", size, read_only=False)))
        assert all(keys.spelled(key.keys[0]) in text for key in there), size

"""Footers, filter line, store choice and palette offer only what works, with correct counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.store import Unreachable
from console import keymap as keys
from console.screens.attach import AttachScreen
from console.screens.command_palette import KeyProvider
from console.services.session import StoreSession
from console.settings.config import StoreConfig
from console.terminal.crash_report import describe
from tests.support.app import Stage, answer, make_store, on_queue, press, screen_text, settled, until

CANARY = "CANARY-HUNTER2"


@pytest.mark.parametrize("size", [(79, 24), (60, 18), (80, 23)])
async def test_a_screen_too_small_to_act_in_offers_no_act(stage: Stage, size: tuple[int, int]) -> None:
    app = stage.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        footer = screen_text(app).splitlines()[-3]
        assert "too small to act" in footer
        assert "enter open" in footer
        assert not [key.label for key in keys.KEYS if key.dangerous and f"{key.shown} {key.label}" in footer]


async def test_an_empty_queue_offers_only_what_works_there(tmp_path: Path) -> None:
    app = Stage(make_store(tmp_path / "orders.db", [])).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        footer = screen_text(app).splitlines()[-3]
        assert "o stores" in footer
        for word in ("replay", "dismiss", "open", "mark", "reconcile", "sort"):
            assert word not in footer


async def test_the_count_of_a_filter_is_true_for_settled_entries_too(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D", "1")
        await answer(pilot, "1")
        await press(pilot, "slash")
        await answer(pilot, "state:dismissed")
        assert "row 1 · 1 match" in screen_text(app)


async def test_a_field_that_is_none_is_named_below_the_filter(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "eror:timeout")
        assert "put it in quotes to search it as text" in " ".join(screen_text(app).split())
        await press(pilot, "escape")
        assert "in quotes" not in screen_text(app)


async def test_esc_leaves_the_choice_of_a_store_only_where_there_is_one(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "o")
        assert isinstance(app.screen, AttachScreen)
        assert "esc back" in screen_text(app)
        await press(pilot, "escape")
        assert on_queue(app)


async def test_a_refused_store_is_not_counted_for_ever(stage: Stage) -> None:
    async def refused(_: StoreConfig) -> StoreSession:
        raise Unreachable("it cannot be reached")

    stage.attaching = refused
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await until(pilot, lambda: isinstance(app.screen, AttachScreen))
        assert "no store is attached" in screen_text(app)
        assert "counting" not in screen_text(app)
        assert "esc back" not in screen_text(app)


async def test_the_palette_names_each_command_once_and_no_movement(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        found = [str(hit.text) async for hit in KeyProvider(app.queue).discover()]
        assert len(found) == len(set(found))
        assert {"replay", "dismiss", "quit", "theme", "export"} <= set(found)
        assert not {"down", "up", "page-up", "palette"} & set(found)
        searched = [str(hit.text) async for hit in KeyProvider(app.queue).search("second person")]
        assert searched == ["approve"], "found by what it does"


def test_a_crash_is_told_in_three_short_lines() -> None:
    try:
        raise RuntimeError(CANARY)
    except RuntimeError as bug:
        lines = describe(bug).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("this is a bug (RuntimeError, reference ")
    assert CANARY not in "".join(lines)
    assert "test_a_crash_is_told" in lines[2], "where, but no source line"
    assert "raise" not in lines[2]


async def test_under_a_gate_no_key_is_offered(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "D")
        assert "D dismiss" not in screen_text(app)
        await press(pilot, "escape")
        assert "D dismiss" in screen_text(app)


@pytest.mark.parametrize("key", ["slash", "colon"])
async def test_while_a_line_is_typed_only_its_own_keys_are_offered(stage: Stage, key: str) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, key)
        footer = screen_text(app).splitlines()[-3]
        assert "enter run" in footer
        assert "R replay" not in footer
        await press(pilot, "escape")
        assert "R replay" in screen_text(app).splitlines()[-3]


async def test_an_entry_s_screen_says_what_it_is_and_where_one_stands_on_every_tab(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        order = (
            next(line for line in screen_text(app).splitlines() if "alpaca" in line).split("alpaca")[1].split("  ")[0]
        )
        await press(pilot, "enter")
        await settled(pilot)
        for tab in ("Error", "Order", "History", "Audit", "Notes"):
            head, verdict, tabs = screen_text(app).splitlines()[2:5]
            assert order in head
            assert "pending" in head
            assert "NEVER SENT" in verdict
            assert f"[{tab}" in tabs
            assert tabs.count("[") == 1
            await press(pilot, "right_square_bracket")

"""Search while typing: first results at once, with how much was searched, and a cursor that stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from backends import PostgresDLQ, SQLiteDLQ
from console.render.line import plain
from console.settings.config import StoreConfig
from tests.screens.test_groups_screen import index
from tests.support.app import (
    Stage,
    answer,
    app_of,
    current,
    ident,
    ids,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    until,
)

COUNT = 450
RARE = (3, 217, 440)


@pytest.fixture(params=["sqlite", "postgres"])
def long_stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    path = tmp_path / "orders.db"
    target = str(path) if request.param == "sqlite" else str(request.getfixturevalue("postgres_db"))
    entries = [order(n, minutes=1 + (COUNT - n) / 60, error="zebrafish" if n in RARE else "429") for n in range(COUNT)]
    with SQLiteDLQ(path) if request.param == "sqlite" else PostgresDLQ(target) as sink:
        for entry in entries:
            sink.write(entry)
    return Stage(path, store=StoreConfig(name="prod-orders", url=target))


async def typed(pilot: Pilot[Any], text: str) -> None:
    """Type a filter and wait for its preview, without Enter."""
    app = app_of(pilot)
    app.queue.show_notice(())
    await pilot.press(*text)
    await until(pilot, lambda: "found" in plain(app.queue.noticed))
    await settled(pilot)


@pytest.mark.parametrize("with_index", [True, False])
async def test_results_come_as_one_types_and_stay_when_handed_over(long_stage: Stage, *, with_index: bool) -> None:
    app = long_stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        if with_index:
            await index(pilot)
        await press(pilot, "slash")
        await typed(pilot, "zebra")
        assert ident(440) in ids(app)
        await press(pilot, "enter")
        await until(pilot, lambda: ids(app) == [ident(n) for n in reversed(RARE)])
        await settled(pilot)
        assert current(app) == ident(440)
        assert f"3 of {COUNT} match" in screen_text(app)


async def test_given_up_the_list_is_where_it_was(long_stage: Stage) -> None:
    app = long_stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, *"jjjjj")
        before = current(app)
        await press(pilot, "slash")
        await typed(pilot, "zebra")
        assert current(app) == ident(440)
        await press(pilot, "escape")
        assert current(app) == before
        assert app.queue.loader.text == ""
        assert len(ids(app)) > 3


async def test_a_step_says_what_it_covered_and_enter_goes_on(long_stage: Stage) -> None:
    app = long_stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert app.session is not None
        (await app.session.index_status()).budget = 0.0
        await press(pilot, "slash")
        await typed(pilot, "zebra")
        assert f"1 found · newest 100 of {COUNT} searched; enter goes on" in screen_text(app)
        await press(pilot, "enter")
        await until(pilot, lambda: ids(app) == [ident(n) for n in reversed(RARE)])
        assert current(app) == ident(440)


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("term", ["quokka", "@@"])
async def test_what_is_nowhere_is_said_to_be_nowhere(stage: Stage, term: str, *, with_index: bool) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        if with_index:
            await index(pilot)
        await press(pilot, "slash")
        await answer(pilot, term)
        await until(pilot, lambda: "nothing matches" in screen_text(app))
        assert ids(app) == []
        await press(pilot, "escape")
        assert len(ids(app)) == 12


async def test_a_field_s_name_is_not_searched_for(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash", *"venue")
        assert len(ids(app)) == 12
        await press(pilot, "enter")
        assert on_queue(app)
        assert ids(app) == []


async def test_what_comes_while_a_search_is_listed_is_put_on_top_of_it(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "buying")
        assert ids(app) == [ident(5)]
        with SQLiteDLQ(stage.path) as sink:
            sink.write(order(60, minutes=0.1, error="funds"))
            sink.write(order(61, minutes=0.1, error="429"))
        app.queue.changed()
        await until(pilot, lambda: ids(app) == [ident(60), ident(5)])
        assert current(app) == ident(5)
        assert "1 new" in screen_text(app)


async def test_a_search_that_is_due_as_the_line_is_left_covers_no_list(stage: Stage) -> None:
    """Its timer has fired, its turn has not come: the list would be covered for good, and show no change."""
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        preview = app.queue._preview
        preview.typed("zebra")
        assert not preview.take("zebra")
        preview._search("zebra")
        await settled(pilot)
        assert not app.queue.loader.is_paused
        assert len(ids(app)) > 1


async def test_a_store_that_moves_does_not_begin_a_search_anew(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "zebra")
        search = app.queue.loader.search
        assert search is not None
        with SQLiteDLQ(stage.path) as sink:
            sink.write(order(60, minutes=0.1, error="zebra crossing"))
        app.queue.changed()
        await until(pilot, lambda: ids(app) == [ident(60)])
        assert app.queue.loader.search is search
        await until(pilot, lambda: "1 of 13 match" in screen_text(app))


async def test_what_no_longer_matches_goes_and_the_cursor_stays(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "429")
        assert ids(app) == [ident(n) for n in (11, 9, 8, 1)]
        await press(pilot, "j", "D", "6")
        await answer(pilot, "1")
        await until(pilot, lambda: ids(app) == [ident(n) for n in (11, 8, 1)])
        assert current(app) == ident(8)
        await until(pilot, lambda: "3 of 11 match" in screen_text(app))

"""The first screen without a store: what it offers, how stores stand, and a line that takes every key."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from backends import open_store
from backends.store import Store
from console.app import ConsoleApp
from console.screens.attach import AttachScreen
from console.services.store_glance import StoreGlance, glance
from console.settings.config import StoreConfig
from console.settings.recent_stores import Recent
from tests.support.app import (
    Stage,
    config,
    ids,
    make_store,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    twelve,
    until,
)

DSN = "postgresql://quit:jkg?t@127.0.0.1:1/q"  # all keys of this screen are in it


async def look(store: StoreConfig) -> StoreGlance:
    async def opens() -> Store:
        return await open_store(store.url, read_only=True)

    return await glance(opens, 30.0)


def first_run(tmp_path: Path, **changes: object) -> Stage:
    told = {"store": None, "offers_demo": True, "config_path": ("/home/ann/.config/dlq-console/config.toml", False)}
    return Stage(tmp_path / "none.db", changes=told | changes)


async def test_a_first_run_offers_the_demo_a_path_and_says_where_the_config_is_looked_for(tmp_path: Path) -> None:
    path = make_store(tmp_path / "orders.db", twelve())
    for size in ((80, 24), (120, 40)):
        app = first_run(tmp_path).console()
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            text = screen_text(app)
            assert "the demo" in text
            assert "just type it" in text
            assert "no config yet; it is looked for in /home/ann/.config/dlq-console/config.toml" in text
            for character in str(path):
                await pilot.press(character)
            await press(pilot, "enter")
            await until(pilot, lambda app=app: app.session is not None)  # type: ignore[misc]
            await settled(pilot)
            assert on_queue(app)
            assert len(ids(app)) == 12


async def test_where_the_config_is_looked_for_is_whole_however_long(tmp_path: Path) -> None:
    path = "/home/operations-night-shift/.config/dlq-console/config.toml"
    app = first_run(tmp_path, config_path=(path, False)).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for size, lines in (((80, 24), 2), ((120, 40), 1)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert path in screen_text(app)
            assert app.screen.query_one("#attach-config").size.height == lines


async def test_a_typed_store_that_cannot_be_reached_is_named_once(tmp_path: Path) -> None:
    app = first_run(tmp_path).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press(*"postgresql://127.0.0.1:1/x")
        await press(pilot, "enter")
        await until(pilot, lambda: "cannot be reached" in screen_text(app))
        assert screen_text(app).count("127.0.0.1:1/x") == 1


async def test_the_demo_is_one_key_away(tmp_path: Path) -> None:
    app = first_run(tmp_path).console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("enter")
        await pilot.pause()
    assert app.wants_demo
    assert app.return_code == 0


async def test_a_connection_string_is_typed_wherever_the_cursor_stands_and_no_letter_is_a_key(tmp_path: Path) -> None:
    stage = first_run(tmp_path, recent=(str(make_store(tmp_path / "a.db", [])),))
    for rows_down in range(3):
        app = stage.console()
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            await press(pilot, *["down"] * rows_down)
            for character in DSN:
                await pilot.press(character)
            screen = app.screen
            assert isinstance(screen, AttachScreen), "no letter opened or left anything"
            assert screen.is_typing
            assert "postgresql://quit:•••••@127.0.0.1:1/q" in screen_text(app)
            assert app.theme == "dlq-dark"
            await press(pilot, "escape")
            assert not screen.is_typing
            assert app.is_running


async def test_what_is_pasted_goes_into_the_line(tmp_path: Path) -> None:
    from textual.events import Paste

    app = first_run(tmp_path).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.post_message(Paste(DSN))
        await until(pilot, lambda: "quit:•••••@" in screen_text(app))


async def test_stores_of_the_config_say_how_they_stand_and_a_slow_one_holds_none_up(tmp_path: Path) -> None:
    never = asyncio.Event()

    async def looks(store: StoreConfig) -> StoreGlance:
        if store.name == "slow":

            async def opens() -> Store:
                await never.wait()
                raise AssertionError

            return await glance(opens, 0.2)
        return await look(store)

    made = make_store(tmp_path / "orders.db", twelve())
    stores = {
        "good": StoreConfig("good", str(made)),
        "gone": StoreConfig("gone", str(tmp_path / "missing.db")),
        "slow": StoreConfig("slow", str(made)),
    }
    stage = Stage(made, config=config(stores=stores), changes={"store": None, "glance": looks})
    app: ConsoleApp = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "12 open  in doubt 0" in screen_text(app))
        await until(pilot, lambda: "looking …" not in screen_text(app))
        rows = {name: next(row for row in screen_text(app).splitlines() if f" {name} " in row) for name in stores}
        assert "unknown: " in rows["gone"]
        assert "unknown: no answer in 0 s" in rows["slow"]
        assert "12 open" in rows["good"]


def test_only_what_can_be_opened_again_is_remembered(tmp_path: Path) -> None:
    recent = Recent({"XDG_STATE_HOME": str(tmp_path)})
    kept = make_store(tmp_path / "kept.db", [])
    gone = make_store(tmp_path / "gone.db", [])
    for target in ("demo", str(gone), str(kept), "postgresql://ops:hunter2@db1/trading"):
        recent.add(target)
    gone.unlink()
    assert recent.read() == ("postgresql://ops@db1/trading", str(kept))
    file = tmp_path / "dlq-console" / "recent.json"
    file.write_text(json.dumps(["prod", "relative.db", str(kept)]))  # as an earlier version wrote it
    assert recent.read() == (str(kept),)


async def test_a_store_of_the_config_is_not_listed_twice(tmp_path: Path) -> None:
    made = make_store(tmp_path / "orders.db", [order(1)])
    remembered: list[str] = []
    stores = {"prod": StoreConfig("prod", str(made))}
    stage = Stage(made, config=config(stores=stores), changes={"store": None, "remember": remembered.append})
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: app.session is not None)
    assert remembered == []

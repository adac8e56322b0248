"""A console whose ledger cannot be read says unknown: in the frame, the queue, an entry, the groups and the health."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from backends import open_store
from backends.store import Result, Store
from tests.support.app import Stage, make_store, notice, on_queue, order, press, screen_text, settled, until
from tests.support.store import ACTOR, attempt_on, why


async def doubts(store: Store) -> None:
    await attempt_on(store, 0, Result("unknown"))
    await store.halt(ACTOR, why(note="stop"))
    await store.aclose()


async def blind_stage(tmp_path: Path) -> Stage:
    """Halted, with one order in doubt; the table that says so is gone."""
    path = make_store(tmp_path / "orders.db", [order(0), order(1)])
    await doubts(await open_store(str(path)))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE console_halt")
    return Stage(path, first_page=True)


async def test_the_frame_and_the_queue_say_unknown(tmp_path: Path) -> None:
    app = (await blind_stage(tmp_path)).console()
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(pilot)
        await until(pilot, lambda: "in doubt unknown" in screen_text(app), "counts")
        await until(pilot, lambda: screen_text(app).count("? ") >= 2, "rows")
        await until(pilot, lambda: "UNKNOWN · whether it was sent again" in screen_text(app), "the verdict")
        text = screen_text(app)
        assert ("open 2" in text, "halt unknown" in text) == (True, True)
        assert "in doubt 0" not in text
        assert "no order stands at the venue" not in text
        await press(pilot, "f")
        await until(pilot, lambda: "states unknown" in screen_text(app), "groups")
        assert "in doubt unknown" in screen_text(app)
        await press(pilot, "escape")


async def test_no_key_takes_what_is_unknown_for_nothing(tmp_path: Path) -> None:
    app = (await blind_stage(tmp_path)).console()
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(pilot)
        await until(pilot, lambda: "in doubt unknown" in screen_text(app), "counts")
        await press(pilot, "C")
        await until(pilot, lambda: "ledger" in screen_text(app) + notice(app) or not on_queue(app), "refused")
        assert "nothing is in doubt" not in screen_text(app) + notice(app)

"""Stores whose entries are no orders: the same screens, their own words, and a replay that asks for the number too."""

from __future__ import annotations

from pathlib import Path

from console import clock
from console.config import StoreConfig
from tests.outbox import OutboxRig
from tests.stage import Stage, answer, app_of, gate_message, ids, press, screen_text, settled, until


async def test_an_outbox_is_shown_and_replayed_into_its_queue(postgres_db: str) -> None:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    made = await rig.dead(1, 2, 3)
    stage = Stage(Path("unused"), clock=clock.now, store=StoreConfig(name="outbox", url=postgres_db))
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert ids(app) == list(reversed(made))
        for word in ("QUEUE", "MESSAGE", "orders", '{ "n": 3 }', "order 3 is bad"):
            assert word in screen_text(app)
        await press(pilot, "enter", "right_square_bracket")
        assert "correlation_id" in screen_text(app)
        await press(pilot, "escape", "a", "R")
        await until(pilot, lambda: "type 3 to send again" in screen_text(app))
        await answer(pilot, "2")
        assert "that is not 3" in gate_message(app)
        await answer(pilot, "3")
        await until(pilot, lambda: (run := app_of(pilot).activity.run) is not None and run.over)
        await settled(pilot)
        assert screen_text(app).count("accepted") == 4
    async with rig.connect() as connection:
        assert await connection.fetchval("SELECT count(*) FROM outbox") == 3

"""The screens through a real pgbouncer in transaction mode: open, filter, dismiss, replay, and hear of changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from console import clock
from console.settings.config import StoreConfig
from tests.screens.test_replay_actions import over
from tests.support.app import Stage, answer, config, ident, ids, notice, press, screen_text, settled, until
from tests.support.exchange import Exchange
from tests.support.pgbouncer import PROGRAM, PgBouncer
from tests.support.store import PostgresRig, order_row

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed (Debian: apt install pgbouncer)")


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[PostgresRig]:
    rig = PostgresRig(postgres_db)
    now = datetime.now(UTC) - timedelta(seconds=5)
    markets = ("AAPL", "MSFT", "SPY")
    await rig.make([order_row(n, captured_at=now, market_id=markets[n % 3], quantity=n + 1.0) for n in range(4)])
    yield rig
    await rig.aclose()


async def test_a_shift_through_a_pool_of_one_session(rig: PostgresRig, tmp_path: Path, venue: Exchange) -> None:
    pool = PgBouncer(rig.target, size=1).start()
    stage = Stage(
        tmp_path / "orders.db",
        config=config(venue.url),
        clock=clock.now,
        watch=True,
        store=StoreConfig(name="pooled", url=pool.dsn(rig.target)),
    )
    try:
        app = stage.console()
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            assert "polling for changes" in notice(app)
            assert "a pooler such as pgbouncer" in screen_text(app)
            assert len(ids(app)) == 4
            await press(pilot, "slash")
            await answer(pilot, "market:SPY")
            assert ids(app) == [ident(2)]
            await press(pilot, "D", "1")
            await answer(pilot, "1")
            await until(pilot, lambda: "dismissed" in notice(app))
            await until(pilot, lambda: not ids(app))
            await press(pilot, "escape", "a", "R")
            await until(pilot, lambda: "to send" in screen_text(app))
            await answer(pilot, "3")
            await over(pilot)
            assert len(venue.posts) == 3
            await press(pilot, "escape")
            await until(pilot, lambda: not ids(app))
            await rig.insert(order_row(9, captured_at=datetime.now(UTC)))
            await until(pilot, lambda: ids(app) == [ident(9)], "a change that nobody notified of")
    finally:
        pool.stop()
    rows = await rig.sql("SELECT state, count(*) FROM dlq_console.attempt GROUP BY state")
    assert rows == [("accepted", 3)]

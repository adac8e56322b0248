"""The health screen: its rows open the queue with their filter, and the shift report opens inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from console.screens.health import HealthScreen
from console.screens.shift_report import ShiftReportScreen
from console.services.index.keeper import IndexJob
from tests.support.app import NOW, Stage, app_of, ids, make_store, on_queue, order, press, screen_text, settled, until

SIZES = [(80, 24), (120, 40), (200, 60)]


async def opened(pilot: Pilot[Any]) -> None:
    """Health over an index that was built just now: the console has never run before."""
    session = app_of(pilot).session
    assert session is not None
    assert await IndexJob(session.store, lambda: NOW, folder=session.setting.cache).build()
    await (await session.index_status()).look()
    await press(pilot, "i")


@pytest.fixture
def busy(tmp_path: Path) -> Stage:
    """120 open entries at two venues, the oldest of them three hours old."""
    kalshi = [order(n, minutes=180, venue_name="kalshi", error="timeout") for n in range(200, 215)]
    return Stage(make_store(tmp_path / "orders.db", [*kalshi, *(order(n, minutes=5 + n / 10) for n in range(105))]))


@pytest.mark.parametrize("size", SIZES)
async def test_a_row_opens_what_it_counts(busy: Stage, size: tuple[int, int]) -> None:
    """Two keys from the queue to the entries behind the gravest alert."""
    app = busy.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await opened(pilot)
        text = screen_text(app)
        assert "▸! kalshi  oldest 3h (limit 30m)" in text
        assert " ! alpaca  105 open (limit 100)" in text
        await press(pilot, "enter")
        assert on_queue(app)
        assert "filter: venue:kalshi age>=30m" in screen_text(app)
        assert len(ids(app)) == 15
        await press(pilot, "i", "G", "enter")
        assert on_queue(app)
        assert "filter: " in screen_text(app)


@pytest.mark.parametrize("size", SIZES)
async def test_the_depth_is_drawn_though_the_console_never_ran(busy: Stage, size: tuple[int, int]) -> None:
    app = busy.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await opened(pilot)
        await until(pilot, lambda: isinstance(app.screen, HealthScreen))
        assert "now 120 open · peak 120 · last 8h" in screen_text(app)
        assert "nothing was seen yet" not in screen_text(app)
        assert "unknown until" not in screen_text(app)


async def test_the_shift_report_opens_inside_and_scrolls(busy: Stage) -> None:
    app = busy.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await opened(pilot)
        await press(pilot, "r")
        await until(pilot, lambda: "What came in: 120" in screen_text(app))
        assert isinstance(app.screen, ShiftReportScreen)
        assert "|" not in screen_text(app), "tables are drawn as columns"
        await press(pilot, "G")
        assert "How it stands: 120 open" in screen_text(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, HealthScreen)

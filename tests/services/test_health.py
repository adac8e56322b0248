"""Health: what is drawn is what was seen."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from console.services.stats.health import Health, levels
from console.settings.config import Alerts
from tests.support.index import indexed
from tests.support.shift_store import BEGAN, at, shift
from tests.support.store import ACTOR, BASE, sqlite_rig

NOW = BEGAN + timedelta(minutes=30)


def test_a_level_stays_until_it_changes() -> None:
    seen = [(BASE + timedelta(minutes=2), 5), (BASE + timedelta(minutes=3), 9)]
    moments = [BASE + timedelta(minutes=minute) for minute in range(1, 6)]
    assert levels(seen, moments) == (None, 5, 9, 9, 9)
    assert levels([], moments) == (None,) * 5


async def test_a_health_view_has_depth_arrivals_ages_alerts_and_halt(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path)
    store = await shift(rig)
    await store.halt(ACTOR, at(20, note="stop"))
    index = await indexed(store, tmp_path)
    health = Health(store, index.reader, Alerts(), lambda: NOW)
    assert await health.view() is None
    await index.settle()
    view = await health.view(points=8)
    assert view is not None
    assert view.halt is not None
    assert [alert.rule for alert in view.alerts] == ["in-doubt", "oldest", "dominance"]
    assert view.depth[-1] == 15
    assert view.depth[0] is None
    assert view.in_doubt[-1] == 1
    assert view.arrivals["transient"][-1] + view.arrivals["transient"][-2] == 12
    assert {len(counts) for counts in view.arrivals.values()} == {24}
    assert sum(view.minutes) == 16
    assert view.tally.open == 15
    await index.reader.aclose()
    await rig.aclose()

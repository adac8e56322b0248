"""Health: what is drawn is what was seen."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from console.render.health import Frame, health_lines
from console.render.line import plain
from console.services.stats.health import Health, HealthView, levels
from console.services.stats.tally import Tally, VenueTally
from console.services.stats.trend import DepthTrend, DepthTrends
from console.settings.config import Config
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
    health = Health(store, index.reader, Config(), lambda: NOW)
    assert await health.view() is None
    await index.settle()
    view = await health.view(points=8)
    assert view is not None
    assert view.halt is not None
    assert [alert.rule for alert in view.alerts] == ["in-doubt", "oldest"]
    assert view.depth[-1] == 15
    assert view.depth[0] is None
    assert view.in_doubt[-1] == 1
    assert view.arrivals["transient"][-1] + view.arrivals["transient"][-2] == 12
    assert {len(counts) for counts in view.arrivals.values()} == {24}
    assert sum(view.minutes) == 16
    assert view.tally.open == 15
    assert view.age_limit == timedelta(minutes=30)
    assert view.trends.overall.levels == (15,)  # the index was not kept before
    await index.reader.aclose()
    await rig.aclose()


def a_view(tally: Tally, trends: DepthTrends) -> HealthView:
    return HealthView(BASE, tally, (), None, (5,), (0,), {}, (0,) * 60, timedelta(minutes=30), trends)


def shown(view: HealthView, breakers: dict[str, str], origin: str = "venue") -> list[str]:
    return [plain(line).rstrip() for line in health_lines(view, breakers, Frame(76, 24), origin=origin)]


def test_each_venue_has_a_line_of_its_figures() -> None:
    busy = VenueTally(1204, 1, BASE - timedelta(hours=2), timedelta(minutes=62), 12, poisoned=2)
    tally = Tally(BASE, {"pending": 1204}, {"alpaca": busy, "ibkr": VenueTally(0, 0, None)}, {}, (), 0, ())
    nearly = DepthTrend((1000,) * 9 + (1204,))
    text = shown(a_view(tally, DepthTrends(nearly, {"alpaca": nearly, "ibkr": DepthTrend((1,) * 9 + (0,))})), {})
    assert "trend: steady, 1,204 now, 1,020.4 on average in 9m" in text
    assert "alpaca        1,204       1      2  2h00m   1h02m     12" in text
    assert "ibkr              0 ↓     0      0      –       –      0" in text
    widths = {len(line) for line in text if line.startswith(("alpaca", "ibkr"))}
    assert widths == {56}, "as wide as half of 120 columns"


def test_what_is_not_known_is_a_question_mark_and_an_open_breaker_is_named() -> None:
    tally = Tally(BASE, {"pending": 3}, {"Acme": VenueTally(3, 0, BASE)}, {}, (), 0, (), is_readable=False)
    text = shown(a_view(tally, DepthTrends(DepthTrend((3,)), {})), {"Acme": "open"}, "provider")
    assert "Acme              3       ?      ?     0s       –      0" in text
    assert text[text.index("Acme              3       ?      ?     0s       –      0") + 1] == "  breaker open"
    assert "trend: unknown until the index was kept for a minute" in text
    assert "! halt unknown, in doubt unknown, poisoned unknown" in text
    assert any(line.startswith("PROVIDERS") for line in text)

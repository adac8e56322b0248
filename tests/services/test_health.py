"""Health: what is drawn is what was seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from console.render.health import Frame, folded, health_lines, health_rows
from console.render.line import plain, width
from console.services.stats.alerts import Alert, alerts
from console.services.stats.depth import levels
from console.services.stats.health import Health, HealthView
from console.services.stats.tally import Tally, VenueTally
from console.services.stats.trend import DepthTrend, DepthTrends
from console.settings.config import Config
from tests.support.index import indexed
from tests.support.shift_store import BEGAN, at, shift
from tests.support.store import ACTOR, BASE, sqlite_rig
from tests.unit.test_group_lines import GROUP

NOW = BEGAN + timedelta(minutes=30)


def test_a_level_stays_until_it_changes() -> None:
    seen = [(BASE + timedelta(minutes=2), 5), (BASE + timedelta(minutes=3), 9)]
    moments = [BASE + timedelta(minutes=minute) for minute in range(1, 6)]
    assert levels(seen, moments) == (None, 5, 9, 9, 9)
    assert levels(seen, [BASE + timedelta(minutes=6)]) == (None,), "nobody looked for three minutes"
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
    assert view.depth[0] == 0, "rebuilt: nothing had come eight hours ago"
    assert view.arrivals["transient"][-1] + view.arrivals["transient"][-2] == 12
    assert {len(counts) for counts in view.arrivals.values()} == {24}
    assert sum(view.minutes) == 16
    assert view.tally.open == 15
    assert view.age_limit == timedelta(minutes=30)
    assert len(view.trends.overall.levels) == 10, "rebuilt: the index was not kept before"
    await index.reader.aclose()
    await rig.aclose()


def a_view(tally: Tally, trends: DepthTrends) -> HealthView:
    return HealthView(BASE, tally, (), None, (5,), {}, (0,) * 60, timedelta(minutes=30), trends)


def shown(view: HealthView, breakers: dict[str, str], origin: str = "venue") -> list[str]:
    frame = Frame(76, 24)
    return [plain(line).rstrip() for line in health_lines(health_rows(view, breakers, frame, origin=origin), frame)]


def test_each_venue_has_a_line_of_its_figures() -> None:
    busy = VenueTally(1204, 1, BASE - timedelta(hours=2), timedelta(minutes=62), 12, poisoned=2)
    tally = Tally(BASE, {"pending": 1204}, {"alpaca": busy, "ibkr": VenueTally(0, 0, None)}, {}, (), 0, ())
    nearly = DepthTrend((1000,) * 9 + (1204,))
    text = shown(a_view(tally, DepthTrends(nearly, {"alpaca": nearly, "ibkr": DepthTrend((1,) * 9 + (0,))})), {})
    assert "trend: steady, 1,204 now, 1,020.4 on average in 9m" in text
    assert " alpaca       1,204       1      2  2h00m   1h02m     12" in text
    assert " ibkr             0 ↓     0      0      –       –      0" in text
    widths = {len(line) for line in text if line.startswith((" alpaca", " ibkr"))}
    assert widths == {56}, "as wide as half of 120 columns"


def test_what_is_not_known_is_a_question_mark_and_an_open_breaker_is_named() -> None:
    tally = Tally(BASE, {"pending": 3}, {"Acme": VenueTally(3, 0, BASE)}, {}, (), 0, (), is_readable=False)
    text = shown(a_view(tally, DepthTrends(DepthTrend((3,)), {})), {"Acme": "open"}, "provider")
    assert " Acme             3       ?      ?     0s       –      0     open" in text
    assert "trend: unknown until the index was kept for a minute" in text
    assert "! halt unknown, in doubt unknown, poisoned unknown" in text
    assert any(line.startswith("PROVIDERS") for line in text)


def test_alerts_stand_in_one_row_a_venue_and_the_gravest_first() -> None:
    old = BASE - timedelta(hours=3)
    tally = Tally(
        BASE,
        {"pending": 400, "in_doubt": 1},
        {
            "ibkr": VenueTally(3, 0, old),
            "kalshi": VenueTally(150, 0, old),
            "alpaca": VenueTally(247, 1, None, poisoned=2),
        },
        {"transient": 399},
        (),
        0,
        (),
    )
    raised = alerts(tally, Config().alerts)
    assert len(raised) == 7
    assert [name for name, _ in folded(raised)] == [None, "alpaca", "kalshi", "ibkr", None]
    view = replace(a_view(tally, DepthTrends(DepthTrend((400,)), {})), alerts=raised)
    for size in (76, 116, 196):
        frame = Frame(size, 40)
        columns = health_rows(view, {"kalshi": "closed", "alpaca": "half-open"}, frame)
        assert max(width(line) for line in health_lines(columns, frame)) <= size, "no line is wrapped"
        opens = {
            plain(row.line).split()[1]: row.opens for row in (*columns[0], *columns[1]) if " ! " in plain(row.line)
        }
        assert opens["alpaca"] == "venue:alpaca"
        assert opens["ibkr"] == "venue:ibkr age>=30m"
        text = "\n".join(map(plain, health_lines(columns, frame)))
        assert "alpaca  2 poisoned · 247 open (limit 100)" in text
        assert "kalshi  150 open (limit 100) · oldest 3h (limit 30m)" in text


def test_a_top_group_s_title_has_what_its_numbers_leave() -> None:
    tally = Tally(BASE, {"pending": 13}, {}, {}, (), 0, ())
    view = a_view(tally, DepthTrends(DepthTrend((13,)), {}))
    title = "RuntimeError: HTTP 429 after # attempts"
    groups = tuple(replace(GROUP, title=title, count=count, last_seen=BASE) for count in (1204, 1))
    frame = Frame(116, 40)
    lines = [
        *map(plain, health_lines(health_rows(replace(view, tally=replace(tally, groups=groups)), {}, frame), frame))
    ]
    rows = [one for one in lines if title in one]
    assert len(rows) == 2
    assert len({one.index(title) for one in rows}) == 1
    assert max(map(len, lines)) <= 116


def test_a_rule_about_no_venue_keeps_its_own_row() -> None:
    only = Alert("arrivals", "arrivals rise", value=30, limit=10)
    assert folded((only,)) == [(None, (only,))]

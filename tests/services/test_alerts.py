"""Alert rules at their edges."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from backends.records import State
from console.services.stats.alerts import alerts, change
from console.services.stats.tally import Tally, VenueTally
from console.settings.config import Alerts
from tests.support.shift_store import a_group
from tests.support.store import BASE

QUIET = Tally(BASE, {"pending": 0}, {}, {}, (), 0, (0,) * 10)
LIMITS = Alerts()


def rules(tally: Tally, limits: Alerts = LIMITS) -> list[str]:
    return [alert.rule for alert in alerts(tally, limits)]


def states(**counts: int) -> dict[State, int]:
    return {**QUIET.states, **counts}  # type: ignore[dict-item]  # names of states


def test_an_empty_store_is_quiet() -> None:
    assert alerts(QUIET, LIMITS) == ()


@pytest.mark.parametrize(("depth", "raised"), [(99, []), (100, ["depth"]), (101, ["depth"])])
def test_depth_is_per_venue(depth: int, raised: list[str]) -> None:
    tally = replace(QUIET, venues={"alpaca": VenueTally(depth, 0, None), "kalshi": VenueTally(99, 0, None)})
    assert rules(tally) == raised
    assert [alert.venue for alert in alerts(tally, LIMITS)] == ["alpaca"] * len(raised)


@pytest.mark.parametrize(("minutes", "raised"), [(29.99, []), (30, ["oldest"]), (500, ["oldest"])])
def test_oldest(minutes: float, raised: list[str]) -> None:
    venue = VenueTally(1, 0, BASE - timedelta(minutes=minutes))
    assert rules(replace(QUIET, venues={"kalshi": venue})) == raised


@pytest.mark.parametrize(
    ("top", "total", "raised"),
    [(10, 10, []), (6, 11, ["dominance"]), (5, 11, []), (50, 100, []), (51, 100, ["dominance"])],
)
def test_one_error_among_more_than_ten(top: int, total: int, raised: list[str]) -> None:
    tally = replace(QUIET, states=states(pending=total), groups=(a_group(top), a_group(total - top, "def")))
    assert rules(tally) == raised


def test_what_is_in_doubt_comes_first_and_is_severe() -> None:
    venue = VenueTally(100, 1, None)
    found = alerts(replace(QUIET, states=states(in_doubt=1), venues={"alpaca": venue}), LIMITS)
    assert [alert.rule for alert in found] == ["in-doubt", "depth"]
    assert found[0].severe
    assert "1 entry is in doubt" in found[0].text


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((2, 2, 2, 2, 2, 2, 2, 2, 2, 2), "steady"),
        ((2, 2, 2, 2, 2, 2, 2, 2, 2, 4), "rising"),
        ((2, 2, 2, 2, 2, 2, 2, 2, 2, 3), "steady"),
        ((2, 2, 2, 2, 2, 2, 2, 2, 1, 1), "falling"),
        ((0, 0, 0, 0, 1, 1, 1, 1, 1, 5), "steady"),
        ((0, 0, 0, 0, 0, 2, 2, 2, 2, 2), "rising"),
        ((), "steady"),
    ],
)
def test_the_trend_over_ten_snapshots(counts: tuple[int, ...], said: str) -> None:
    assert change(counts) == said
    assert rules(replace(QUIET, arrivals=counts)) == (["arrival-rate"] if said == "rising" else [])


def test_limits_come_from_the_config() -> None:
    venues = {"alpaca": VenueTally(3, 0, BASE - timedelta(minutes=2))}
    assert rules(replace(QUIET, venues=venues), Alerts(depth=3, oldest=timedelta(minutes=2))) == ["depth", "oldest"]

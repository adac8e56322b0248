"""Alert rules at their edges."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from backends.records import State
from console.services.stats.alerts import RULES, Alert, alerts, change
from console.services.stats.tally import Tally, VenueTally
from console.settings.config import Alerts
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
    assert [alert.subject for alert in alerts(tally, LIMITS)] == ["alpaca"] * len(raised)


@pytest.mark.parametrize(("minutes", "raised"), [(29.99, []), (30, ["oldest"]), (500, ["oldest"])])
def test_oldest(minutes: float, raised: list[str]) -> None:
    venue = VenueTally(1, 0, BASE - timedelta(minutes=minutes))
    assert rules(replace(QUIET, venues={"kalshi": venue})) == raised


@pytest.mark.parametrize(
    ("top", "total", "raised"),
    [
        (6, 11, []),
        (10, 10, []),
        (10, 19, []),
        (11, 11, ["dominance"]),
        (11, 21, ["dominance"]),
        (11, 22, []),
        (20, 20, ["dominance"]),
        (50, 100, []),
        (51, 100, ["dominance"]),
    ],
)
def test_one_kind_of_failure_with_more_than_ten_entries(top: int, total: int, raised: list[str]) -> None:
    categories = {"schema": total - top, "transient": top}
    tally = replace(QUIET, states=states(pending=total), categories=categories)
    assert rules(tally) == raised
    for alert in alerts(tally, LIMITS):
        assert (alert.subject, alert.value, alert.limit) == ("transient", top / total, 0.5)


def test_two_kinds_may_both_be_more_than_a_small_share() -> None:
    tally = replace(QUIET, states=states(pending=40), categories={"schema": 25, "transient": 15})
    raised = [alert.subject for alert in alerts(tally, Alerts(dominance=0.3))]
    assert raised == ["schema", "transient"]


def test_an_alert_speaks_of_what_the_layout_has() -> None:
    venues = {"": VenueTally(100, 1, None)}
    told = {
        layout: [
            alert.text
            for alert in alerts(replace(QUIET, states=states(in_doubt=1), venues=venues, layout=layout), LIMITS)
        ]
        for layout in ("orders", "integration", "outbox")
    }
    assert told["orders"][0] == "1 entry is in doubt: the venue may hold the order; reconcile it"
    assert told["integration"][0] == "1 entry is in doubt: the provider may hold the call; reconcile it"
    assert told["outbox"][1] == "100 open at (no queue), the limit is 100"


def test_one_poisoned_entry_is_enough() -> None:
    venues = {"alpaca": VenueTally(5, 0, None), "kalshi": VenueTally(5, 0, None, poisoned=2)}
    (alert,) = alerts(replace(QUIET, venues=venues), LIMITS)
    assert (alert.rule, alert.subject, alert.value, alert.limit) == ("poison", "kalshi", 2, 1)
    assert alert.brief == "2 poisoned at kalshi"
    assert alert.text == "2 fail at kalshi again and again in the same way: fix the cause first"


def test_a_ledger_that_cannot_be_read_is_an_alert_and_hides_what_it_would_tell() -> None:
    venues = {"kalshi": VenueTally(100, 1, None, poisoned=2)}
    blind = replace(QUIET, states=states(in_doubt=1), venues=venues, is_readable=False)
    found = alerts(blind, LIMITS)
    assert [alert.rule for alert in found] == ["ledger-unreadable", "depth"]
    assert (found[0].subject, found[0].value, found[0].limit, found[0].severe) == (None, 0, 1, True)
    assert "dlq doctor" in found[0].text


def test_every_rule_has_its_figure_and_its_limit() -> None:
    venue = VenueTally(100, 1, BASE - timedelta(minutes=31), poisoned=1)
    worst = replace(
        QUIET,
        states=states(pending=99, in_doubt=1),
        venues={"": venue},
        categories={"business": 100},
        arrivals=(2,) * 5 + (4,) * 5,
    )
    found = {alert.rule: alert for alert in alerts(worst, LIMITS)}
    assert {rule: (one.subject, one.value, one.limit) for rule, one in found.items()} == {
        "in-doubt": (None, 1, 1),
        "poison": (None, 1, 1),
        "depth": (None, 100, 100),
        "oldest": (None, 1860, 1800),
        "dominance": ("business", 1, 0.5),
        "arrivals": (None, 20, 12),
    }
    assert {*found, "ledger-unreadable"} == set(RULES)
    assert all(isinstance(one, Alert) and one.brief for one in found.values())


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
    assert rules(replace(QUIET, arrivals=counts)) == (["arrivals"] if said == "rising" else [])


def test_limits_come_from_the_config() -> None:
    venues = {"alpaca": VenueTally(3, 0, BASE - timedelta(minutes=2))}
    assert rules(replace(QUIET, venues=venues), Alerts(depth=3, oldest=timedelta(minutes=2))) == ["depth", "oldest"]

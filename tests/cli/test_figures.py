"""What check, metrics, report and groups say of each venue, of poison, and of a ledger that cannot be read."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backends import open_store
from backends.store import Result, Store
from console import clock
from tests.cli.conftest import Dlq, Make, fetch
from tests.support.orders import postgres_store, row
from tests.support.store import ACTOR, INTENT, attempt_on, pick, why

LIMIT, REFUSED = "RuntimeError: HTTP 429 after 3 attempts", "RiskRejected: notional 5 exceeds the limit"
WORDS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "jay", "kite", "lark", "mole", "newt", "owl", "pike")
NOW = datetime(2026, 4, 18, 14, 32, 15, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _own_cache_and_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(clock, "now", lambda: NOW)


def fresh(number: int, **given: object) -> dict[str, Any]:
    return row(number, **{"captured_at": NOW - timedelta(hours=1), **given})


def acting(target: str, act: Callable[[Store], Awaitable[object]]) -> None:
    async def work() -> None:
        store = await open_store(target)
        try:
            await act(store)
        finally:
            await store.aclose()

    asyncio.run(work())


async def poisons(store: Store, number: int = 0) -> None:
    """Two failures like its own error make three."""
    for _ in range(2):
        await attempt_on(store, number, Result("rejected", error=LIMIT), replace(INTENT, mode="live"))


def samples(text: str) -> dict[str, float]:
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if not line.startswith("#")
    }


def quiet(tmp_path: Path) -> tuple[str, str]:
    """A config in which nothing waits too long."""
    path = tmp_path / "quiet.toml"
    path.write_text('[alerts]\noldest = "30d"\n')
    return "--config", str(path)


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ([LIMIT] * 6 + [REFUSED] * 5, []),
        ([LIMIT] * 10 + [REFUSED] * 9, []),
        ([LIMIT] * 11 + [REFUSED] * 11, []),
        ([LIMIT] * 11 + [REFUSED] * 10, [("dominance", "transient", 11 / 21, 0.5)]),
        ([f"TimeoutError: the {word} gave no answer" for word in WORDS], [("dominance", "transient", 1, 0.5)]),
    ],
)
def test_one_kind_of_failure_dominates(
    dlq: Dlq, make: Make, tmp_path: Path, errors: list[str], raised: list[object]
) -> None:
    target = make([fresh(n, error=error) for n, error in enumerate(errors)])
    ran = dlq("check", "--db", target, "--json", *quiet(tmp_path))
    assert [(one["rule"], one["subject"], one["value"], one["limit"]) for one in ran.rows] == raised
    assert ran.code == (1 if raised else 0)
    if len(set(errors)) == len(WORDS):
        assert len(dlq("groups", "--db", target, "--json").rows) == len(WORDS), "each in a group of its own"


def test_check_says_what_it_measured(dlq: Dlq, make: Make) -> None:
    rows = dlq("check", "--db", make([fresh(n) for n in range(100)]), "--json").rows
    assert [list(one) for one in rows] == [["rule", "subject", "value", "limit", "text"]] * 3
    depth, oldest, dominance = rows
    assert (depth["rule"], depth["subject"], depth["value"], depth["limit"]) == ("depth", "alpaca", 100, 100)
    assert (oldest["rule"], oldest["subject"], oldest["value"], oldest["limit"]) == ("oldest", "alpaca", 3600, 1800)
    assert dominance["text"] == "100% of 100 open are of one kind: transient"


def test_a_poisoned_entry_is_an_alert_a_figure_and_a_word_in_the_groups(dlq: Dlq, make: Make, tmp_path: Path) -> None:
    target = make([fresh(0), fresh(1, venue_name="kalshi"), fresh(2, retry_count=9)])
    assert dlq("check", "--db", target, *quiet(tmp_path)).code == 0, "an engine's bare count is no poison"
    assert "poisoned" not in dlq("groups", "--db", target).out
    acting(target, poisons)
    ran = dlq("check", "--db", target, "--json", *quiet(tmp_path))
    assert ran.code == 1
    assert [(one["rule"], one["subject"], one["value"], one["limit"]) for one in ran.rows] == [
        ("poison", "alpaca", 1, 1)
    ]
    told = samples(dlq("metrics", "--db", target).out)
    assert told['dlq_poisoned{venue="alpaca"}'] == 1
    assert told['dlq_poisoned{venue="kalshi"}'] == 0
    assert told['dlq_alert{rule="poison"}'] == 1
    assert [one["poisoned"] for one in dlq("groups", "--db", target, "--json").rows] == [1]
    assert [one["poisoned"] for one in dlq("groups", "--db", target, "--json", "--venue", "kalshi").rows] == [0]
    assert ", poisoned=1]" in dlq("groups", "--db", target).out


def test_metrics_tell_of_each_venue(dlq: Dlq, make: Make) -> None:
    rows = [fresh(0, retry_count=1), fresh(1, retry_count=6, error=REFUSED), fresh(2, venue_name="kalshi")]
    target = make([*rows, fresh(3, venue_name="ibkr", dismissed=True)])
    told = samples(dlq("metrics", "--db", target).out)
    expected = {
        'dlq_depth{venue="ibkr"}': 0,
        'horizon_dlq_depth{venue="ibkr"}': 0,
        'dlq_average_age_seconds{venue="alpaca"}': 3600,
        'dlq_over_age_limit{venue="alpaca"}': 2,
        'dlq_over_age_limit{venue="ibkr"}': 0,
        'dlq_depth_by_category{venue="alpaca",category="business"}': 1,
        'dlq_depth_by_category{venue="alpaca",category="transient"}': 1,
        'dlq_depth_by_category{venue="kalshi",category="schema"}': 0,
        'dlq_retries_average{venue="alpaca"}': 3.5,
        'dlq_depth_by_retries{venue="alpaca",retries="1"}': 1,
        'dlq_depth_by_retries{venue="alpaca",retries="5+"}': 1,
        'dlq_depth_by_retries{venue="alpaca",retries="0"}': 0,
        'dlq_depth_average{venue="alpaca"}': 2,
        'dlq_depth_recent{venue="alpaca"}': 2,
        'dlq_depth_direction{venue="alpaca"}': 0,
        "dlq_open_direction": 0,
        'dlq_category_share{category="transient"}': 2 / 3,
        "dlq_ledger_readable": 1,
    }
    assert {name: told.get(name) for name in expected} == expected
    assert 'dlq_average_age_seconds{venue="ibkr"}' not in told, "nothing waits there"


def test_an_emptied_store_has_a_depth_of_zero(dlq: Dlq, make: Make) -> None:
    target = make([fresh(0)])
    assert dlq("dismiss", fresh(0)["dlq_id"], "--db", target, "--reason", "test", "--yes").code == 0
    told = samples(dlq("metrics", "--db", target).out)
    assert (told['dlq_depth{venue="alpaca"}'], told["dlq_open"]) == (0, 0)
    assert told['dlq_depth_direction{venue="alpaca"}'] == -1


def test_the_depth_rises_with_what_came_and_falls_with_what_is_done(dlq: Dlq, make: Make) -> None:
    target = make([fresh(n, captured_at=NOW - timedelta(minutes=2.5)) for n in range(10)])
    told = samples(dlq("metrics", "--db", target).out)
    figures = [told[f'dlq_depth_{name}{{venue="alpaca"}}'] for name in ("average", "recent", "direction")]
    assert figures == [3, 10, 1]
    report = json.loads(dlq("report", "--db", target, "--since", "1h", "--json").out)["open"]
    assert report["trend"] == report["venues"]["alpaca"]["trend"] == {"average": 3, "recent": 10, "direction": "rising"}
    assert "Trend of the last ten minutes: rising, 10 now, 3.0 on average." in dlq("report", "--db", target).out


def test_a_report_tells_of_each_venue(dlq: Dlq, make: Make) -> None:
    target = make([fresh(0, retry_count=1), fresh(1, venue_name="ibkr", dismissed=True)])
    acting(target, poisons)
    told = json.loads(dlq("report", "--db", target, "--since", "2h", "--json").out)
    assert (told["ledger_readable"], told["open"]["poisoned"]) == (True, 1)
    alpaca, ibkr = told["open"]["venues"]["alpaca"], told["open"]["venues"]["ibkr"]
    assert (alpaca["depth"], alpaca["over_age_limit"], alpaca["poisoned"], alpaca["in_doubt"]) == (1, 1, 1, 0)
    assert (alpaca["average_retries"], alpaca["by_category"]) == (3, {"transient": 1})
    assert alpaca["by_retries"] == {"0": 0, "1": 0, "2": 0, "3": 1, "4": 0, "5+": 0}
    assert (ibkr["depth"], ibkr["average_age_seconds"], ibkr["average_retries"]) == (0, None, None)
    lines = dlq("report", "--db", target).out.splitlines()
    assert "| alpaca | 1 | steady, 1 now, 1.0 on average | 0 | 1 | 1h00m | 1h00m | 1 |" in lines
    assert "| ibkr | 0 | steady, 0 now, 0.0 on average | 0 | 0 | - | - | 0 |" in lines


@pytest.fixture
def blind(postgres_db: str) -> str:
    """A store with one entry in doubt, as a role sees it that may read the entries and not the ledger."""
    target = postgres_store(postgres_db, [fresh(0), fresh(1)])

    async def doubts(store: Store) -> None:
        await attempt_on(store, 0, Result("unknown"))
        await store.dismiss(await pick(store, 1), ACTOR, why())
        await store.halt(ACTOR, why(note="stop"))

    acting(target, doubts)
    role = f"auditor_{target.rpartition('/')[2]}"
    fetch(target, f'CREATE ROLE "{role}" LOGIN')
    fetch(target, f'GRANT SELECT ON order_dlq TO "{role}"')
    return re.sub(r"//[^@]*@", f"//{role}@", target)


def test_silence_of_an_unreadable_ledger_is_no_all_clear(dlq: Dlq, blind: str, tmp_path: Path) -> None:
    ran = dlq("check", "--db", blind, "--json", *quiet(tmp_path))
    assert ran.code == 1
    assert [(one["rule"], one["subject"], one["value"], one["limit"]) for one in ran.rows] == [
        ("ledger-unreadable", None, 0, 1)
    ]
    told = samples(dlq("metrics", "--db", blind).out)
    assert (told["dlq_ledger_readable"], told['dlq_alert{rule="ledger-unreadable"}']) == (0, 1)
    assert (told["dlq_open"], told['dlq_depth{venue="alpaca"}'], told["dlq_captured_total"]) == (1, 1, 2)
    ledger = ("in_doubt", "poisoned", "entries", "halted", "replays", "reconciles", "dismissals", "restores")
    rules, trends = ('alert{rule="in-doubt"}', 'alert{rule="poison"}'), ("depth_direction", "open_direction")
    unknown = tuple(f"dlq_{name}" for name in (*ledger, *rules, *trends))
    assert [name for name in told if name.startswith(unknown)] == []


def test_what_an_unreadable_ledger_would_tell_is_unknown(dlq: Dlq, blind: str) -> None:
    report = json.loads(dlq("report", "--db", blind, "--since", "2h", "--json").out)
    assert report["ledger_readable"] is False
    assert [report[name] for name in ("done", "in_doubt", "in_flight", "halt")] == [None, None, None, "unknown"]
    told = report["open"]
    assert [told[name] for name in ("by_state", "poisoned", "trend")] == [None, None, None]
    assert [told["venues"]["alpaca"][name] for name in ("depth", "in_doubt", "poisoned", "trend")] == [
        1,
        None,
        None,
        None,
    ]
    text = dlq("report", "--db", blind).out
    assert "## What is in doubt: unknown" in text
    assert text.count("Unknown: this role cannot read the console's ledger. `dlq doctor` prints the grant.") == 2
    assert "| alpaca | 1 | unknown | unknown | unknown | 1h00m | 1h00m | 1 |" in text
    assert "Nothing." not in text
    (group,) = dlq("groups", "--db", blind, "--json").rows
    assert (group["count"], group["states"], group["poisoned"]) == (1, None, None)
    assert "poisoned=unknown]" in dlq("groups", "--db", blind).out

"""The shift report: everything of the shift and nothing from before it, told twice; hostile text stays text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from console.services.stats import tally
from console.services.stats.alerts import alerts
from console.services.stats.report import (
    ActivityMoment,
    OperatorTally,
    Report,
    ShiftActivity,
    as_json,
    as_markdown,
    gather,
)
from console.services.triage.triage import Triage
from console.settings.config import Alerts, Config
from tests.support.shift_store import BEGAN, shift
from tests.support.store import ACTOR, PostgresRig, Rig, order_row, sqlite_rig

NOW = BEGAN + timedelta(hours=1)


@pytest.fixture(params=["sqlite", "postgresql"])
async def report(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Report]:
    rig: Rig = (
        sqlite_rig(tmp_path) if request.param == "sqlite" else PostgresRig(request.getfixturevalue("postgres_db"))
    )
    store = await shift(rig)
    counted = await tally.counted(store, NOW, Config())
    triage = Triage(store, ACTOR, lambda: NOW)
    yield await gather(triage, BEGAN, counted, alerts(counted, Alerts()))
    await rig.aclose()


def test_json_tells_what_came_what_was_done_and_what_is_in_doubt(report: Report) -> None:
    told = json.loads(json.dumps(as_json(report)))
    assert told["arrived"]["count"] == 16
    assert told["arrived"]["by_category"] == {"transient": 12, "business": 4}
    assert [(group["count"], group["category"]) for group in told["arrived"]["groups"]] == [
        (12, "transient"),
        (4, "business"),
    ]
    done = told["done"]
    # The stale one was before the shift; on Postgres the database tells the time of an act, and it tells now.
    early = done["dismissed"].pop("stale", 0)
    assert done["dismissed"] == {"market-closed": 3}
    assert early == int("127.0.0.1" in json.dumps(told["store"])), told["store"]
    assert (done["restored"], done["refused"]) == (1, {"replay": 1})
    assert [moment["kind"] for moment in done["moments"]] == ["halt", "resume"]
    people = {person["operator"]: person for person in done["by_operator"]}
    assert (people["ann"]["dismissed"], people["ann"]["refused"], people["ann"]["notes"]) == (3 + early, 1, 1)
    assert (people["bob"]["restored"], people["bob"]["reconciled"]) == (1, 1)
    assert [one["dlq_id"] for one in told["in_doubt"]] == [order_row(6)["dlq_id"]]
    assert told["open"]["by_state"]["pending"] == 14
    assert {alert["rule"] for alert in told["alerts"]} >= {"in-doubt", "oldest"}
    assert told["halt"] is None


def test_markdown_tells_the_same(report: Report) -> None:
    text = as_markdown(report)
    for said in (
        "# Shift report",
        "## What came in: 16",
        "RuntimeError: HTTP 429",
        "| ann (ops) |",
        "3 market-closed",
        "## What is in doubt: 1",
        str(order_row(6)["dlq_id"]).replace("_", "\\_"),
        "## How it stands: 15 open",
        "**halt** by bob",
    ):
        assert said in text


def test_a_table_names_a_person_once_and_no_code(report: Report) -> None:
    who = OperatorTally("bob", "bob", replays=Counter({("paper", "unknown"): 1, ("paper", "not_sent"): 2}))
    done = ShiftActivity("orders")
    done.people["bob", "bob"] = who
    done.moments.append(ActivityMoment("2026-04-18T14:51:12+00:00", "ask-approval", "ann", "2 live orders"))
    text = as_markdown(replace(report, activity=done))
    assert "| bob | 2 paper not sent, 1 paper in doubt |" in text
    assert "**ask** by ann: 2 live orders" in text


def test_what_a_store_says_is_never_markup(report: Report) -> None:
    text = as_markdown(report)
    assert "venue is down \\| \\*really\\*" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    heads = [line for line in rows if line.startswith("|---")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {line.count("|") for line in heads}
    assert 'ka"l\\\\s\\<0A\\>hi\\|\\*x\\*' in text


def test_a_quiet_shift_says_so(report: Report) -> None:
    quiet = replace(report, arrived=0, activity=ShiftActivity("t"), in_doubt=(), alerts=())
    assert as_markdown(quiet).count("Nothing.") == 3


def test_what_is_in_flight_is_not_called_in_doubt(report: Report) -> None:
    sent = replace(report.in_doubt[0], entry_id="dlq_flying", outcome=None)
    under_way = replace(report, in_flight=(sent,))
    told = as_json(under_way)
    assert [len(told[key]) for key in ("in_doubt", "in_flight")] == [1, 1]  # type: ignore[arg-type]  # lists
    text = as_markdown(under_way)
    assert "## What is in doubt: 1\n" in text
    assert "In flight, with no answer yet: 1\n" in text
    assert "flying" in text.partition("In flight")[2]
    assert "In flight" not in as_markdown(report)

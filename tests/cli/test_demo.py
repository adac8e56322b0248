"""The demo: what it shows, and that it can be used for as long as it is open."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backends import SQLiteDLQ
from console.cli.demo import CONFLICT_ID, WAITING_IDS, demo_config, demo_entries, demo_ids, practice_venue
from console.cli.demo_colleague import NAME, RENEW_SECONDS, waiting_plan
from console.cli.main import run
from console.services.triage.approvals import ASK_SECONDS
from console.settings.identity import is_foreign_namespace

_SENDS = 12


def test_without_a_terminal_the_demo_prints_its_list_and_its_plan() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "console", "demo"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert shown.returncode == 0
    assert f"{CONFLICT_ID}  " in shown.stdout
    assert "[in_doubt, retries=1]" in shown.stdout  # a replay whose answer was lost
    assert "stop 498.0" in shown.stdout
    assert "⚑exit sell 4 META" in shown.stderr
    for account in ("alpaca hedge", "alpaca main", "kalshi main"):
        assert f"{account} at 127.0.0.1" in shown.stderr
    assert f"{_SENDS} planned, 1 superseded, 3 refused" in shown.stderr


def test_the_order_in_doubt_stands_at_the_venue_with_other_terms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = _made(tmp_path, timedelta())
    with practice_venue(tmp_path) as url:
        demo_config(tmp_path, url)
        run(["replay", CONFLICT_ID, "--paper", "--yes", *here])
        capsys.readouterr()
        assert run(["reconcile", CONFLICT_ID, "--paper", "--json", *here]) == 3
        row = json.loads(capsys.readouterr().out)
    assert (row["outcome"], row["detail"].partition(":")[0]) == ("unknown", "conflict")


def test_the_demo_can_be_replayed_after_days(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = _made(tmp_path, timedelta(days=3))
    with practice_venue(tmp_path) as url:
        demo_config(tmp_path, url)
        assert run(["replay", *demo_ids(), "--paper", "--dry-run", "--json", *here]) == 0
    outcomes = [json.loads(line)["outcome"] for line in capsys.readouterr().out.splitlines()]
    assert outcomes.count("planned") == _SENDS + 1  # the one that the demo itself has sent


def test_a_colleague_s_plan_waits_fresh_for_as_long_as_the_demo_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is asked for again before it expires, keeps its hash, and this person may approve it."""
    here = _made(tmp_path, timedelta())
    assert RENEW_SECONDS < ASK_SECONDS
    with practice_venue(tmp_path) as url:
        demo_config(tmp_path, url)
        with waiting_plan(WAITING_IDS, here) as asked:
            assert asked.wait(60)
        first = _waiting(here, capsys)
        assert first["asked_by"] == NAME
        assert first["mode"] == "live"
        assert {row["dlq_id"] for row in first["orders"]} == set(WAITING_IDS)
        with waiting_plan(WAITING_IDS, here) as asked:
            assert asked.wait(60)
        again = _waiting(here, capsys)
        assert again["plan"] == first["plan"]
        assert again["asked_at"] > first["asked_at"], "asked anew, so that five minutes begin again"
        assert run(["approve", again["plan"], "--yes", *here]) == (4 if is_foreign_namespace() else 0)
        capsys.readouterr()


def _waiting(here: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["approve", "--json", *here]) == 0
    (row,) = map(json.loads, capsys.readouterr().out.splitlines())
    return dict(row)


def _made(folder: Path, ago: timedelta) -> list[str]:
    """A store of the demo that was begun this long ago, and the words that name it."""
    with SQLiteDLQ(folder / "orders.db") as sink:
        for entry in demo_entries(datetime.now(UTC) - ago):
            sink.write(entry)
    return ["--db", "demo", "--config", str(folder / "config.toml")]

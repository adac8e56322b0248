"""groups, check, metrics, report, archive and index from the outside, on both engines."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from console.cli import stats as numbers
from tests.cli.conftest import Dlq, Make, fetch
from tests.support.orders import row, sqlite_store

ROOT = Path(__file__).parent.parent.parent
LIMIT, REFUSED = "RuntimeError: HTTP 429 after {} attempts", "RiskRejected: notional {} exceeds the limit"


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def rows() -> list[dict[str, Any]]:
    made = [row(n, error=LIMIT.format(n), price=None if n == 2 else 180.0) for n in range(5)]
    made += [row(n, error=REFUSED.format(n), venue_name="kalshi", retry_count=2) for n in range(5, 7)]
    return [*made, row(7, error=REFUSED.format(7), dismissed=True)]


def recent(count: int, **given: object) -> list[dict[str, Any]]:
    now = datetime.now(UTC)
    return [row(n, captured_at=now - timedelta(seconds=count - n), **given) for n in range(count)]


def test_groups_as_json(dlq: Dlq, make: Make) -> None:
    ran = dlq("groups", "--db", make(rows()), "--json")
    assert (ran.code, ran.err) == (0, "")
    first, second = ran.rows
    assert first == {
        "fingerprint": first["fingerprint"],
        "title": "RuntimeError: HTTP 429 after # attempts",
        "count": 5,
        "first_seen": "2026-04-18T14:32:15Z",
        "last_seen": "2026-04-18T14:32:19Z",
        "category": "transient",
        "states": {"pending": 5},
        "venues": {"alpaca": 5},
        "accounts": {"main": 5},
        "markets": {"AAPL": 5},
        "retries": 0,
        "unpriced": 1,
        "poisoned": 0,
        "notional": 72000.0,
        "by_currency": {"USD": 72000.0},
    }
    assert (second["count"], second["retries"], second["venues"]) == (2, 4, {"kalshi": 2})


def test_groups_speak_of_the_fingerprints_of_list(dlq: Dlq, make: Make) -> None:
    target = make(rows())
    groups = {one["fingerprint"]: one["count"] for one in dlq("groups", "--db", target, "--json").rows}
    listed: dict[str, int] = {}
    for one in dlq("list", "--db", target, "--json").rows:
        listed[one["fingerprint"]] = listed.get(one["fingerprint"], 0) + 1
    assert groups == listed
    everything = {one["fingerprint"]: one["count"] for one in dlq("groups", "--all", "--db", target, "--json").rows}
    assert sorted(everything.values()) == [3, 5]


def test_groups_take_filters(dlq: Dlq, make: Make) -> None:
    target = make(rows())
    assert [one["count"] for one in dlq("groups", "--db", target, "--json", "--venue", "kalshi").rows] == [2]
    assert [one["count"] for one in dlq("groups", "--db", target, "--json", "--search", "after 3").rows] == [1]
    assert dlq("groups", "--db", target, "--json", "--market", "TSLA").rows == []


def test_groups_for_people(dlq: Dlq, make: Make) -> None:
    lines = dlq("groups", "--db", make(rows())).out.splitlines()
    assert len(lines) == 4
    assert lines[0].split("  ")[1:5] == ["5", "transient", "2026-04-18T14:32:15Z to 2026-04-18T14:32:19Z", "alpaca"]
    assert lines[1] == "  RuntimeError: HTTP 429 after # attempts"


def test_check_is_quiet_or_says_one_line_each(dlq: Dlq, make: Make) -> None:
    target = make(recent(3))
    assert dlq("check", "--db", target).code == 0
    assert dlq("check", "--db", target).out == ""


def test_check_raises_alerts(dlq: Dlq, make: Make) -> None:
    ran = dlq("check", "--db", make(rows()))
    assert ran.code == 1
    assert [line.split(":")[0] for line in ran.out.splitlines()] == ["oldest", "oldest"]


def test_check_has_the_limits_of_the_config(dlq: Dlq, make: Make, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[alerts]\ndepth = 3\noldest = "1000d"\n')
    ran = dlq("check", "--db", make(recent(20)), "--config", str(config), "--json")
    assert ran.code == 1
    assert [one["rule"] for one in ran.rows] == ["depth", "dominance", "arrivals"][: len(ran.rows)]
    assert {one["rule"] for one in ran.rows} >= {"depth", "dominance"}


def test_a_share_is_no_percentage(dlq: Dlq, make: Make, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[alerts]\ndominance = 50\n")
    ran = dlq("check", "--db", make(recent(20)), "--config", str(config))
    assert (ran.code, ran.out) == (2, "")
    assert "alerts.dominance must be a share from 0 to 1" in ran.err


def test_metrics_once(dlq: Dlq, make: Make) -> None:
    ran = dlq("metrics", "--db", make(rows()))
    assert ran.code == 0
    assert 'dlq_depth{venue="alpaca"} 5\n' in ran.out
    assert 'horizon_dlq_depth{venue="kalshi"} 2\n' in ran.out
    assert 'dlq_entries{state="dismissed"} 1\n' in ran.out


@pytest.mark.parametrize("where", ["nowhere", "1.2.3.4:99999", "host:", "http://x:1", ""])
def test_listen_needs_an_address(dlq: Dlq, tmp_path: Path, where: str) -> None:
    target = sqlite_store(tmp_path / "orders.db", rows())
    ran = dlq("metrics", "--db", target, "--listen", where) if where else dlq("metrics", "--db", target, "--listen")
    assert ran.code == 2
    assert ran.err.startswith("dlq: ")


def test_a_report_in_both_manners(dlq: Dlq, make: Make) -> None:
    target = make(recent(4))
    dlq("dismiss", recent(1)[0]["dlq_id"], "--db", target, "--reason", "test", "--operator", "ann|e")
    told = json.loads(dlq("report", "--db", target, "--since", "1h", "--json").out)
    assert told["arrived"]["count"] == 4
    assert told["done"]["dismissed"] == {"test": 1}
    assert told["done"]["by_operator"][0]["operator"] == "ann|e"
    text = dlq("report", "--db", target).out
    assert "## What came in: 4" in text
    assert "ann\\|e" in text
    assert dlq("report", "--db", target, "--since", "yesterday").code == 2


def test_an_archive_and_its_proof(dlq: Dlq, make: Make, tmp_path: Path) -> None:
    target, out = make(rows()), str(tmp_path / "old.zip")
    before = fetch(target, "SELECT * FROM order_dlq ORDER BY dlq_id")
    ran = dlq("archive", "--db", target, "--before", "2026-04-18T14:32:20Z", "--out", out)
    assert (ran.code, ran.out.splitlines()[0]) == (0, f"archived 5 entries, 0 attempts, 0 audit events to {out}")
    assert fetch(target, "SELECT * FROM order_dlq ORDER BY dlq_id") == before
    verified = dlq("archive", "--verify", out)
    assert (verified.code, verified.out.splitlines()[0]) == (0, "sound: 5 entries, 0 audit events")
    assert verified.out.splitlines()[-1] == ran.out.splitlines()[-1]  # the digest
    content = bytearray(Path(out).read_bytes())
    content[len(content) // 3] ^= 1
    Path(out).write_bytes(content)
    assert dlq("archive", "--verify", out).code == 1
    assert dlq("archive", "--db", target, "--before", "2026-04-18", "--out", out).code == 2
    assert dlq("archive", "--db", target, "--before", "someday", "--out", out).code == 2
    assert dlq("archive", "--db", target, "--out", out).code == 2


def test_the_index_says_what_counting_says(
    dlq: Dlq, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = make(rows())
    verbs = (("groups", "--json"), ("groups", "--json", "--all"), ("metrics",))
    counted = [_stable(dlq(*verb, "--db", target).out) for verb in verbs]
    assert dlq("index", "--db", target).code == 0
    monkeypatch.setattr(numbers, "SMALL", 0)
    used: list[bool] = []
    really = numbers._is_worth_it

    async def seen(*given: Any) -> bool:
        used.append(await really(*given))
        return used[-1]

    monkeypatch.setattr(numbers, "_is_worth_it", seen)
    assert [_stable(dlq(*verb, "--db", target).out) for verb in verbs] == counted
    assert used == [True, True, True]
    dlq("dismiss", row(0)["dlq_id"], "--db", target, "--reason", "test")
    assert [one["count"] for one in dlq("groups", "--db", target, "--json").rows] == [4, 2]
    assert used[-1] is False  # no longer current: counted instead
    assert dlq("index", "--db", target, "--json").rows[-1]["complete"] is True
    assert [one["count"] for one in dlq("groups", "--db", target, "--json").rows] == [4, 2]
    assert used[-1] is True


def test_a_damaged_index_is_passed_over(dlq: Dlq, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    target = make(rows())
    verbs = ("groups", "check", "metrics")
    counted = [_stable(dlq(verb, "--db", target).out) for verb in verbs]
    assert dlq("index", "--db", target).code == 0
    monkeypatch.setattr(numbers, "SMALL", 0)
    (file,) = (tmp_path / "own" / "dlq-console").glob("*.index.db")
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as index:
        index.execute("DROP TABLE part")
    ran = [dlq(verb, "--db", target) for verb in verbs]
    assert [one.code for one in ran] == [0, 1, 0]
    assert [_stable(one.out) for one in ran] == counted


def _stable(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(("dlq_oldest_age", "dlq_average_age"))]


def test_counting_needs_neither_textual_nor_a_venue(tmp_path: Path) -> None:
    target = sqlite_store(tmp_path / "orders.db", rows())
    verbs = [["groups"], ["check"], ["metrics"], ["report"], ["index"]]
    program = f"""
import sys
from console.cli.main import run
for verb in {verbs!r}:
    assert run([*verb, "--db", {target!r}, "--read-only"]) in (0, 1), verb
print(" ".join(sorted(sys.modules)), file=sys.stderr)
"""
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert not {"textual", "rich", "httpx", "keyring", "ccxt", "venues.http"} & loaded

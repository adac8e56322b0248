"""Several consoles after the same entries at once: each is sent exactly once, and every loser is told who was first."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults import checker
from tests.support.command import Console
from tests.support.exchange import in_process
from tests.support.orders import postgres_store, row, sqlite_store
from tests.support.session import ident

# As many as the issue asks for: make faults.
CONSOLES, ENTRIES = map(int, os.environ.get("DLQ_RACE", "4x60").split("x"))


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_consoles_that_race_send_every_entry_exactly_once(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str
) -> None:
    now = datetime.now(UTC)
    rows = [
        row(n, captured_at=now, market_id=f"T{n}", quantity=float(n), price=1.0, client_order_id=f"cid-{n}")
        for n in range(1, ENTRIES + 1)
    ]
    if engine == "sqlite":
        target = sqlite_store(tmp_path / "orders.db", rows)
    else:
        target = postgres_store(request.getfixturevalue("postgres_db"), rows)
    limits = {"max_batch": ENTRIES, "four_eyes_over": 10**9, "stale_after": "8h"}
    ledger = tmp_path / "venue.jsonl"
    with in_process(ledger) as exchange:
        console = Console(tmp_path, target, exchange.url, limits=limits, settings={"rate_per_minute": 600_000})
        console.settings["timeout"] = 30.0
        ids = [ident(n) for n in range(1, ENTRIES + 1)]
        running = [console.start("replay", *ids, "--paper", "--json") for _ in range(CONSOLES)]
        told = [process.communicate(timeout=900) for process in running]
        assert {process.returncode for process in running} <= {0, 4}, told
        assert len(exchange.orders) == ENTRIES
    outcomes = Counter(json.loads(line)["outcome"] for out, _ in told for line in out.splitlines())
    assert outcomes["accepted"] == ENTRIES
    assert sum(outcomes.values()) == CONSOLES * ENTRIES
    assert set(outcomes) <= {"accepted", "refused", "skipped"}
    store = checker.read_store(target)
    assert checker.check(store, checker.read_ledger(ledger), expected=ENTRIES, phase="final") == []
    assert len(store.attempts) == ENTRIES

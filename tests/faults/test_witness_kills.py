"""kill -9 of an engine with a witness, at random moments of its sends: no order of the exchange's book is unknown.

Each is acknowledged by the engine or in `dlq list`, and `dlq reconcile` settles all of them, none twice.
`DLQ_ENGINE_KILLS` is the number of kills on each database.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.services.evidence import reconcile as reconciling
from tests.support.command import Console
from tests.support.exchange import Exchange, in_thread
from tests.support.intent import run_sql
from tests.support.orders import postgres_store, sqlite_store

KILLS = int(os.environ.get("DLQ_ENGINE_KILLS", "12"))
ROOT = Path(__file__).parent.parent.parent
PAST = {True: "clock_timestamp() - interval '9 seconds'", False: "'2026-01-01T00:00:00.000000+00:00'"}

# Forks an engine for each line it is given, says its pid, and waits until that one has ended. An engine sends order
# after order, each behind a witness, says each intent, and keeps the client order id once it knows the venue has it.
FORKS = """
import json, os, sys, urllib.request
from dlq_sink import PostgresDLQ, SQLiteDLQ, intent
import asyncpg, asyncio, http.client, ssl
target, url, acknowledged = sys.argv[1:]
HEADERS = {"content-type": "application/json", "APCA-API-KEY-ID": "practice", "APCA-API-SECRET-KEY": "practice"}
def send(order):
    request = urllib.request.Request(url + "/v2/orders", json.dumps(order).encode(), HEADERS, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
def engine(number):
    kept = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    sink = PostgresDLQ(target) if target.startswith("postgresql") else SQLiteDLQ(target)
    os.write(1, f"{os.getpid()}\\n".encode())
    turn = 0
    while True:
        turn += 1
        order = {"symbol": "AAPL", "side": "buy", "qty": f"{number * 1000 + turn}", "type": "limit",
                 "limit_price": "18", "time_in_force": "day"}
        with intent(sink, order, venue="alpaca", account="main") as i:
            os.write(1, b"intended\\n")
            i.ok(send(order)["id"])
        os.write(kept, f"{i.client_order_id}\\n".encode())
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        engine(int(line))
    os.waitpid(child, 0)
    os.write(1, b"over\\n")
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_store(tmp_path / "orders.db")
    return postgres_store(request.getfixturevalue("postgres_db"))


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


def kill_engines(target: str, exchange: Exchange, acknowledged: Path) -> None:
    chance = random.Random(7)
    command = [sys.executable, "-c", FORKS, target, exchange.url, str(acknowledged)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as forks:  # type: ignore[call-overload]
        for number in range(1, KILLS + 1):
            forks.stdin.write(f"{number}\n")
            pid = int(forks.stdout.readline())
            for _ in range(chance.randint(1, 3)):
                assert forks.stdout.readline() == "intended\n"
            time.sleep(chance.uniform(0, 0.05) if number % 2 else 0)
            os.kill(pid, signal.SIGKILL)
            while (line := forks.stdout.readline()) != "over\n":
                assert line == "intended\n"
        forks.stdin.close()


def test_no_order_is_lost_or_doubled(
    target: str, exchange: Exchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciling, "_BETWEEN_SECONDS", 0.0)  # between look-ups that show nothing
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()
    kill_engines(target, exchange, acknowledged)
    # Its look-ups wait for no real venue's rate.
    pool = Console(tmp_path, target, exchange.url, settings={"rate_per_minute": 60_000})
    on_postgres = target.startswith("postgresql")
    run_sql(target, f"UPDATE order_dlq_intent SET lease_until = {PAST[on_postgres]} WHERE resolved_at IS NULL")
    told = run_sql(target, "SELECT client_order_id FROM order_dlq_intent WHERE venue_order_id IS NOT NULL")
    known = {*acknowledged.read_text().split(), *(row[0] for row in told)}
    listed = {one["client_order_id"]: one for one in pool.inline("list", "--json").rows}
    placed = Counter(one["client_order_id"] for one in exchange.orders)
    assert placed, "no engine sent anything"
    assert not set(placed) - known - set(listed), "lost"
    assert {one["origin"] for one in listed.values()} <= {"intent", "entry"}
    in_doubt = {cid: one["dlq_id"] for cid, one in listed.items() if one["origin"] == "intent"}
    assert in_doubt, "no kill met an order under way"
    ended = pool.inline("reconcile", "--paper", "--json")
    want = {dlq_id: "accepted" if cid in placed else "not_sent" for cid, dlq_id in in_doubt.items()}
    assert ended.outcomes == want
    assert pool.inline("list", "--filter", "state:in_doubt", "--json").rows == []
    after = {one["client_order_id"]: one["state"] for one in pool.inline("list", "--all", "--json").rows}
    assert {cid: after[cid] for cid in in_doubt} == {
        cid: "replayed" if cid in placed else "pending" for cid in in_doubt
    }
    assert Counter(one["client_order_id"] for one in exchange.orders) == placed
    assert set(placed.values()) == {1}, "doubled"
    assert pool.inline("audit", "verify").code == 0
    print(json.dumps({"kills": KILLS, "placed": len(placed), "in doubt": len(in_doubt), "acknowledged": len(known)}))

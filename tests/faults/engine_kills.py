"""kill -9 of an engine at random moments, with a witness: every order at the exchange is accounted for.

`python -m tests.faults.engine_kills --kills 10000 [--minutes 30]` runs it on SQLite and Postgres and prints its
figures; exit 1 if an order is lost or doubled. The engine is forked: a kill costs no interpreter.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dlq_sink import DLQSink, PostgresDLQ, SQLiteDLQ, intent

from tests.support.exchange import Exchange, in_process
from tests.support.postgres import Postgres
from tests.support.sink import in_postgres, in_sqlite

LONGEST = 0.06  # seconds of life after it is ready; notes on orders linger longer, so that none is written by then
NOTED_ONE_IN = 10  # engines that live until notes are written, and are killed while more of them are
ORDER = {"symbol": "AAPL", "side": "buy", "type": "limit", "limit_price": "150", "time_in_force": "day"}
TABLE = "order_dlq"
_TAKEN = "resolved_at IS NOT NULL AND venue_order_id IS NOT NULL"
_HEADERS = {"APCA-API-KEY-ID": "practice", "APCA-API-SECRET-KEY": "practice", "Content-Type": "application/json"}


@dataclass
class Verdict:
    kills: int = 0
    orders: int = 0
    acknowledged: int = 0
    noted: int = 0
    entries: int = 0
    open: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.lost and not self.doubled

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.orders} orders at the exchange: {self.acknowledged} acknowledged, "
            f"{self.noted} noted in the sink, "
            f"{self.entries} in entries, {self.open} in open intents; "
            f"{len(self.lost)} lost, {len(self.doubled)} doubled"
        )


def _opened(target: str) -> DLQSink:
    return PostgresDLQ(target) if "://" in target else SQLiteDLQ(target)


def _trade(target: str, url: str, acknowledged: Path, seed: int, ready: int) -> None:
    """The engine: one order after the other until it is killed. Some are refused by the exchange."""
    chance = random.Random(seed)
    sink = _opened(target)
    link = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    notes = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(ready, b"!")
    while True:
        quantity = "0" if chance.random() < 0.1 else str(chance.randint(1, 9))
        order = {
            "symbol": "AAPL",
            "side": "buy",
            "qty": quantity,
            "type": "limit",
            "limit_price": "150",
            "time_in_force": "day",
        }
        try:
            with intent(sink, order, venue="alpaca") as i:
                placed = order["client_order_id"]
                link.request("POST", "/v2/orders", json.dumps(order), _HEADERS)
                answer = link.getresponse()
                told = json.loads(answer.read())
                if answer.status != 200:
                    raise RuntimeError(f"HTTP {answer.status}")
                i.ok(told)
                os.write(notes, f"{placed}\n".encode())
        except RuntimeError:
            continue


def _killed(target: str, url: str, acknowledged: Path, seed: int, *, noted: bool) -> None:
    """Fork an engine and kill it at a random moment of its life; `noted`: of its life after its first notes."""
    before = _noted(target) if noted else 0
    heard, ready = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _trade(target, url, acknowledged, seed, ready)
        finally:
            os._exit(1)
    os.close(ready)
    os.read(heard, 1)
    os.close(heard)
    until = time.monotonic() + 60
    while noted and _noted(target) == before and time.monotonic() < until:
        time.sleep(LONGEST)
    time.sleep(random.Random(seed).uniform(0, LONGEST))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _ask(target: str, sql: str) -> list[Any]:
    return list(in_postgres(target, sql) if "://" in target else in_sqlite(Path(target), sql))


def _noted(target: str) -> int:
    """Orders that an engine noted as taken."""
    return int(_ask(target, f"SELECT count(*) FROM {TABLE}_intent WHERE {_TAKEN}")[0][0])


def judged(target: str, exchange: Exchange, acknowledged: Path, kills: int) -> Verdict:
    asked = (
        f"SELECT client_order_id FROM {TABLE}",
        f"SELECT client_order_id FROM {TABLE}_intent WHERE resolved_at IS NULL",
        f"SELECT client_order_id FROM {TABLE}_intent WHERE {_TAKEN}",
    )
    entries, opened, taken = ({str(row[0]) for row in _ask(target, sql)} for sql in asked)
    said = set(acknowledged.read_text().split()) if acknowledged.exists() else set()
    placed = [str(line["client_order_id"]) for line in exchange.orders]
    notes = said | taken  # what the engine knew, by its own file or by its note in the sink
    known = notes | entries | opened
    lost = [one for one in placed if one not in known]
    again = [one for one, times in Counter(placed).items() if times > 1] + sorted(notes & entries)
    again += sorted(taken - set(placed))  # noted as taken, and the exchange knows nothing of it
    acknowledged_there, noted, held, left = (len(one & set(placed)) for one in (notes, taken, entries, opened))
    return Verdict(kills, len(placed), acknowledged_there, noted, held, left, lost, again)


def run(target: str, folder: Path, kills: int, *, seed: int, seconds: float = float("inf")) -> Verdict:
    until = time.monotonic() + seconds
    with in_process(folder / "exchange.jsonl") as exchange:
        acknowledged = folder / "acknowledged"
        with _opened(target) as sink:  # type: ignore[attr-defined]
            sink.intents()
        done = 0
        while done < kills and time.monotonic() < until:
            _killed(target, exchange.url, acknowledged, seed + done, noted=done % NOTED_ONE_IN == 0)
            done += 1
        return judged(target, exchange, acknowledged, done)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.engine_kills")
    parser.add_argument("--kills", type=int, default=10_000, help="on each engine")
    parser.add_argument("--minutes", type=float, default=30.0, help="at most, on each engine")
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--target", help="only this one: a path or a DSN")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.target:
        verdict = run(given.target, given.folder, given.kills, seed=1, seconds=given.minutes * 60)
        print(verdict, flush=True)
        return 0 if verdict.is_clean else 1
    clean = True
    server = Postgres(durable=True).start()
    try:
        for name, target in (("sqlite", ""), ("postgres", server.dsn("postgres"))):
            if given.only not in (None, name):
                continue
            with tempfile.TemporaryDirectory() as folder:
                place = target or f"{folder}/orders.db"
                verdict = run(place, Path(folder), given.kills, seed=time.time_ns(), seconds=given.minutes * 60)
                print(f"{name}: {verdict}", *verdict.lost[:5], *verdict.doubled[:5])
                clean = clean and verdict.is_clean
    finally:
        server.stop()
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())

"""The practice exchange for tests: in a thread or in a process of its own, told what to do over its own paths."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from venues.practice import PracticeExchange

Line = dict[str, Any]
_KEYS = (("APCA-API-KEY-ID", "practice"), ("APCA-API-SECRET-KEY", "practice"))


class Exchange:
    """Whatever runs at `url`; each method is one request under /practice."""

    def __init__(self, url: str) -> None:
        self.url = url

    def fault(
        self, name: str, *, symbol: str = "*", on: str = "new", times: int | None = 1, seconds: float | None = None
    ) -> None:
        body = {"symbol": symbol, "fault": name, "on": on, "times": times, "seconds": seconds}
        self._ask("POST", "faults", body)

    def clear(self) -> None:
        """Ends the faults, and the delay of whoever waits."""
        self._ask("DELETE", "faults")

    def keep_waiting(self, *, on: str = "new") -> None:
        """No answer until `clear`, so that what a test does meanwhile may take as long as it takes."""
        self.fault("delay", on=on, times=None, seconds=300)

    @property
    def orders(self) -> list[Line]:
        return list(self._ask("GET", "orders"))

    @property
    def posts(self) -> list[Line]:
        """Every request that was to change an order, as it came."""
        return [line for line in self._ask("GET", "ledger") if line["type"] == "request"]

    @property
    def requests(self) -> Line:
        return dict(self._ask("GET", "requests"))

    def quote(self, symbol: str, bid: object = None, ask: object = None, at: str | None = None) -> None:
        """Fix a market's quote; without prices it has none."""
        asked = {"symbol": symbol, "bid": bid and str(bid), "ask": ask and str(ask), "at": at}
        self._ask("POST", "quotes", asked)

    def hold(self, venue: str, symbol: str, quantity: object, account: str = "") -> None:
        """Give an account, or all, a position to begin with."""
        asked = {"venue": venue, "symbol": symbol, "quantity": str(quantity), "account": account}
        self._ask("POST", "positions", asked)

    def no_quotes(self) -> Exchange:
        """Without the markets' own quotes, so that a test's prices are through no market."""
        self._ask("DELETE", "quotes")
        return self

    def mark(self, order_id: str, state: str, **more: object) -> None:
        self._ask("POST", f"orders/{order_id}", {"state": state, **more})

    def place(self, **order: str) -> Line:
        """An order of somebody else's, or of ours from before, over Alpaca's own path."""
        body = json.dumps({"type": "limit", "time_in_force": "day", **order}).encode()
        request = urllib.request.Request(f"{self.url}/v2/orders", data=body, method="POST")
        for name, value in (("content-type", "application/json"), *_KEYS):
            request.add_header(name, value)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return dict(json.load(answer))

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/practice/{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)


@contextmanager
def in_thread() -> Iterator[Exchange]:
    """Quick to start; nothing of it is on disk."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    exchange = PracticeExchange(fsync=False)

    def run() -> None:
        loop.run_until_complete(exchange.start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(exchange.stop())
        loop.close()

    thread = threading.Thread(target=run, name="practice", daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield Exchange(exchange.url).no_quotes()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)


@contextmanager
def in_process(ledger: Path, *, fsync: bool = False) -> Iterator[Exchange]:
    """Its ledger is on disk before it answers, and survives whoever is killed."""
    words = [sys.executable, "-m", "venues.practice", "--ledger", str(ledger), *([] if fsync else ["--no-fsync"])]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    try:
        assert process.stdout is not None
        yield Exchange(process.stdout.readline().strip()).no_quotes()
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()

"""An engine's venues, sinks and entries, for tests of what engines call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from backends import DeadLetteredOrder, DLQSink, InMemoryDLQ, PostgresDLQ, SQLiteDLQ, Store, open_store
from console import clock

READ_TIMEOUT = "ReadTimeout: no answer in 10 s"
NOT_SENT = "ConnectError: failed to establish a new connection"
ARRIVED: dict[str, Any] = {"override": ("may-have-arrived",), "note": "nothing is there"}
SQL = SQLiteDLQ | PostgresDLQ
T = TypeVar("T")


@dataclass
class Venue:
    """An engine's venue that cannot be asked."""

    answers: list[Any] = field(default_factory=lambda: ["ord_1"])
    seen: list[Any] = field(default_factory=list)
    paper: bool = False

    def submit(self, action: Any) -> Any:
        self.seen.append(action)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@dataclass
class AskableVenue(Venue):
    found: Any = None
    asked: list[str] = field(default_factory=list)

    def find(self, client_order_id: str) -> Any:
        self.asked.append(client_order_id)
        if isinstance(self.found, BaseException):
            raise self.found
        return self.found


@dataclass
class Audit:
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def append(self, category: str, payload: Mapping[str, Any]) -> None:
        self.events.append((category, dict(payload)))


def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A sink of the kind that the fixture's parameter names."""
    made: DLQSink
    match request.param:
        case "memory":
            made = InMemoryDLQ()
        case "sqlite":
            made = SQLiteDLQ(tmp_path / "orders.db")
        case _:
            made = PostgresDLQ(request.getfixturevalue("postgres_db"))
    yield made
    made.close()


def written(
    sink: DLQSink, error: str = NOT_SENT, *, age: timedelta = timedelta(minutes=2), action: Any = None, **columns: Any
) -> DeadLetteredOrder:
    entry = DeadLetteredOrder(
        dlq_id=f"dlq_{sink.depth():016x}",
        captured_at=clock.now() - age,
        venue_name="alpaca",
        account_id="main",
        market_id="AAPL",
        side="buy",
        quantity=100.0,
        order_type="limit",
        price=180.25,
        client_order_id="cid-1",
        error=error,
        action_json="" if action is None else json.dumps(action),
    )
    entry = replace(entry, **columns)
    sink.write(entry)
    return entry


def an_order(**told: Any) -> SimpleNamespace:
    usual = {"id": "ord_9", "status": "open", "qty": "100", "side": "buy", "limit_price": "180.25", "symbol": "AAPL"}
    return SimpleNamespace(**(usual | told))


def in_store(sink: SQL, work: Callable[[Store], Awaitable[T]]) -> T:
    async def run() -> T:
        store = await open_store(sink.url)
        try:
            return await work(store)
        finally:
            await store.aclose()

    return asyncio.run(run())


def counted(sink: DLQSink, entry: DeadLetteredOrder) -> tuple[bool, int]:
    now = sink.get(entry.dlq_id)
    assert now is not None
    return now.dismissed, now.retry_count

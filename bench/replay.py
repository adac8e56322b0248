"""A batch against the practice exchange: how much of a rate limit it uses, how fast it is without one, what plans cost.

`python -m bench.replay [--rows 10000] [--short]`, the rows of the large plan. Store and venue sync what they write.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from backends import open_store
from backends.records import Actor
from backends.store import Store
from bench.figure import Figure, alternately, finish, limit, options, show
from console import clock
from console.services.replay import flow_control as breaker
from console.services.replay.batch import ReplayBatch
from console.services.replay.plan import ReplayPlan, plan
from console.services.replay.preflight import Preflight, ReplayRequest
from console.services.replay.venue_pool import VenueAccount, VenuePool
from console.settings.config import Limits, VenueConfig
from tests.support.exchange import Exchange, in_process
from tests.support.orders import row, sqlite_store
from tests.support.planning import command, entry, facts
from tests.support.session import ident
from venues import Credentials

ACTOR = Actor("bench", "bench", "here", "bench")
BATCH = 400
ALONE = 100
PLANNED = 10_000
RATED = 150
PER_MINUTE = 1800
ORDERS, MARKETS = 50, 10
LIMITS = Limits(max_batch=100_000, four_eyes_over=Decimal(10**12), stale_after=timedelta(hours=8))
STORE_CALLS = ("claim", "intend", "conclude", "release", "halted", "clock")
VENUE_CALLS = ("submit", "lookup")


@dataclass
class Meter:
    """Wall-clock time in which at least one call is under way."""

    under_way: int = 0
    since: float = 0.0
    total: float = 0.0
    calls: dict[str, list[float]] = field(default_factory=dict)

    def around(self, owner: object, names: tuple[str, ...]) -> None:
        for name in names:
            setattr(owner, name, self._timed(name, getattr(owner, name)))

    def _timed(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def timed(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            if not self.under_way:
                self.since = began
            self.under_way += 1
            try:
                return await call(*given, **named)
            finally:
                ended = time.perf_counter()
                self.under_way -= 1
                self.calls.setdefault(name, []).append(ended - began)
                if not self.under_way:
                    self.total += ended - self.since

        return timed


@dataclass(frozen=True)
class Batch:
    accepted: int
    seconds: float
    requests: int
    inside: float  # seconds with the store or the venue at work
    calls: dict[str, list[float]]
    processor: float  # seconds of the batch's own thread; the store's driver and the venue have others


async def batch(folder: Path, exchange: Exchange, count: int, per_minute: int) -> Batch:
    now = datetime.now(UTC)
    rows = [
        row(n, captured_at=now, market_id=f"T{n}", quantity=float(n), price=1.0, client_order_id=f"{folder.name}-{n}")
        for n in range(1, count + 1)
    ]
    store = await open_store(sqlite_store(folder / "orders.db", rows))
    settings = {"alpaca": VenueConfig(paper_endpoint=exchange.url, rate_per_minute=per_minute)}
    pool = VenuePool(settings, lambda *_: Credentials({"api_key": "k", "secret_key": "s"}))
    try:
        made = await planned(store, pool, count)
        meter = Meter()
        meter.around(store, STORE_CALLS)
        meter.around(await pool.client(VenueAccount("alpaca", "main"), "paper"), VENUE_CALLS)
        before = exchange.requests["total"]
        began, busy = time.perf_counter(), time.thread_time()
        ended = await ReplayBatch(store, pool, ACTOR, clock.now).run(made)
        seconds, processor = time.perf_counter() - began, time.thread_time() - busy
        requests = exchange.requests["total"] - before
        accepted = sum(1 for one in ended if one.outcome == "accepted")
        return Batch(accepted, seconds, requests, meter.total, meter.calls, processor)
    finally:
        await pool.aclose()
        await store.aclose()


async def planned(store: Store, pool: VenuePool, count: int) -> ReplayPlan:
    entries = list((await store.many(tuple(ident(n) for n in range(1, count + 1)))).values())
    preflight = Preflight(store, pool, LIMITS, clock.now)
    made = plan(entries, await preflight.facts(entries, ReplayRequest("paper")))
    assert len(made.steps) == count, made.blocked[:3]
    return made


def plan_seconds(count: int) -> float:
    commands = [command(n, quantity=Decimal(1 + n % 4000), market_id=f"M{n}") for n in range(1, count + 1)]
    entries, known = [entry(one) for one in commands], facts(commands, limits=LIMITS)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        assert len(plan(entries, known).steps) == count
        times.append(time.perf_counter() - began)
    return statistics.median(times)


@contextmanager
def ground() -> Iterator[tuple[Path, Exchange]]:
    with (
        tempfile.TemporaryDirectory(prefix="dlq-bench-") as folder,
        in_process(Path(folder) / "venue.jsonl", fsync=True) as exchange,
    ):
        yield Path(folder), exchange


def unlimited() -> list[bool]:
    with ground() as (folder, exchange):
        done = asyncio.run(batch(folder, exchange, BATCH, 10**9))
    assert done.accepted == BATCH
    for name, times in sorted(done.calls.items()):
        middle = statistics.median(times) * 1000
        print(f"     {name:<10} {len(times):5} calls, median {middle:6.2f} ms, all {sum(times):6.2f} s")
    print(f"     {BATCH / done.seconds:.0f} accepted orders a second")
    print(f"     {done.requests / BATCH:.2f} requests and {1000 * done.processor / BATCH:.2f} ms of processor an order")
    return [limit("replay.batch", 100 * done.seconds / BATCH)]


def one_by_one() -> list[bool]:
    """With one entry under way at a time, whatever is neither store nor venue is ours."""
    room, breaker.FAILURES = breaker.FAILURES, 1
    try:
        with ground() as (folder, exchange):
            done = asyncio.run(batch(folder, exchange, ALONE, 10**9))
    finally:
        breaker.FAILURES = room
    outside = (1 - done.inside / done.seconds) * 100
    print(
        f"     {1000 * done.seconds / ALONE:.1f} ms an entry, {1000 * done.inside / ALONE:.1f} ms of it store and venue"
    )
    return [limit("replay.outside", outside)]


def rated() -> list[bool]:
    with ground() as (folder, exchange):
        done = asyncio.run(batch(folder, exchange, RATED, PER_MINUTE))
    assert (done.accepted, done.requests) == (RATED, 2 * RATED)
    allowed = (done.requests - 1) * 60 / PER_MINUTE
    used = allowed / done.seconds * 100
    print(f"     {done.requests} requests in {done.seconds:.2f} s at {PER_MINUTE} a minute: {used:.1f} % of the rate")
    return [limit("replay.rate", (done.seconds / allowed - 1) * 100)]


def planning(rows: int) -> list[bool]:
    small, large = plan_seconds(rows // 10) * 1000, plan_seconds(rows) * 1000
    return [show(Figure("replay.plan", large, small * 10, "ms", f"{rows:,} entries")).good]


def looking() -> list[bool]:
    """Planning asks each market once: its cost over a plan without looks, and over a look at one market."""
    with ground() as (folder, exchange):
        full, blind, one = asyncio.run(look_times(folder, exchange))
    print(f"     plan {blind:.1f} ms without looks, {full:.1f} ms with them; one look at one market {one:.1f} ms")
    allowed = 1.5 * blind + MARKETS * one
    return [show(Figure("replay.looks", full, allowed, "ms")).good]


async def look_times(folder: Path, exchange: Exchange) -> tuple[float, float, float]:
    """Median milliseconds of a plan with looks, of one without, and of a look at one market."""
    now = datetime.now(UTC)
    rows = [
        row(n, captured_at=now, market_id=f"M{n % MARKETS}X", quantity=float(n), price=1.0, client_order_id=f"look-{n}")
        for n in range(1, ORDERS + 1)
    ]
    store = await open_store(sqlite_store(folder / "orders.db", rows))
    settings = {"alpaca": VenueConfig(paper_endpoint=exchange.url)}
    pool = VenuePool(settings, lambda *_: Credentials({"api_key": "k", "secret_key": "s"}))
    try:
        client: Any = await pool.client(VenueAccount("alpaca", "main"), "paper")
        looks, action = client.look, command(1, market_id="M1X").action

        async def nothing(_: object) -> dict[str, object]:
            return {}

        async def blind() -> None:
            client.look = nothing
            await planned(store, pool, ORDERS)
            client.look = looks

        await planned(store, pool, ORDERS)
        full_ms, blind_ms = await alternately(lambda: planned(store, pool, ORDERS), blind, rounds=9)
        one_ms, _ = await alternately(lambda: looks([action]), blind, rounds=9)
        return full_ms, blind_ms, one_ms
    finally:
        await pool.aclose()
        await store.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="where a batch spends its time, and nothing else")
    args = options(parser, PLANNED, PLANNED)
    if args.profile:
        with ground() as (folder, exchange), cProfile.Profile() as profile:
            asyncio.run(batch(folder, exchange, BATCH, 10**9))
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    rows = min(args.rows, PLANNED)
    finish("replay", [*unlimited(), *one_by_one(), *rated(), *planning(rows), *looking()])


if __name__ == "__main__":
    main()

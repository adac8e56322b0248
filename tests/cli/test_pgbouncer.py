"""Every verb through a real pgbouncer in transaction mode, in front of one or two sessions of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backends import open_store
from backends.sql.store import SQLStore
from tests.support.command import Console
from tests.support.exchange import Exchange, in_thread
from tests.support.pgbouncer import PROGRAM, PgBouncer
from tests.support.store import ACTOR, PostgresRig, order_row, pick, why
from tests.support.watch import listening

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed (Debian: apt install pgbouncer)")
_ROWS = 8


@pytest.fixture
def pooled(postgres_db: str) -> Iterator[Callable[[int], str]]:
    """A store of ordinary orders, through a pool of so many sessions."""
    pools: list[PgBouncer] = []

    def made(size: int) -> str:
        now = datetime.now(UTC) - timedelta(seconds=5)
        asyncio.run(
            PostgresRig(postgres_db).make([order_row(n, captured_at=now, quantity=n + 1.0) for n in range(_ROWS)])
        )
        pools.append(PgBouncer(postgres_db, size=size).start())
        return pools[-1].dsn(postgres_db)

    yield made
    for pool in pools:
        pool.stop()


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with in_thread() as running:
        yield running


def ident(number: int) -> str:
    return f"dlq_{number:016x}"


def test_every_verb_works(pooled: Callable[[int], str], exchange: Exchange, tmp_path: Path) -> None:
    dlq = Console(tmp_path, pooled(1), exchange.url)

    def said(*words: str, code: int = 0) -> str:
        ran = dlq.inline(*words)
        assert ran.code == code, (words, ran.err)
        return ran.out

    assert said("list").count("dlq_") == _ROWS
    assert '"pending"' in said("show", ident(0), "--json")
    said("dismiss", ident(0), ident(1), "--reason", "market-closed", "--yes")
    said("restore", ident(1), "--yes")
    assert "replayed" in said("replay", ident(2), "--paper", "--yes")
    exchange.fault("accept_then_drop")
    said("replay", ident(3), "--paper", "--yes", code=3)
    exchange.clear()
    assert "replayed" in said("reconcile", "--paper")
    said("halt", "--note", "look")
    said("replay", ident(4), "--paper", "--yes", code=4)
    said("resume", "--note", "go on")
    assert said("approve") == ""
    assert "dlq_" in said("metrics")
    said("check")
    said("groups")
    said("export", "--format", "jsonl")
    assert "0" not in said("audit", "verify").split()[:1]
    assert "pooler" in said("doctor")


async def commit_from_both(target: str) -> tuple[int, int]:
    """Two consoles dismiss and restore at once. Returns how many acts each did."""

    async def console(numbers: tuple[int, ...]) -> int:
        store = await open_store(target)
        done = 0
        for _ in range(3):
            done += len((await store.dismiss(await pick(store, *numbers), ACTOR, why())).done)
            done += len((await store.restore(await pick(store, *numbers), ACTOR, why())).done)
        await store.aclose()
        return done

    first, second = await asyncio.gather(console((0, 1)), console((2, 3)))
    return first, second


@pytest.mark.parametrize("size", [1, 2])
def test_two_consoles_share_a_small_pool(pooled: Callable[[int], str], size: int, tmp_path: Path) -> None:
    target = pooled(size)
    assert asyncio.run(commit_from_both(target)) == (12, 12)

    def listed(_: int) -> Any:
        return Console(tmp_path, target, "http://127.0.0.1:9")("list", timeout=60)

    with ThreadPoolExecutor(2) as threads:
        assert [ran.code for ran in threads.map(listed, range(2))] == [0, 0]


def test_changes_are_polled_for(pooled: Callable[[int], str], postgres_db: str) -> None:
    async def heard() -> str:
        store = await open_store(pooled_target)
        assert isinstance(store, SQLStore)
        assert {"pooler"} <= {finding.code for finding in store.info.findings}
        async with listening(store) as ear:
            await PostgresRig(postgres_db).insert(order_row(99))
            kind = (await ear.next()).kind
        await store.aclose()
        return kind

    pooled_target = pooled(1)
    assert asyncio.run(heard()) == "changed"

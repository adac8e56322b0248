"""The store goes away in the middle of a batch: locked, full, restarted. No send without its intent; all resumes."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backends import engine
from backends.records import ActContext
from console.services.replay import attempt as record
from console.settings.config import VenueConfig
from tests.faults import checker
from tests.support.command import Console
from tests.support.exchange import in_process
from tests.support.orders import postgres_store, row, sqlite_store
from tests.support.postgres import Postgres
from tests.support.session import Stage, fresh, ident
from tests.support.venue.in_process import FakeVenue
from venues import Prepared

ENTRIES = 40


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.2)
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.05)
    monkeypatch.setattr(record, "_RECORD_TRIES", 4)
    monkeypatch.setattr(record, "_PATIENCE_SECONDS", 0.3)


def window(seconds: float) -> dict[str, VenueConfig]:
    return {"fake": VenueConfig(visibility_seconds=seconds)}


@contextmanager
def locked(target: str) -> Iterator[None]:
    """Another program writes, and does not come to an end."""
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


async def test_a_locked_store_sends_nothing_and_says_so(tmp_path: Path) -> None:
    target = sqlite_store(tmp_path / "orders.db", [fresh(1), fresh(2)])
    async with Stage(target) as stage:
        await stage.store.record("warm", (), stage.actor, _why())
        made = await stage.plan(1, 2)
        with locked(target):
            told = await stage.run(made)
        assert {one.outcome for one in told.values()} == {"skipped"}
        assert all("locked by another program" in (one.detail or "") for one in told.values())
        assert all((one.detail or "").endswith("nothing was sent") for one in told.values())
        assert stage.venue.posts == []
        assert {one.outcome for one in (await stage.replay(1, 2)).values()} == {"accepted"}


def _why() -> ActContext:
    return ActContext(datetime.now(UTC), "op")


@pytest.mark.parametrize("moment", ["look-up", "send"])
async def test_a_store_that_is_locked_while_the_venue_is_talked_to(tmp_path: Path, moment: str) -> None:
    target = sqlite_store(tmp_path / "orders.db", [fresh(1)])
    holder = closing(sqlite3.connect(target, isolation_level=None, check_same_thread=False))
    with holder as other:

        async def lock(_: Prepared) -> None:
            other.execute("BEGIN IMMEDIATE")

        venue = FakeVenue(before_lookup=lock) if moment == "look-up" else FakeVenue(before_submit=lock)
        async with Stage(target, venue=venue, settings=window(0)) as stage:
            ended = await stage.replay_one(1)
            assert other.in_transaction
            other.execute("ROLLBACK")
            venue.before_lookup = venue.before_submit = None
            if moment == "look-up":
                assert (ended.outcome, venue.posts) == ("skipped", [])
                assert (await stage.shows(1))[0] == "pending"
                return
            assert (ended.outcome, ended.venue_order_id) == ("unknown", "ord_1")
            assert "could not be recorded" in (ended.detail or "")
            assert (await stage.shows(1))[0] == "in_flight"
            assert (await stage.reconcile(1))[ident(1)].outcome == "accepted"
            assert await stage.shows(1) == ("replayed", 0)


async def test_a_batch_waits_for_a_store_that_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_PATIENCE_SECONDS", 10.0)
    target = sqlite_store(tmp_path / "orders.db", [fresh(n) for n in range(1, 8)])
    async with Stage(target) as stage:
        made = await stage.plan(*range(1, 8))
        with closing(sqlite3.connect(target, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            asyncio.get_running_loop().call_later(0.6, other.execute, "ROLLBACK")
            told = await stage.run(made)
    assert {one.outcome for one in told.values()} == {"accepted"}


async def test_a_lock_that_ends_in_time_costs_nothing(tmp_path: Path) -> None:
    target = sqlite_store(tmp_path / "orders.db", [fresh(1)])
    with closing(sqlite3.connect(target, isolation_level=None, check_same_thread=False)) as other:

        async def lock(_: Prepared) -> None:
            other.execute("BEGIN IMMEDIATE")
            asyncio.get_running_loop().call_later(0.3, other.execute, "ROLLBACK")

        async with Stage(target, venue=FakeVenue(before_submit=lock)) as stage:
            assert (await stage.replay_one(1)).outcome == "accepted"
            assert await stage.shows(1) == ("replayed", 0)


Fill = Callable[[], None]


@contextmanager
def small_disk(folder: Path) -> Iterator[tuple[Path, Fill, Fill]]:
    """A file system of two megabytes: (where, fill it, make room again)."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system; the other way of filling a disk runs everywhere")
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this machine does not let root mount a file system")
    filler = folder / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 512)
            except OSError:
                return

    try:
        yield folder, fill, filler.unlink
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def small_files(folder: Path) -> Iterator[tuple[Path, Fill, Fill]]:
    """No file may grow any more, of this process."""
    folder.mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        sizes = [path.stat().st_size for path in folder.iterdir()]
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes), before[1]))

    def free() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    try:
        yield folder, fill, free
    finally:
        free()


@pytest.mark.parametrize("disk", [small_disk, small_files])
async def test_a_disk_that_fills_up_between_intent_and_outcome(
    tmp_path: Path, disk: Callable[[Path], AbstractContextManager[tuple[Path, Fill, Fill]]]
) -> None:
    with disk(tmp_path / "disk") as (folder, fill, free):
        target = sqlite_store(folder / "orders.db", [fresh(1), fresh(2), fresh(3)])

        async def full(_: Prepared) -> None:
            fill()

        async with Stage(target, settings=window(0)) as stage:
            stage.venue.before_submit = full
            told = await stage.replay(1, 2, 3)
            stage.venue.before_submit = None
            assert [told[ident(n)].outcome for n in (1, 2, 3)] == ["unknown", "skipped", "skipped"]
            assert "could not be recorded" in (told[ident(1)].detail or "")
            assert (told[ident(2)].detail or "").endswith("nothing was sent")
            assert len(stage.venue.posts) == 1  # the one whose intent was on disk
            free()
            assert (await stage.shows(1))[0] == "in_flight"
            assert (await stage.reconcile(1))[ident(1)].outcome == "accepted"
            assert {one.outcome for one in (await stage.replay(2, 3)).values()} == {"accepted"}
        with closing(sqlite3.connect(target)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_postgres_that_is_restarted_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    server = Postgres(durable=True).start()
    ledger = tmp_path / "venue.jsonl"
    try:
        target = _filled(server)
        with in_process(ledger) as exchange:
            limits = {"max_batch": ENTRIES, "four_eyes_over": 10**9}
            settings = {"rate_per_minute": 1800, "visibility_seconds": 0.2, "timeout": 3.0}
            console = Console(tmp_path, target, exchange.url, limits=limits, settings=settings)
            ids = [ident(n) for n in range(1, ENTRIES + 1)]
            process = console.start("replay", *ids, "--paper", "--json")
            assert process.stdout is not None
            first = [process.stdout.readline() for _ in range(8)]
            server.down()
            server.up()
            rest, err = process.communicate(timeout=120)
            outcomes = [json.loads(line)["outcome"] for line in (*first, *rest.splitlines())]
            assert process.returncode in (0, 3, 4), err
            assert "Traceback" not in err
            assert len(outcomes) == ENTRIES
            assert set(outcomes) <= {"accepted", "not_sent", "skipped", "unknown"}
            store = checker.read_store(target)
            assert checker.check(store, checker.read_ledger(ledger), expected=ENTRIES) == []
            _resume(console)
            assert len(exchange.orders) == ENTRIES
        store = checker.read_store(target)
        assert checker.check(store, checker.read_ledger(ledger), expected=ENTRIES, phase="final") == []
    finally:
        server.stop()


def _filled(server: Postgres) -> str:
    now = datetime.now(UTC)
    rows = [
        row(n, captured_at=now, market_id=f"T{n}", quantity=float(n), price=1.0, client_order_id=f"cid-{n}")
        for n in range(1, ENTRIES + 1)
    ]
    return postgres_store(server.dsn("postgres"), rows)


def _resume(console: Console) -> None:
    """What an operator does afterwards: reconcile what is in doubt, send what is left."""
    for _ in range(10):
        console.inline("reconcile", "--paper")
        left = [one["dlq_id"] for one in console.inline("list", "--json").rows]
        if not left:
            return
        ran = console.inline("replay", *left, "--paper", "--json")
        assert ran.code in (0, 4), ran.err
    raise AssertionError(ran.out)

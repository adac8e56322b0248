"""Fixtures every suite shares: a real Postgres per worker, an empty database per test."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.databases import Databases
from tests.support.postgres import Postgres

# A suite in the background, or under nohup, starts with these ignored, and so would every program that a test
# starts and then interrupts. A handler is not inherited: such programs begin with the default.
for _signal in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_signal) == signal.SIG_IGN:
        signal.signal(_signal, lambda *_: None)

# Many tests start the command as a process of its own: without bytecode each of them compiles the whole product first.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The screens have other colours where the terminal that the suite runs in has fewer; the stored pictures have all.
os.environ["COLORTERM"] = "truecolor"

# The tests' databases wait for the disk more than they compute; in memory they do the same without the wait.
_IN_MEMORY = "/dev/shm"
_ROOM = 4 << 30
if "TMPDIR" not in os.environ and os.path.ismount(_IN_MEMORY) and shutil.disk_usage(_IN_MEMORY).free > _ROOM:
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = _IN_MEMORY

# On a busy machine an example may take a second, and making one too: neither is a failure.
settings.register_profile("dlq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dlq")

gc.disable()  # until the tests are collected: next to nothing of what that makes is ever garbage

_STATE = tempfile.mkdtemp(prefix="dlq-state-")
_numbers = itertools.count()

# Each waits out a client's time limit. Every client still meets `delay` on a new order and `slow_headers` on a cancel.
_LEFT_TO_FAULTS = ("-cancel-delay]", "-replace-delay]", "-new-slow_headers]", "-replace-slow_headers]")


# Their tests wait for terminals, timers and processes more than they compute.
_WAITING = {"attacks", "cli", "faults", "screens", "terminal"}
_LAST_BEGINS = 0.8  # of the rest: what waits longest must not be what everybody waits for at the end


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the cells above out, except with DLQ_EVERY_CELL=1, which `make faults` sets, and spreads what waits."""
    if os.environ.get("DLQ_EVERY_CELL") != "1":
        left = [one for one in items if one.path.name == "test_faults.py" and one.name.endswith(_LEFT_TO_FAULTS)]
        items[:] = [one for one in items if one not in left]
        config.hook.pytest_deselected(items=left)
    if hasattr(config, "workerinput"):
        items[:] = _spread(items)


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """One worker runs a file of tests that wait, while the others compute; such files come evenly among the rest."""
    waiting: dict[Path, list[pytest.Item]] = {}
    rest: list[pytest.Item] = []
    for one in items:
        folder = one.path.relative_to(one.config.rootpath).parts[1]
        (waiting.setdefault(one.path, []) if folder in _WAITING else rest).append(one)
    step = int(len(rest) * _LAST_BEGINS / (len(waiting) or 1))
    if not step:
        return items
    ordered: list[pytest.Item] = []
    for number, (path, those) in enumerate(sorted(waiting.items(), key=lambda two: len(two[1]), reverse=True)):
        for one in those:
            if one.get_closest_marker("xdist_group") is None:
                one.add_marker(pytest.mark.xdist_group("/".join(path.parts[-2:])))
        ordered += [*those, *rest[number * step : (number + 1) * step]]
    return ordered + rest[len(waiting) * step :]


def pytest_collection_finish() -> None:
    """What is loaded by now stays: no need to look for garbage in it, not even once."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Pytest looks five times for what was never closed; once it was found, there is nothing left to look through."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    shutil.rmtree(_STATE, ignore_errors=True)


@pytest.fixture(autouse=True)
def _state_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tests make the same store: what this machine remembers of one ledger is no news about another."""
    monkeypatch.setenv("XDG_STATE_HOME", f"{_STATE}/{next(_numbers)}")


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """A DSN with {db} in it."""
    if given := os.environ.get("DLQ_TEST_PG_DSN"):
        yield given
        return
    server = Postgres().start()
    try:
        yield server.dsn("{db}")
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_databases(postgres_dsn: str) -> Iterator[Databases]:
    databases = Databases(postgres_dsn)
    yield databases
    databases.close()


@pytest.fixture
def postgres_db(postgres_databases: Databases) -> Iterator[str]:
    """The DSN of an empty database of its own; roles named `…_<database>` go with it."""
    name = postgres_databases.take()
    yield postgres_databases.address(name)
    postgres_databases.give_back(name)

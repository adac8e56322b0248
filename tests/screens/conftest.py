"""Fixtures for the screens: a store of twelve entries, and a practice venue on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.app import Stage, make_store, twelve
from tests.support.exchange import Exchange, in_thread


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(make_store(tmp_path / "orders.db", twelve()))


@pytest.fixture
def venue() -> Iterator[Exchange]:
    with in_thread() as exchange:
        yield exchange

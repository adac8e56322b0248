"""The three sinks, each on a fresh place of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends import DLQSink
from tests.support.sink import Kind, opened


def _target(kind: Kind, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "postgres":
        return str(request.getfixturevalue("postgres_db"))
    return str(tmp_path / "engine dlq.db")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def sink(kind: Kind, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DLQSink]:
    made = opened(kind, _target(kind, request, tmp_path))
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Kind, str]:
    """Where a sink that outlives its process can be opened; nothing is there yet."""
    chosen: Kind = request.param
    return chosen, _target(chosen, request, tmp_path)

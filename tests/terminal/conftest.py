"""A desk for the terminal: an exchange as a process of its own, a store, and the console in a pty on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.exchange import Exchange, in_process


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Exchange]:
    with in_process(tmp_path / "venue.jsonl") as exchange:
        yield exchange

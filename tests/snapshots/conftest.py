"""The stores of the scenes, written once a session and copied for each."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.snapshots.order_store import stores


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("scenes")
    asyncio.run(stores(home))
    return home


@pytest.fixture
def store(written: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda data: Path(shutil.copy(written / f"{data}.db", tmp_path / "orders.db"))

"""The stores of the scenes, written once a session and copied for each; the comparison with a stored text."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from console.app import ConsoleApp
from tests.support.snapshots.layout_states import LayoutScene
from tests.support.snapshots.order_store import stores
from tests.support.snapshots.play import Play
from tests.support.snapshots.states import Size
from tests.support.snapshots.text import Compare, compare, file_of, take_text


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("scenes")
    asyncio.run(stores(home))
    return home


@pytest.fixture
def store(written: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda data: Path(shutil.copy(written / f"{data}.db", tmp_path / "orders.db"))


@pytest.fixture
def filled(postgres_db: str) -> Callable[[LayoutScene], str]:
    """Writes the entries of a scene into a database of its own; returns the database's address."""

    def fill(scene: LayoutScene) -> str:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(scene.fill(postgres_db))).result()  # type: ignore[arg-type]  # a coroutine
        return postgres_db

    return fill


@pytest.fixture
def text_compare(request: pytest.FixtureRequest) -> Compare:
    """Compares the screen with the stored text; `--snapshot-update` stores the screen instead."""
    update = bool(request.config.getoption("update_snapshots"))

    def check(name: str, app: ConsoleApp, size: Size, play: Play, *, at_every_size: bool) -> None:
        compare(file_of(name, size), take_text(app, size, play, at_every_size=at_every_size), update=update)

    return check

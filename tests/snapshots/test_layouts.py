"""Every screen of a store whose entries are no orders, as it was last looked at and found good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.snapshots.layout_states import LayoutScene, scenes
from tests.support.snapshots.play import rested, then
from tests.support.snapshots.states import Size

EVERY = [(scene, size) for scene in scenes() for size in scene.sizes]


@pytest.mark.parametrize(("scene", "size"), EVERY, ids=[f"{one.name}-{w}x{h}" for one, (w, h) in EVERY])
def test_screen(
    scene: LayoutScene,
    size: Size,
    postgres_db: str,
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(scene.fill(postgres_db))).result()  # type: ignore[arg-type]  # a coroutine
    app = scene.console(postgres_db).console()
    assert snap_compare(app, terminal_size=size, run_before=then(rested, scene.play))

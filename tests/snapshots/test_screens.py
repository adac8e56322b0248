"""Every screen in every state a person could name, as it was last looked at and found good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.snapshots.play import rested, then
from tests.support.snapshots.states import Scene, Size, scenes

EVERY = [(scene, size) for scene in scenes() for size in scene.sizes]


@pytest.mark.parametrize(("scene", "size"), EVERY, ids=[f"{one.name}-{w}x{h}" for one, (w, h) in EVERY])
def test_screen(
    scene: Scene,
    size: Size,
    store: Callable[[str], Path],
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if scene.no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    app = scene.console(store(scene.data)).console()
    assert snap_compare(app, terminal_size=size, run_before=then(rested, scene.play))


def test_names_are_one_each() -> None:
    assert len({scene.name for scene in scenes()}) == len(scenes())

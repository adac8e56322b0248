"""What the screens look like, at 80x24 and 120x40: a change of a pixel is a change to be looked at."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.scenes import SCENES, Scene
from tests.stage import settled

CASES = [(scene, size) for scene in SCENES for size in scene.sizes]


@pytest.mark.parametrize(("scene", "size"), CASES, ids=[f"{scene.name}-{size[0]}x{size[1]}" for scene, size in CASES])
def test_scene(
    scene: Scene, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snap_compare: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    stage = asyncio.run(scene.stage(tmp_path))

    async def play(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await scene.act(pilot)

    assert snap_compare(stage.console(), terminal_size=size, run_before=play)


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 40
    assert len({scene.name for scene in SCENES}) == len(SCENES)

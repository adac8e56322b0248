"""Every screen of a store whose entries are no orders, as it was last looked at and found good."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.snapshots.layout_states import LayoutScene, scenes
from tests.support.snapshots.legible import Wrong
from tests.support.snapshots.play import rested, then
from tests.support.snapshots.states import Size
from tests.support.snapshots.svg_states import is_svg
from tests.support.snapshots.text import Compare

EVERY = [(scene, size) for scene in scenes() for size in scene.sizes]
AS_SVG = [(scene, size) for scene, size in EVERY if is_svg(scene.name, size)]
AS_TEXT = [(scene, size) for scene, size in EVERY if not is_svg(scene.name, size)]


def _ids(of: list[tuple[LayoutScene, Size]]) -> list[str]:
    return [f"{one.name}-{width}x{height}" for one, (width, height) in of]


@pytest.fixture(autouse=True)
def _in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize(("scene", "size"), AS_SVG, ids=_ids(AS_SVG))
def test_screen(
    scene: LayoutScene, size: Size, filled: Callable[[LayoutScene], str], snap_compare: Callable[..., bool]
) -> None:
    app, wrong = scene.console(filled(scene)).console(), Wrong()
    looks = [wrong.look()] if size == scene.sizes[0] else []  # at every size: once a scene is enough
    assert snap_compare(app, terminal_size=size, run_before=then(rested, scene.play, *looks))
    assert not wrong.found, wrong.found


@pytest.mark.parametrize(("scene", "size"), AS_TEXT, ids=_ids(AS_TEXT))
def test_text(scene: LayoutScene, size: Size, filled: Callable[[LayoutScene], str], text_compare: Compare) -> None:
    play = then(rested, scene.play)
    text_compare(scene.name, scene.console(filled(scene)).console(), size, play, at_every_size=size == scene.sizes[0])

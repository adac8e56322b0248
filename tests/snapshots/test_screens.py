"""Every screen in every state a person could name, as it was last looked at and found good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from console.app import ConsoleApp
from console.screens.queue import listing
from tests.support.snapshots.legible import Wrong
from tests.support.snapshots.play import rested, then
from tests.support.snapshots.states import Scene, Size, scenes
from tests.support.snapshots.svg_states import is_svg
from tests.support.snapshots.text import Compare

EVERY = [(scene, size) for scene in scenes() for size in scene.sizes]
AS_SVG = [(scene, size) for scene, size in EVERY if is_svg(scene.name, size)]
AS_TEXT = [(scene, size) for scene, size in EVERY if not is_svg(scene.name, size)]


def _ids(of: list[tuple[Scene, Size]]) -> list[str]:
    return [f"{one.name}-{width}x{height}" for one, (width, height) in of]


@pytest.fixture
def opened(store: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene], ConsoleApp]:
    """Makes the console of a scene."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    def console(scene: Scene) -> ConsoleApp:
        if scene.no_color:
            monkeypatch.setenv("NO_COLOR", "1")
        return scene.console(store(scene.data)).console()

    return console


@pytest.mark.parametrize(("scene", "size"), AS_SVG, ids=_ids(AS_SVG))
def test_screen(
    scene: Scene, size: Size, opened: Callable[[Scene], ConsoleApp], snap_compare: Callable[..., bool]
) -> None:
    app, wrong = opened(scene), Wrong()
    looks = [wrong.look()] if size == scene.sizes[0] else []  # at every size: once a scene is enough
    assert snap_compare(app, terminal_size=size, run_before=then(rested, scene.play, *looks))
    assert not wrong.found, wrong.found


@pytest.mark.parametrize(("scene", "size"), AS_TEXT, ids=_ids(AS_TEXT))
def test_text(scene: Scene, size: Size, opened: Callable[[Scene], ConsoleApp], text_compare: Compare) -> None:
    play = then(rested, scene.play)
    text_compare(scene.name, opened(scene), size, play, at_every_size=size == scene.sizes[0])


def test_a_scene_acts_only_on_what_its_pane_has_read(
    opened: Callable[[Scene], ConsoleApp], text_compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read after the act, the entry would have an event more."""
    monkeypatch.setattr(listing, "_PANE_SECONDS", 1.0)
    scene = next(scene for scene in scenes() if scene.name == "replay-override")
    text_compare(scene.name, opened(scene), scene.sizes[0], then(rested, scene.play), at_every_size=False)


def test_names_are_one_each() -> None:
    assert len({scene.name for scene in scenes()}) == len(scenes())

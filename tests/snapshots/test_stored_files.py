"""The stored screens are those of the named states: none is left over, none is stored twice."""

from __future__ import annotations

from pathlib import Path

from tests.snapshots import test_layouts, test_screens
from tests.support.snapshots.svg_states import IN_BOTH_SIZES, ONE_PER_THEME
from tests.support.snapshots.text import HOME, file_of

MOST_SVGS = 81  # with those of screenshots/ at most 90
SVGS = Path(__file__).parent / "__snapshots__"


def test_every_text_file_belongs_to_a_state() -> None:
    orders = {file_of(scene.name, size) for scene, size in test_screens.AS_TEXT}
    layouts = {file_of(scene.name, size) for scene, size in test_layouts.AS_TEXT}
    assert set(HOME.iterdir()) == orders | layouts
    assert not orders & layouts, "two states have one file"


def test_every_svg_belongs_to_a_state() -> None:
    for module in (test_screens, test_layouts):
        folder = SVGS / module.__name__.rpartition(".")[2]
        wanted = {f"test_screen[{scene.name}-{w}x{h}].svg" for scene, (w, h) in module.AS_SVG}
        assert {path.name for path in folder.iterdir()} == wanted


def test_svgs_are_few() -> None:
    kept = list(SVGS.rglob("*.svg"))
    assert len(kept) <= MOST_SVGS, f"{len(kept)} SVGs are stored, at most {MOST_SVGS}: keep the others as text"


def test_the_states_kept_as_svg_exist() -> None:
    orders = {scene.name for scene, _ in test_screens.AS_SVG}
    layouts = {scene.name for scene, _ in test_layouts.AS_SVG}
    assert orders | layouts == IN_BOTH_SIZES | ONE_PER_THEME

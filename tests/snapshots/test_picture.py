"""The pictures show the console as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.snapshots.pictures import HOME, PICTURES, made_of, render, scene


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_current(name: str, store: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    of = scene(PICTURES[name])
    kept = (HOME / f"{name}.svg").read_text(encoding="utf-8")
    assert render(of, store(of.data)) == kept, "make screenshots"


def test_readme_picture_is_made_of_the_queue() -> None:
    svg = (HOME / "queue.svg").read_text(encoding="utf-8")
    assert made_of(svg) in (HOME / "queue.png").read_bytes(), "make screenshots"


def test_no_picture_tells_of_the_machine() -> None:
    for path in HOME.glob("*.svg"):
        assert not any(word in path.read_text(encoding="utf-8") for word in ("/tmp", "/home", "/root", str(HOME)))

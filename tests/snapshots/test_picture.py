"""The pictures show the console as it is."""

from __future__ import annotations

import re
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


def test_the_animation_plays_what_the_readme_says() -> None:
    """It differs from run to run, by its times and the venue's ids: here only what it is made of."""
    svg = (HOME / "triage.svg").read_text(encoding="utf-8")
    assert len(svg) < 600_000
    assert "screenshots/triage.svg" in (HOME.parent / "README.md").read_text(encoding="utf-8")
    rules = {
        name: float(seconds) for name, seconds in re.findall(r"animation-name:(f\d+);animation-duration:([.\d]+)s", svg)
    }
    assert len(set(rules.values())) == 1
    assert 18 <= min(rules.values()) <= 25
    assert set(re.findall(r'<g class="(f\d+)">', svg)) == set(rules)
    for word in ("venue:alpaca", "COUNT", "Dismiss 2 entries", "Replay 4 entries", "to send", "WHAT BECAME OF IT"):
        assert word in svg


def test_no_picture_tells_of_the_machine() -> None:
    for path in HOME.glob("*.svg"):
        assert not any(word in path.read_text(encoding="utf-8") for word in ("/tmp", "/home", "/root", str(HOME)))

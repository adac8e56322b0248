"""A report of ours as lines of a screen."""

from __future__ import annotations

from console.render.line import plain
from console.render.markdown import markdown_lines


def test_alerts_stand_together_and_apart_from_the_rest() -> None:
    alerts = "\n\n".join(f"> **alert**: {word}" for word in ("one", "two", "three"))
    text = f"# Shift\n\n2026\n\n{alerts}\n\n## What came: 3\n\n- a\n- b\n"
    shown = [plain(one) for one in markdown_lines(text, 60)]
    assert shown == [
        "Shift", "", "2026", "", "! alert: one", "! alert: two", "! alert: three", "", "What came: 3", "", "  a", "  b",
    ]  # fmt: skip

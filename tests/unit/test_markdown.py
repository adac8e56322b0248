"""A report of ours as lines of a screen."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from console.render.line import plain
from console.render.markdown import markdown_lines


def test_alerts_stand_together_and_apart_from_the_rest() -> None:
    alerts = "\n\n".join(f"> **alert**: {word}" for word in ("one", "two", "three"))
    text = f"# Shift\n\n2026\n\n{alerts}\n\n## What came: 3\n\n- a\n- b\n"
    shown = [plain(one) for one in markdown_lines(text, 60)]
    assert shown == [
        "Shift", "", "2026", "", "! alert: one", "! alert: two", "! alert: three", "", "What came: 3", "", "  a", "  b",
    ]  # fmt: skip


@pytest.mark.parametrize("size", [30, 76, 116])
def test_a_table_too_wide_for_the_screen_loses_no_word(size: int) -> None:
    text = (
        "| entry | who | replayed | sent | refused |\n|---|---|---|---|---|\n"
        "| dlq\\_0000000000000014 | demo colleague | 9 paper accepted, 1 paper rejected | 2026-04-18 14:54:00Z | 1 |\n"
    )
    shown = [plain(one) for one in markdown_lines(text, size)]
    assert max(map(cell_len, shown)) <= max(size, 40), "a cell has at least six columns"
    assert "…" not in "".join(shown)
    for word in ("colleague", "accepted,", "rejected", "14:54:00Z"):
        assert any(word in one for one in shown) or size == 30
    assert any("dlq_0000000000000014" in one for one in shown) or size == 30, "an id is of use only whole"


def test_the_cells_of_a_row_stay_in_their_columns() -> None:
    text = "| who | replayed | refused |\n|---|---|---|\n| ann | nine orders accepted | 12 |\n"
    assert [plain(one) for one in markdown_lines(text, 24)] == [
        "who  replayed    refused",
        "ann  nine             12",
        "     orders",
        "     accepted",
    ]

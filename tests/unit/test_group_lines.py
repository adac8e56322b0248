"""The lines of a group: which columns and words each layout has, and how many of it are poisoned."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from backends.index import Cross
from console.render.group import Story, group_header, group_line, story_lines
from console.render.line import Line, plain, width
from console.services.layout_fields import LAYOUTS
from console.services.stats.groups import Group

NOW = datetime(2026, 4, 18, 15, 0, tzinfo=UTC)
GROUP = Group(
    fingerprint="486a1cf5750e",
    title="HTTP 503 after # attempts",
    category="transient",
    count=12,
    states={"pending": 12},
    first_seen=NOW,
    last_seen=NOW,
    retries=72,
    notional=Decimal("4223.15"),
    unpriced=0,
    venues={"here": 12},
    accounts={},
    markets={},
    trend=(1,) * 24,
)
SIZES = (76, 116, 196)


def texts(group: Group, layout: str, size: int) -> tuple[str, str, str]:
    fields = LAYOUTS[layout]
    story = story_lines(Story(group, (Cross("here", "whose", "what", 12),), ()), NOW, size, fields)
    return (
        plain(group_header(size, fields)),
        plain(group_line(group, NOW, size, fields)),
        "\n".join(map(plain, story)),
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("layout", "has", "lacks"),
    [
        ("orders", ("VENUE", "ACCOUNT", "MARKET", "notional 4,223.15", "what"), ("QUEUE", "PROVIDER")),
        ("outbox", ("QUEUE", "72 tries"), ("VENUE", "ACCOUNT", "MARKET", "otional", "NOTIONAL", "whose", "what")),
        ("integration", ("PROVIDER", "TENANT", "whose"), ("VENUE", "ACCOUNT", "MARKET", "otional", "NOTIONAL", "what")),
    ],
)
def test_a_layout_has_its_own_columns(layout: str, has: tuple[str, ...], lacks: tuple[str, ...], size: int) -> None:
    shown = "\n".join(texts(GROUP, layout, size))
    assert [word for word in has if word not in shown] == []
    assert [word for word in lacks if word in shown] == []
    assert ("NOTIONAL" in shown) == (layout == "orders" and size >= 100)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", ["orders", "outbox", "integration"])
def test_poisoned_entries_are_told_in_words_and_move_no_column(layout: str, size: int) -> None:
    _, healthy, told = texts(GROUP, layout, size)
    assert "poison" not in healthy + told
    _, row, story = texts(replace(GROUP, poisoned=3), layout, size)
    assert "3 poisoned" in row
    assert "3 poisoned" in story
    assert row.index("here") == healthy.index("here")


@pytest.mark.parametrize("layout", ["orders", "outbox", "integration"])
def test_a_row_fits_its_screen(layout: str) -> None:
    for size in range(76, 200):
        row: Line = group_line(replace(GROUP, title="x" * 300, poisoned=12), NOW, size, LAYOUTS[layout])
        assert width(row) <= size
        assert width(group_header(size, LAYOUTS[layout])) <= size

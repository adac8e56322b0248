"""docs/filters.md: each of its lines is understood, or refused with the words it promises."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from console.services.browse.filter_syntax import FIELDS, ExpressionError, parse_expression

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text(encoding="utf-8")
NOW = datetime(2026, 4, 18, 15, 0, tzinfo=UTC)


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(title: str) -> list[tuple[str, str]]:
    return re.findall(r"^\| `(.+?)` \| (.+?) \|$", section(title), re.MULTILINE)


@pytest.mark.parametrize("line", [*(line for line, _ in rows("Words")), *re.findall(r"```\n(.+)\n```", PAGE)])
def test_an_example_is_understood(line: str) -> None:
    query = parse_expression(line, NOW)
    assert query.where.criteria or query.classes or query.where.since


@pytest.mark.parametrize(("line", "says"), rows("Errors"))
def test_an_error_says_what_the_page_says(line: str, says: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        parse_expression(line, NOW)
    assert says in str(raised.value)


def test_every_field_is_on_the_page() -> None:
    named = {name for names, _ in rows("Fields") for name in names.split()}
    assert named == {*FIELDS, "action.KEY"}

"""What a filter found is marked where it stands, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console.render.line import HANG, Cell, plain, wrap
from console.render.row import NOTHING, Sought, marked, marked_cell, sought_by
from console.services.browse.filter_syntax import parse_expression

NOW = datetime(2026, 4, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "sought"),
    [
        ("timeout", Sought(("timeout",), ("timeout",))),
        ('"Bad Gateway" 502', Sought(("bad gateway", "502"), ("bad gateway", "502"))),
        ("error:reset,Broken*pipe", Sought(("broken", "reset", "pipe"))),
        ("!timeout venue:alpaca", NOTHING),
        ('!error:reset error:""', NOTHING),
        ("", NOTHING),
    ],
)
def test_what_a_filter_looks_for_in_texts(line: str, sought: Sought) -> None:
    found = sought_by(parse_expression(line, NOW).where)
    assert (set(found.error), set(found.market)) == (set(sought.error), set(sought.market))


@pytest.mark.parametrize(
    ("text", "texts", "parts"),
    [
        ("ReadTimeout after 3", ("timeout",), ["Timeout"]),
        ("МОСКВА", ("москва",), ["МОСКВА"]),
        ("Straße 5", ("strasse",), ["Straße"]),
        ("aß and SS", ("ss",), ["ß", "SS"]),
        ("502 Bad Gateway (502)", ("gateway", "502"), ["502", "Gateway", "502"]),
        ("a.c abc", ("a.c",), ["a.c"]),
        ("nothing here", ("timeout",), []),
    ],
)
def test_every_place_is_marked_in_any_case(text: str, texts: tuple[str, ...], parts: list[str]) -> None:
    made = marked((Cell(text, "dim"),), texts)
    assert plain(made) == text
    assert [cell.text for cell in made if cell.tone == "match"] == parts


def test_only_the_market_of_an_order_is_marked() -> None:
    made = marked_cell(Cell("buy 5 BUYX @ market"), ("buy",), within="BUYX")
    assert [cell.text for cell in made if cell.tone == "match"] == ["BUY"]


@example(text="  ", texts=[" "], size=3)
@given(st.text("abßS ", max_size=60), st.lists(st.text("abs ", min_size=1, max_size=3), max_size=3), st.integers(2, 20))
def test_marking_changes_no_text_and_no_line_break(text: str, texts: list[str], size: int) -> None:
    cells = (Cell("x "), HANG, Cell(text))
    made = marked(cells, tuple(texts))
    assert plain(made) == plain(cells)
    if all(len(word) <= size - 2 for word in text.split()):
        # Blanks at the end of a line show nothing, whichever cell they are in.
        assert [plain(one).rstrip() for one in wrap(made, size)] == [plain(one).rstrip() for one in wrap(cells, size)]

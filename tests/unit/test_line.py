"""Lines of toned text: exact widths, nothing lost in wrapping."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.render.line import HANG, Cell, clip, fit, line, middle, plain, spread, trusted, unit, width, wrap
from console.render.status import HeaderState, title
from console.text.untrusted import safe

_SAFE = st.text(max_size=60).map(safe)


@given(_SAFE, st.integers(1, 40))
def test_fit_is_exactly_as_wide_as_asked(text: str, size: int) -> None:
    assert cell_len(fit(text, size)) == size
    assert cell_len(fit(text, size, right=True)) == size


@given(st.lists(_SAFE, max_size=5), st.integers(1, 40))
def test_clip_is_never_wider(texts: list[str], size: int) -> None:
    cells = tuple(Cell(text) for text in texts)
    clipped = clip(cells, size)
    assert width(clipped) <= size
    if width(cells) <= size:
        assert clipped == cells


@given(st.lists(_SAFE, max_size=4), st.integers(2, 30))
def test_wrap_loses_nothing_but_space_and_is_never_wider(texts: list[str], size: int) -> None:
    cells = tuple(Cell(text) for text in texts)
    lines = list(wrap(cells, size))
    assert all(width(one) <= max(size, 2) for one in lines)
    kept = "".join(plain(one) for one in lines).replace(" ", "")
    assert kept == "".join(texts).replace(" ", "")


def test_spread_gives_the_right_side_its_room() -> None:
    made = spread(line(trusted("a long left side")), line(trusted("right")), 14)
    assert plain(made) == "a long … right"
    assert width(spread(line(trusted("l")), line(trusted("r")), 9)) == 9


@given(st.text(" ab", min_size=1, max_size=8), st.lists(_SAFE, max_size=4), st.integers(2, 30))
def test_a_line_goes_on_under_where_it_hangs(head: str, texts: list[str], size: int) -> None:
    cells = (Cell(head), HANG, *(Cell(text) for text in texts))
    first, *rest = wrap(cells, size)
    hang = len(head) if len(head) < size / 2 else 0
    assert all(plain(one).startswith(" " * hang) for one in rest)
    assert all(width(one) <= size for one in (first, *rest))
    kept = "".join(plain(one) for one in (first, *rest)).replace(" ", "")
    assert kept == "".join((head, *texts)).replace(" ", "")


def test_a_unit_is_not_parted_where_a_line_has_room_for_it() -> None:
    cells = line(
        trusted(" ✓ "), HANG, trusted("buy 35 MSFT"), unit(trusted("  3,718.75 USD")), unit(trusted("  id c-25"))
    )
    assert [plain(one).rstrip() for one in wrap(cells, 26)] == [" ✓ buy 35 MSFT", "   3,718.75 USD  id c-25"]
    assert [plain(one).rstrip() for one in wrap(cells, 22)] == [" ✓ buy 35 MSFT", "   3,718.75 USD", "   id c-25"]
    assert [plain(one).rstrip() for one in wrap(cells, 12)] == [
        " ✓ buy 35",
        "   MSFT",
        "   3,718.75",
        "   USD",
        "   id c-25",
    ]


@given(st.lists(_SAFE, max_size=4), st.integers(2, 30))
def test_units_lose_nothing_and_are_never_wider(texts: list[str], size: int) -> None:
    lines = list(wrap(tuple(unit(Cell(text)) for text in texts), size))
    assert all(width(one) <= size for one in lines)
    assert "".join(plain(one) for one in lines).replace(" ", "") == "".join(texts).replace(" ", "")


@given(_SAFE, st.integers(1, 40))
def test_middle_keeps_both_ends_and_is_never_wider(text: str, size: int) -> None:
    cut = middle(text, size)
    assert cell_len(cut) <= size
    if cell_len(text) <= size:
        assert cut == text
    elif text.isascii() and size >= 3:
        assert (cut[0], cut[-1]) == (text[0], text[-1])


def test_an_address_is_said_once_in_the_title() -> None:
    label = "sqlite /srv/orders.db"
    header_state = HeaderState(store="/srv/orders.db", label=label, operator="me", mode="paper", read_only=False)
    shown = "".join(cell.text for cell in title(header_state, 70))
    assert shown == " PAPER · sqlite /srv/orders.db · operator me "
    named = "".join(cell.text for cell in title(header_state._replace(store="prod"), 70))
    assert "· prod · sqlite /srv/orders.db ·" in named

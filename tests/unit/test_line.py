"""Lines of toned text: exact widths, nothing lost in wrapping."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.render.line import Cell, clip, fit, line, own, plain, spread, width, wrap
from console.safetext import safe

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
    made = spread(line(own("a long left side")), line(own("right")), 14)
    assert plain(made) == "a long … right"
    assert width(spread(line(own("l")), line(own("r")), 9)) == 9

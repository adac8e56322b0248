"""The window over a lineup: the cursor stays on its entry, memory stays flat, the view is never half empty."""

from __future__ import annotations

from backends.records import Entry
from console.services.browse.queue_order import ListedEntry, QueueSection
from console.services.browse.queue_window import MOST, PAGE, Window


def spot(number: int, part: int = 1) -> ListedEntry:
    return ListedEntry(part, Entry("orders", f"e{number}", "pending", (0,), (number,), ("dlq_id",), (f"e{number}",)))


def spots(*numbers: int) -> tuple[ListedEntry, ...]:
    return tuple(spot(number) for number in numbers)


def started(count: int, *, height: int = 5, more: bool = False) -> Window:
    window = Window()
    window.start(QueueSection(spots(*range(count)), more))
    window.resize(height)
    return window


def test_moving_scrolls_only_at_the_edge() -> None:
    window = started(20)
    assert window.move(4)
    assert window.top == 0
    assert window.move(5)
    assert (window.cursor, window.top) == (5, 1)
    assert window.move(100)
    assert (window.cursor, window.top) == (19, 15)
    assert not window.move(100)


def test_scrolling_drags_the_cursor_along() -> None:
    window = started(20)
    assert window.scroll(3)
    assert (window.cursor, window.top) == (3, 3)
    window.scroll(100)
    assert (window.cursor, window.top) == (15, 15)


def test_an_empty_window_has_nothing_under_the_cursor() -> None:
    window = started(0)
    assert window.current is None
    assert not window.move(3)
    assert window.position is None


def test_what_comes_above_leaves_the_entry_on_its_line() -> None:
    window = started(20)
    window.move(7)
    line = window.cursor - window.top
    window.renew(QueueSection(spots(100, 101, *range(7)), more=False), QueueSection(spots(*range(7, 20)), more=False))
    assert window.current == spot(7)
    assert window.cursor - window.top == line


def test_a_short_list_stays_whole_in_view_when_something_comes() -> None:
    window = started(3)
    window.renew(QueueSection(spots(100), more=False), QueueSection(spots(0, 1, 2), more=False))
    assert window.top == 0
    assert window.current == spot(0)


def test_an_entry_that_is_gone_leaves_the_cursor_on_the_next() -> None:
    window = started(20)
    window.move(7)
    window.renew(QueueSection(spots(*range(7)), more=False), QueueSection(spots(*range(8, 20)), more=False))
    assert window.current == spot(8)


def test_growing_below_lets_go_above_and_memory_stays_flat() -> None:
    window = started(PAGE, more=True)
    at = PAGE
    for _ in range(10):
        window.move(len(window.spots) - 1)
        held = window.current
        window.grow_below(QueueSection(spots(*range(at, at + PAGE)), more=True))
        at += PAGE
        assert window.current == held
        assert len(window.spots) <= MOST + PAGE
    assert not window.at_top
    assert window.first == at - len(window.spots)
    assert window.position == window.first + window.cursor + 1


def test_growing_above_keeps_the_entry_and_lets_go_below() -> None:
    window = Window()
    window.resize(5)
    window.finish(QueueSection(spots(*range(1000, 1000 + PAGE)), more=True), total=2000)
    assert window.position == 2000
    for n in range(5):
        window.move(0)
        held = window.current
        low = 1000 - (n + 1) * PAGE
        window.grow_above(QueueSection(spots(*range(low, low + PAGE)), more=True))
        assert window.current == held
        assert len(window.spots) <= MOST + PAGE
    assert not window.at_end


def test_it_wants_more_before_the_end_is_reached() -> None:
    window = started(PAGE, more=True)
    assert not window.wants_below
    window.move(PAGE - 50)
    assert window.wants_below
    assert not window.wants_above

"""The queue: rows, moving, marks, filters, order; and the cursor stays on its entry when the store changes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from backends import SQLiteDLQ
from tests.support.app import (
    NOW,
    Stage,
    answer,
    current,
    ident,
    ids,
    make_store,
    notice,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    until,
)


async def test_newest_first_with_everything_an_operator_judges_by(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert ids(app) == [ident(n) for n in range(11, -1, -1)]
        shown = screen_text(app)
        for word in ("prod-orders", "PAPER", "operator oncall", "pending 12", "in doubt 0", "oldest 3h10m"):
            assert word in shown
        for word in (
            "AGE",
            "VENUE",
            "ACCOUNT",
            "ORDER",
            "ERROR",
            "TRY",
            "VALUE",
            "buy     21 NVDA @ 102.75 gtc",
            "HTTP 429",
        ):
            assert word in shown
        assert "row 1 · 12 open" in shown


async def test_the_first_page_is_there_before_the_store_is_open(stage: Stage) -> None:
    stage.first_page = True
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        assert current(app) == ident(11)
        await settled(pilot)
        assert ids(app) == [ident(n) for n in range(11, -1, -1)]


async def test_moving_by_every_key(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for keys, expected in (
            (("j",), 10), (("down", "down"), 8), (("k",), 9), (("up",), 10), (("G",), 0), (("g",), 11),
            (("end",), 0), (("home",), 11), (("pagedown",), 0), (("pageup",), 11),
        ):  # fmt: skip
            await press(pilot, *keys)
            assert current(app) == ident(expected), keys


async def test_a_long_store_is_never_loaded_whole(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "long.db", (order(n, minutes=1 + (3000 - n) / 60) for n in range(3000))))
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        seen = {current(app)}
        for _ in range(260):
            await pilot.press("pagedown")
            await pilot.pause()
            seen.add(current(app))
        await settled(pilot)
        assert len(app.queue.table.window.spots) <= 800
        assert len(seen) > 200
        await press(pilot, "G")
        assert current(app) == ident(0)
        assert "row 3,000 · 3,000 open" in screen_text(app)
        await press(pilot, "k", "k")
        assert current(app) == ident(2)
        await press(pilot, "g")
        assert current(app) == ident(2999)


async def test_no_entry_is_skipped_or_shown_twice_when_walking_the_whole_store(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "walk.db", (order(n) for n in range(900))))
    app = stage.console()
    walked: list[str | None] = []
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for _ in range(50_000):
            if len(walked) == 900:
                break
            if not walked or current(app) != walked[-1]:
                walked.append(current(app))
            app.queue.do_down()
            if len(walked) % 40 == 0 or current(app) == walked[-1]:
                await pilot.pause()  # the next page is being read
    assert walked == [ident(n) for n in range(899, -1, -1)]


async def test_marks_range_and_all(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "space", "space")
        assert set(app.queue.marks) == {ident(11), ident(10)}
        assert "2 marked" in screen_text(app)
        await press(pilot, "k", "space")
        assert set(app.queue.marks) == {ident(11)}
        await press(pilot, "v", "j", "j")
        assert "3 in range" in screen_text(app)
        await press(pilot, "v")
        assert set(app.queue.marks) == {ident(n) for n in (11, 9, 8, 7)}
        await press(pilot, "u")
        assert not app.queue.marks
        await press(pilot, "a")
        assert len(app.queue.marks) == 12
        assert "12 entries marked; later arrivals are not" in notice(app)


async def test_mark_all_takes_the_filter_and_what_came_later_is_not_in_it(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "429")
        await press(pilot, "a")
        marked = set(app.queue.marks)
        assert marked == {ident(n) for n in (1, 8, 9, 11)}
        with SQLiteDLQ(stage.path) as sink:
            sink.write(order(50, minutes=0.5))
        await press(pilot, "ctrl+r")
        assert set(app.queue.marks) == marked
        assert ident(50) in ids(app)


async def test_filter_line_and_esc_clears_filter_first_then_marks(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "space", "slash")
        await answer(pilot, "venue:alpaca age>10m !timeout")
        assert ids(app) == [ident(n) for n in (3, 2, 1, 0)]
        assert "filter: venue:alpaca age>10m !timeout" in screen_text(app)
        assert "row 1 · 4 of 12 match" in screen_text(app)
        await press(pilot, "escape")
        assert len(ids(app)) == 12
        assert app.queue.marks
        await press(pilot, "escape")
        assert not app.queue.marks


async def test_a_filter_that_cannot_be_read_stays_open_with_a_word(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "state:odd")
        assert "no state odd: there are pending" in notice(app)
        assert len(ids(app)) == 12
        for _ in "state:odd":
            await pilot.press("backspace")
        await answer(pilot, "market:AAPL")
        assert ids(app) == [ident(8), ident(0)]


async def test_keys_typed_ahead_are_letters_of_the_filter(stage: Stage) -> None:
    """Keys sent in one go by a fast typist or a script: none of them may act."""
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("slash", *"DRzqaAHm", "enter")
        await settled(pilot)
        assert app.queue.loader.text == "DRzqaAHm"
        assert on_queue(app)
        assert ids(app) == []
        assert "nothing matches" in screen_text(app)


async def test_a_class_is_a_filter_too(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "category:schema")
        assert ids(app) == [ident(0)]


async def test_sort_turns_the_order_around(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s")
        assert ids(app) == [ident(n) for n in range(12)]
        assert "oldest first" in screen_text(app)
        await press(pilot, "s")
        assert ids(app)[0] == ident(11)


async def test_live_updates_leave_the_cursor_on_its_entry_and_count_what_is_new(stage: Stage) -> None:
    stage.watch = True
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "j", "j", "j")
        line = app.queue.table.window.cursor - app.queue.table.window.top
        with SQLiteDLQ(stage.path) as sink:
            for n in range(30, 44):
                sink.write(order(n, minutes=0.1))
        await until(pilot, lambda: app.queue.loader.fresh == 14)
        assert current(app) == ident(7)
        assert app.queue.table.window.cursor - app.queue.table.window.top == line
        assert "14 new" in screen_text(app)
        await press(pilot, "g")
        await until(pilot, lambda: current(app) == ident(43))
        assert " new" not in screen_text(app)


async def test_the_first_entry_of_an_empty_queue_appears_by_itself(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "empty.db", []), watch=True)
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "nothing here: the queue is empty" in screen_text(app)
        with SQLiteDLQ(stage.path) as sink:
            sink.write(order(1))
        await until(pilot, lambda: current(app) == ident(1))


async def test_ages_are_repainted_when_they_read_differently(stage: Stage) -> None:
    now = [NOW]
    stage.clock = lambda: now[0]
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "  2m alpaca" in screen_text(app)
        assert "oldest 3h10m" in screen_text(app)
        now[0] = NOW + timedelta(minutes=1)
        await until(pilot, lambda: "  3m alpaca" in screen_text(app) and "oldest 3h11m" in screen_text(app))


async def test_the_mouse_reads_but_never_acts(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.click("#table", offset=(20, 4))
        assert current(app) == ident(8)
        await pilot.click("#table", offset=(20, 4), times=2)
        await settled(pilot)
        assert type(app.screen).__name__ == "EntryScreen"


async def test_open_id_starts_at_that_entry(stage: Stage) -> None:
    stage.changes = {"open_id": ident(5)}
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert type(app.screen).__name__ == "EntryScreen"
        assert ident(5) in screen_text(app)


async def test_groups_filter_the_queue(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "f")
        assert "8 groups · 12 entries, all counted" in screen_text(app)
        await press(pilot, "enter")
        assert on_queue(app)
        assert ids(app) == [ident(n) for n in (11, 9, 8, 1)]


async def test_commands(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "colon")
        await answer(pilot, "filter market:AAPL")
        assert ids(app) == [ident(8), ident(0)]
        await press(pilot, "colon")
        await answer(pilot, f"open {ident(3)}")
        assert ident(3) in screen_text(app)
        await press(pilot, "escape", "colon")
        await answer(pilot, "theme light")
        assert app.theme == "dlq-light"
        await press(pilot, "colon")
        await answer(pilot, "nonsense")
        assert "no such command" in notice(app)


async def test_the_palette_has_every_command_and_no_screenshot(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.press("ctrl+p")
        await pilot.pause()
        await until(pilot, lambda: "dismiss" in screen_text(app))
        assert "screenshot" not in screen_text(app).lower()
        await pilot.press(*"sort")
        await until(pilot, lambda: "by age, value, tries or venue" in screen_text(app))
        await pilot.press("enter")
        await pilot.press("enter")
        await settled(pilot)
        assert not app.queue.loader.newest_first

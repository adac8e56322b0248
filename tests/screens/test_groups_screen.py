"""The groups screen with and without an index, its acts on frozen members and its notes, on both databases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from backends import DeadLetteredOrder, PostgresDLQ, SQLiteDLQ
from console.screens.groups import GroupsScreen
from console.services.index.keeper import IndexJob
from console.settings.config import StoreConfig
from tests.support.app import (
    NOW,
    Stage,
    answer,
    app_of,
    ident,
    ids,
    in_gate,
    make_store,
    notice,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    twelve,
    until,
)

LIMITED = (1, 8, 9, 11)  # the entries of the twelve that failed with HTTP 429


@dataclass
class Both:
    """A stage on either database, and a way to write entries to it."""

    stage: Stage
    target: str

    def write(self, *entries: DeadLetteredOrder) -> None:
        made = PostgresDLQ(self.target) if self.target.startswith("postgres") else SQLiteDLQ(Path(self.target))
        with made as sink:
            for entry in entries:
                sink.write(entry)


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Both:
    path = tmp_path / "orders.db"
    target = str(path) if request.param == "sqlite" else str(request.getfixturevalue("postgres_db"))
    made = Both(Stage(path, store=StoreConfig(name="prod-orders", url=target)), target)
    made.write(*twelve())
    return made


async def index(pilot: Pilot[Any]) -> None:
    """Build the index in this process."""
    session = app_of(pilot).session
    assert session is not None
    assert await IndexJob(session.store, lambda: NOW, folder=session.setting.cache).build()
    await (await session.index_status()).look()


async def dismissed(stage: Stage) -> set[str]:
    store = await stage.open()
    try:
        found = await store.many(tuple(ident(n) for n in range(60)))
        return {entry.id for entry in found.values() if entry.state == "dismissed"}
    finally:
        await store.aclose()


async def test_a_group_is_dismissed_as_it_was_when_the_gate_was_asked_for(both: Both) -> None:
    app = both.stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await index(pilot)
        await press(pilot, "f")
        assert "8 groups · 12 entries, all counted" in screen_text(app)
        await press(pilot, "D")
        await until(pilot, lambda: in_gate(app))
        assert "Dismiss 4 entries" in screen_text(app)
        assert "HTTP 429 after # attempts" in screen_text(app)
        both.write(order(50, minutes=0.1))  # same group, written after its members were frozen
        await press(pilot, "6")
        await answer(pilot, "4")
        await until(pilot, lambda: "4 dismissed" in notice(app))
    assert await dismissed(both.stage) == {ident(n) for n in LIMITED}


async def test_without_an_index_a_group_is_acted_on_all_the_same(both: Both) -> None:
    app = both.stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "f", "D", "6")
        await answer(pilot, "4")
        await until(pilot, lambda: "4 dismissed" in notice(app))
        assert "7 groups · 8 entries, all counted" in screen_text(app)
        await press(pilot, "z")
        await until(pilot, lambda: "4 restored" in notice(app))
    assert await dismissed(both.stage) == set()


async def test_a_group_under_a_filter_is_only_what_the_filter_leaves(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "age<10m")
        await press(pilot, "f")
        assert "in age<10m" in screen_text(app)
        await press(pilot, "D", "6")
        await answer(pilot, "3")
        await until(pilot, lambda: "3 dismissed" in notice(app))
    assert await dismissed(stage) == {ident(8), ident(9), ident(11)}


async def test_a_note_on_a_group_outlives_its_entries_and_the_console(both: Both) -> None:
    app = both.stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "f", "N")
        await answer(pilot, "told the desk, ticket 4711")
        await until(pilot, lambda: "ticket 4711" in screen_text(app))
        await press(pilot, "D", "6")
        await answer(pilot, "4")
        await until(pilot, lambda: "4 dismissed" in notice(app))
    both.write(order(50, minutes=0.1), order(51, minutes=0.1))
    app = both.stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "f")
        await until(pilot, lambda: "ticket 4711" in screen_text(app))


async def test_what_came_since_one_looked_is_told(both: Both) -> None:
    app = both.stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await index(pilot)
        await press(pilot, "f", "escape")
        assert on_queue(app)
        both.write(order(50, minutes=0.1), order(51, minutes=0.1, error="KeyError: 'strategy'"))
        await index(pilot)
        await press(pilot, "f")
        shown = screen_text(app)
        assert "+1" in shown
        assert "NEW  KeyError" in shown


async def test_a_group_opens_as_a_filter_read_from_the_index(both: Both) -> None:
    app = both.stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await index(pilot)
        await press(pilot, "f", "enter")
        assert on_queue(app)
        assert ids(app) == [ident(n) for n in reversed(LIMITED)]
        assert "4 of 12 match" in screen_text(app)
        await press(pilot, "escape")
        assert len(ids(app)) == 12


async def test_where_it_happens_is_told_of_the_group_under_the_cursor(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "f")
        await until(pilot, lambda: "NVDA" in screen_text(app))
        screen = app.screen
        assert isinstance(screen, GroupsScreen)
        await press(pilot, "tab", "j")
        assert screen.in_story
        assert screen.group is not None
        assert screen.group.count == 4  # j scrolled the text
        await press(pilot, "escape", "j")
        assert screen.group.count < 4
        await press(pilot, "escape")
        assert on_queue(app)


async def test_an_esc_while_members_are_read_opens_no_gate(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "f")
        await pilot.press("D", "escape")
        await settled(pilot)
        assert not in_gate(app)
        await press(pilot, "escape")
        assert on_queue(app)
    assert await dismissed(stage) == set()


async def test_read_only_groups_cannot_be_acted_on(stage: Stage) -> None:
    stage.path.chmod(0o444)
    stage.read_only = True
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "f")
        assert "8 groups" in screen_text(app)
        for key in ("D", "R", "N", "z"):
            await press(pilot, key)
            assert isinstance(app.screen, GroupsScreen), key
        assert "dismiss" not in screen_text(app)


async def test_groups_are_sorted_filtered_and_several_dismissed_through_one_gate(both: Both) -> None:
    """From the queue: f, s, two marks, D, the reason, the number: nothing is marked entry by entry."""
    app = both.stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await index(pilot)
        await press(pilot, "f", "s")
        screen = app.screen
        assert isinstance(screen, GroupsScreen)
        assert "8 groups · last seen first" in screen_text(app)
        await press(pilot, "s", "s")
        assert "8 groups · oldest first" in screen_text(app)
        assert screen.group is not None
        assert "limit_price must be a" in screen.group.title  # it came 190 minutes ago
        await press(pilot, "slash")
        await answer(pilot, "age<1h !market:TSLA")
        assert "in age<1h !market:TSLA" in screen_text(app)
        assert "limit_price" not in screen_text(app)
        await press(pilot, "slash")
        await answer(pilot, "age>zebra")
        assert screen.is_typing  # what was typed stays, to be corrected
        await press(pilot, "escape", "s", "space", "space")
        assert "2 groups marked · 6 entries" in screen_text(app)
        await press(pilot, "D")
        await until(pilot, lambda: in_gate(app))
        assert "Dismiss 6 entries" in screen_text(app)
        assert "and 1 other group" in screen_text(app)
        await press(pilot, "6")
        await answer(pilot, "6")
        await until(pilot, lambda: "6 dismissed" in notice(app))
        assert "marked" not in screen_text(app)
        await press(pilot, "escape", "escape")
        assert on_queue(app)  # the filter typed there is undone first, then the screen is left
    assert await dismissed(both.stage) == {ident(n) for n in (1, 4, 8, 9, 10, 11)}


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_group_tells_what_may_have_arrived_and_its_notes_and_its_members_show_them(
    both: Both, size: tuple[int, int]
) -> None:
    app = both.stage.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await index(pilot)
        await press(pilot, "f", "j")
        screen = app.screen
        assert isinstance(screen, GroupsScreen)
        assert screen.group is not None
        assert (screen.group.title, screen.group.may_have_arrived) == ("ReadTimeout: no answer in # s", 2)
        await until(pilot, lambda: "2 may have arrived" in screen_text(app))
        row = next(line for line in screen_text(app).splitlines() if "no answer in" in line)
        assert "≈2 " in row if size[0] == 80 else "  2  " in row
        assert "2 may have arrived" in screen_text(app)
        await press(pilot, "N")
        await answer(pilot, "told the desk, ticket 4711")
        await until(pilot, lambda: "✎1 ReadTimeout" in screen_text(app))
        await press(pilot, "enter", "enter", "]", "]", "]", "]")
        assert "ticket 4711" in screen_text(app)
        assert "of the group" in screen_text(app)


async def test_the_trend_covers_as_long_as_the_failures_do(tmp_path: Path) -> None:
    """A burst of the last hour is drawn in minutes, failures of a week in hours."""
    for minutes, word in ((50, "IN 2H"), (20 * 60, "IN 24H"), (6 * 24 * 60, "IN 7D")):
        path = make_store(tmp_path / f"{minutes}.db", [order(n, minutes=minutes - n) for n in range(9)])
        app = Stage(path).console()
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(pilot)
            await press(pilot, "f")
            assert word in screen_text(app), "without an index"
            await index(pilot)
            await press(pilot, "escape", "f")
            assert word in screen_text(app), "from the index"
            row = next(line for line in screen_text(app).splitlines() if "HTTP 429" in line)
            assert any(bar in row for bar in "▁▂▃▄▅▆▇█")


async def test_under_a_filter_the_story_counts_what_the_filter_leaves_and_a_resize_draws_anew(tmp_path: Path) -> None:
    entries = [order(1), order(2), order(3, venue_name="kalshi", market_id="KXFED")]
    app = Stage(make_store(tmp_path / "orders.db", entries)).console()
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await answer(pilot, "venue:kalshi")
        await press(pilot, "f")
        await until(pilot, lambda: "KXFED" in screen_text(app))
        assert "MSFT" not in screen_text(app)
        assert "HTTP 429 after # …" in screen_text(app)
        await pilot.resize_terminal(160, 40)
        await until(pilot, lambda: "HTTP 429 after # attempts  " in screen_text(app))
        await until(pilot, lambda: "KXFED" in screen_text(app))

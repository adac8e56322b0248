"""The filter line: starts empty, remembers, completes, says what is wrong, and answers the operator's own question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from backends import SQLiteDLQ
from console.render.line import plain
from console.settings.filter_history import FilterHistory
from tests.support.app import Stage, app_of, ident, ids, order, press, screen_text, settled, until

WANTED = 2
KINDS: dict[int, dict[str, Any]] = {
    0: {"side": "buy"},
    1: {"side": "sell", "error": "timeout"},
    WANTED: {"side": "sell"},
    3: {"side": "sell", "minutes": 3.0},
    4: {"side": "sell", "quantity": 10.0},
    5: {"side": "sell", "venue_name": "alpaca"},
}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    path = tmp_path / "orders.db"
    usual: dict[str, Any] = {"venue_name": "Kalshi", "quantity": 100_000.0, "price": 0.9, "minutes": 90.0, "tif": "gtc"}
    with SQLiteDLQ(path) as sink:
        for number, kind in KINDS.items():
            sink.write(order(number, **(usual | kind)))
        sink.write(order(9, minutes=90.0))
        sink.mark_dismissed(ident(9))
    return Stage(path)


async def typed(pilot: Pilot[Any], text: str) -> int:
    """Type into the line; how many keys that took."""
    for char in text:
        await pilot.press("space" if char == " " else char)
    return len(text)


async def test_a_long_list_of_ids_is_taken_whole_or_not_at_all(stage: Stage) -> None:
    """A filter without its end asks for something else: for more, where its end is an exclusion."""
    app = stage.console()
    many = ",".join(f"dlq_none{n:012}" for n in range(400))
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        app.post_message(Paste("x" * 10_001))
        await until(pilot, lambda: "too long, not taken · filter: ▏" in screen_text(app))
        app.post_message(Paste(f"id:{many},{ident(3)}"))
        await until(pilot, lambda: f"{ident(3)}▏" in screen_text(app))
        assert "too long" not in screen_text(app)
        await press(pilot, "enter")
        await settled(pilot)
        assert ids(app) == [ident(3)]


async def filtered(pilot: Pilot[Any], text: str) -> None:
    await press(pilot, "slash")
    await typed(pilot, text)
    await press(pilot, "enter")
    await settled(pilot)


async def test_the_operators_question_is_one_line(stage: Stage) -> None:
    """Sells over 50k at kalshi, older than 1 h, no timeouts."""
    app = stage.console()
    line = "venue:kalshi side:sell notional>50k age>1h !timeout"
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        keys = 2 + await typed(pilot, line)
        await press(pilot, "enter")
        await until(pilot, lambda: ids(app) == [ident(WANTED)])
        assert keys == len(line) + 2, "the line, the key that opens it and the one that applies it"
        assert not app.queue.is_typing, "enter returns to the table"
        await press(pilot, "escape")
        await until(pilot, lambda: len(ids(app)) == len(KINDS))


async def test_the_line_starts_empty_and_up_brings_the_last_one_back(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await filtered(pilot, "venue:alpaca")
        await until(pilot, lambda: ids(app) == [ident(5)])
        await press(pilot, "slash")
        assert app.queue._line.text == ""
        await press(pilot, "up")
        assert app.queue._line.text == "venue:alpaca"
        await press(pilot, "escape")
        assert ids(app) == [ident(5)], "esc in the line keeps the filter that is set"


async def test_what_was_typed_is_kept_for_the_next_console(stage: Stage, tmp_path: Path) -> None:
    history = FilterHistory({"XDG_STATE_HOME": str(tmp_path / "state")})
    app = stage.console()
    app.setup = replace(app.setup, remember_filter=history.add, filters=history.read())
    async with app.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await filtered(pilot, "side:buy")
    again = stage.console()
    again.setup = replace(again.setup, filters=history.read())
    async with again.run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "slash", "up")
        assert again.queue._line.text == "side:buy"


def test_a_credential_is_not_kept(tmp_path: Path) -> None:
    history = FilterHistory({"XDG_STATE_HOME": str(tmp_path)})
    history.add("venue:alpaca")
    history.add('"Authorization: Bearer abcdefghijklmnop1234567890"')
    history.add("venue:alpaca")
    assert history.read() == ("venue:alpaca",)
    kept = tmp_path / "dlq-console" / "filters.json"
    assert kept.stat().st_mode & 0o077 == 0
    kept.write_text("{]")
    assert history.read() == ()


async def test_tab_completes_fields_and_values_of_this_store(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "slash")
        await typed(pilot, "ven")
        await press(pilot, "tab")
        assert app.queue._line.text == "venue:"
        await press(pilot, "tab")
        assert {"Kalshi", "alpaca"} <= set(plain(app.queue.noticed).split())
        await typed(pilot, "KAL")
        await press(pilot, "tab")
        assert app.queue._line.text == "venue:Kalshi "
        await typed(pilot, "!state:in_d")
        await press(pilot, "tab")
        assert app.queue._line.text == "venue:Kalshi !state:in_doubt "


async def test_an_error_is_said_in_place_and_the_line_stays_open(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        before = ids(app)
        await filtered(pilot, "try>2")
        assert "did you mean tries?" in screen_text(app)
        assert (app.queue.is_typing, app.queue._line.text, ids(app)) == (True, "try>2", before)


async def test_an_id_that_is_only_among_the_settled_is_hinted_at(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await filtered(pilot, ident(9))
        await until(pilot, lambda: "1 dismissed entry has this id: add state:all" in screen_text(app))
        await filtered(pilot, f"{ident(9).upper()} state:all")
        await until(pilot, lambda: ids(app) == [ident(9)])
        assert app_of(pilot) is app


def marked_texts(app: Any) -> dict[str, list[str]]:
    """What is underlined and bold in the table and in the pane."""
    found: dict[str, list[str]] = {}
    for name, widget in (("table", app.queue.table), ("pane", app.queue.pane.text)):
        strips = [widget.render_line(y) for y in range(widget.size.height)]
        parts = [part for strip in strips for part in strip if part.style and part.style.underline]
        assert all(part.style.bold for part in parts if part.style)
        found[name] = [part.text for part in parts]
    return found


@pytest.mark.parametrize(("theme", "colour"), [("dark", True), ("light", True), ("contrast", True), ("dark", False)])
async def test_what_was_found_is_marked_without_a_colour_too(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, theme: str, colour: bool
) -> None:
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.theme = f"dlq-{theme}"
        assert marked_texts(app) == {"table": [], "pane": []}
        await filtered(pilot, "error:ANSWER")
        await until(pilot, lambda: ids(app) == [ident(1)])
        await until(pilot, lambda: marked_texts(app) == {"table": ["answer"], "pane": ["answer"]})
        await press(pilot, "escape")
        await until(pilot, lambda: len(ids(app)) == len(KINDS))
        assert marked_texts(app) == {"table": [], "pane": []}
        await press(pilot, "slash")
        await typed(pilot, "answer")  # marked while it is typed, too
        await until(pilot, lambda: marked_texts(app)["table"] == ["answer"])
        await press(pilot, "enter", "enter")
        await until(pilot, lambda: app.screen is not app.queue)
        strips = [app.screen.pane.text.render_line(y) for y in range(9)]  # type: ignore[attr-defined]
        assert any(part.text == "answer" for strip in strips for part in strip if part.style and part.style.underline)

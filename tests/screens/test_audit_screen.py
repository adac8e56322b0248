"""The audit screen: what an auditor finds with few keys, and that a long trail stays bounded."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from backends import open_store
from backends.records import ActContext, Selection
from console.screens.audit.event_entries import EventEntriesScreen
from console.screens.audit.screen import AuditScreen
from console.screens.entry import EntryScreen
from tests.support.app import (
    ANN,
    NOW,
    Stage,
    answer,
    ident,
    make_store,
    notice,
    on_queue,
    order,
    press,
    screen_text,
    settled,
    until,
)

BOB = replace(ANN, operator="bob", os_user="bob")
BULK = range(20, 220)


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    """One entry dismissed by bob, two hundred by ann, and a note."""
    path = make_store(tmp_path / "orders.db", [order(n) for n in (1, 2, *BULK)])
    store = await open_store(str(path))
    try:
        for ids, actor, reason, note in (
            ((ident(1),), BOB, "bad-order", "the strategy sent a text where a price belongs, twice, and was told so"),
            (tuple(map(ident, BULK)), ANN, "stale", "the outage of the morning"),
        ):
            entries = await store.many(ids)
            why = ActContext(at=NOW, operation=reason, reason=reason, note=note)
            await store.dismiss(Selection.of(tuple(entries.values())), actor, why)
        await store.note(ident(2), ANN, ActContext(at=NOW, operation="n", note="looked at it"))
    finally:
        await store.aclose()
    return Stage(path)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_an_auditor_finds_who_dismissed_an_entry_and_why(stage: Stage, size: tuple[int, int]) -> None:
    """Three keys and the id: A, /, enter."""
    app = stage.console()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "A", "slash")
        await answer(pilot, f"id:{ident(1)}")
        shown = screen_text(app)
        assert "1 act" in shown
        assert "bob" in shown
        assert "bad-order" in shown
        told = " ".join(part.strip(" │") for part in shown.splitlines())
        assert "a text where a price belongs, twice, and was told so" in " ".join(told.split()), "nothing is cut below"
        await press(pilot, "enter")
        assert isinstance(app.screen, EntryScreen)
        assert "DISMISSED · by bob" in screen_text(app), "who, when and why on its first tab"


async def test_an_id_that_only_a_settled_entry_has_is_found_with_a_hint(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for text in (ident(1), "cid-1"):
            await press(pilot, "slash")
            await answer(pilot, text)
            assert "1 dismissed entry" in notice(app)
            assert "state:all" in notice(app)


async def test_a_bulk_event_opens_its_entries_and_each_of_them(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "slash")
        await answer(pilot, "operator:oncall reason:stale")
        assert "200 entries" in screen_text(app)
        assert "enter lists them" in screen_text(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, EventEntriesScreen)
        await until(pilot, lambda: "dismissed  buy" in screen_text(app))
        await press(pilot, "G")
        assert ident(BULK[-1]) in screen_text(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, EntryScreen)
        assert ident(BULK[-1]) in screen_text(app)
        await press(pilot, "escape", "escape", "escape", "escape")
        assert on_queue(app), "the filter is cleared before the screen closes"


async def test_tab_completes_the_trail_s_own_fields_and_values(stage: Stage) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "slash")
        for typed, becomes in (
            ("op", "operator:"),
            ("BO", "operator:bob "),
            ("kind:dis", "operator:bob kind:dismiss "),
            ("reason:bad", "operator:bob kind:dismiss reason:bad-order "),
            ("market", "operator:bob kind:dismiss reason:bad-order market"),  # no field of the trail
        ):
            await pilot.press(*("colon" if one == ":" else one for one in typed), "tab")
            await settled(pilot)
            assert f"filter: {becomes}" in screen_text(app)
        await press(pilot, "escape", "slash")
        await pilot.press("o", "tab")
        await settled(pilot)
        assert notice(app).split() == ["operator:", "outcome:"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("oparator:bob", "no field oparator here: did you mean operator?"),
        ("kind:eaten", "no kind eaten: there are replay outcome"),
        ("since:yesterday", "since:yesterday is not a time: write since:8h"),
        ("operator:a operator:b", "operator is given twice"),
        ('reason:"x', "a quote is not closed"),
        ("kind>3", "kind cannot be compared"),
    ],
)
async def test_a_wrong_filter_says_what_to_write(stage: Stage, text: str, says: str) -> None:
    app = stage.console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "slash")
        await answer(pilot, text)
        assert says in notice(app)


async def test_the_trail_is_exported_as_shown_and_says_where(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    app = stage.console()
    async with app.run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "slash")
        await answer(pilot, "kind:dismiss !operator:oncall")
        await press(pilot, "x")
        lines, table = sorted(folder.iterdir(), key=lambda path: path.suffix, reverse=True)
        assert f"1 events written to {lines} and .csv" in notice(app)
    assert [json.loads(one)["who"]["operator"] for one in lines.read_text().splitlines()] == ["bob"]
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert (row["operator"], row["reason"], row["count"], row["entries"]) == ("bob", "bad-order", "1", ident(1))
    assert {path.stat().st_mode & 0o777 for path in (lines, table)} == {0o600}


async def test_a_long_trail_is_read_a_stretch_at_a_time(tmp_path: Path) -> None:
    """100,000 events: the first page needs few of them, and a rare act is found all the same."""
    path = make_store(tmp_path / "orders.db", [order(1)])
    store = await open_store(str(path))
    await store.note(ident(1), BOB, ActContext(at=NOW, operation="n", note="the first of all"))
    await store.aclose()
    with closing(sqlite3.connect(path)) as db, db:
        (body,) = db.execute("SELECT body FROM console_audit WHERE seq = 1").fetchone()
        other = json.dumps(json.loads(body) | {"note": "another", "who": ANN.evidence}).encode()
        rows = ((seq, other, b"\0" * 32) for seq in range(2, 100_001))
        db.executemany("INSERT INTO console_audit (seq, body, hash) VALUES (?, ?, ?)", rows)
    app = Stage(path).console()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "A")
        assert isinstance(app.screen, AuditScreen)
        trail = app.screen._trail
        assert trail is not None
        assert trail.read <= 2_000, "no more than a page is read"
        await press(pilot, "slash")
        for key in "operator:bob":
            await pilot.press(key)
        await pilot.press("enter")
        trail = app.screen._trail
        assert trail is not None
        for count in range(10_000, 100_001, 10_000):
            await until(pilot, lambda count=count: trail.read >= count)  # type: ignore[misc]
        await until(pilot, lambda: "1 act" in screen_text(app))
        assert "the first of all" in screen_text(app)

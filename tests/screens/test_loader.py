"""The queue's loader alone, without a screen: what its reads return, and what it keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends import SQLiteDLQ
from console.screens.queue.loader import QueueLoader, RowsRead
from console.services.browse.queue_order import View
from console.services.browse.queue_window import PAGE
from console.services.session import StoreSession
from tests.support.app import NOW, Stage, ident, make_store, order, twelve


@pytest.fixture
async def session(stage: Stage) -> AsyncIterator[StoreSession]:
    session = await stage.attach(stage.store_config)
    yield session
    await session.aclose()


@pytest.fixture
def loader(session: StoreSession) -> QueueLoader:
    return QueueLoader(lambda: session, lambda: NOW)


def listed(loader: QueueLoader) -> list[str]:
    return [spot.entry.id for spot in loader.window.spots]


def write(stage: Stage, *numbers: int) -> None:
    with SQLiteDLQ(stage.path) as sink:
        for number in numbers:
            sink.write(order(number, minutes=0.1))


async def test_a_start_lists_the_newest_first_and_counts_them_as_seen(loader: QueueLoader) -> None:
    assert await loader.start() == RowsRead()
    assert listed(loader) == [ident(number) for number in reversed(range(12))]
    assert loader.seen is not None
    assert loader.seen == loader.window.spots[0].entry.row_key
    read = await loader.count(soon=True)
    assert (read.counts.open, loader.matching, loader.counts) == (12, 12, read.counts)


async def test_a_list_without_rows_says_why(loader: QueueLoader) -> None:
    loader.set_filter("venue:nowhere")
    assert await loader.start() == RowsRead("unmatched")
    loader.set_filter("")
    assert await loader.start() == RowsRead()


async def test_an_empty_store_is_told_from_a_filter_without_matches(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "empty.db", []))
    session = await stage.attach(stage.store_config)
    assert await QueueLoader(lambda: session, lambda: NOW).start() == RowsRead("empty")
    await session.aclose()


async def test_a_renewal_keeps_the_cursor_on_its_entry_and_counts_what_came(loader: QueueLoader, stage: Stage) -> None:
    await loader.start()
    loader.window.move(3)
    seen, current = loader.seen, loader.window.current
    write(stage, 20, 21)
    assert await loader.renew() == RowsRead()
    assert current is not None
    assert loader.window.current is not None
    assert loader.window.current.entry.id == current.entry.id
    assert (loader.fresh, loader.seen, len(listed(loader))) == (2, seen, 14)


async def test_a_renewal_that_the_cursor_has_left_changes_nothing(
    loader: QueueLoader, stage: Stage, session: StoreSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await loader.start()
    around = session.queue_order.around

    async def moves_meanwhile(*asked: object) -> object:
        found = await around(*asked)  # type: ignore[arg-type]  # passed through
        loader.window.move(5)
        return found

    monkeypatch.setattr(session.queue_order, "around", moves_meanwhile)
    write(stage, 20)
    assert await loader.renew() is None
    assert len(listed(loader)) == 12


async def test_the_window_grows_by_a_page_where_the_store_has_more(tmp_path: Path) -> None:
    stage = Stage(make_store(tmp_path / "many.db", [order(number) for number in range(PAGE + 30)]))
    session = await stage.attach(stage.store_config)
    loader = QueueLoader(lambda: session, lambda: NOW)
    await loader.start()
    assert (len(listed(loader)), loader.window.at_end) == (PAGE, False)
    assert await loader.grow("below") == RowsRead(cursor=False)
    assert (len(listed(loader)), loader.window.at_end) == (PAGE + 30, True)
    loader.is_paused = True
    assert await loader.grow("below") is None
    await session.aclose()


async def test_a_search_is_followed_until_everything_was_looked_at(loader: QueueLoader) -> None:
    loader.set_filter("timeout")
    rows = await loader.start()
    assert rows is not None
    assert loader.search is not None
    assert rows.continues is not loader.search.is_over
    async for _ in loader.search_on():
        pass
    assert loader.search.is_over
    assert (listed(loader), loader.matching) == ([ident(10), ident(4)], 2)


async def test_a_renewal_leaves_a_search_alone_that_has_listed_nothing_yet(
    loader: QueueLoader, session: StoreSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    await loader.start()
    newest, renewals = session.queue_order.newest, []

    async def renews_meanwhile(view: View) -> object:
        found = await newest(view)
        renewals.append(await loader.renew())
        return found

    monkeypatch.setattr(session.queue_order, "newest", renews_meanwhile)
    loader.set_filter("timeout")
    await loader.start()
    async for _ in loader.search_on():
        pass
    assert (renewals, loader.matching, listed(loader)) == ([None], 2, [ident(10), ident(4)])


async def test_a_start_that_another_filter_overtook_lists_nothing(
    loader: QueueLoader, session: StoreSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = session.queue_order.after

    async def filters_meanwhile(*asked: object) -> object:
        found = await after(*asked)  # type: ignore[arg-type]  # passed through
        loader.set_filter("venue:nowhere")
        return found

    monkeypatch.setattr(session.queue_order, "after", filters_meanwhile)
    assert await loader.start() is None
    assert listed(loader) == []


async def test_arrivals_are_read_once_a_minute(loader: QueueLoader) -> None:
    read = await loader.arrivals()
    assert read is not None
    assert (len(read.moments), read.whole) == (len(twelve()), True)
    assert await loader.arrivals() is None


async def test_another_store_starts_from_nothing(loader: QueueLoader) -> None:
    loader.set_filter("timeout")
    await loader.start()
    await loader.count(soon=True)
    loader.forget()
    assert (loader.text, loader.search, loader.counts, loader.seen, listed(loader)) == ("", None, None, None, [])
    assert await loader.arrivals() is not None

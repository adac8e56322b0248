"""The console's order of a store: in doubt first, then by time; the same read from either end, in any steps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from backends import open_store
from backends.records import Filter
from backends.store import Store
from console.services.browse.filter_syntax import parse_expression
from console.services.browse.queue_order import QueueMark, QueueOrder, View
from console.services.triage.triage import Query
from tests.support.app import NOW, ident, make_store, order
from tests.unit.test_first_page import _attempt

DOUBTFUL = (3, 17, 40)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    errors = ("429", "timeout", "schema")
    make_store(tmp_path / "s.db", (order(n, error=errors[n % 3]) for n in range(50)))
    store = await open_store(str(tmp_path / "s.db"))
    for number in DOUBTFUL:
        await _attempt(store, ident(number), "unknown")
    yield store
    await store.aclose()


def expected(*, newest_first: bool = True) -> list[str]:
    held = sorted(DOUBTFUL, reverse=newest_first)
    rest = sorted(set(range(50)) - set(DOUBTFUL), reverse=newest_first)
    return [ident(n) for n in (*held, *rest)]


async def walk(queue_order: QueueOrder, view: View, step: int, *, forward: bool) -> list[str]:
    found: list[str] = []
    mark: QueueMark | None = None
    for _ in range(200):
        stretch = await (queue_order.after if forward else queue_order.before)(view, mark, step)
        ids = [spot.entry.id for spot in stretch.spots]
        found = found + ids if forward else ids + found
        if not stretch.more:
            return found
        end = stretch.spots[-1 if forward else 0].mark if stretch.spots else None
        mark = stretch.reached or end
    raise AssertionError("no end")


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 7, 49, 50, 51, 500])
async def test_every_way_of_reading_gives_the_same(store: Store, step: int, newest_first: bool, forward: bool) -> None:
    view = View(newest_first=newest_first)
    assert await walk(QueueOrder(store), view, step, forward=forward) == expected(newest_first=newest_first)


@pytest.mark.parametrize(
    "text", ["category:schema", "429", "market:AAPL", "state:in_doubt", "state:pending", "!timeout"]
)
@pytest.mark.parametrize("step", [1, 5, 100])
async def test_filters_pick_from_the_same_order(store: Store, text: str, step: int) -> None:
    view = View(parse_expression(text, NOW))
    forward = await walk(QueueOrder(store), view, step, forward=True)
    assert forward == await walk(QueueOrder(store), view, step, forward=False)
    assert forward == [one for one in expected() if one in set(forward)]
    assert 0 < len(forward) < 50


async def test_around_is_the_same_stretch(store: Store) -> None:
    queue_order, view = QueueOrder(store), View()
    whole = (await queue_order.after(view, None, 100)).spots
    for at in (0, 1, 2, 3, 20, 49):
        before, after = await queue_order.around(view, whole[at], 10)
        here = [spot.entry.id for spot in (*before.spots, *after.spots)]
        begin = max(0, at - 10)
        assert here == [spot.entry.id for spot in whole[begin : begin + len(here)]]
        assert after.spots[0] == whole[at]


async def test_mark_all_freezes_every_match_once(store: Store) -> None:
    chosen = [entry.id async for page in QueueOrder(store).chosen(View()) for entry in page]
    assert chosen == expected()


async def test_what_is_newer_is_counted_from_a_place(store: Store) -> None:
    queue_order, view = QueueOrder(store), View(Query(Filter()))
    newest = await queue_order.newest(view)
    assert newest is not None
    assert await queue_order.newer(view, newest, 10) == ()
    spots = (await queue_order.after(view, None, 10)).spots
    assert len(await queue_order.newer(view, spots[5].entry.row_key, 10)) == 2

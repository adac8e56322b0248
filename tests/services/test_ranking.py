"""The queue by value, tries and venue: as sorting all of it would give, in doubt on top, in steps, and it says so."""

# ruff: noqa: E501 - a case is one line
from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from backends import DeadLetteredOrder, PostgresDLQ, SQLiteDLQ, open_store
from backends.records import Entry, number
from backends.store import Store
from console.services.browse import ranking as module
from console.services.browse.filter_syntax import parse_expression
from console.services.browse.queue_order import QueueOrder, View
from console.services.browse.ranking import Ranking
from console.services.browse.sort import CYCLE, Sort, next_sort, parse_sort
from tests.support.app import NOW, ident, order
from tests.unit.test_first_page import _attempt

COUNT = 60
DOUBTFUL = (7, 31)
VENUES = ("alpaca", "kalshi", "hyperliquid")


def entries() -> list[DeadLetteredOrder]:
    """Values and tries repeat, some have none."""
    return [
        order(
            n,
            minutes=1 + COUNT - n,
            venue_name=VENUES[n % 3],
            quantity=float(1 + n * 7 % 13),
            price=None if n % 9 == 0 else 10.0,
            retry_count=n % 4,
        )
        for n in range(COUNT)
    ]


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    path = tmp_path / "orders.db"
    target = str(path) if request.param == "sqlite" else str(request.getfixturevalue("postgres_db"))
    with SQLiteDLQ(path) if request.param == "sqlite" else PostgresDLQ(target) as sink:
        for entry in entries():
            sink.write(entry)
    store = await open_store(target)
    for one in DOUBTFUL:
        await _attempt(store, ident(one), "unknown")
    yield store
    await store.aclose()


def weigh(entry: Entry) -> Decimal | None:
    price, quantity = number(entry.get("price")), number(entry.get("quantity"))
    return None if price is None or quantity is None else price * quantity


def expected(sort: Sort, *, of: list[DeadLetteredOrder]) -> list[str]:
    """By brute force: held first, what has no value last, equal ones newest first."""

    def key(one: DeadLetteredOrder) -> Any:
        raised = {ident(n) for n in DOUBTFUL}  # a try in doubt raised their count
        values: dict[str, Any] = {
            "value": None if one.price is None else one.quantity * one.price,
            "tries": one.retry_count + (one.dlq_id in raised),
            "venue": one.venue_name,
        }
        return values[sort.by]

    newest = sorted(of, key=lambda one: one.captured_at, reverse=True)
    known = sorted((one for one in newest if key(one) is not None), key=key, reverse=sort.descending)
    ranked = [*known, *(one for one in newest if key(one) is None)]
    held = {ident(n) for n in DOUBTFUL}
    return [one.dlq_id for one in sorted(ranked, key=lambda one: one.dlq_id not in held)]


async def listed(ranking: Ranking, step: int = 7) -> list[str]:
    found: list[str] = []
    while True:
        section = await ranking.section(len(found), step)
        found += [spot.entry.id for spot in section.spots]
        if not section.more:
            return found


def ranked(store: Store, sort: Sort, text: str = "") -> Ranking:
    return Ranking(QueueOrder(store), store, View(parse_expression(text, NOW)), sort, weigh)


SORTS = [Sort(by, descending) for by in ("value", "tries", "venue") for descending in (True, False)]


@pytest.mark.parametrize("sort", SORTS, ids=lambda sort: sort.words)
async def test_it_is_the_order_of_sorting_everything(store: Store, sort: Sort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP", 11)
    ranking, steps = ranked(store, sort), 0
    while not ranking.is_over:
        await ranking.step()
        steps += 1
    assert steps > 3
    assert not ranking.has_more
    assert await listed(ranking) == expected(sort, of=entries())


async def test_it_ends_at_the_limit_and_knows_that_there_is_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP", 10)
    monkeypatch.setattr(module, "MOST", 20)
    ranking = ranked(store, Sort("value"))
    while not ranking.is_over:
        await ranking.step()
    assert (len(ranking), ranking.has_more) == (20, True)
    newest = [ident(n) for n in range(COUNT - 1, -1, -1) if n not in DOUBTFUL][: 20 - len(DOUBTFUL)]
    chosen = {*newest, *(ident(n) for n in DOUBTFUL)}
    assert await listed(ranking) == expected(Sort("value"), of=[one for one in entries() if one.dlq_id in chosen])


async def test_a_filter_is_ranked_within(store: Store) -> None:
    ranking = ranked(store, Sort("value"), "venue:kalshi state:pending")
    await ranking.step()
    kept = [one for one in entries() if one.venue_name == "kalshi" and one.dlq_id not in {ident(n) for n in DOUBTFUL}]
    assert await listed(ranking) == expected(Sort("value"), of=kept)


async def test_what_came_changed_and_went_is_ranked_without_reading_all_again(store: Store) -> None:
    ranking = ranked(store, Sort("value"))
    await ranking.step()
    before = await ranking.section(0, COUNT)
    held = before.spots[10].entry
    await _attempt(store, held.id, "unknown")
    gone = before.spots[20].entry
    await _attempt(store, gone.id, "accepted")
    await ranking.renew(before.spots, ())
    after = await listed(ranking)
    assert gone.id not in after
    assert after.index(held.id) < 3, "in doubt stands on top"
    assert len(after) == COUNT - 1


def test_the_orders_follow_each_other_and_end_where_they_began() -> None:
    sort, seen = Sort(), []
    for _ in CYCLE:
        sort = next_sort(sort, has_worth=True)
        seen.append(sort)
    assert seen == [*CYCLE[1:], CYCLE[0]]
    assert Sort("value") not in [next_sort(one, has_worth=False) for one in CYCLE]


@pytest.mark.parametrize(
    ("text", "sort"),
    [("value", Sort("value")), ("-value", Sort("value", False)), ("venue", Sort("venue", False)), ("-venue", Sort("venue")),
     ("age", Sort()), ("-age", Sort("age", False)), (" tries ", Sort("tries")), ("zebra", None), ("", None)],
)  # fmt: skip
def test_a_command_names_an_order(text: str, sort: Sort | None) -> None:
    assert parse_sort(text) == sort

"""Search: rare, common, absent and short terms; with the index, without it, behind it; never more than its time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backends.index import BuildPace
from backends.index.search_text import expression
from backends.records import STATES, Filter, ScannedRows
from console.services.browse.filter_match import fits
from console.services.browse.search import Search
from tests.support.index import Indexed, indexed
from tests.support.moved_time import MovedTime
from tests.support.store import PostgresRig, Rig, only, order_row, sqlite_rig

PLENTY = 30.0  # seconds: for tests that are not about time


def rows() -> list[dict[str, object]]:
    made = [order_row(n, error=f"RuntimeError: HTTP 429 after {n} attempts") for n in range(120)]
    made[7]["error"] = 'ValueError: the Zebra crossed at 50% of_all \\ "quoted" it\'s'
    made[30]["error"] = "Überlauf im Köln-Gateway, Straße gesperrt"
    made[31]["market_id"] = "KXBTC-26NOV10"
    made[32]["action_json"] = '{"time_in_force": "gtd", "tag": "q~"}'
    made[33]["client_order_id"] = "mm-deadbeef~"
    made[40]["error"] = "x" * 50_000 + " needle beyond the page's cut"
    made[50]["venue_name"] = "kalshi"
    for n in range(100, 110):
        made[n]["dismissed"] = True
    return made


@pytest.fixture(params=["sqlite", "postgresql"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made: Rig = (
        sqlite_rig(tmp_path) if request.param == "sqlite" else PostgresRig(request.getfixturevalue("postgres_db"))
    )
    await made.make(rows())
    yield made
    await made.aclose()


@pytest.fixture
async def index(rig: Rig, tmp_path: Path) -> AsyncIterator[Indexed]:
    made = await indexed(await rig.open(), tmp_path)
    await made.settle()
    yield made
    await made.reader.aclose()


def numbers(ids: list[str]) -> list[int]:
    return [int(one.removeprefix("dlq_"), 16) for one in ids]


async def found(search: Search, *terms: str, **given: object) -> list[int]:
    where = Filter(terms=terms, **given)  # type: ignore[arg-type]  # fields of a filter
    got = await search.find(where, limit=500, budget=PLENTY)
    assert got.complete
    return numbers([entry.id for entry in got.entries])


TERMS = (
    "zebra",
    "ZEBRA crossed",
    "50% of_all",
    '\\ "quoted" it\'s',
    "überlauf",
    "Straße",
    "kxbtc-26nov10",
    "gtd",
    "deadbeef~",
    "needle beyond",
    "dlq_000000000000004d",
    "c-77",
    "quokka",
    "HTTP",
    "a",
    "q~",
    "~",
    "@@",
    "9 ",
    "pl",
    "10",
    '"',
    "it's",
)


@pytest.mark.parametrize("term", TERMS)
async def test_index_and_scan_find_what_a_person_would(index: Indexed, term: str) -> None:
    entries = (await index.store.many(tuple(str(row["dlq_id"]) for row in rows()))).values()
    expected = sorted((n for e in entries if fits(e, Filter(terms=(term,))) for n in numbers([e.id])), reverse=True)
    assert await found(Search(index.store, index.reader), term) == expected
    assert await found(Search(index.store, None), term) == expected


async def test_the_store_itself_agrees(index: Indexed) -> None:
    for term in ("Zebra", "50% of_all", "deadbeef~", "needle", "c-77", "quokka", "429 after 5", "~"):
        asked = Filter(terms=(term,))
        page = await index.store.page(asked, limit=500, newest_first=True)
        assert await found(Search(index.store, index.reader), term) == numbers([entry.id for entry in page.entries])


async def test_terms_combine_with_each_other_and_with_the_filter(index: Indexed) -> None:
    search = Search(index.store, index.reader)
    assert await found(search, "429", "after 5") == [59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 5]
    assert await found(search, "429", "after 5", venue="kalshi") == [50]
    assert await found(search, "429", "c-5") == [5], "an id is found when it is one"
    assert await found(search, "429", "after 5", without=("after 50", "after 51")) == [
        59,
        58,
        57,
        56,
        55,
        54,
        53,
        52,
        5,
    ]
    assert await found(search, "after 10") == [10]
    assert await found(search, "after 10", states=frozenset(STATES)) == [*range(109, 99, -1), 10]
    assert await found(search, "after 10", states=only("dismissed").states) == list(range(109, 99, -1))


@pytest.mark.parametrize("with_index", [True, False])
async def test_pages_follow_each_other_without_gap_or_repetition(index: Indexed, with_index: bool) -> None:
    search = Search(index.store, index.reader if with_index else None)
    seen: list[int] = []
    cursor = None
    while True:
        got = await search.find(Filter(terms=("attempts",)), limit=7, budget=PLENTY, cursor=cursor)
        seen += numbers([entry.id for entry in got.entries])
        if got.next is None:
            break
        cursor = got.next
    everything = [n for n in range(119, -1, -1) if n not in (7, 30, 40) and not 100 <= n < 110]
    assert seen == everything


async def test_what_the_index_does_not_know_yet_is_found_all_the_same(rig: Rig, index: Indexed) -> None:
    await rig.fill([order_row(n, error=f"OSError: zebra {n}") for n in range(200, 203)])
    got = await Search(index.store, index.reader).find(Filter(terms=("zebra",)), budget=PLENTY)
    assert numbers([entry.id for entry in got.entries]) == [202, 201, 200, 7]
    assert (got.complete, got.covered, got.total) == (True, 123, 123)
    first = await Search(index.store, index.reader).find(Filter(terms=("zebra",)), limit=2, budget=PLENTY)
    rest = await Search(index.store, index.reader).find(Filter(terms=("zebra",)), budget=PLENTY, cursor=first.next)
    assert numbers([entry.id for entry in (*first.entries, *rest.entries)]) == [202, 201, 200, 7]


async def test_an_index_far_behind_is_owned_up_to(rig: Rig, index: Indexed) -> None:
    await rig.fill([order_row(n) for n in range(200, 700)])
    got = await Search(index.store, index.reader).find(Filter(terms=("zebra",)), budget=PLENTY)
    assert numbers([entry.id for entry in got.entries]) == [7]
    assert not got.complete


async def test_what_was_dismissed_behind_the_index_is_not_shown(rig: Rig, index: Indexed) -> None:
    await rig.sql(f"UPDATE order_dlq SET dismissed = {rig.flag(True)} WHERE dlq_id = '{order_row(7)['dlq_id']}'")
    assert await found(Search(index.store, index.reader), "zebra") == []


async def test_a_half_built_index_covers_what_it_has(rig: Rig, tmp_path: Path) -> None:
    index = await indexed(await rig.open(), tmp_path)
    with index.feed(BuildPace(page=90, tick=0.0)) as feed:
        await feed.step()  # the newest page; the next would file all others
        progress = await index.reader.progress()
        assert progress is not None
        assert progress.searchable == 90
        got = await Search(index.store, index.reader).find(Filter(terms=("zebra",)), budget=PLENTY)
        assert (got.entries, got.complete, got.source) == ((), False, "index")
        assert (got.covered, got.total) == (progress.searchable, 120)
    await index.reader.aclose()


@pytest.mark.parametrize("with_index", [True, False])
async def test_without_time_the_answer_is_partial_and_says_so(index: Indexed, with_index: bool) -> None:
    search = Search(index.store, index.reader if with_index else None)
    got = await search.find(Filter(terms=("zebra",)), budget=0.0)
    assert not got.complete
    assert got.covered < 120
    assert got.next is not None
    rest = await search.find(Filter(terms=("zebra",)), budget=PLENTY, cursor=got.next)
    assert numbers([entry.id for entry in rest.entries]) == [7]


async def test_a_search_keeps_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each hundred rows take 10 ms by this clock: 100, 200 and 200 are looked at, and then 50 ms are over."""
    moved = MovedTime()
    monkeypatch.setattr("console.services.browse.search.time", moved)
    rig = sqlite_rig(tmp_path)
    await rig.make([order_row(n) for n in range(1000)])
    store = await rig.open()
    scan = store.scan

    async def timed(where: Filter, **given: Any) -> ScannedRows:
        got = await scan(where, **given)
        moved.pass_by(got.looked / 10_000)
        return got

    monkeypatch.setattr(store, "scan", timed)
    got = await Search(store, None).find(Filter(terms=("absent",)), budget=0.05)
    assert not got.complete
    assert (got.covered, got.total) == (500, None)
    await rig.aclose()


async def test_what_stands_behind_a_nul_is_found(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path)
    await rig.make([order_row(0), order_row(1, error="cut here\x00and hidden"), order_row(2)])
    index = await indexed(await rig.open(), tmp_path)
    await index.settle()
    assert await found(Search(index.store, index.reader), "hidden") == [1]
    assert await found(Search(index.store, index.reader), "c-1") == [1]
    await index.reader.aclose()
    await rig.aclose()


async def test_repeated_words_blanks_and_new_lines_never_hide_an_entry(tmp_path: Path) -> None:
    rng = random.Random(4)
    errors = ["".join(rng.choices("abA \n", (4, 3, 1, 3, 1), k=30)) for _ in range(40)]
    rig = sqlite_rig(tmp_path)
    await rig.make([order_row(n, error=error) for n, error in enumerate(errors)])
    index = await indexed(await rig.open(), tmp_path)
    await index.settle()
    by_index, by_scan = Search(index.store, index.reader), Search(index.store, None)
    for _ in range(150):
        error, at = rng.choice(errors), rng.randrange(25)
        term = error[at : at + rng.randint(1, 5)]
        if term.strip():
            assert await found(by_index, term) == await found(by_scan, term) != [], repr(term)
    await index.reader.aclose()
    await rig.aclose()


def test_random_terms_never_miss_in_the_trigrams() -> None:
    """Whatever holds a term also holds every trigram of it: the index may only ever say too much."""
    rng = random.Random(2)
    for _ in range(300):
        text = "".join(rng.choice('abcAB "%\\') for _ in range(40))
        start = rng.randrange(30)
        term = text[start : start + rng.randint(3, 9)]
        for gram in expression((term,)).split(" AND "):
            assert gram[1:-1].replace('""', '"') in term

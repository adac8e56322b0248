"""Groups: from the index and from the entries alike, honest about what they cover, their members frozen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from backends.records import Filter, Selection
from backends.store import Store
from console.services.browse.queue_order import QueueOrder, View
from console.services.index.keeper import IndexJob, reader_of
from console.services.market.entry_value import worth_by
from console.services.stats.groups import Groups
from console.services.triage.triage import Query, Triage, classified
from tests.support.index import WORTH, Indexed, indexed, plain
from tests.support.intent import intent_row, make_intents
from tests.support.store import ACTOR, BASE, PostgresRig, Rig, order_row, sqlite_rig

LIMIT, REFUSED = "RuntimeError: HTTP 429 after {} attempts", "RiskRejected: notional {} exceeds the limit"
NOW = BASE + timedelta(hours=2)


def rows() -> list[dict[str, object]]:
    made = [order_row(n, error=LIMIT.format(n), venue_name="alpaca", retry_count=1) for n in range(6)]
    made += [order_row(n, error=LIMIT.format(n), venue_name="kalshi", market_id="KX", price=None) for n in range(6, 8)]
    made += [order_row(n, error=REFUSED.format(n), account_id="hedge", dismissed=n == 8) for n in range(8, 11)]
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


def without_index(store: Store) -> Groups:
    return Groups(Triage(store, ACTOR, lambda: NOW, worth=WORTH), None, lambda: NOW)


async def test_a_group_says_how_many_since_when_where_and_how_much(index: Indexed) -> None:
    view = await index.groups(NOW).view(whole=True)
    assert (view.source, view.complete, view.covered, view.count) == ("index", True, 11, 10)
    limited, refused = view.groups
    assert limited.title == "RuntimeError: HTTP 429 after # attempts"
    assert (limited.count, limited.category, limited.retries) == (8, "transient", 6)
    assert (limited.first_seen, limited.last_seen) == (BASE, BASE + timedelta(seconds=7))
    assert limited.venues == {"alpaca": 6, "kalshi": 2}
    assert limited.markets == {"AAPL": 6, "KX": 2}
    assert (limited.notional, limited.unpriced) == (Decimal("1622.25"), 2)
    assert (refused.count, refused.category, refused.accounts) == (2, "business", {"hedge": 2})
    assert limited.trend == (*[0] * 21, 8, 0, 0)
    assert refused.trend[-3] == 3  # the dismissed one arrived, too


async def test_the_entries_themselves_say_the_same(index: Indexed) -> None:
    from_index = [plain(group) for group in (await index.groups(NOW).view(whole=True)).groups]
    brief = (await index.groups(NOW).view()).groups
    assert [(group.venues, group.markets) for group in brief] == [(group.venues, {}) for group in from_index]
    counted = await without_index(index.store).counted(Query(Filter()))
    assert list(counted.groups) == from_index
    newest = await without_index(index.store).view(budget=10)
    assert [plain(group) for group in newest.groups] == from_index
    assert (newest.source, newest.complete, newest.total) == ("store", True, 10)


async def test_everything_counts_the_settled_too(index: Indexed) -> None:
    assert [group.count for group in (await index.groups(NOW).view(everything=True)).groups] == [8, 3]
    view = await without_index(index.store).view(everything=True, budget=10)
    assert [group.count for group in view.groups] == [8, 3]


async def test_without_an_index_the_newest_are_shown_and_the_rest_is_owned_up_to(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path)
    await rig.make(350)
    view = await without_index(await rig.open()).view(budget=0.0)
    assert (view.covered, view.total, view.complete, view.source) == (100, 350, False, "store")
    assert view.groups[0].last_seen == BASE + timedelta(seconds=349)
    await rig.aclose()


async def test_what_engines_left_open_is_in_its_group_with_and_without_an_index(rig: Rig, index: Indexed) -> None:
    make_intents(rig.target, intent_row(71), intent_row(72), intent_row(73, lease=600))
    again = await rig.open()  # the index was made without them
    triage = Triage(again, ACTOR, lambda: BASE)
    for reader in (index.reader, None):
        groups = Groups(triage, reader, lambda: BASE)
        views = [await groups.view(), await groups.counted(Query())]
        views += [view async for view in groups.growing(Query())][-1:]
        for view in views:
            (left,) = [one for one in view.groups if "engine ended" in one.title]
            assert (left.count, left.states, left.venues) == (2, {"in_doubt": 2}, {"fake": 2})


async def test_a_half_built_index_says_so(rig: Rig, tmp_path: Path) -> None:
    index = await indexed(await rig.open(), tmp_path)
    with index.feed() as feed:
        await feed.step()
        view = await index.groups(NOW).view(everything=True)
        assert (view.covered, view.total, view.complete) == (7, 11, False)
    await index.reader.aclose()


async def test_members_are_a_frozen_set_of_what_still_belongs(rig: Rig, index: Indexed) -> None:
    groups = index.groups(NOW)
    limited = (await groups.view()).groups[0].fingerprint
    await rig.sql(f"UPDATE order_dlq SET dismissed = {rig.flag(True)} WHERE dlq_id = '{order_row(3)['dlq_id']}'")
    members = await groups.members(limited)
    assert [entry.id for entry in members.entries] == [f"dlq_{n:016x}" for n in (0, 1, 2, 4, 5, 6, 7)]
    assert {classified(entry).fingerprint for entry in members.entries} == {limited}
    kalshi = await groups.members(limited, Query(Filter(venue="kalshi")))
    assert [entry.id for entry in kalshi.entries] == [f"dlq_{n:016x}" for n in (6, 7)]
    later = await groups.members(limited, Query(Filter(since=BASE + timedelta(seconds=5), terms=("ATTEMPTS",))))
    assert len(later.entries) == 3
    without = await without_index(index.store).members(limited)
    assert without.entries == members.entries
    report = await Triage(index.store, ACTOR, lambda: NOW).dismiss(Selection.of(kalshi.entries), reason="stale")
    assert len(report.done) == 2
    await index.settle()
    assert (await groups.view()).groups[0].count == 5


async def test_a_group_splits_by_venue_account_and_market(index: Indexed) -> None:
    groups = index.groups(NOW)
    limited = (await groups.view()).groups[0].fingerprint
    split = await groups.split(limited)
    assert [(one.venue, one.account, one.market, one.count) for one in split] == [
        ("alpaca", "main", "AAPL", 6),
        ("kalshi", "main", "KX", 2),
    ]
    assert await without_index(index.store).split(limited) == split


async def test_new_since_you_looked(rig: Rig, index: Indexed) -> None:
    groups = index.groups(NOW)
    limited, refused = (group.fingerprint for group in (await groups.view()).groups)
    assert {group.new for group in (await groups.view()).groups} == {None}
    await groups.looked((limited, refused))
    assert {group.new for group in (await groups.view()).groups} == {0}
    await rig.fill([order_row(n, error=LIMIT.format(n)) for n in range(20, 23)])
    await index.settle()
    assert {group.fingerprint: group.new for group in (await groups.view()).groups} == {limited: 3, refused: 0}
    await groups.looked((limited,))
    assert [group.new for group in (await groups.view()).groups] == [0, 0]


async def test_notes_on_a_group_survive_what_is_done_to_it(index: Indexed) -> None:
    groups = index.groups(NOW)
    fingerprint = (await groups.view()).groups[1].fingerprint
    await groups.note(fingerprint, "desk knows; limit is raised at 15:00")
    members = await groups.members(fingerprint)
    await Triage(index.store, ACTOR, lambda: NOW).dismiss(Selection.of(members.entries), reason="stale")
    index.cache.remove()
    assert [note.text for note in await groups.notes(fingerprint)] == ["desk knows; limit is raised at 15:00"]


async def test_an_amount_is_exact_in_any_order(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path)
    tiny = [order_row(n, quantity=1e-12, price=1e-9) for n in range(30)]
    await rig.make([order_row(99, quantity=1e15, price=1e10), *tiny])
    index = await indexed(await rig.open(), tmp_path)
    await index.settle()
    (group,) = await index.seen()
    assert group.notional == Decimal("10000000000000000000000000.00000000000000000003")
    assert json.loads(f"{group.notional:f}")
    assert await index.recount() == [group]
    await index.reader.aclose()
    await rig.aclose()


async def test_a_stack_too_long_for_a_page_has_one_group_wherever_it_is_asked_for(rig: Rig) -> None:
    stack = "Traceback (most recent call last):\n" + "".join(
        f'  File "/srv/engine/step_{n}.py", line {n}, in step_{n}\n    return await following_step(order, {n})\n'
        for n in range(60)
    )
    await rig.fill([order_row(n, error=f"{stack}ValueError: {n} left") for n in range(20, 23)])
    store = await rig.open()
    groups, triage = without_index(store), Triage(store, ACTOR, lambda: NOW)
    (long,) = [
        group for group in (await groups.counted(Query())).groups if group.title.startswith("ValueError: # left")
    ]
    assert long.count == 3
    newest = await groups.view(budget=10)
    assert plain(next(group for group in newest.groups if group.fingerprint == long.fingerprint)) == long
    asked = Query(group=long.fingerprint)
    ids = [f"dlq_{n:016x}" for n in (20, 21, 22)]
    assert [row.entry.id async for row in triage.stream(asked)] == ids
    assert [entry.id for entry in await triage.select(asked)] == ids
    assert [entry.id for entry in (await groups.members(long.fingerprint)).entries] == ids
    assert sum(one.count for one in await groups.split(long.fingerprint)) == 3
    stretch = await QueueOrder(store).after(View(asked), None, 50)
    assert sorted(spot.entry.id for spot in stretch.spots) == ids


def _valued() -> list[dict[str, object]]:
    """What a list shows a value of, and what it does not."""
    cancel = '{"action": "cancel", "venue_order_id": "v-1"}'
    kalshi = {"market_id": "KX", "quantity": 10.0}
    return [
        order_row(1, quantity=2.0, price=100.0),
        order_row(2, quantity=3.0, price=100.0, action_json=cancel),
        order_row(3, venue_name="kalshi", price=0.5, **kalshi),
        order_row(4, venue_name="kalshi", price=62.0, **kalshi),  # dollars or cents: nobody says
        order_row(5, venue_name="events", price=62.0, **kalshi),  # by its type at kalshi, too
        order_row(6, quantity=0.0, price=None, order_type="market", action_json='{"notional": 500}'),
    ]


@pytest.mark.parametrize("types", [{}, {"events": "kalshi"}])
async def test_a_group_is_worth_what_the_list_says_its_entries_are_worth(tmp_path: Path, types: dict[str, str]) -> None:
    rig = sqlite_rig(tmp_path)
    await rig.make([one | {"error": LIMIT.format(1)} for one in _valued()])
    store, worth = await rig.open(), worth_by(types)
    triage = Triage(store, ACTOR, lambda: NOW, worth=worth)
    await IndexJob(store, lambda: NOW, folder=tmp_path / "cache", types=types).build()
    reader = await reader_of(store, tmp_path / "cache", types=types)
    listed = [worth(row.entry) async for row in triage.stream(Query())]
    whole, unpriced = sum(one for one in listed if one is not None), listed.count(None)
    assert (whole, unpriced) == ((705, 3) if types else (1325, 2))
    for groups in (Groups(triage, reader, lambda: NOW), Groups(triage, None, lambda: NOW)):
        for view in (await groups.view(), await groups.counted(Query())):
            (group,) = view.groups
            assert (group.notional, group.unpriced) == (whole, unpriced), view.source
    assert (await Groups(triage, reader, lambda: NOW).view()).source == "index"
    await reader.aclose()
    await rig.aclose()

"""Where the depth is going: at the edges, rebuilt from times and events, and from the snapshots of the index."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from backends.index import IndexBuilder, IndexWriter
from backends.records import ActContext
from backends.store import Claim, Result, Store
from console.services.index.keeper import label
from console.services.stats import tally
from console.services.stats.report import ShiftActivity
from console.services.stats.trend import DepthTrend, DepthTrends, Moves, depth_trends, of_snapshots
from console.settings.config import Config
from tests.support.index import SMALL_STEPS, Indexed, indexed
from tests.support.integration import IntegrationRig, failed_row
from tests.support.store import (
    ACTOR,
    BASE,
    INTENT,
    PostgresRig,
    Rig,
    entry_of,
    order_row,
    pick,
    set_event_times,
    sqlite_rig,
)

NOW = BASE + timedelta(hours=1)


@pytest.fixture(params=["sqlite", "postgresql"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made: Rig = (
        sqlite_rig(tmp_path) if request.param == "sqlite" else PostgresRig(request.getfixturevalue("postgres_db"))
    )
    yield made
    await made.aclose()


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((0,) * 10, "steady"),
        ((5,) * 10, "steady"),
        ((10,) * 9 + (12,), "steady"),  # the average is 10.2
        ((22,) * 9 + (27,), "rising"),  # exactly 1.2 times 22.5
        ((22,) * 9 + (26,), "steady"),
        ((46,) * 9 + (36,), "falling"),  # exactly 0.8 times 45
        ((46,) * 9 + (37,), "steady"),
        ((1,) * 9 + (0,), "falling"),
        ((0,) * 9 + (1,), "rising"),
        ((7,), "steady"),
    ],
)
def test_a_fifth_of_the_average_is_a_direction(levels: tuple[int, ...], said: str) -> None:
    trend = DepthTrend(levels)
    assert (trend.direction, trend.recent, trend.average) == (said, levels[-1], sum(levels) / len(levels))


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def at(minutes: float) -> ActContext:
    return ActContext(ago(minutes), f"op-{minutes}", "test", None)


async def set_back(target: str) -> None:
    """Give the events the times that their operations name."""
    await set_event_times(target, lambda operation: ago(float(operation.removeprefix("op-"))))


async def replayed(store: Store, number: int, minutes: float) -> None:
    entry = await entry_of(store, number)
    claim = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert isinstance(claim, Claim)
    await store.intend(claim, INTENT, ACTOR, at(minutes))
    assert await store.conclude(claim, Result("accepted", "ord_1"), ACTOR, at(minutes))


async def story(rig: Rig, store: Store) -> None:
    """alpaca has five old entries, of which some go and one comes back; at kalshi three come."""
    await store.dismiss(await pick(store, 0), ACTOR, at(120))
    await store.dismiss(await pick(store, 1, 2), ACTOR, at(6.5))
    await replayed(store, 3, 4.5)
    await store.restore(await pick(store, 1), ACTOR, at(2.5))
    await store.restore(await pick(store, 0), ACTOR, at(0.5))
    await store.dismiss(await pick(store, 6), ACTOR, at(0.5))
    await set_back(rig.target)


def rows() -> list[dict[str, object]]:
    made = [order_row(n) for n in range(5)]
    times = ((5, 8.5), (6, 3.5), (7, 1.5))
    return made + [order_row(n, venue_name="kalshi", captured_at=ago(minutes)) for n, minutes in times]


ALPACA = (4, 4, 4, 2, 2, 1, 1, 2, 2, 3)  # 9, 8, … 1, 0 minutes ago
KALSHI = (0, 1, 1, 1, 1, 1, 2, 2, 3, 2)


def check(trends: DepthTrends | None) -> None:
    assert trends is not None
    assert {name: trend.levels for name, trend in trends.venues.items()} == {"alpaca": ALPACA, "kalshi": KALSHI}
    assert trends.overall.levels == tuple(a + k for a, k in zip(ALPACA, KALSHI, strict=True))


async def moves_of(store: Store) -> Moves:
    activity = ShiftActivity(store.info.table, since=NOW)  # also what was before the shift counts for the depth
    async for block in store.audit():
        activity.feed(block)
    return activity.moves


async def test_the_last_ten_minutes_are_rebuilt(rig: Rig) -> None:
    await rig.make(rows())
    store = await rig.open()
    await story(rig, store)
    check(await depth_trends(store, await tally.counted(store, NOW, Config()), await moves_of(store)))


async def test_without_a_ledger_the_arrivals_are_the_trend(rig: Rig) -> None:
    await rig.make(rows())
    store = await rig.open()
    trends = await depth_trends(store, await tally.counted(store, NOW, Config()), Moves())
    assert trends is not None
    assert trends.venues["kalshi"].levels == (0, 1, 1, 1, 1, 1, 2, 2, 3, 3)
    assert trends.venues["alpaca"].direction == "steady"


class Watch:
    """Keeps the index by a clock of its own."""

    def __init__(self, index: Indexed) -> None:
        self.index = index
        self.now = ago(10)

    async def step(self, minutes: float) -> None:
        """As a process that keeps it does: until nothing is left to do at this moment."""
        self.now = ago(minutes)
        with self.index.cache.writing() as connection:
            made = IndexBuilder(
                self.index.store, IndexWriter(connection), label, now=lambda: self.now, pace=SMALL_STEPS
            )
            await made.settle()
            made.close()

    async def tally(self) -> tally.Tally:
        return await tally.indexed(self.index.store, self.index.reader, NOW, Config())


async def test_the_index_sees_it_minute_by_minute(rig: Rig, tmp_path: Path) -> None:
    await rig.make(rows()[:5])
    store = await rig.open()
    watch = Watch(await indexed(store, tmp_path))
    for minutes in range(9, 0, -1):
        if minutes in (8, 3, 1):
            await rig.fill([rows()[{8: 5, 3: 6, 1: 7}[minutes]]])
        if minutes == 6:
            await store.dismiss(await pick(store, 1, 2), ACTOR, at(6.5))
        await watch.step(minutes)
    seen = await watch.tally()
    assert len(seen.depths) == 9
    trends = await depth_trends(store, seen, Moves())
    assert trends == of_snapshots(seen)
    assert trends.venues["alpaca"].levels == (5, 5, 5, 3, 3, 3, 3, 3, 3, 3)
    assert trends.venues["kalshi"].levels == (0, 1, 1, 1, 1, 1, 2, 2, 3, 3)
    assert trends.overall.levels[0] == 5
    kept = await watch.index.reader.depths(0)
    assert len(kept) == 9
    await watch.index.reader.aclose()


async def test_a_gap_in_the_snapshots_is_rebuilt(rig: Rig, tmp_path: Path) -> None:
    await rig.make(rows())
    store = await rig.open()
    await story(rig, store)
    watch = Watch(await indexed(store, tmp_path))
    for minutes in (9, 8, 7, 5, 4, 3, 2, 1):
        await watch.step(minutes)
    seen = await watch.tally()
    assert len(seen.depths) == 5
    check(await depth_trends(store, seen, await moves_of(store)))
    await watch.index.reader.aclose()


async def test_a_quiet_store_has_a_snapshot_every_minute_and_few_are_kept(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path)
    await rig.make(2)
    index = await indexed(await rig.open(), tmp_path)
    now = ago(40)
    with index.cache.writing() as connection:
        made = IndexBuilder(index.store, IndexWriter(connection), label, now=lambda: now, pace=SMALL_STEPS)
        await made.settle()
        while await made.step():
            pass
        for _ in range(40):
            now += timedelta(minutes=1)
            assert await made.step()
            assert not await made.step()
        made.close()
        assert connection.execute("SELECT count(DISTINCT at) FROM venue_depth").fetchone() == (16,)
        assert connection.execute("SELECT count(*) FROM snapshot").fetchone() == (41,)
    await index.reader.aclose()
    await rig.aclose()


async def test_a_row_that_its_success_deleted_was_open_before(postgres_db: str) -> None:
    rig = IntegrationRig(postgres_db)
    await rig.tables()
    first, _ = await rig.failed(failed_row(0), failed_row(1))
    store = await rig.store()
    entry = await store.get(first)
    assert entry is not None
    claim = await store.claim(first, entry.version, ACTOR, 30)
    assert isinstance(claim, Claim)
    await store.intend(claim, INTENT, ACTOR, at(3.5))
    assert await store.conclude(claim, Result("accepted"), ACTOR, at(3.5))
    await rig.sql(f"DELETE FROM integration_dlq WHERE id = '{first}'")
    await set_back(postgres_db)
    trends = await depth_trends(store, await tally.counted(store, NOW, Config()), await moves_of(store))
    assert trends is not None
    assert trends.overall.levels == (2,) * 6 + (1,) * 4
    assert trends.overall.direction == "falling"
    await rig.aclose()


def test_events_that_leave_an_entry_as_it_is_do_not_count() -> None:
    moves = Moves()
    for body in (
        {"kind": "outcome", "outcome": "rejected"},
        {"kind": "outcome", "outcome": "accepted", "rehearsal": True},
        {"kind": "note"},
        {"kind": "dismiss", "at": "no time"},
    ):
        moves.take(json.loads(json.dumps({"at": ago(1).isoformat(), "entries": ["a"], **body})))
    assert moves.since(ago(9)) == []
    moves.take({"kind": "dismiss", "at": ago(60).isoformat(), "entries": ["a"]})
    moves.take({"kind": "reconcile", "outcome": "accepted", "at": ago(1).isoformat(), "entries": ["a"]})
    assert [(move.ids, move.leaves) for move in moves.since(ago(99))] == [(("a",), True)]

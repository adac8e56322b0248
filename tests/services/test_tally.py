"""The figures of each venue: by hand, counted and from the index alike, on both engines and on every layout."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backends.records import Filter, Selection
from backends.store import Result, Store
from console.services.resend.hub_source import HubStore, open_hub
from console.services.stats import tally
from console.services.stats.report import ShiftActivity
from console.services.stats.tally import Tally, VenueTally
from console.services.stats.trend import depth_trends
from console.settings.config import Alerts, Config, Limits
from tests.support.http_server import Loopback
from tests.support.index import indexed, plain
from tests.support.integration import IntegrationRig, entry_id, failed_row
from tests.support.outbox import OutboxRig, dead_row
from tests.support.store import (
    ACTOR,
    BASE,
    INTENT,
    PostgresRig,
    Rig,
    attempt_on,
    order_row,
    pick,
    set_event_times,
    sqlite_rig,
    why,
)
from tests.support.venue.hub import TOKEN, FakeHub, failed_item
from venues.credentials import Credentials

NOW = BASE + timedelta(hours=1)
LIMIT, REFUSED = "RuntimeError: HTTP 429 after 3 attempts", "RiskRejected: notional 5 exceeds the limit"
EARLY, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made: Rig = (
        sqlite_rig(tmp_path) if request.param == "sqlite" else PostgresRig(request.getfixturevalue("postgres_db"))
    )
    yield made
    await made.aclose()


async def both(store: Store, folder: Path, config: Config | None = None) -> Tally:
    """The tally, counted; the index says the same."""
    using = config or Config()
    counted = await tally.counted(store, NOW, using)
    sizes = await tally.counted(store, NOW, using, groups="sizes")
    assert (sizes.group_sizes, sizes.groups) == (counted.group_sizes, ())
    assert replace(sizes, groups=counted.groups, sizes=None) == counted
    index = await indexed(store, folder)
    try:
        await index.settle()
        seen = await tally.indexed(store, index.reader, NOW, using)
    finally:
        await index.reader.aclose()
    brief = tuple(replace(group, accounts={}, markets={}) for group in counted.groups)
    assert replace(seen, groups=tuple(map(plain, seen.groups)), depths=()) == replace(counted, groups=brief)
    return counted


def rows() -> list[dict[str, object]]:
    """At alpaca: 90, 60, 30 and 29 minutes old with 0, 1, 4 and 7 retries; kalshi and ibkr have closed ones only."""
    ages = ((90, 0, LIMIT), (60, 1, LIMIT), (30, 4, REFUSED), (29, 7, REFUSED))
    made = [
        order_row(n, captured_at=NOW - timedelta(minutes=age), retry_count=retries, error=error)
        for n, (age, retries, error) in enumerate(ages)
    ]
    made += [order_row(n, venue_name="kalshi", retry_count=9, dismissed=True) for n in (4, 5)]
    return [*made, order_row(6, venue_name="ibkr"), order_row(7, venue_name="binance", captured_at=NOW)]


async def fails(store: Store, number: int, times: int, error: str = LIMIT) -> None:
    for _ in range(times):
        await attempt_on(store, number, Result("rejected", error=error), replace(INTENT, mode="live"))


async def test_every_figure_of_a_venue(rig: Rig, tmp_path: Path) -> None:
    await rig.make(rows())
    store = await rig.open()
    await store.dismiss(await pick(store, 6), ACTOR, why())
    await attempt_on(store, 1, Result("unknown", error=LIMIT), replace(INTENT, mode="live"))
    await fails(store, 0, 2)
    found = await both(store, tmp_path)
    assert list(found.venues) == ["alpaca", "binance", "ibkr", "kalshi"]
    assert found.venues["alpaca"] == VenueTally(
        depth=4,
        in_doubt=1,
        oldest=NOW - timedelta(minutes=90),
        average_age=timedelta(minutes=209) / 4,
        over_age=3,
        categories={"business": 2, "transient": 2},
        retries=2 + 2 + 4 + 7,  # each failed replay is a retry
        by_retries=(0, 0, 2, 0, 1, 1),
        poisoned=1,
    )
    assert found.venues["binance"].average_age == timedelta(0)
    assert found.venues["ibkr"] == found.venues["kalshi"] == VenueTally(0, 0, None)
    assert (found.poisoned, found.retries, found.is_readable) == (1, 15, True)
    assert [group.poisoned for group in found.groups if group.title.startswith("RuntimeError")] == [1]


async def test_limits_are_those_of_the_config(rig: Rig, tmp_path: Path) -> None:
    await rig.make(rows())
    store = await rig.open()
    await fails(store, 0, 3)
    stricter = Config(alerts=Alerts(oldest=timedelta(hours=1)), limits=Limits(poison_after=5))
    found = (await both(store, tmp_path, stricter)).venues["alpaca"]
    assert (found.over_age, found.poisoned) == (2, 0)
    found = (await both(store, tmp_path, replace(stricter, limits=Limits(poison_after=4)))).venues["alpaca"]
    assert found.poisoned == 1


async def test_an_emptied_store_keeps_its_venues_and_a_fresh_one_has_none(rig: Rig, tmp_path: Path) -> None:
    await rig.make([])
    store = await rig.open()
    assert (await both(store, tmp_path)).venues == {}
    await rig.fill([order_row(0)])
    await store.dismiss(await pick(store, 0), ACTOR, why())
    assert (await both(store, tmp_path)).venues == {"alpaca": VenueTally(0, 0, None)}
    assert (await tally.counted(store, NOW, Config(), closed=False)).venues == {}


async def test_sums_of_times_may_exceed_64_bits(rig: Rig, tmp_path: Path) -> None:
    """Forty times of the year 9999, in microseconds, are more than a database's integer holds."""
    await rig.make([order_row(n, captured_at=LATEST) for n in range(40)])
    store = await rig.open()
    found = (await both(store, tmp_path)).venues["alpaca"]
    assert (found.depth, found.average_age, found.over_age) == (40, timedelta(0), 0)
    await rig.fill([order_row(n, captured_at=EARLY) for n in range(40, 440)])
    found = (await both(store, tmp_path)).venues["alpaca"]
    whole = 400 * (NOW - EARLY) - 40 * (LATEST - NOW)
    assert (found.depth, found.average_age, found.over_age) == (440, whole // 440, 400)


async def test_an_entry_without_a_time_has_no_age(tmp_path: Path) -> None:
    rig = sqlite_rig(tmp_path)
    await rig.make([order_row(0, captured_at="not a time"), order_row(1, captured_at=NOW - timedelta(hours=1))])
    found = (await both(await rig.open(), tmp_path)).venues["alpaca"]
    assert (found.depth, found.average_age, found.over_age) == (2, timedelta(hours=1), 1)
    await rig.sql("UPDATE order_dlq SET dismissed = 1 WHERE rowid = 2")
    found = (await both(await rig.open(), tmp_path)).venues["alpaca"]
    assert (found.depth, found.oldest, found.average_age, found.over_age) == (1, None, None, 0)
    await rig.aclose()


async def test_queues_are_tallied_alike(postgres_db: str, tmp_path: Path) -> None:
    outbox = OutboxRig(postgres_db)
    await outbox.tables()
    await outbox.dead(*(dead_row(n, queue="fills" if n % 5 == 0 else "orders") for n in range(20)))
    store = await outbox.store()
    closed = [entry for entry in (await store.page(Filter(), limit=50)).entries if entry.get("queue") == "fills"]
    await store.dismiss(Selection.of(closed), ACTOR, why())
    found = await both(store, tmp_path / "outbox")
    assert {name: venue.depth for name, venue in found.venues.items()} == {"fills": 0, "orders": 16}
    assert found.venues["orders"].retries == 48
    await outbox.aclose()


async def test_providers_are_tallied_alike(postgres_db: str, tmp_path: Path) -> None:
    hub = IntegrationRig(postgres_db)
    await hub.tables()
    await hub.failed(*(failed_row(n) for n in range(3)), failed_row(3, providerName=None))
    found = await both(await hub.store(), tmp_path / "hub")
    assert {name: venue.depth for name, venue in found.venues.items()} == {"Acme Pay": 3, "prov-1": 1}
    await hub.aclose()


async def test_a_hub_behind_its_api_is_tallied_alike(postgres_db: str) -> None:
    there = FakeHub().add(failed_item(1), failed_item(2), failed_item(3, providerName="Other Ltd"))
    async with Loopback(there) as server:
        store = await open_hub(HubStore(server.url, postgres_db), Credentials({"token": TOKEN}), read_only=False)
        third = await store.get(entry_id(3))
        assert third is not None
        acted = NOW - timedelta(minutes=4.5)
        await store.dismiss(Selection.of([third]), ACTOR, replace(why(), at=acted))
        await set_event_times(postgres_db, lambda _: acted)
        found = await tally.counted(store, NOW, Config())
        assert {name: venue.depth for name, venue in found.venues.items()} == {"Acme Pay": 2, "Other Ltd": 0}
        assert (found.poisoned, found.words.origin) == (0, "provider")
        activity = ShiftActivity(store.info.table)
        async for block in store.audit():
            activity.feed(block)
        trends = await depth_trends(store, found, activity.moves)
        assert trends is not None
        assert trends.venues["Other Ltd"].levels == (1,) * 5 + (0,) * 5
        await store.aclose()

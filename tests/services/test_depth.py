"""The depth over the last hours, rebuilt from what arrived and from the ledger, where nobody kept the index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from backends.records import ActContext
from console.services.stats.health import Health
from console.settings.config import Config
from tests.support.index import indexed
from tests.support.store import ACTOR, BASE, PostgresRig, Rig, order_row, pick, set_event_times, sqlite_rig

NOW = BASE + timedelta(hours=8)


@pytest.fixture(params=["sqlite", "postgresql"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    made: Rig = (
        sqlite_rig(tmp_path) if request.param == "sqlite" else PostgresRig(request.getfixturevalue("postgres_db"))
    )
    yield made
    await made.aclose()


def at(hours: float, name: str) -> ActContext:
    return ActContext(BASE + timedelta(hours=hours), name, "stale")


async def test_the_depth_is_rebuilt_from_arrivals_dismissals_and_restores(rig: Rig, tmp_path: Path) -> None:
    """Ten came in hour 1, four were dismissed in hour 3, one restored in hour 5; no console ran before."""
    rows = [order_row(n, captured_at=BASE + timedelta(hours=1, minutes=n)) for n in range(10)]
    await rig.make(rows)
    store = await rig.open()
    await store.dismiss(await pick(store, 0, 1, 2, 3), ACTOR, at(3, "first"))
    await store.restore(await pick(store, 3), ACTOR, at(5, "second"))
    times = {"first": BASE + timedelta(hours=3), "second": BASE + timedelta(hours=5)}
    await set_event_times(rig.target, lambda operation: times[operation])
    index = await indexed(store, tmp_path)
    await index.settle()
    health = Health(store, index.reader, Config(), lambda: NOW)
    view = await health.view(points=16)
    assert view is not None
    # every half an hour
    assert view.depth == (0, 1, 10, 10, 10, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7)
    again = await health.view(points=16)
    assert again is not None
    assert again.depth == view.depth, "events are counted once"
    await index.reader.aclose()

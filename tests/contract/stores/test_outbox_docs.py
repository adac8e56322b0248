"""The SQL that docs/outbox.md advises does what the page says, on tables with dead letters in them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backends.records import Selection
from tests.support.outbox import OutboxRig, dead_row, entry, requeue
from tests.support.store import ACTOR, EVERYTHING, ids, table_findings, why

PARTITIONS, DELETE, INDEXES = re.findall(
    r"```sql\n(.*?)```", Path(__file__).parents[3].joinpath("docs/outbox.md").read_text(), re.DOTALL
)


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    yield rig
    await rig.aclose()


async def test_partitions_are_made_used_and_dropped(rig: OutboxRig) -> None:
    await rig.tables(dlq=None)
    async with rig.connect() as connection:
        await connection.execute(PARTITIONS)
    months = [datetime(2026, month, 17, tzinfo=UTC) for month in (11, 12)]
    await rig.dead(*(dead_row(n, failed_at=month) for n, month in enumerate(months)))
    store = await rig.store()
    assert [one.code for one in table_findings(store)] == ["ids-may-repeat"]
    await requeue(store, "1")
    await rig.sql("DROP TABLE outbox_dlq_2026_11")
    assert await ids(store, EVERYTHING) == ["2"]
    assert len(await store.attempts("1")) == 1


async def test_the_daily_delete_spares_what_nobody_has_handled(rig: OutboxRig) -> None:
    await rig.tables()
    now = datetime.now(UTC)
    await rig.dead(*(dead_row(n, failed_at=now - timedelta(days=days)) for n, days in enumerate((200, 200, 200, 1))))
    store = await rig.store()
    await requeue(store, "1")
    await store.dismiss(Selection.of([await entry(store, "2"), await entry(store, "4")]), ACTOR, why())
    async with rig.connect() as connection:
        await connection.execute(DELETE)
    assert await ids(store, EVERYTHING) == ["3", "4"]


async def test_the_indexes_can_be_made(rig: OutboxRig) -> None:
    await rig.tables()
    async with rig.connect() as connection:
        await connection.execute(INDEXES)
    assert table_findings(await rig.store()) == ()

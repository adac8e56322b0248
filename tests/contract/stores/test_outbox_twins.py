"""A partitioned dead-letter table may hold an id twice: every act takes the row that is named, or is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from backends.records import Filter, Selection
from backends.store import ActRefused, ClaimRefused, RepeatedId, Requeued
from console.services.triage.triage import Triage
from tests.support.outbox import BASE, OutboxRig, dead_row, entry, requeue, settled_rows
from tests.support.store import ACTOR, EVERYTHING, ids, only, recount, table_findings, walk, walk_back, why

OLD, NEW = "1@2026-04-18T14:32:16Z", "1@2026-04-18T14:32:20.5Z"


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[OutboxRig]:
    """Rows of id 1 in two partitions, and 2 alone."""
    rig = OutboxRig(postgres_db)
    await rig.tables(dlq=None)
    await rig.partitioned()
    await rig.dead(
        dead_row(1, id=1), dead_row(2, id=2), dead_row(5, id=1, failed_at=BASE + timedelta(seconds=5, milliseconds=500))
    )
    yield rig
    await rig.aclose()


def _triage(store: object) -> Triage:
    return Triage(store, ACTOR, lambda: datetime(2026, 4, 18, 15, tzinfo=UTC))  # type: ignore[arg-type]


async def test_a_repeated_id_is_told_apart_and_a_single_one_stays_as_it_is(rig: OutboxRig) -> None:
    store = await rig.store()
    assert await ids(store, Filter()) == [OLD, NEW, "2"]
    found = await store.many((OLD, NEW, "2", "1"))
    assert {name: one.get("payload") for name, one in found.items()} == {
        OLD: b'{"n": 1}',
        NEW: b'{"n": 5}',
        "2": b'{"n": 2}',
    }
    assert [finding.code for finding in table_findings(store)] == ["no-queue-index", "ids-may-repeat"]


@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_meet_both_rows_of_an_id_once(rig: OutboxRig, newest_first: bool) -> None:
    store = await rig.store()
    expected = ["2", NEW, OLD] if newest_first else [OLD, NEW, "2"]
    there = await walk(store, Filter(), limit=1, newest_first=newest_first)
    assert [one.id for one in there] == expected
    back = await walk_back(store, Filter(), there[-1], limit=1, newest_first=newest_first)
    assert [one.id for one in back] == expected


async def test_a_bare_id_that_is_repeated_is_refused_by_name(rig: OutboxRig) -> None:
    triage = _triage(await rig.store())
    with pytest.raises(RepeatedId) as refused:
        await triage.chosen(("2", "1"))
    assert str(refused.value) == f"2 entries have the id 1: say which, {OLD}, {NEW}"
    with pytest.raises(RepeatedId):
        await triage.history("1")
    assert (await triage.chosen(("2", "7")))[1] == ("7",)


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize(("name", "payload"), [(OLD, b'{"n": 1}'), (NEW, b'{"n": 5}')])
async def test_a_replay_takes_the_row_that_is_named(rig: OutboxRig, name: str, payload: bytes, deletes: bool) -> None:
    store = await rig.store(delete_after_replay=deletes)
    other = NEW if name == OLD else OLD
    result = await requeue(store, name)
    assert isinstance(result, Requeued)
    (row,) = await rig.outbox_rows()
    assert row["payload"] == payload
    assert json.loads(row["headers"])["x-dlq-replay-of"] == f"outbox_dlq:{name}"
    assert await ids(store, Filter()) == (["1", "2"] if deletes else [one for one in (OLD, NEW, "2") if one != name])
    if not deletes:
        assert await ids(store, only("replayed")) == [name]
        assert (await store.attempts(name))[0].venue_order_id == str(row["id"])
        assert await store.attempts(other) == ()
    again = await store.requeue(name, (await entry(store, "2")).version, ACTOR, why())
    assert isinstance(again, ClaimRefused)
    assert len(await rig.outbox_rows()) == 1


async def test_dismiss_and_restore_take_the_row_that_is_named(rig: OutboxRig) -> None:
    store = await rig.store()
    assert (await store.dismiss(Selection.of([await entry(store, NEW)]), ACTOR, why())).done == (NEW,)
    assert await ids(store, Filter()) == [OLD, "2"]
    assert dict((await store.counts(EVERYTHING)).by_state) == {"pending": 2, "dismissed": 1}
    assert recount(await walk(store, EVERYTHING)) == {"pending": 2, "dismissed": 1}
    both = Selection.of([await entry(store, OLD), await entry(store, NEW)])
    result = await store.dismiss(both, ACTOR, why())
    assert (result.done, result.changed) == ((OLD,), ((NEW, "dismissed"),))
    assert (await store.restore(Selection.of([await entry(store, OLD)]), ACTOR, why())).done == (OLD,)
    assert await ids(store, Filter()) == [OLD, "2"]
    kinds = [json.loads(event.body)["kind"] for event in await store.events(OLD)]
    assert kinds == ["dismiss", "restore"]


async def test_what_was_done_to_a_row_alone_stays_its_own_when_a_second_one_comes(rig: OutboxRig) -> None:
    store = await rig.store()
    await requeue(store, "2")
    await store.note("2", ACTOR, why(note="of the first"))
    await rig.dead(dead_row(9, id=2, failed_at=datetime(2126, 8, 1, tzinfo=UTC)))
    old, new = "2@2026-04-18T14:32:17Z", "2@2126-08-01T00:00:00Z"
    assert await ids(store, Filter()) == [OLD, NEW, new]
    assert [one.venue_order_id for one in await store.attempts(old)] == ["1"]
    assert [one.text for one in await store.notes(old)] == ["of the first"]
    assert len(await store.events(old)) == 3
    assert (await store.attempts(new), await store.notes(new), await store.events(new)) == ((), (), ())
    assert list(await store.attempts_of((old, new))) == [old]


async def test_rows_that_nothing_tells_apart_are_refused(rig: OutboxRig) -> None:
    await rig.sql("DROP TABLE outbox_dlq")
    await rig.tables(outbox=None)
    await rig.sql("ALTER TABLE outbox_dlq DROP CONSTRAINT outbox_dlq_pkey")
    await rig.dead(dead_row(1, id=1), dead_row(1, id=1, queue="other"))
    store = await rig.store()
    assert await ids(store, Filter()) == [OLD, OLD]
    result = await requeue(store, OLD)
    assert isinstance(result, ClaimRefused)
    assert result.why == "another row has its id and time: cannot tell which is meant"
    dismissed = await store.dismiss(Selection.of([await entry(store, OLD)]), ACTOR, why())
    assert (dismissed.done, dismissed.changed) == ((), ((OLD, result.why),))
    assert await settled_rows(rig.target) == []
    assert await rig.outbox_rows() == []


async def test_a_view_tells_them_apart_as_its_table_does(rig: OutboxRig) -> None:
    await rig.sql("CREATE VIEW seen AS SELECT * FROM outbox_dlq")
    store = await rig.store(table="seen")
    assert [one.id for one in await walk(store, Filter(), limit=1)] == [OLD, NEW, "2"]
    with pytest.raises(ActRefused, match="is a view"):
        await requeue(store, NEW)


async def test_an_id_of_text_may_hold_the_mark_of_a_suffix(rig: OutboxRig) -> None:
    await rig.sql("DROP TABLE outbox_dlq")
    await rig.tables(outbox=None)
    text = "ALTER COLUMN id DROP DEFAULT, ALTER COLUMN id TYPE text USING id::text, DROP CONSTRAINT outbox_dlq_pkey"
    await rig.sql(f"ALTER TABLE outbox_dlq {text}")
    await rig.dead(dead_row(1, id="a@b"), dead_row(2, id="a@b"), dead_row(3, id="a"), dead_row(4, id="a@2026"))
    store = await rig.store()
    there = await walk(store, Filter(), limit=1)
    assert [one.id for one in there] == ["a@b@2026-04-18T14:32:16Z", "a@b@2026-04-18T14:32:17Z", "a", "a@2026"]
    for one in there:
        assert (await entry(store, one.id)).get("payload") == one.get("payload")
        assert isinstance(await requeue(store, one.id), Requeued)
    assert await ids(store, Filter()) == []
    assert [row["payload"] for row in await rig.outbox_rows()] == [b'{"n": %d}' % n for n in (1, 2, 3, 4)]

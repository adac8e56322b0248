"""A replay is one new row of the outbox, and the package's own broker handles it once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import cast

import pytest

from backends.records import Filter, Selection
from backends.store import ActRefused, ClaimRefused, Requeued
from console.services.replay.outcome import EntryOutcome
from console.services.resend.outbox import OutboxBatch
from tests.support.outbox import Consumer, OutboxRig, broker, dead_row, entry, requeue, settled_rows, until_dead
from tests.support.store import ACTOR, OTHER, events_of, ids, only, verdict, why


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


def _now() -> datetime:
    return datetime(2026, 4, 18, 15, tzinfo=UTC)


async def test_what_fails_lands_in_the_queue_is_replayed_and_handled_once(rig: OutboxRig) -> None:
    consumer = Consumer(failing=True)
    bodies = [b'{"n": 1, "price": 1.10}', b"\xff\x00\x01 not text", b"plain", b"[]", b"{}"]
    async with broker(rig, consumer) as running, rig.engine() as engine:
        async with engine.begin() as connection:
            for body in bodies:
                headers = {"content-type": "application/octet-stream", "tenant": "t-1"}
                await running.publish(body, queue="orders", session=connection, headers=headers)
        store = await rig.store()
        found = await until_dead(store, len(bodies))
        assert {one.text("failure_reason") for one in found} == {"retry_terminal"}
        assert all("no such instrument" in one.text("last_exception") for one in found)
        failed_headers = {cast("bytes", one.get("payload")): json.loads(one.text("headers")) for one in found}
        consumer.failing, consumer.handled = False, []
        results = await OutboxBatch(store, ACTOR, _now).run(found, note="fixed")
        assert {one.outcome for one in results} == {"accepted"}
        await consumer.until(len(bodies))
    assert sorted(body for body, _ in consumer.handled) == sorted(bodies)
    for body, headers in consumer.handled:
        assert headers.pop("x-dlq-replay-of").startswith("outbox_dlq:")
        assert headers == failed_headers[body]
    assert await rig.outbox_rows() == []
    assert await ids(store, Filter()) == []
    assert await ids(store, only("replayed")) == [one.id for one in found]


async def test_a_running_broker_is_woken_at_once(rig: OutboxRig) -> None:
    """Unwoken it would look again after ten minutes."""
    await rig.dead(1)
    consumer = Consumer()
    async with broker(rig, consumer, interval=600) as running, rig.engine() as engine:
        async with engine.begin() as connection:
            await running.publish(b"first", queue="orders", session=connection)
        await consumer.until(1)
        await requeue(await rig.store(), "1")
        await consumer.until(2)
    assert [body for body, _ in consumer.handled] == [b"first", b'{"n": 1}']


async def test_bytes_and_headers_are_copied_as_they_are(rig: OutboxRig) -> None:
    payload = bytes(range(256)) * 64
    headers = '{"correlation_id": "c", "x": "ü", "n": 1.10, "x-dlq-replay-of": "older:7"}'
    await rig.dead(dead_row(1, payload=payload, headers=headers, queue="a:b%s'"), dead_row(2, headers=None))
    store = await rig.store()
    await requeue(store, "1")
    await requeue(store, "2")
    first, second = await rig.outbox_rows()
    assert (first["queue"], first["payload"]) == ("a:b%s'", payload)
    assert first["headers"] == '{"n": 1.10, "x": "ü", "correlation_id": "c", "x-dlq-replay-of": "outbox_dlq:1"}'
    assert (first["attempts_count"], first["deliveries_count"], first["acquired_token"]) == (0, 0, None)
    assert second["headers"] == '{"x-dlq-replay-of": "outbox_dlq:2"}'


async def test_the_header_can_be_switched_off(rig: OutboxRig) -> None:
    await rig.dead(dead_row(1), dead_row(2, headers=None))
    store = await rig.store(replay_header=False)
    await requeue(store, "1")
    await requeue(store, "2")
    rows = await rig.outbox_rows()
    assert [row["headers"] for row in rows] == ['{"content-type": "application/json", "correlation_id": "c-1"}', None]


async def test_the_row_stays_unless_the_config_says_otherwise(rig: OutboxRig) -> None:
    await rig.dead(1, 2)
    await requeue(await rig.store(), "1")
    gone = await requeue(await rig.store(delete_after_replay=True), "2")
    assert isinstance(gone, Requeued)
    assert gone.deleted
    assert await rig.sql("SELECT id FROM outbox_dlq") == [(1,)]
    assert len(await rig.outbox_rows()) == 2


@pytest.mark.parametrize("deletes", [False, True])
async def test_a_live_timer_is_a_conflict_that_loses_nothing(rig: OutboxRig, deletes: bool) -> None:
    await rig.dead(dead_row(1, timer_id="t-1"))
    await rig.sql("INSERT INTO outbox (queue, payload, timer_id) VALUES ('orders', 'live', 't-1')")
    store = await rig.store(delete_after_replay=deletes)
    result = await requeue(store, "1")
    assert isinstance(result, ClaimRefused)
    assert result.code == "conflict"
    assert await ids(store, Filter()) == ["1"]
    assert [row["payload"] for row in await rig.outbox_rows()] == [b"live"]
    assert await settled_rows(rig.target) == []
    assert await store.attempts("1") == ()
    await rig.sql("DELETE FROM outbox")
    assert isinstance(await requeue(store, "1"), Requeued)
    assert [row["timer_id"] for row in await rig.outbox_rows()] == ["t-1"]


_SWALLOW = "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"


@pytest.mark.parametrize(
    "rule",
    [
        "CREATE TRIGGER t BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION swallow()",
        "CREATE RULE r AS ON INSERT TO outbox DO INSTEAD NOTHING",
        "CREATE RULE r AS ON INSERT TO outbox WHERE NEW.queue = 'orders' DO INSTEAD NOTHING",
    ],
)
async def test_an_outbox_that_swallows_the_row_is_told_as_that(rig: OutboxRig, rule: str) -> None:
    await rig.dead(1)
    await rig.sql(_SWALLOW)
    await rig.sql(rule)
    for store in (await rig.store(), await rig.store(delete_after_replay=True)):
        (result,) = await OutboxBatch(store, ACTOR, _now).run([await entry(store, "1")])
        assert result.outcome == "refused"
        assert result.detail == "the outbox took no row: a trigger or rule on outbox swallowed it; nothing was changed"
        assert await ids(store, Filter()) == ["1"]
        assert await settled_rows(rig.target) == []
        assert (await store.attempts("1"), await store.events("1")) == ((), ())
        assert await rig.outbox_rows() == []


async def test_a_table_that_keeps_its_row_from_being_deleted_is_told_as_that(rig: OutboxRig) -> None:
    await rig.dead(1)
    await rig.sql(_SWALLOW)
    await rig.sql("CREATE TRIGGER t BEFORE DELETE ON outbox_dlq FOR EACH ROW EXECUTE FUNCTION swallow()")
    store = await rig.store(delete_after_replay=True)
    with pytest.raises(ActRefused, match="a trigger or rule on outbox_dlq keeps the row from being deleted"):
        await requeue(store, "1")
    assert await ids(store, Filter()) == ["1"]
    assert await rig.outbox_rows() == []


async def test_fifty_at_once_of_ten_rows_are_ten(rig: OutboxRig) -> None:
    made = await rig.dead(*range(10))
    consumer = Consumer()
    stores = [await rig.store() for _ in range(5)]
    async with broker(rig, consumer):
        seen = [await entry(stores[0], one) for one in made]
        batches = [OutboxBatch(store, OTHER, _now).run(seen) for store in stores]
        results: list[EntryOutcome] = [one for batch in await asyncio.gather(*batches) for one in batch]
        await consumer.until(10)
        # Whatever else were on its way would be there by the time a later message is.
        await rig.sql("INSERT INTO outbox (queue, payload) VALUES ('orders', 'the last')")
        await rig.sql("SELECT pg_notify('outbox_outbox', 'orders')")
        await consumer.until(11)
    assert sorted(one.outcome for one in results) == ["accepted"] * 10 + ["skipped"] * 40
    assert len({one.venue_order_id for one in results if one.outcome == "accepted"}) == 10
    assert sorted(body for body, _ in consumer.handled) == sorted([b'{"n": %d}' % n for n in range(10)] + [b"the last"])
    assert len(await settled_rows(rig.target)) == 10
    assert (await verdict(stores[0]))[0] is None


async def test_fifty_single_replays_of_ten_rows_are_ten(rig: OutboxRig) -> None:
    made = await rig.dead(*range(10))
    stores = [await rig.store(delete_after_replay=True) for _ in range(5)]
    versions = {one: (await entry(stores[0], one)).version for one in made}
    calls = [store.requeue(one, versions[one], ACTOR, why()) for store in stores for one in made]
    results = await asyncio.gather(*calls)
    assert sum(isinstance(one, Requeued) for one in results) == 10
    assert len(await rig.outbox_rows()) == 10
    assert await rig.sql("SELECT count(*) FROM outbox_dlq") == [(0,)]


async def test_a_dismissed_or_changed_entry_is_not_sent(rig: OutboxRig) -> None:
    await rig.dead(1, 2)
    store = await rig.store()
    seen = await entry(store, "1")
    await store.dismiss(Selection.of([seen]), ACTOR, why())
    dismissed = await store.requeue("1", seen.version, ACTOR, why())
    assert isinstance(dismissed, ClaimRefused)
    assert dismissed.code == "settled"
    await rig.sql("UPDATE outbox_dlq SET failed_at = failed_at + interval '1 s' WHERE id = 2")
    changed = await store.requeue("2", ("2026-04-18 14:32:17+00",), ACTOR, why())
    assert isinstance(changed, ClaimRefused)
    assert changed.code == "changed"
    gone = await store.requeue("999", ("",), ACTOR, why())
    assert isinstance(gone, ClaimRefused)
    assert gone.code == "gone"
    assert await rig.outbox_rows() == []


async def test_a_row_of_a_reused_id_is_another_entry(rig: OutboxRig) -> None:
    """Emptied and filled anew, a table gives ids a second time; what was handled then is not what failed now."""
    await rig.dead(1)
    store = await rig.store()
    await requeue(store, "1")
    assert await ids(store, Filter()) == []
    await rig.sql("TRUNCATE outbox_dlq RESTART IDENTITY")
    await rig.dead(5)
    assert await ids(store, Filter()) == ["1"]
    assert isinstance(await requeue(store, "1"), Requeued)
    assert [row["payload"] for row in await rig.outbox_rows()] == [b'{"n": 1}', b'{"n": 5}']


async def test_halt_stops_a_batch(rig: OutboxRig) -> None:
    made = await rig.dead(1, 2, 3)
    store = await rig.store()
    await store.halt(OTHER, why(note="stop"))
    results = await OutboxBatch(store, ACTOR, _now).run([await entry(store, one) for one in made])
    assert [one.outcome for one in results] == ["not_sent"] * 3
    assert all((one.detail or "").startswith("halt") for one in results)
    assert await rig.outbox_rows() == []


async def test_stopping_takes_effect_between_entries(rig: OutboxRig) -> None:
    made = await rig.dead(1, 2, 3)
    store = await rig.store()
    batch = OutboxBatch(store, ACTOR, _now)
    told: list[str] = []

    def tell(ended: EntryOutcome) -> None:
        told.append(ended.outcome)
        batch.stop()

    await batch.run([await entry(store, one) for one in made], tell=tell)
    assert told == ["accepted", "skipped", "skipped"]
    assert len(await rig.outbox_rows()) == 1


async def test_a_replay_is_in_the_record(rig: OutboxRig) -> None:
    await rig.dead(dead_row(1, timer_id="t-1"))
    store = await rig.store()
    await requeue(store, "1")
    (attempt,) = await store.attempts("1")
    assert (attempt.outcome, attempt.venue, attempt.venue_order_id) == ("accepted", "orders", "1")
    assert attempt.client_order_id == "c-1"
    intent, ended = (json.loads(event.body) for event in await store.events("1"))
    assert (intent["kind"], intent["venue"], intent["mode"]) == ("intent", "orders", "live")
    assert (ended["kind"], ended["outcome"], ended["venue_order_id"]) == ("outcome", "accepted", "1")
    assert (ended["outbox"], ended["after"]) == ("outbox", {"deleted": False})
    message = ended["message"]
    assert (message["created_at"], message["original_id"], message["timer_id"]) == (
        "2026-04-18 14:32:15+00",
        "1001",
        "t-1",
    )
    assert (await verdict(store))[0] is None


async def test_a_refusal_is_in_the_record(rig: OutboxRig) -> None:
    await rig.dead(dead_row(1, timer_id="t-1"))
    await rig.sql("INSERT INTO outbox (queue, payload, timer_id) VALUES ('orders', 'live', 't-1')")
    store = await rig.store()
    (result,) = await OutboxBatch(store, ACTOR, _now).run([await entry(store, "1")])
    assert result.outcome == "refused"
    assert "timer_id" in (result.detail or "")
    assert [json.loads(event.body)["kind"] for event in await events_of(store)] == ["refused-replay"]


async def test_without_rights_to_the_outbox_nothing_is_changed_and_the_owner_is_told_what_to_run(
    rig: OutboxRig,
) -> None:
    await rig.dead(1)
    await requeue(await rig.store(), "1")  # the ledger is there
    await rig.dead(2)
    poor = await rig.role("poor", "SELECT ON outbox_dlq", "USAGE ON SCHEMA dlq_console")
    await rig.sql(f'GRANT ALL ON ALL TABLES IN SCHEMA dlq_console TO "{poor.split("//")[1].split("@")[0]}"')
    await rig.sql(f'GRANT ALL ON ALL SEQUENCES IN SCHEMA dlq_console TO "{poor.split("//")[1].split("@")[0]}"')
    store = await rig.store(target=poor)
    with pytest.raises(ActRefused, match=r"GRANT INSERT \(queue, payload, headers, timer_id\), SELECT \(id\)"):
        await requeue(store, "2")
    assert await ids(store, Filter()) == ["2"]
    assert await settled_rows(rig.target) == [("1", "replayed")]


@pytest.mark.parametrize("deletes", [False, True])
async def test_the_least_privileges_are_enough(rig: OutboxRig, deletes: bool) -> None:
    """What an owner would run, as the console itself says it, is all that is needed."""
    await rig.dead(dead_row(1, timer_id="t"), dead_row(2))
    least = await rig.role("least", "SELECT ON outbox_dlq")
    first = await rig.store(target=least, delete_after_replay=deletes)
    with pytest.raises(ActRefused, match="an owner would run") as refused:
        await requeue(first, "1")
    for statement in str(refused.value).partition(":\n")[2].split(";\n"):
        await rig.sql(statement.rstrip(";"))
    store = await rig.store(target=least, delete_after_replay=deletes)
    assert isinstance(await requeue(store, "1"), Requeued)
    assert (await store.dismiss(Selection.of([await entry(store, "2")]), ACTOR, why())).done == ("2",)
    assert (await store.restore(Selection.of([await entry(store, "2")]), ACTOR, why())).done == ("2",)
    assert len(await rig.outbox_rows()) == 1
    for forbidden in ("UPDATE outbox_dlq SET queue = 'x'", "SELECT payload FROM outbox", "DELETE FROM outbox"):
        async with rig.connect(least) as connection:
            with pytest.raises(Exception, match="permission denied"):
                await connection.execute(forbidden)

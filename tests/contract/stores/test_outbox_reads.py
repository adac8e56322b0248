"""Pages, filters, counts and acts over an outbox's dead letters keep the contract of every store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from backends.records import Filter, Selection
from backends.store import ActRefused
from console.services.layout_fields import correlation_id, error_text, payload, time_to_failure
from console.services.triage.triage import Query, Triage, classified
from tests.support.outbox import BASE, OutboxRig, dead_row, entry, requeue
from tests.support.store import ACTOR, EVERYTHING, events_of, ids, only, recount, verdict, walk, walk_back, why


@pytest.fixture
async def rig(postgres_db: str) -> AsyncIterator[OutboxRig]:
    rig = OutboxRig(postgres_db)
    await rig.tables()
    yield rig
    await rig.aclose()


async def test_an_entry_shows_its_own_columns_as_stored(rig: OutboxRig) -> None:
    await rig.dead(dead_row(1, payload=b"\x00\xff", timer_id="t"))
    store = await rig.store()
    found = await entry(store, "1")
    assert (found.layout, found.id, found.state, found.clipped) == ("outbox", "1", "pending", False)
    assert found.names == store.info.columns
    shown = dict(found.columns)
    assert json.loads(str(shown.pop("headers"))) == {"content-type": "application/json", "correlation_id": "c-1"}
    assert shown == {
        "id": 1,
        "original_id": 1001,
        "queue": "orders",
        "payload": b"\x00\xff",
        "deliveries_count": 3,
        "created_at": BASE,
        "failed_at": BASE + timedelta(seconds=1),
        "failure_reason": "retry_terminal",
        "last_exception": "ValueError('order 1 is bad')",
        "timer_id": "t",
    }
    assert correlation_id(found) == "c-1"
    assert time_to_failure(found) == timedelta(seconds=1)


@pytest.mark.parametrize("newest_first", [False, True])
async def test_pages_meet_every_entry_once_in_both_directions(rig: OutboxRig, newest_first: bool) -> None:
    made = await rig.dead(*(dead_row(n, failed_at=BASE) for n in range(11)))
    store = await rig.store()
    expected = made[::-1] if newest_first else made
    there = await walk(store, Filter(), limit=3, newest_first=newest_first)
    assert [one.id for one in there] == expected
    back = await walk_back(store, Filter(), there[-1], limit=4, newest_first=newest_first)
    assert [one.id for one in back] == expected


async def test_pages_by_time_where_the_id_is_no_number(rig: OutboxRig) -> None:
    await rig.sql("ALTER TABLE outbox_dlq ALTER COLUMN id DROP DEFAULT, ALTER COLUMN id TYPE text USING id::text")
    await rig.dead(*(dead_row(n, id=f"k{9 - n}", failed_at=BASE + timedelta(seconds=n // 2)) for n in range(6)))
    store = await rig.store()
    assert store.info.order == "failed_at, id"
    there = await walk(store, Filter(), limit=2)
    assert [one.id for one in there] == ["k8", "k9", "k6", "k7", "k4", "k5"]
    assert [one.id for one in await walk_back(store, Filter(), there[-1], limit=2)] == [one.id for one in there]
    await requeue(store, "k6")
    assert await ids(store, Filter()) == ["k8", "k9", "k7", "k4", "k5"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Filter(venue="mail"), ["2", "4"]),
        (Filter(venue="nowhere"), []),
        (Filter(account="x"), []),
        (Filter(market="x"), []),
        (Filter(since=BASE + timedelta(seconds=3)), ["3", "4"]),
        (Filter(until=BASE + timedelta(seconds=2)), ["1"]),
        (Filter(terms=("ORDER 3",)), ["3"]),
        (Filter(venue="MAIL", terms=("bad",)), ["2", "4"]),
        (Filter(terms=("bad",), without=("order 3",)), ["1", "2", "4"]),
        (Filter(terms=('{"n": 4}',)), []),
        (Filter(terms=("2",), without=("order",)), []),
        (Filter(terms=("100%",)), []),
        (Filter(terms=("o_der",)), []),
        (Filter(venue="a\0b"), []),
    ],
)
async def test_a_filter_is_answered_by_the_store(rig: OutboxRig, where: Filter, expected: list[str]) -> None:
    rows = [dead_row(n, queue="orders" if n % 2 else "mail") for n in range(1, 5)]
    rows[0]["payload"] = "grün".encode()
    await rig.dead(*rows)
    store = await rig.store()
    assert await ids(store, where) == expected
    assert sum((await store.counts(where)).by_state.values()) == len(expected)


async def test_counts_agree_with_what_is_there(rig: OutboxRig) -> None:
    made = await rig.dead(*range(8))
    store = await rig.store()
    assert (await store.counts(EVERYTHING)).by_state["pending"] == 8
    await requeue(store, made[0])
    await store.dismiss(Selection.of([await entry(store, one) for one in made[1:3]]), ACTOR, why())
    counted = await store.counts(EVERYTHING)
    expected = recount(await walk(store))
    assert dict(counted.by_state) == expected == {"pending": 5, "dismissed": 2, "replayed": 1}
    assert counted.oldest_pending == BASE + timedelta(seconds=3)
    by_queue = await store.counts(Filter(venue="orders", states=EVERYTHING.states))
    assert dict(by_queue.by_state) == expected


async def test_each_state_lists_its_own(rig: OutboxRig) -> None:
    made = await rig.dead(*range(4))
    store = await rig.store()
    await requeue(store, made[1])
    await store.dismiss(Selection.of([await entry(store, made[2])]), ACTOR, why())
    assert await ids(store, only("pending")) == [made[0], made[3]]
    assert await ids(store, only("replayed")) == [made[1]]
    assert await ids(store, only("dismissed")) == [made[2]]
    assert await ids(store, only("in_doubt", "in_flight")) == []
    assert await ids(store, only("dismissed", "pending")) == [made[0], made[2], made[3]]


async def test_dismiss_and_restore_leave_the_row_alone(rig: OutboxRig) -> None:
    made = await rig.dead(1, 2)
    store = await rig.store()
    before = await rig.sql("SELECT t::text, xmin::text FROM outbox_dlq t ORDER BY id")
    chosen = Selection.of([await entry(store, one) for one in made])
    assert (await store.dismiss(chosen, ACTOR, why())).done == tuple(made)
    again = await store.dismiss(chosen, ACTOR, why())
    assert (again.done, dict(again.changed)) == ((), {"1": "dismissed", "2": "dismissed"})
    assert (await store.restore(Selection(chosen.picks[:1]), ACTOR, why())).done == ("1",)
    assert await ids(store, Filter()) == ["1"]
    missed = await store.restore(Selection.of([await entry(store, "1")]), ACTOR, why())
    assert (missed.done, missed.changed) == ((), (("1", "pending again"),))
    assert await rig.sql("SELECT t::text, xmin::text FROM outbox_dlq t ORDER BY id") == before
    assert [json.loads(one.body)["kind"] for one in await events_of(store)] == ["dismiss", "restore"]
    assert (await verdict(store))[0] is None


async def test_many_dismiss_at_once_and_each_entry_moves_once(rig: OutboxRig) -> None:
    made = await rig.dead(*range(20))
    stores = [await rig.store() for _ in range(4)]
    chosen = Selection.of([await entry(stores[0], one) for one in made])
    results = await asyncio.gather(*(store.dismiss(chosen, ACTOR, why()) for store in stores))
    assert sorted(one for result in results for one in result.done) == sorted(made)


@pytest.mark.parametrize("odd", ["x", "", "1.0", "01", "+1", "9" * 30, "1\0", "-0", "١"])
async def test_what_is_no_id_is_not_found(rig: OutboxRig, odd: str) -> None:
    await rig.dead(1)
    store = await rig.store()
    assert await store.get(odd) is None
    assert (await store.dismiss(Selection(((odd, ("",)),)), ACTOR, why())).changed == ((odd, "gone"),)


async def test_long_values_are_cut_on_a_page_and_whole_by_id(rig: OutboxRig) -> None:
    body, text = b"\xfe" * 100_000, "ü" * 9000
    await rig.dead(dead_row(1, payload=body, last_exception=text), 2)
    store = await rig.store()
    first, second = (await store.page(Filter(), limit=5)).entries
    assert first.clipped
    assert not second.clipped
    assert first.get("payload") == body[:4096]
    whole = await entry(store, "1")
    assert (whole.get("payload"), whole.get("last_exception")) == (body, text)


async def test_times_that_python_cannot_hold_are_shown_as_text(rig: OutboxRig) -> None:
    await rig.dead(1, 2)
    await rig.sql("UPDATE outbox_dlq SET created_at = '0044-03-15 BC' WHERE id = 1")
    await rig.sql("UPDATE outbox_dlq SET failed_at = 'infinity' WHERE id = 2")
    store = await rig.store()
    first, second = (await store.page(Filter(), limit=5)).entries
    assert "BC" in first.text("created_at")
    assert second.text("failed_at") == "infinity"
    assert time_to_failure(second) is None


async def test_credentials_in_headers_are_masked(rig: OutboxRig) -> None:
    await rig.dead(dead_row(1, headers='{"Authorization": "Bearer abcdef123456", "correlation_id": "c"}'))
    store = await rig.store()
    for found in (await entry(store, "1"), (await store.page(Filter(), limit=1)).entries[0]):
        assert "abcdef" not in repr(found)
        assert correlation_id(found) == "c"
    await requeue(store, "1")
    assert "Bearer abcdef123456" in (await rig.outbox_rows())[0]["headers"]


async def test_like_failures_fall_into_one_group(rig: OutboxRig) -> None:
    await rig.dead(1, 2, dead_row(3, last_exception=None, failure_reason="rejected"))
    store = await rig.store()
    rows = [row async for row in Triage(store, ACTOR, lambda: BASE).stream(Query())]
    assert rows[0].fingerprint == rows[1].fingerprint != rows[2].fingerprint
    assert error_text(rows[2].entry) == "rejected"
    assert classified(rows[0].entry).category in ("schema", "business", "transient", "integration")


async def test_notes_and_halt_are_kept_as_everywhere(rig: OutboxRig) -> None:
    await rig.dead(1)
    store = await rig.store()
    await store.note("1", ACTOR, why(note="asked the team"))
    assert [one.text for one in await store.notes("1")] == ["asked the team"]
    await store.halt(ACTOR, why(note="stop"))
    assert (await store.halted()) is not None
    await store.resume(ACTOR, why(note="go"))
    assert (await store.halted()) is None
    with pytest.raises(ActRefused, match="read-only"):
        await (await rig.store(read_only=True)).note("1", ACTOR, why(note="no"))


def test_a_payload_is_shown_as_what_it_is() -> None:
    assert payload(b'{"a":1.10}') == payload('{"a":1.10}')
    assert (payload(b'{"a":1.10}').kind, payload(b'{"a":1.10}').text) == ("json", '{\n  "a": 1.10\n}')
    assert (payload(b"plain").kind, payload(b"").kind) == ("text", "empty")
    shown = payload(b"\x00\xffA")
    assert (shown.kind, shown.text.split("  ")[0], shown.text[-3:]) == ("hex", "00000000", "..A")

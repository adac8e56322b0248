"""Dismiss, restore, notes, halt: each conditional on what was seen, each with its audit event in the same commit."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime, timedelta

import asyncpg
import pytest

from backends.records import Filter, Selection
from backends.store import ActRefused, Claim, Result
from tests.support.store import (
    ACTOR,
    BASE,
    EVERYTHING,
    INTENT,
    OTHER,
    PostgresRig,
    Rig,
    SQLiteRig,
    attempt_on,
    entry_of,
    events_of,
    ids,
    order_row,
    pick,
    verdict,
    why,
)

FIRST, SECOND, THIRD = (f"dlq_{n:016x}" for n in range(3))


async def test_dismiss_and_restore(store_rig: Rig) -> None:
    await store_rig.make(3)
    store = await store_rig.open()
    done = await store.dismiss(await pick(store, 0, 2), ACTOR, why(reason="stale"))
    assert sorted(done.done) == [FIRST, THIRD]
    assert done.changed == ()
    assert [entry.state for entry in (await store.page(EVERYTHING, limit=9)).entries] == [
        "dismissed",
        "pending",
        "dismissed",
    ]
    assert await ids(store, Filter()) == [SECOND]
    back = await store.restore(await pick(store, 2), ACTOR, why("op-2", reason="restored"))
    assert back.done == (THIRD,)
    assert (await entry_of(store, 2)).state == "pending"
    assert (await entry_of(store, 0)).state == "dismissed"


async def test_the_driver_never_asks_what_a_type_is(
    postgres_store: PostgresRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a question costs three round trips a connection, and is answered with operators of any search_path."""
    asked: list[object] = []

    async def spy(_: object, types: object, __: object) -> object:
        asked.append(types)
        raise AssertionError(types)

    await postgres_store.make(2)
    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", spy)
    store = await postgres_store.open()
    await store.dismiss(await pick(store, 0), ACTOR, why())
    await attempt_on(store, 1, Result("accepted", venue_order_id="ord-1"))
    assert asked == []


async def test_nothing_but_dismissed_is_written(store_rig: Rig) -> None:
    await store_rig.make(2)
    before = await store_rig.sql("SELECT * FROM order_dlq ORDER BY dlq_id")
    store = await store_rig.open()
    await store.dismiss(await pick(store, 0, 1), ACTOR, why())
    await store.restore(await pick(store, 0, 1), ACTOR, why())
    assert await store_rig.sql("SELECT * FROM order_dlq ORDER BY dlq_id") == before


async def test_losers_are_named_with_what_they_are_now(store_rig: Rig) -> None:
    await store_rig.make(6)
    store = await store_rig.open()
    seen = await pick(store, 0, 1, 2, 3, 4, 5)
    await store_rig.sql("UPDATE order_dlq SET retry_count = retry_count + 1 WHERE dlq_id LIKE '%1'")
    await store_rig.sql(f"UPDATE order_dlq SET dismissed = {store_rig.flag(True)} WHERE dlq_id LIKE '%2'")
    await attempt_on(store, 3, Result("unknown"))
    await attempt_on(store, 4)
    gone = Selection((*seen.picks, ("dlq_gone", (0, 0))))
    result = await store.dismiss(gone, ACTOR, why())
    assert sorted(result.done) == [FIRST, "dlq_0000000000000005"]
    assert dict(result.changed) == {
        SECOND: "pending, retries=1",
        THIRD: "dismissed",
        "dlq_0000000000000003": "in doubt",
        "dlq_0000000000000004": "in flight",
        "dlq_gone": "gone",
    }


async def test_nothing_moved_leaves_no_event(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await store.dismiss(await pick(store, 0), ACTOR, why())
    count = len(await events_of(store))
    stale = Selection(((FIRST, (0, 0)),))
    assert (await store.dismiss(stale, ACTOR, why())).done == ()
    assert (await store.restore(Selection(((FIRST, (7, 1)),)), ACTOR, why())).done == ()
    assert (await store.dismiss(Selection(()), ACTOR, why())).done == ()
    assert len(await events_of(store)) == count


async def test_what_a_venue_may_have_is_neither_dismissed_nor_restored(store_rig: Rig) -> None:
    await store_rig.make(3)
    store = await store_rig.open()
    await attempt_on(store, 0)
    await attempt_on(store, 1, Result("unknown"))
    await attempt_on(store, 2, Result("accepted", "v-2"), replace(INTENT, mode="live"))
    for n, state in enumerate(("in flight", "in doubt", "replayed")):
        selection = await pick(store, n)
        assert (await store.dismiss(selection, ACTOR, why())).changed == ((selection.ids[0], state),)
        assert (await store.restore(selection, ACTOR, why())).changed == ((selection.ids[0], state),)


async def test_a_claimed_entry_is_not_dismissed(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    entry = await entry_of(store)
    claim = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert isinstance(claim, Claim)
    refused = await other.dismiss(await pick(other, 0), OTHER, why())
    assert refused.changed == ((FIRST, "pending, retries=0"),)
    await store.release(claim)
    assert (await other.dismiss(await pick(other, 0), OTHER, why())).done == (FIRST,)


async def test_a_lapsed_claim_does_not_keep_from_dismissing(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    entry = await entry_of(store)
    await store.claim(entry.id, entry.version, ACTOR, -1)
    assert (await store.dismiss(await pick(store, 0), ACTOR, why())).done == (FIRST,)


async def test_two_consoles_at_once_move_each_entry_once(store_rig: Rig) -> None:
    await store_rig.make(300)
    one, two = await store_rig.open(), await store_rig.open()
    everything = await pick(one, *range(300))

    chunks = [Selection(everything.picks[start : start + 30]) for start in range(0, 300, 30)]
    results = await asyncio.gather(
        *(store.dismiss(chunk, actor, why()) for chunk in chunks for store, actor in ((one, ACTOR), (two, OTHER)))
    )
    done = [entry_id for result in results for entry_id in result.done]
    assert sorted(done) == sorted(everything.ids)
    told = [entry_id for result in results for entry_id, now in result.changed if now == "dismissed"]
    assert sorted(told) == sorted(everything.ids)
    named = [pick[0] for event in await events_of(one) for pick in json.loads(event.body)["entries"]]
    assert sorted(named) == sorted(everything.ids)
    assert (await verdict(one))[0] is None


async def test_a_bulk_event_names_every_entry_with_its_before_values(store_rig: Rig) -> None:
    await store_rig.make([order_row(n, retry_count=n) for n in range(5)])
    store = await store_rig.open()
    await store.dismiss(await pick(store, 1, 2, 4), ACTOR, why("bulk-1", reason="stale", note="gone cold"))
    (event,) = await events_of(store)
    body = json.loads(event.body)
    assert body["kind"] == "dismiss"
    assert body["before"] == ["dlq_id", "retry_count", "dismissed"]
    assert sorted(body["entries"]) == [[SECOND, 1, 0], [THIRD, 2, 0], ["dlq_0000000000000004", 4, 0]]
    assert body["after"] == {"dismissed": True}
    assert (body["reason"], body["note"], body["operation"]) == ("stale", "gone cold", "bulk-1")
    at = datetime.fromisoformat(body["at"])
    if store_rig.on_postgres:
        assert abs((await store.clock()) - at) < timedelta(minutes=5), "the database sets the time"
    else:
        assert at == BASE
    role = "postgres" if store_rig.on_postgres else ""
    assert body["who"] == {"operator": "ann", "os_user": "ops", "host": "desk1", "db_role": role, "program": "dlq 0.1"}
    for n in (1, 2, 4):
        assert await store.events(f"dlq_{n:016x}") == (event,)
    assert await store.events(FIRST) == ()


async def test_refusals_are_recorded(store_rig: Rig) -> None:
    await store_rig.make(2)
    store = await store_rig.open()
    await store.record("refused-dismiss", (FIRST, SECOND), ACTOR, why(reason="refused", note="in doubt"))
    (event,) = await store.events(SECOND)
    body = json.loads(event.body)
    assert body["kind"] == "refused-dismiss"
    assert body["entries"] == [FIRST, SECOND]
    assert body["note"] == "in doubt"


async def test_notes(store_rig: Rig) -> None:
    await store_rig.make(2)
    store = await store_rig.open()
    assert await store.notes(FIRST) == ()
    await store.note(FIRST, ACTOR, why(note="called the desk"))
    await store.note(FIRST, OTHER, why(note="they know\nünd 😀 [b]"))
    notes = await store.notes(FIRST)
    assert [(note.operator, note.text) for note in notes] == [
        ("ann", "called the desk"),
        ("bob", "they know\nünd 😀 [b]"),
    ]
    assert await store.notes(SECOND) == ()
    assert len(await store.events(FIRST)) == 2


async def test_halt_and_resume(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    assert await store.halted() is None
    await store.halt(ACTOR, why(note="runaway"))
    halted = await other.halted()
    assert halted is not None
    assert (halted.operator, halted.note) == ("ann", "runaway")
    assert store_rig.on_postgres or halted.since == "2026-04-18T14:32:15+00:00"
    await other.halt(OTHER, why(note="still"))
    again = await store.halted()
    assert again is not None
    assert again.note == "still"
    await store.resume(ACTOR, why(note="fixed"))
    assert await other.halted() is None
    assert [json.loads(event.body)["kind"] for event in await events_of(store)] == ["halt", "halt", "resume"]


@pytest.mark.parametrize("odd", [None, "text", 1.5, b"blob", "a\0b", 2**62, float("inf")])
async def test_odd_retry_counts_on_sqlite(sqlite_store: SQLiteRig, odd: object) -> None:
    await sqlite_store.make(0)
    await sqlite_store.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    await sqlite_store.fill([order_row(0, retry_count=odd), order_row(1)], "q")
    store = await sqlite_store.open(table="q")
    result = await store.dismiss(await pick(store, 0, 1), ACTOR, why())
    if odd in (b"blob", "a\0b", float("inf")):
        assert result.done == (SECOND,)
        assert result.changed == ((FIRST, "its retry_count is not a number: cannot be acted on"),)
    else:
        assert sorted(result.done) == [FIRST, SECOND]
    assert await sqlite_store.sql("SELECT retry_count FROM q WHERE dlq_id = ?", FIRST) == [(odd,)]


async def test_a_store_that_forbids_it_is_believed(store_rig: Rig) -> None:
    await store_rig.make(1)
    if store_rig.on_postgres:
        await store_rig.sql("ALTER TABLE order_dlq ADD CHECK (NOT dismissed)")
    else:
        await store_rig.sql(
            "CREATE TRIGGER never BEFORE UPDATE OF dismissed ON order_dlq BEGIN SELECT RAISE(ABORT, 'never'); END"
        )
    store = await store_rig.open()
    with pytest.raises(ActRefused, match="a rule of the store forbids it"):
        await store.dismiss(await pick(store, 0), ACTOR, why())
    assert (await entry_of(store)).state == "pending"
    assert await events_of(store) == []
    await store.note(FIRST, ACTOR, why(note="the next act is not harmed"))
    assert len(await events_of(store)) == 1


async def test_a_cancelled_caller_tears_nothing(store_rig: Rig) -> None:
    await store_rig.make(50)
    store = await store_rig.open()
    everything = await pick(store, *range(50))
    for start in range(0, 50, 10):
        task = asyncio.ensure_future(store.dismiss(Selection(everything.picks[start : start + 10]), ACTOR, why()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await store.aclose()
    again = await store_rig.open()
    moved = [entry.id for entry in (await again.page(Filter(states=frozenset({"dismissed"})), limit=99)).entries]
    named = [pick[0] for event in await events_of(again) for pick in json.loads(event.body)["entries"]]
    assert sorted(moved) == sorted(named)
    assert (await verdict(again))[0] is None


async def test_entries_find_their_events_among_bulks_and_single_acts(store_rig: Rig) -> None:
    await store_rig.make(120)
    store = await store_rig.open()
    for operation, numbers in (("a", range(100)), ("b", range(20, 120)), ("c", range(5)), ("d", range(90, 95))):
        act = store.restore if operation == "b" else store.dismiss
        await act(await pick(store, *numbers), ACTOR, why(operation))
    await store.note(FIRST, ACTOR, why("e", note="n"))
    await store.record("refused-dismiss", tuple(f"dlq_{n:016x}" for n in range(100)), ACTOR, why("f"))

    async def operations(number: int) -> str:
        return "".join(json.loads(event.body)["operation"] for event in await store.events(f"dlq_{number:016x}"))

    assert [await operations(n) for n in (0, 3, 50, 92, 110)] == ["aef", "af", "abf", "abdf", ""]


async def test_ids_without_an_index_are_dismissed_all_the_same(store_rig: Rig) -> None:
    await store_rig.make([order_row(n, retry_count=n % 3) for n in range(200)])
    await store_rig.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    store = await store_rig.open(table="q")
    seen = await pick(store, *range(50, 150))
    await store_rig.sql("UPDATE q SET retry_count = 9 WHERE dlq_id = 'dlq_0000000000000040'")
    entry = await entry_of(store, 100)
    assert isinstance(await store.claim(entry.id, entry.version, ACTOR, 30), Claim)
    result = await store.dismiss(seen, ACTOR, why())
    assert len(result.done) == 98
    assert dict(result.changed) == {"dlq_0000000000000040": "pending, retries=9", entry.id: "pending, retries=1"}
    rows = await store_rig.sql(f"SELECT count(*) FROM q WHERE dismissed = {store_rig.flag(True)}")
    assert rows == [(98,)]
    assert len((await store.restore(await pick(store, 50, 51), ACTOR, why())).done) == 2

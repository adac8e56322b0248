"""Pages in insertion order, both ways, from any place; entries by id; never a row lost or seen twice."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from backends.records import Entry, Filter
from backends.store import Result
from tests.support.store import (
    ACTOR,
    BASE,
    EVERYTHING,
    PostgresRig,
    Rig,
    SQLiteRig,
    attempt_on,
    choose,
    entry_of,
    ids,
    only,
    order_row,
    pick,
    walk,
    walk_back,
    why,
)


def numbers(entries: list[Entry]) -> list[int]:
    return [int(entry.id[4:], 16) for entry in entries]


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 11])
async def test_pages_both_ways(store_rig: Rig, limit: int) -> None:
    await store_rig.make(10)
    store = await store_rig.open()
    forwards = await walk(store, limit=limit)
    assert numbers(forwards) == list(range(10))
    assert numbers(await walk_back(store, EVERYTHING, forwards[-1], limit=limit)) == list(range(10))
    backwards = await walk(store, limit=limit, newest_first=True)
    assert numbers(backwards) == list(range(9, -1, -1))
    assert numbers(await walk_back(store, EVERYTHING, backwards[-1], limit=limit, newest_first=True)) == list(
        range(9, -1, -1)
    )


async def test_more_says_whether_there_is_one_beyond(store_rig: Rig) -> None:
    await store_rig.make(4)
    store = await store_rig.open()
    assert (await store.page(EVERYTHING, limit=4)).more is False
    page = await store.page(EVERYTHING, limit=3)
    assert page.more is True
    assert (await store.page(EVERYTHING, limit=1, after=page.entries[-1].row_key)).more is False
    assert (await store.page(EVERYTHING, limit=2, before=page.entries[2].row_key)).more is False
    assert (await store.page(EVERYTHING, limit=1, before=page.entries[2].row_key)).more is True


async def test_an_empty_store_has_an_empty_page(store_rig: Rig) -> None:
    await store_rig.make(0)
    store = await store_rig.open()
    page = await store.page(EVERYTHING, limit=10)
    assert page.entries == ()
    assert page.more is False
    counts = await store.counts(EVERYTHING)
    assert counts.open == 0
    assert counts.oldest_pending is None


async def test_the_oldest_is_the_earliest_whatever_was_inserted_first(store_rig: Rig) -> None:
    rows = [order_row(n, captured_at=BASE - timedelta(minutes=n)) for n in range(5)]
    await store_rig.make(rows)
    store = await store_rig.open()
    assert (await store.counts(EVERYTHING)).oldest_pending == BASE - timedelta(minutes=4)


async def test_ties_in_time_lose_no_row(store_rig: Rig) -> None:
    rows = [order_row(n, captured_at=BASE + timedelta(seconds=n // 4)) for n in range(20)]
    random.Random(7).shuffle(rows)
    await store_rig.make(rows)
    store = await store_rig.open()
    entries = await walk(store, limit=3)
    assert sorted(numbers(entries)) == list(range(20))
    if store_rig.on_postgres:
        assert numbers(entries) == list(range(20))
    else:
        assert [f"dlq_{number:016x}" for number in numbers(entries)] == [row["dlq_id"] for row in rows]
    assert await walk_back(store, EVERYTHING, entries[-1], limit=3) == entries


@pytest.mark.parametrize("newest_first", [False, True])
async def test_rows_without_a_time_lose_no_row(store_rig: Rig, newest_first: bool) -> None:
    await store_rig.make(0)
    if store_rig.on_postgres:
        await store_rig.sql("ALTER TABLE order_dlq ALTER captured_at DROP NOT NULL")
    else:
        await store_rig.sql("CREATE TABLE q AS SELECT * FROM order_dlq")
    table = "order_dlq" if store_rig.on_postgres else "q"
    rows = [order_row(n, **({"captured_at": None} if n % 3 == 0 else {})) for n in range(12)]
    await store_rig.fill(rows, table)
    store = await store_rig.open(table=table)
    for limit in (1, 2, 4, 5, 12):
        entries = await walk(store, limit=limit, newest_first=newest_first)
        assert sorted(numbers(entries)) == list(range(12))
        assert await walk_back(store, EVERYTHING, entries[-1], limit=limit, newest_first=newest_first) == entries
    dated = [number for number in numbers(entries) if number % 3]
    assert dated == sorted(dated, reverse=newest_first)
    assert (await store.counts(EVERYTHING)).oldest_pending is not None or not store_rig.on_postgres


async def test_times_python_cannot_hold(postgres_store: PostgresRig) -> None:
    await postgres_store.make(2)
    for number, time in (
        (10, "infinity"),
        (11, "-infinity"),
        (12, "20000-01-01 00:00:00+00"),
        (13, "0044-03-15 00:00:00+00 BC"),
    ):
        await postgres_store.insert(order_row(number))
        await postgres_store.sql("ALTER TABLE order_dlq DISABLE TRIGGER order_dlq_worm_upd")
        await postgres_store.sql(f"UPDATE order_dlq SET captured_at = '{time}' WHERE dlq_id = 'dlq_{number:016x}'")
    store = await postgres_store.open()
    for limit in (1, 2, 6):
        entries = await walk(store, limit=limit)
        assert [entry.id[-1] for entry in entries] == ["b", "d", "0", "1", "c", "a"]
        back = await walk_back(store, EVERYTHING, entries[-1], limit=limit)
        assert [(entry.id, entry.values) for entry in back] == [(entry.id, entry.values) for entry in entries]
    shown = {entry.id[-1]: entry.text("captured_at") for entry in entries}
    assert entries[2].get("captured_at") == BASE
    assert shown["a"] == "infinity"
    assert shown["b"] == "-infinity"
    assert shown["c"] == "20000-01-01 00:00:00+00"
    assert shown["d"] == "0044-03-15 00:00:00+00 BC"
    assert (await entry_of(store, 12)).text("captured_at") == "20000-01-01 00:00:00+00"
    assert (await store.dismiss(await choose(store, "dlq_000000000000000c"), ACTOR, why())).done
    assert (await store.counts(EVERYTHING)).by_state == {"pending": 5, "dismissed": 1}


async def test_sqlite_keeps_insertion_order_whatever_the_times_say(sqlite_store: SQLiteRig) -> None:
    times = [
        "2026-04-18T14:00:00.5Z",
        "2026-04-18 14:00:00",
        "never",
        "2026-04-19T05:00:00+05:30",
        "",
        "2026-04-18T14:00:00Z",
    ]
    await sqlite_store.make([order_row(n, captured_at=time) for n, time in enumerate(times)])
    store = await sqlite_store.open()
    assert numbers(await walk(store, limit=2)) == [0, 1, 2, 3, 4, 5]
    assert numbers(await walk(store, limit=2, newest_first=True)) == [5, 4, 3, 2, 1, 0]


async def test_a_page_stands_still_while_rows_move(store_rig: Rig) -> None:
    await store_rig.make(9)
    store = await store_rig.open()
    first = await store.page(Filter(), limit=3)
    await store.dismiss(await pick(store, 1, 2, 4), ACTOR, why())
    await store_rig.insert(order_row(9))
    second = await store.page(Filter(), limit=3, after=first.entries[-1].row_key)
    assert numbers(list(second.entries)) == [3, 5, 6]
    third = await store.page(Filter(), limit=3, after=second.entries[-1].row_key)
    assert numbers(list(third.entries)) == [7, 8, 9]


async def test_get_and_many(store_rig: Rig) -> None:
    await store_rig.make(2500)
    store = await store_rig.open()
    assert await store.get("nobody") is None
    assert await store.get("") is None
    assert (await entry_of(store, 7)).get("client_order_id") == "c-7"
    wanted = tuple(f"dlq_{n:016x}" for n in range(2500))
    found = await store.many((*wanted, "nobody", wanted[0]))
    assert tuple(sorted(found)) == wanted
    assert all(found[entry_id].id == entry_id for entry_id in wanted)


@pytest.mark.parametrize(
    "odd", ["a'b", 'a"b', "a\\b", "a%b", "ü😀", "a\nb", " ", "x" * 3000, "[1]", '{"a":1}', "$1", ":x"]
)
async def test_odd_ids_are_found_and_acted_on(store_rig: Rig, odd: str) -> None:
    await store_rig.make([order_row(0), order_row(1, dlq_id=odd)])
    store = await store_rig.open()
    entry = await store.get(odd)
    assert entry is not None
    assert entry.id == odd
    assert (await store.dismiss(await choose(store, odd), ACTOR, why())).done == (odd,)
    assert len(await store.events(odd)) == 1
    assert (await entry_of(store, 0)).state == "pending"
    restored = await store.restore(await choose(store, odd), ACTOR, why())
    assert restored.done == (odd,)
    entry = await store.get(odd)
    assert entry is not None
    claim = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert claim.entry_id == odd
    assert not hasattr(claim, "code")


@pytest.mark.parametrize("hostile", ["\udcff", "a\0b", "\0", "\udfff\ud800"])
async def test_ids_no_store_can_hold_are_simply_not_there(store_rig: Rig, hostile: str) -> None:
    await store_rig.make([order_row(0, dlq_id="a"), order_row(1)])
    store = await store_rig.open()
    assert await store.get(hostile) is None
    assert await store.many((hostile, "a")) == {"a": await store.get("a")}
    assert await store.attempts(hostile) == ()
    assert await store.events(hostile) == ()
    assert await store.notes(hostile) == ()
    filters = (Filter(venue=hostile), Filter(account=hostile), Filter(market=hostile), Filter(side=hostile))
    for where in filters:
        assert (await store.page(where, limit=5)).entries == ()
    assert (await store.page(Filter(terms=(hostile,)), limit=5)).entries == ()
    assert len((await store.page(Filter(without=(hostile,)), limit=5)).entries) == 2
    assert (await store.counts(Filter(venue=hostile))).open == 0
    await store.record("refused-dismiss", (hostile,), ACTOR, why())
    await store.note(hostile, ACTOR, why(note=hostile))


async def test_states_in_pages(store_rig: Rig) -> None:
    await store_rig.make(6)
    store = await store_rig.open()
    await attempt_on(store, 0)
    await attempt_on(store, 1, Result("unknown"))
    await attempt_on(store, 2, Result("accepted", "v-2"))
    await store.dismiss(await pick(store, 3), ACTOR, why())
    shown = {entry.id[-1]: entry.state for entry in await walk(store)}
    assert shown == {
        "0": "in_flight",
        "1": "in_doubt",
        "2": "replayed",
        "3": "dismissed",
        "4": "pending",
        "5": "pending",
    }
    for state, wanted in (
        ("in_flight", "0"),
        ("in_doubt", "1"),
        ("replayed", "2"),
        ("dismissed", "3"),
        ("pending", "45"),
    ):
        assert [entry_id[-1] for entry_id in await ids(store, only(state))] == list(wanted)  # type: ignore[arg-type]  # each is a State
    assert [entry_id[-1] for entry_id in await ids(store, Filter())] == ["0", "1", "4", "5"]
    assert [entry_id[-1] for entry_id in await ids(store, only("replayed", "dismissed"))] == ["2", "3"]
    assert await ids(store, only()) == []


async def test_what_is_held_is_seen_even_if_an_engine_dismissed_it(store_rig: Rig) -> None:
    await store_rig.make(3)
    store = await store_rig.open()
    await attempt_on(store, 1, Result("unknown"))
    assert [entry_id[-1] for entry_id in await ids(store, Filter())] == ["0", "1", "2"]
    await store_rig.sql(f"UPDATE order_dlq SET dismissed = {store_rig.flag(True)} WHERE dlq_id LIKE '%1'")
    for _ in range(2):
        assert [entry_id[-1] for entry_id in await ids(store, Filter())] == ["0", "1", "2"]
    assert [entry_id[-1] for entry_id in await ids(await store_rig.open(), Filter())] == ["0", "1", "2"]
    assert (await store.counts(Filter())).by_state == {"pending": 2, "in_doubt": 1}
    await store.settle((await store.attempts("dlq_0000000000000001"))[0], Result("accepted", "v"), ACTOR, why())
    assert [entry_id[-1] for entry_id in await ids(store, Filter())] == ["0", "2"]


async def test_another_consoles_ledger_is_noticed(store_rig: Rig) -> None:
    await store_rig.make(3)
    early = await store_rig.open()
    assert len(await ids(early, Filter())) == 3
    late = await store_rig.open()
    await attempt_on(late, 0, Result("unknown"))
    await attempt_on(late, 1, Result("accepted", "v"))
    assert (await entry_of(early, 0)).state == "in_doubt"
    assert [entry_id[-1] for entry_id in await ids(early, Filter())] == ["0", "2"]
    fresh = await store_rig.open()
    assert [entry.state for entry in (await fresh.page(EVERYTHING, limit=9)).entries] == [
        "in_doubt",
        "replayed",
        "pending",
    ]
    assert await ids(await store_rig.open(), only("replayed")) == ["dlq_0000000000000001"]

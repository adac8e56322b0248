"""The contract of a store over every layout there is: pages, filters, counts, acts, claims, changes, read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from backends.records import Filter, Selection
from backends.store import ActRefused, Claim, ClaimRefused, Store
from tests.support.integration import IntegrationRig
from tests.support.outbox import OutboxRig
from tests.support.store import (
    ACTOR,
    BASE,
    EVERYTHING,
    OTHER,
    PostgresRig,
    events_of,
    order_row,
    recount,
    verdict,
    walk,
    walk_back,
    why,
)
from tests.support.watch import listening


@dataclass
class Laid:
    """Seven entries of a layout, a second apart, oldest first."""

    ids: list[str]
    open: Callable[..., Awaitable[Any]]
    add: Callable[[int], Awaitable[object]]
    origin: str
    error: str
    claims: bool

    async def pick(self, store: Store, *numbers: int) -> Selection:
        found = await store.many(tuple(self.ids[n] for n in numbers))
        return Selection.of([found[self.ids[n]] for n in numbers])


@pytest.fixture(params=["orders", "outbox", "integration"])
async def laid(request: pytest.FixtureRequest, postgres_db: str) -> AsyncIterator[Laid]:
    rig: Any
    numbers = range(7)
    match request.param:
        case "orders":
            rig = PostgresRig(postgres_db)
            await rig.make(7)
            ids = [f"dlq_{n:016x}" for n in numbers]
            yield Laid(ids, rig.open, lambda n: rig.insert(order_row(n)), "alpaca", "HTTP 429", claims=True)
        case "outbox":
            rig = OutboxRig(postgres_db)
            await rig.tables()
            ids = await rig.dead(*numbers)
            yield Laid(ids, rig.store, rig.dead, "orders", "is bad", claims=False)
        case _:
            rig = IntegrationRig(postgres_db)
            await rig.tables()
            ids = await rig.failed(*numbers)
            yield Laid(ids, rig.store, rig.failed, "prov-1", "HTTP 503", claims=True)
    await rig.aclose()


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
async def test_pages_both_ways(laid: Laid, limit: int, newest_first: bool) -> None:
    store = await laid.open()
    expected = laid.ids[::-1] if newest_first else laid.ids
    forwards = await walk(store, limit=limit, newest_first=newest_first)
    assert [entry.id for entry in forwards] == expected
    back = await walk_back(store, EVERYTHING, forwards[-1], limit=limit, newest_first=newest_first)
    assert [entry.id for entry in back] == expected


async def test_get_many_and_what_is_not_there(laid: Laid) -> None:
    store = await laid.open()
    (first, *_) = (await store.page(EVERYTHING, limit=1)).entries
    assert await store.get(laid.ids[0]) == first
    assert list(await store.many((laid.ids[3], "nobody", "0", "\0"))) == [laid.ids[3]]
    assert await store.get("nobody") is None


async def test_filters_and_counts_agree(laid: Laid) -> None:
    store = await laid.open()
    await store.dismiss(await laid.pick(store, 1, 4), ACTOR, why())
    for where, count in (
        (EVERYTHING, 7),
        (Filter(), 5),
        (Filter(states=EVERYTHING.states, venue=laid.origin), 7),
        (Filter(venue="elsewhere"), 0),
        (Filter(since=BASE + timedelta(seconds=3)), 3),
        (Filter(until=BASE + timedelta(seconds=3)), 2),
        (Filter(terms=(laid.error.lower(),)), 5),
        (Filter(without=(laid.error,)), 0),
        (Filter(states=frozenset({"dismissed"})), 2),
    ):
        listed = await walk(store, where)
        assert len(listed) == count, where
        told = (await store.counts(where)).by_state
        assert {state: n for state, n in told.items() if n} == recount(listed), where


async def test_acts_hold_only_for_what_was_seen(laid: Laid) -> None:
    store, other = await laid.open(), await laid.open()
    seen = await laid.pick(store, 0, 1, 2)
    await other.dismiss(await laid.pick(other, 1), OTHER, why("op-0"))
    done = await store.dismiss(seen, ACTOR, why())
    assert sorted(done.done) == sorted((laid.ids[0], laid.ids[2]))
    assert [entry_id for entry_id, _ in done.changed] == [laid.ids[1]]
    back = await store.restore(await laid.pick(store, 0), ACTOR, why("op-2"))
    assert back.done == (laid.ids[0],)
    assert recount(await walk(store)) == {"pending": 5, "dismissed": 2}
    assert (await verdict(store))[0] is None
    assert len(await store.events(laid.ids[0])) == 2


async def test_notes_and_halt(laid: Laid) -> None:
    store = await laid.open()
    await store.note(laid.ids[2], ACTOR, why(note="asked the desk"))
    assert [note.text for note in await store.notes(laid.ids[2])] == ["asked the desk"]
    assert await store.notes(laid.ids[3]) == ()
    await store.halt(ACTOR, why(note="runaway"))
    halt = await store.halted()
    assert halt is not None
    assert halt.note == "runaway"
    await store.resume(ACTOR, why(note="fixed"))
    assert await store.halted() is None


async def test_one_holds_a_claim_and_halt_stops_it(laid: Laid) -> None:
    if not laid.claims:
        pytest.skip("its replay is one transaction: nothing is claimed")
    store, other = await laid.open(), await laid.open()
    entry = await store.get(laid.ids[0])
    held = await store.claim(entry.id, entry.version, ACTOR, 30)
    assert isinstance(held, Claim)
    taken = await other.claim(entry.id, entry.version, OTHER, 30)
    assert isinstance(taken, ClaimRefused)
    assert taken.code == "claimed"
    await store.release(held)
    await store.halt(ACTOR, why(note="runaway"))
    halted = await other.claim(entry.id, entry.version, OTHER, 30)
    assert isinstance(halted, ClaimRefused)
    assert halted.code == "halt"


async def test_changes_are_noticed(laid: Laid) -> None:
    store, other = await laid.open(), await laid.open()
    async with listening(store) as ear:
        await laid.add(40)
        assert (await ear.next()).kind == "changed"
        await other.dismiss(await laid.pick(other, 5), OTHER, why())
        assert (await ear.until("changed")).kind == "changed"


async def test_read_only_looks_and_refuses(laid: Laid) -> None:
    store = await laid.open(read_only=True)
    assert len(await walk(store)) == 7
    with pytest.raises(ActRefused):
        await store.dismiss(await laid.pick(store, 0), ACTOR, why())
    assert await events_of(store) == []

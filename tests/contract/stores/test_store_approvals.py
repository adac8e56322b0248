"""What waits for a second person: its kind, its document and what was asked for; and the chain's head after an act."""

from __future__ import annotations

import json

from backends.ledger.examination import examine
from tests.support.store import ACTOR, OTHER, Rig, events_of, verdict, why

FIRST = "dlq_0000000000000000"


async def test_an_approval_carries_what_is_approved(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    assert await store.approvals() == ()
    await store.ask("p1", "one order", ACTOR, why())
    await store.ask("p2", "settle it", ACTOR, why(), kind="settle", document='{"as":"absent"}', request="settle x")
    newest, oldest = await other.approvals()
    assert (oldest.plan_hash, oldest.kind, oldest.document, oldest.request) == ("p1", "replay", "{}", "")
    assert (newest.plan_hash, newest.kind, newest.document) == ("p2", "settle", '{"as":"absent"}')
    assert (newest.request, newest.summary, newest.approved_by) == ("settle x", "settle it", None)
    assert 0 <= newest.asked_ago < 60
    assert abs((await store.clock()).timestamp() - newest.asked_at) < 60
    assert not await store.approve("p2", ACTOR, why())
    assert await other.approve("p2", OTHER, why())
    approved = await store.approval("p2")
    assert approved is not None
    assert approved.approved_by is not None
    assert approved.approved_ago is not None
    assert [one.plan_hash for one in await store.approvals()] == ["p2", "p1"]


async def test_asking_again_keeps_an_approval(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await store.ask("p", "first", ACTOR, why())
    await store.ask("p", "second", ACTOR, why(), document='{"n":2}')
    (again,) = await store.approvals()
    assert (again.summary, again.document) == ("second", '{"n":2}')
    assert await store.approve("p", OTHER, why())
    await store.ask("p", "third", ACTOR, why())
    (kept,) = await store.approvals()
    assert (kept.summary, kept.approved_by is None) == ("second", False)


async def test_the_asker_takes_back_what_waits_and_nobody_else_can(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    await store.ask("p", "first", ACTOR, why())
    assert not await other.approve("p", OTHER, why(), wanted="withdrawn"), "another person's"
    assert len(await other.approvals()) == 1
    assert await store.approve("p", ACTOR, why(), wanted="withdrawn")
    assert (await other.approvals(), await other.approval("p")) == ((), None)
    assert not await other.approve("p", OTHER, why()), "nobody approves it any more"
    assert not await store.approve("p", ACTOR, why(), wanted="withdrawn")
    await store.ask("p", "again", ACTOR, why())
    assert await other.approve("p", OTHER, why())
    assert await store.approve("p", ACTOR, why(), wanted="withdrawn"), "an approval that was not used yet, too"
    await store.ask("p", "once more", ACTOR, why())
    (again,) = await store.approvals()
    assert (again.summary, again.approved_by) == ("once more", None)
    kinds = [json.loads(event.body)["kind"] for event in await events_of(store)]
    assert [kind for kind in kinds if kind == "withdrawn"] == ["withdrawn"] * 2
    assert (await examine(store)).differences == ()


async def test_what_is_older_than_a_day_no_longer_waits(store_rig: Rig) -> None:
    await store_rig.make(1)
    store = await store_rig.open()
    await store.ask("p", "old", ACTOR, why())
    await store_rig.sql(f"UPDATE {store_rig.ledger('approval')} SET asked_at = asked_at - 86500")
    assert await store.approvals() == ()
    assert await store.approval("p") is not None


async def test_the_head_is_known_after_an_act(store_rig: Rig) -> None:
    await store_rig.make(1)
    store, other = await store_rig.open(), await store_rig.open()
    assert store.head is None
    assert await store.event_hash(1) is None
    await store.note(FIRST, ACTOR, why(note="n"))
    assert store.head is not None
    _, head = await verdict(other)
    assert store.head == (head.count, head.hash) == (1, await other.event_hash(1))
    assert other.head is None
    await other.note(FIRST, ACTOR, why(note="m"))
    await store.halt(ACTOR, why())
    assert store.head[0] == 3
    assert await other.event_hash(3) == store.head[1]
    assert await other.event_hash(4) is None

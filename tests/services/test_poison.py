"""Poison: an entry that fails again and again in the same way, judged by the errors of its tries; what clears it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends.records import ActContext, Selection
from console import clock
from console.services.stats.groups import Groups
from console.services.triage.poison import poison_among, poisoned
from console.services.triage.triage import Query, Triage
from tests.support.session import ANN, Stage, fresh, ident
from tests.support.venue.in_process import FakeVenue

Make = Callable[..., str]
At = Callable[..., Any]
WHY = ActContext(clock.now(), "op", note="the venue mended it")


async def found(stage: Stage, after: int = 3) -> dict[str, int]:
    every = {one.entry.id: one.times for one in await poisoned(stage.store, after)}
    some = tuple((await stage.store.many(tuple(map(ident, range(1, 4))))).values())
    assert {one: poison.times for one, poison in (await poison_among(stage.store, some, after)).items()} == every
    return every


async def rejected(stage: Stage, number: int, times: int) -> None:
    for _ in range(times):
        assert (await stage.replay_one(number)).outcome == "rejected"


async def test_the_same_failure_three_times_is_poison(make_both: Make, at: At) -> None:
    stage = await at(make_both(2), venue=FakeVenue(script=["reject"] * 4))
    await rejected(stage, 1, 2)
    assert await found(stage) == {}
    await rejected(stage, 1, 1)
    assert await found(stage) == {ident(1): 3}
    assert (await stage.plan(1)).count == 0
    assert (await stage.plan(1, overrides=frozenset({"poison"}))).count == 1


async def test_an_engines_retry_count_tells_no_way_of_failing(make_both: Make, at: At) -> None:
    stage = await at(make_both([fresh(1, retry_count=9)]))
    assert (await found(stage), (await stage.plan(1)).count) == ({}, 1)


async def test_the_entrys_own_error_counts_once(make_both: Make, at: At) -> None:
    rows = [fresh(1), fresh(2, error="422: insufficient buying power")]
    stage = await at(make_both(rows), venue=FakeVenue(script=["reject"] * 4))
    await rejected(stage, 2, 1)
    own = (await stage.attempts(2))[0].error
    assert own == rows[1]["error"], "the fake venue's words"
    await rejected(stage, 1, 2)
    await rejected(stage, 2, 1)
    assert await found(stage) == {ident(2): 3}
    assert await found(stage, after=1) == {ident(1): 2, ident(2): 3}, "one failure is then enough"


async def test_a_person_clears_what_failed_until_then(make_both: Make, at: At) -> None:
    stage = await at(make_both(1), venue=FakeVenue(script=["reject"] * 9))
    await rejected(stage, 1, 3)
    assert await found(stage) == {ident(1): 3}
    await stage.store.clear((ident(1),), ANN, WHY)
    assert await found(stage) == await found(stage, after=1) == {}
    await rejected(stage, 1, 2)
    assert (await found(stage), await found(stage, after=2)) == ({}, {ident(1): 2})
    await rejected(stage, 1, 1)
    assert await found(stage) == {ident(1): 3}
    last = await stage.store.events(ident(1))
    assert [b"clear-poison" in one.body for one in last].count(True) == 1


async def test_an_accepted_replay_clears_it(make_both: Make, at: At) -> None:
    stage = await at(make_both(1), venue=FakeVenue(script=["reject", "reject"]))
    await rejected(stage, 1, 2)
    assert await found(stage, after=2) == {ident(1): 2}
    assert (await stage.replay_one(1)).outcome == "accepted"
    await stage.store.restore(Selection.of([await stage.entry(1)]), ANN, WHY)
    assert ((await stage.shows(1))[0], await found(stage, after=1)) == ("pending", {})


async def test_groups_are_narrowed_to_what_is_poisoned(make: Make, at: At) -> None:
    stage = await at(make(2), venue=FakeVenue(script=["reject"] * 3))
    await rejected(stage, 1, 3)
    groups = Groups(Triage(stage.store, ANN, clock.now), None, clock.now)
    bad = Query(mark="poison")
    (grown,) = [view async for view in groups.growing(bad)]
    (group,) = grown.groups
    assert (group.count, group.poisoned) == ((await groups.counted(bad)).groups[0].count, 1) == (1, 1)
    members = await groups.members(group.fingerprint, bad)
    assert [entry.id for entry in members.entries] == [ident(1)]


async def test_what_is_settled_is_not_poison(make_both: Make, at: At) -> None:
    stage = await at(make_both(1), venue=FakeVenue(script=["reject"] * 3))
    await rejected(stage, 1, 3)
    await stage.store.dismiss(Selection.of([await stage.entry(1)]), ANN, WHY)
    assert await found(stage) == {}

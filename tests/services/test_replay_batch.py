"""A plan that runs: waves, breaker, pace, stop and halt, superseded entries, a store that goes away."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from backends.records import ActContext, Selection
from backends.store import StoreError, Unreachable
from console import clock
from console.services.evidence import payload
from console.services.replay import attempt as record
from console.services.replay import flow_control as breaker
from console.services.replay.command import Command, read_command
from console.services.replay.outcome import EntryOutcome
from console.settings.config import Limits, VenueConfig
from tests.services.conftest import Make
from tests.support.session import ANN, BOB, Stage, fresh, ident
from tests.support.venue.in_process import PROFILE, FakeDesk, FakeVenue, soon
from venues import OrderAction, Prepared, VenueError

At = Callable[..., Awaitable[Stage]]


def outcomes(told: dict[str, EntryOutcome]) -> list[str]:
    return [told[key].outcome for key in sorted(told)]


def why() -> ActContext:
    return ActContext(datetime.now(UTC), "op", "test", "stop it")


def rate(per_minute: int) -> dict[str, VenueConfig]:
    return {"fake": VenueConfig(rate_per_minute=per_minute)}


async def test_waves_follow_each_other(make: Make, at: At) -> None:
    stage = await at(make(9))
    under_way: list[int] = []
    seen: list[set[str]] = []

    async def count(prepared: Prepared) -> None:
        under_way.append(1)
        seen.append({one.entry_id for one in stage.told})
        await asyncio.sleep(0)

    stage.venue.before_submit = count
    assert outcomes(await stage.replay(*range(1, 10))) == ["accepted"] * 9
    assert seen[0] == set()
    assert all(ident(1) in one for one in seen[1:])
    assert all({ident(n) for n in range(1, 7)} <= one for one in seen[6:])


async def test_five_failures_open_the_breaker_and_the_rest_is_held(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.services.replay.batch.OPEN_SECONDS", 0.05)
    monkeypatch.setattr(breaker, "OPEN_SECONDS", 0.05)
    stage = await at(make(20), venue=FakeVenue(script=["drop", "not-sent"] * 20))
    begun: list[Prepared] = []

    async def count(prepared: Prepared) -> None:
        begun.append(prepared)
        if len(begun) == 6:
            monkeypatch.setattr(
                breaker, "OPEN_SECONDS", 3600.0
            )  # its time does not come again, however long this takes

    stage.venue.before_submit = count
    told = await stage.replay(*range(1, 21))
    tried = [one for one in told.values() if one.outcome in ("unknown", "not_sent")]
    held = [one for one in told.values() if one.detail == "breaker open: nothing was sent"]
    assert (len(tried), len(held)) == (6, 14)  # five, and one more try after its time
    assert {one.outcome for one in held} == {"skipped"}
    assert all([(await stage.shows(n))[0] in ("pending", "in_doubt") for n in range(1, 21)])


async def test_after_its_time_two_successes_close_the_breaker(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.services.replay.batch.OPEN_SECONDS", 0.05)
    monkeypatch.setattr(breaker, "OPEN_SECONDS", 0.05)
    stage = await at(make(20), venue=FakeVenue(script=["drop"] * 5))
    told = await stage.replay(*range(1, 21))
    assert outcomes(told).count("unknown") == 5
    assert outcomes(told).count("accepted") == 15


@pytest.mark.parametrize("word", ["reject", "limit", "ok"])
async def test_a_definite_answer_is_no_failure(make: Make, at: At, word: str) -> None:
    stage = await at(make(12), venue=FakeVenue(script=["drop", "drop", word] * 4))
    told = await stage.replay(*range(1, 13))
    assert "skipped" not in outcomes(told)
    assert outcomes(told).count("unknown") == 8


async def test_one_entry_alone_waits_for_nothing(make: Make, at: At) -> None:
    stage = await at(make(7), venue=FakeVenue(script=["drop"] * 7))
    told = [(await stage.replay_one(number)).outcome for number in range(1, 8)]
    assert told == ["unknown"] * 5 + ["refused"] * 2


async def test_another_venue_goes_on_while_one_is_shut(make: Make, at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.services.replay.batch.OPEN_SECONDS", 0.2)
    monkeypatch.setattr(breaker, "OPEN_SECONDS", 0.2)
    rows = [fresh(n, venue_name="fake" if n % 2 else "other") for n in range(1, 31)]
    bad, good = FakeVenue(script=["drop"] * 30), FakeVenue()

    async def count(_: Prepared) -> None:
        if len(bad.posts) >= 5:  # the sixth is the one more try; its time does not come again, however long this takes
            monkeypatch.setattr(breaker, "OPEN_SECONDS", 3600.0)

    bad.before_submit = count
    stage = await at(make(rows), venue=bad, pool=FakeDesk({"fake": bad, "other": good}))
    told = await stage.replay(*range(1, 31))
    assert {told[ident(n)].outcome for n in range(2, 31, 2)} == {"accepted"}
    assert len(bad.posts) == 6


async def test_stop_takes_effect_between_entries(make: Make, at: At) -> None:
    stage = await at(make(10))

    async def stop(_: Prepared) -> None:
        assert stage.running is not None
        stage.running.stop()

    stage.venue.before_submit = stop
    told = await stage.replay(*range(1, 11))
    assert outcomes(told) == ["accepted"] + ["skipped"] * 9
    assert told[ident(2)].detail == "stopped: nothing was sent"
    assert not await stage.claims()


async def test_stop_does_not_wait_for_a_turn(make: Make, at: At) -> None:
    stage = await at(make(3), settings=rate(1))  # the next turn is a minute away
    running = asyncio.ensure_future(stage.replay(1, 2, 3))
    await soon(lambda: len(stage.venue.asked) == 1)
    began = time.monotonic()
    assert stage.running is not None
    stage.running.stop()
    told = await asyncio.wait_for(running, 25)
    assert time.monotonic() - began < 20
    assert outcomes(told) == ["skipped"] * 3
    assert stage.venue.posts == []
    assert not await stage.claims()


async def test_stop_does_not_wait_for_the_breaker(make: Make, at: At) -> None:
    stage = await at(make(9), venue=FakeVenue(script=["drop"] * 9))
    running = asyncio.ensure_future(stage.replay(*range(1, 10)))
    await soon(lambda: len(stage.told) == 5)
    began = time.monotonic()
    assert stage.running is not None
    stage.running.stop()
    assert outcomes(await asyncio.wait_for(running, 25)).count("skipped") == 4
    assert time.monotonic() - began < 20


async def test_stop_does_not_wait_for_a_look_up(make: Make, at: At) -> None:
    stage = await at(make(1))
    asked = asyncio.Event()

    async def never(_: Prepared) -> None:
        asked.set()
        await asyncio.Event().wait()

    stage.venue.before_lookup = never
    running = asyncio.ensure_future(stage.replay(1))
    await asyncio.wait_for(asked.wait(), 10)
    assert stage.running is not None
    stage.running.stop()
    assert outcomes(await asyncio.wait_for(running, 25)) == ["skipped"]
    assert not await stage.claims()


@pytest.mark.parametrize("waiting", ["for its turn", "for the breaker", "between entries"])
async def test_a_halt_by_another_console_stops_the_batch_within_a_second(make_both: Make, at: At, waiting: str) -> None:
    target = make_both(9)
    script = ["drop"] * 9 if waiting == "for the breaker" else []
    settings = rate(1) if waiting == "for its turn" else rate(1200)
    stage = await at(target, venue=FakeVenue(script=script), settings=settings)
    other = await at(target, actor=BOB)
    begun = {"for its turn": 0, "for the breaker": 5, "between entries": 2}[waiting]
    halted = asyncio.Event()

    async def hold(_: Prepared) -> None:
        if waiting == "between entries" and len(stage.told) >= begun:
            await halted.wait()  # else a quick batch is over before the halt

    stage.venue.before_lookup = hold
    running = asyncio.ensure_future(stage.replay(*range(1, 10)))
    await soon(lambda: len(stage.told) >= begun and bool(stage.venue.asked))
    await other.store.halt(BOB, why())
    halted.set()
    began, posts = time.monotonic(), len(stage.venue.posts)
    told = await asyncio.wait_for(running, 25)
    assert time.monotonic() - began < 20
    assert len(stage.venue.posts) <= posts + 5  # those with their intent committed before the halt
    assert any((one.detail or "").startswith("halt") for one in told.values())
    assert "skipped" not in outcomes(told)
    assert all([(await stage.shows(n))[0] != "in_flight" for n in range(1, 10)])
    assert not await stage.claims()
    assert {one.outcome for one in (await stage.replay(*range(1, 10))).values()} <= {"refused", "skipped"}


async def test_superseded_entries_are_recorded_when_their_head_has_gone_out(make_both: Make, at: At) -> None:
    def act(verb: str) -> str:
        return json.dumps({"action": verb, "order_key": "k", "venue_order_id": "ord_9"})

    rows = [fresh(1, action_json=act("new")), fresh(2, action_json=act("replace")), fresh(3, action_json=act("cancel"))]
    stage = await at(make_both(rows))
    told = await stage.replay(1, 2, 3)
    assert outcomes(told) == ["superseded", "superseded", "accepted"]
    assert [post.verb for post in stage.venue.posts] == ["cancel"]
    assert [(await stage.shows(n))[0] for n in (1, 2, 3)] == ["dismissed", "dismissed", "replayed"]
    events = [json.loads(event.body) for event in await stage.store.events(ident(1))]
    assert [(event["kind"], event["reason"]) for event in events] == [("dismiss", "superseded")]
    assert ident(3) in events[0]["note"]


@pytest.mark.parametrize("word", ["limit", "not-sent"])
async def test_superseded_entries_wait_with_a_head_that_was_not_sent(make: Make, at: At, word: str) -> None:
    rows = [fresh(1, action_json='{"order_key": "k"}'), fresh(2, action_json='{"order_key": "k"}')]
    stage = await at(make(rows), venue=FakeVenue(script=[word]))
    assert outcomes(await stage.replay(1, 2)) == ["skipped", "not_sent"]
    assert await stage.shows(1) == ("pending", 0)


async def test_a_rehearsal_supersedes_only_in_word(make: Make, at: At) -> None:
    rows = [fresh(1, action_json='{"order_key": "k"}'), fresh(2, action_json='{"order_key": "k"}')]
    stage = await at(make(rows), environment="live")
    assert outcomes(await stage.replay(1, 2)) == ["superseded", "accepted"]
    assert await stage.shows(1) == await stage.shows(2) == ("pending", 0)


async def _without(stage: Stage, number: int, work: Callable[[], Awaitable[EntryOutcome]]) -> EntryOutcome:
    """Do the work while that entry is dismissed, as if it had come in later."""
    why = ActContext(clock.now(), f"op-{number}", reason="test")
    await stage.store.dismiss(Selection.of([await stage.entry(number)]), ANN, why)
    ended = await work()
    await stage.store.restore(Selection.of([await stage.entry(number)]), ANN, why)
    return ended


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        ("", ', "action": "cancel", "venue_order_id": "o"'),
        ("", ', "action": "replace", "venue_order_id": "o"'),
        (', "action": "replace", "venue_order_id": "o"', ', "action": "cancel", "venue_order_id": "o"'),
        ("", ""),
    ],
)
async def test_a_command_waits_for_a_stronger_one_that_nobody_selected(
    make: Make, at: At, weaker: str, stronger: str
) -> None:
    rows = [
        fresh(1, action_json=f'{{"order_key": "k"{weaker}}}'),
        fresh(2, action_json=f'{{"order_key": "k"{stronger}}}'),
        fresh(3, action_json='{"order_key": "other", "action": "cancel", "venue_order_id": "o"}'),
    ]
    stage = await at(make(rows))
    ended = await stage.replay_one(1)
    assert (ended.outcome, ended.detail) == ("refused", f"superseded: {ident(2)} waits")
    assert (stage.venue.posts, (await stage.shows(1))[0]) == ([], "pending")


async def test_a_cancel_by_the_client_order_id_of_its_order_holds_that_order_back(make: Make, at: At) -> None:
    """Neither entry states an order key: the client order id is the key of both."""
    rows = [
        fresh(1, client_order_id="c-1"),
        fresh(2, client_order_id="c-1", action_json='{"action": "cancel", "venue_order_id": "o"}'),
    ]
    stage = await at(make(rows))
    assert (await stage.replay_one(1)).detail == f"superseded: {ident(2)} waits"


async def test_another_accounts_or_venues_command_of_the_same_key_holds_nothing_back(make: Make, at: At) -> None:
    cancel = '{"order_key": "k", "action": "cancel", "venue_order_id": "o"}'
    rows = [
        fresh(1, action_json='{"order_key": "k"}'),
        fresh(2, action_json=cancel, account_id="hedge"),
        fresh(3, action_json=cancel, venue_name="other"),
    ]
    stage = await at(make(rows))
    assert (await stage.replay_one(1)).outcome == "accepted"


async def test_an_accepted_cancel_supersedes_what_it_stands_for_selected_or_not(make: Make, at: At) -> None:
    rows = [
        fresh(1, action_json='{"order_key": "k"}'),
        fresh(2, action_json='{"order_key": "k", "action": "replace", "venue_order_id": "o"}'),
        fresh(3, action_json='{"order_key": "k", "action": "cancel", "venue_order_id": "o"}'),
    ]
    stage = await at(make(rows))
    told = await stage.replay(3)
    assert {entry_id: one.outcome for entry_id, one in told.items()} == {
        ident(1): "superseded",
        ident(2): "superseded",
        ident(3): "accepted",
    }
    assert [(await stage.shows(number))[0] for number in (1, 2, 3)] == ["dismissed", "dismissed", "replayed"]


async def test_what_a_cancel_superseded_is_not_sent_afterwards_either(make: Make, at: At) -> None:
    """It came in again after the cancel was replayed: that one still stands for it."""
    rows = [
        fresh(1, action_json='{"order_key": "k"}'),
        fresh(2, action_json='{"order_key": "k", "action": "cancel", "venue_order_id": "o"}'),
    ]
    stage = await at(make(rows))
    assert (await _without(stage, 1, lambda: stage.replay_one(2))).outcome == "accepted"
    ended = await stage.replay_one(1)
    assert (ended.outcome, len(stage.venue.posts)) == ("refused", 1)
    assert ended.detail == f"superseded: superseded by {ident(2)}, which was replayed"


async def test_a_cancel_goes_while_its_order_is_in_doubt(make: Make, at: At) -> None:
    """That order stays in doubt until its own evidence; until then its absence settles no cancel."""
    rows = [
        fresh(1, action_json='{"order_key": "k"}'),
        fresh(2, action_json='{"order_key": "k", "action": "cancel", "venue_order_id": "o"}'),
    ]
    stage = await at(
        make(rows), venue=FakeVenue(script=["lost", "ok"]), settings={"fake": VenueConfig(visibility_seconds=0)}
    )
    assert (await _without(stage, 2, lambda: stage.replay_one(1))).outcome == "unknown"
    assert (await stage.replay_one(2)).outcome == "accepted"
    assert [post.verb for post in stage.venue.posts] == ["new", "cancel"]
    assert (await stage.shows(1))[0] == "in_doubt"


async def test_one_command_of_an_order_waits_for_another_that_is_in_doubt(make: Make, at: At) -> None:
    rows = [
        fresh(1, action_json='{"order_key": "k"}'),
        fresh(2, action_json='{"order_key": "k", "action": "replace", "venue_order_id": "ord_1"}', price=11.0),
    ]
    stage = await at(make(rows), venue=FakeVenue(script=["drop"]))
    assert (await _without(stage, 2, lambda: stage.replay_one(1))).outcome == "unknown"
    ended = await stage.replay_one(2)
    assert (ended.outcome, len(stage.venue.posts)) == ("refused", 1)
    assert (await stage.reconcile(1))[ident(1)].outcome == "accepted"
    assert (await stage.replay_one(2)).outcome == "accepted"


async def test_the_cap_and_what_is_left_out_are_named(make: Make, at: At) -> None:
    stage = await at(make(5), limits=Limits(max_batch=3))
    told = await stage.replay(1, 2, 3, 4, 5)
    assert outcomes(told) == ["accepted"] * 3 + ["refused"] * 2
    assert told[ident(5)].detail == "max-batch: the batch is full: 3 at most"


async def test_a_venue_that_cannot_be_opened_any_more_sends_nothing(make: Make, at: At) -> None:
    class Gone(FakeDesk):
        async def client(self, *_: object) -> FakeVenue:
            raise VenueError("the keyring is locked")

    stage = await at(make(2))
    made = await stage.plan(1, 2)
    stage.pool = Gone({"fake": stage.venue})
    assert outcomes(await stage.run(made)) == ["not_sent"] * 2


async def test_a_store_that_is_away_before_the_intent_sends_nothing(make: Make, at: At) -> None:
    stage = await at(make(3))
    made = await stage.plan(1, 2, 3)

    async def away(*_: object) -> object:
        raise Unreachable("the store is locked by another program; try again in a moment")

    stage.store.intend = away  # type: ignore[method-assign,assignment]  # a store that fails in one place
    told = await stage.run(made)
    assert outcomes(told) == ["skipped"] * 3
    assert told[ident(1)].detail == "the store is locked by another program; try again in a moment: nothing was sent"
    assert stage.venue.posts == []
    assert not await stage.claims()


async def test_an_intent_whose_commit_is_in_doubt_is_withdrawn(make: Make, at: At) -> None:
    stage = await at(make(1))
    intend = stage.store.intend

    async def lost(*given: object) -> object:
        await intend(*given)  # type: ignore[arg-type]  # passed through
        raise StoreError("lost while it committed")

    stage.store.intend = lost  # type: ignore[method-assign,assignment]  # the answer to a commit is lost
    assert outcomes(await stage.replay(1)) == ["skipped"]
    assert stage.venue.posts == []
    assert [one.outcome for one in await stage.attempts(1)] == ["not_sent"]
    assert await stage.shows(1) == ("pending", 0)


async def test_an_outcome_waits_for_a_store_that_is_away_for_a_moment(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.001)
    stage = await at(make(1))
    conclude, failures = stage.store.conclude, [1, 2, 3]

    async def away(*given: object) -> bool:
        if failures:
            failures.pop()
            raise Unreachable("locked")
        return await conclude(*given)  # type: ignore[arg-type]  # passed through

    stage.store.conclude = away  # type: ignore[method-assign,assignment]  # a store that fails in one place
    assert outcomes(await stage.replay(1)) == ["accepted"]
    assert await stage.shows(1) == ("replayed", 0)


async def test_an_outcome_that_cannot_be_recorded_is_in_doubt_and_says_so(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.001)
    stage = await at(make(1))

    async def away(*_: object) -> bool:
        raise Unreachable("the disk is full")

    monkeypatch.setattr(stage.store, "conclude", away)
    ended = await stage.replay_one(1)
    assert (ended.outcome, ended.venue_order_id) == ("unknown", "ord_1")
    assert ended.detail == "the outcome accepted ord_1 could not be recorded: the disk is full"
    assert await stage.shows(1) == ("in_flight", 0)
    monkeypatch.undo()
    assert (await stage.reconcile(1))[ident(1)].outcome == "accepted"
    assert await stage.shows(1) == ("replayed", 0)


async def test_a_commit_of_ours_whose_answer_was_lost_is_ours(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_RECORD_SECONDS", 0.001)
    stage = await at(make(1))
    conclude, first = stage.store.conclude, [True]

    async def lost(*given: object) -> bool:
        done = await conclude(*given)  # type: ignore[arg-type]  # passed through
        if first:
            first.pop()
            raise StoreError("lost while it committed")
        return done

    stage.store.conclude = lost  # type: ignore[method-assign,assignment]  # the answer to a commit is lost
    ended = await stage.replay_one(1)
    assert (ended.outcome, ended.detail) == ("accepted", None)


async def test_the_rate_counts_look_ups_and_orders_alike(make: Make, at: At) -> None:
    times: list[float] = []

    async def note(_: Prepared) -> None:
        times.append(time.monotonic())

    venue = FakeVenue(before_submit=note, before_lookup=note, profile=replace(PROFILE, rate_per_minute=3000))
    stage = await at(make(10), venue=venue)
    assert outcomes(await stage.replay(*range(1, 11))) == ["accepted"] * 10
    assert len(times) == 20
    assert times[-1] - times[0] >= 19 * 0.02 * 0.95


def _first_and_change(**changes: object) -> list[dict[str, object]]:
    first = fresh(1, action_json='{"order_key": "k"}', price=10.0)
    change = fresh(2, action_json='{"order_key": "k", "action": "replace", "price": 11.0}', price=11.0, market_id="M1")
    return [first, change | {"market_id": first["market_id"]} | changes]


@pytest.mark.parametrize("selected", [(1, 2), (2,)])
async def test_a_replace_of_what_was_never_placed_goes_out_as_a_new_order(
    make: Make, at: At, selected: tuple[int, ...]
) -> None:
    """Otherwise nothing would stand at the venue: the NEW superseded, the replace refused."""
    stage = await at(make(_first_and_change()))
    made = await stage.plan(*selected)
    (step,) = made.steps
    assert (step.command.action.verb, step.command.client_order_id) == ("new", "cid-1")
    assert any("goes out as a new order" in note for note in step.command.notes)
    told = await stage.run(made)
    assert (told[ident(2)].outcome, told[ident(1)].outcome) == ("accepted", "superseded")
    (post,) = stage.venue.posts
    assert (post.verb, post.client_order_id, post.action.price) == ("new", "cid-1", Decimal(11))
    assert ((await stage.shows(1))[0], (await stage.shows(2))[0]) == ("dismissed", "replayed")


async def test_what_it_replaces_and_the_venue_has_is_not_placed_again(make: Make, at: At) -> None:
    stage = await at(make(_first_and_change()))
    first = read_command(await stage.entry(1), venue=None)
    assert isinstance(first, Command)
    prepared = stage.venue.prepare(first.action, first.client_order_id)
    assert isinstance(prepared, Prepared)
    stage.venue.place(prepared)
    told = await stage.replay(1, 2)
    assert (told[ident(2)].outcome, stage.venue.posts) == ("refused", [])
    assert (told[ident(2)].detail or "").startswith("conflict: quantity")
    assert (await stage.shows(1))[0] == (await stage.shows(2))[0] == "pending"


@pytest.mark.parametrize("word", ["reject", "drop", "limit"])
async def test_only_an_accepted_command_supersedes(make: Make, at: At, word: str) -> None:
    rows = [fresh(1, action_json='{"order_key": "k"}'), fresh(2, action_json='{"order_key": "k"}')]
    stage = await at(make(rows), venue=FakeVenue(script=[word]))
    told = await stage.replay(1, 2)
    assert told[ident(1)].outcome == "skipped"
    assert (await stage.shows(1))[0] == "pending"


async def test_a_paper_order_is_no_duplicate_of_a_live_one(make: Make, at: At) -> None:
    """Reopened after a paper replay, it goes live: once, and never in paper again."""
    stage = await at(make([fresh(1), fresh(2, quantity=1.0, market_id=fresh(1)["market_id"])]))
    assert (await stage.replay_one(1)).outcome == "accepted"
    assert (await stage.replay_one(2)).outcome == "refused"  # the same order again, in the same mode
    assert (await stage.replay_one(1, mode="live")).outcome == "refused"
    entry = await stage.entry(1)
    assert (await stage.store.restore(Selection.of([entry]), BOB, _why())).done == (ident(1),)
    assert (await stage.replay_one(1)).outcome == "skipped"
    live = await at(stage.target, venue=FakeVenue(mode="live"))
    assert (await live.replay_one(1, mode="live")).outcome == "accepted"
    assert (await live.replay_one(2, mode="live")).outcome == "refused"
    assert (len(stage.venue.posts), len(live.venue.posts)) == (1, 1)
    assert (await live.shows(1))[0] == "replayed"


def _why() -> ActContext:
    return ActContext(datetime.now(UTC), "op", "test", "because")


def _aiming(verb: str, **given: object) -> dict[str, object]:
    """A command that names its order by client order id only."""
    return fresh(2, client_order_id="c-1", action_json=f'{{"action": "{verb}"}}', **given)


async def _placed(stage: Stage, **changes: object) -> str:
    """The engine's own order at the venue, under the client order id c-1."""
    new = replace(await _action(stage, 2), verb="new", venue_order_id=None)
    prepared = stage.venue.prepare(new, "c-1")
    assert isinstance(prepared, Prepared)
    return stage.venue.place(prepared, **changes).venue_order_id  # type: ignore[arg-type]  # fields of VenueOrder


async def _action(stage: Stage, number: int) -> OrderAction:
    read = read_command(await stage.entry(number), venue=None)
    assert isinstance(read, Command)
    return read.action


@pytest.mark.parametrize("verb", ["cancel", "replace"])
async def test_a_command_without_an_order_id_finds_its_order_by_client_order_id(make: Make, at: At, verb: str) -> None:
    stage = await at(make([_aiming(verb, price=11.0)]), venue=FakeVenue(profile=replace(PROFILE, dedup="none")))
    order_id = await _placed(stage, price=Decimal(10))
    ended = await stage.replay_one(2)
    (post,) = stage.venue.posts
    assert (ended.outcome, post.verb, post.action.venue_order_id) == ("accepted", verb, order_id)
    (attempt,) = await stage.attempts(2)
    kept = payload.decode(attempt.payload)
    assert kept is not None
    assert kept.action.venue_order_id == order_id


async def test_a_cancel_finds_its_order_by_any_id_that_it_may_have(make: Make, at: At) -> None:
    """Its own client order id is its own; the order key is the order's."""
    rows = [fresh(2, client_order_id="x-9", action_json='{"action": "cancel", "order_key": "c-1"}')]
    stage = await at(make(rows))
    order_id = await _placed(stage)
    assert (await stage.replay_one(2)).outcome == "accepted"
    assert stage.venue.posts[0].action.venue_order_id == order_id


async def test_a_cancel_whose_order_is_absent_has_nothing_to_cancel(make: Make, at: At) -> None:
    old = datetime.now(UTC) - timedelta(minutes=5)
    rows = [fresh(1, client_order_id="c-1", captured_at=old), _aiming("cancel", captured_at=old)]
    stage = await at(make(rows))
    told = await stage.replay(2)
    assert (told[ident(2)].outcome, stage.venue.posts) == ("accepted", [])
    assert "nothing to cancel" in (told[ident(2)].detail or "")
    assert (told[ident(1)].outcome, (await stage.shows(1))[0]) == ("superseded", "dismissed")


@pytest.mark.parametrize(("seconds", "lookups"), [(1, []), (300, ["fail"])])
async def test_a_cancel_whose_order_cannot_be_found_yet_is_not_sent(
    make: Make, at: At, seconds: int, lookups: list[str]
) -> None:
    stage = await at(make([_aiming("cancel", captured_at=datetime.now(UTC) - timedelta(seconds=seconds))]))
    stage.venue.lookups = lookups
    ended = await stage.replay_one(2)
    assert (ended.outcome, stage.venue.posts, (await stage.shows(2))[0]) == ("not_sent", [], "pending")


async def test_an_order_key_alone_proves_no_absence(make: Make, at: At) -> None:
    """The order may have been sent without a client order id, or from here under one that was made for it."""
    old = datetime.now(UTC) - timedelta(minutes=5)
    rows = [fresh(2, client_order_id=None, captured_at=old, action_json='{"action": "cancel", "order_key": "k"}')]
    stage = await at(make(rows))
    ended = await stage.replay_one(2)
    assert (ended.outcome, stage.venue.posts, (await stage.shows(2))[0]) == ("not_sent", [], "pending")


async def test_an_id_that_could_not_be_asked_for_is_not_absent(make: Make, at: At) -> None:
    old = datetime.now(UTC) - timedelta(minutes=5)
    rows = [fresh(2, client_order_id="x-9", captured_at=old, action_json='{"action": "cancel", "order_key": "c-1"}')]
    stage = await at(make(rows))

    async def stop(_: Prepared) -> None:
        assert stage.running is not None
        stage.running.stop()

    await _placed(stage)
    stage.venue.before_lookup = stop
    ended = await stage.replay_one(2)
    assert (ended.outcome, stage.venue.posts, (await stage.shows(2))[0]) == ("not_sent", [], "pending")


async def test_a_batch_of_which_one_goes_waits_for_the_breaker_too(make: Make, at: At) -> None:
    rows = [*(fresh(n) for n in range(1, 7)), fresh(7, captured_at=datetime.now(UTC) - timedelta(hours=3))]
    target = make(rows)
    first = await at(target, venue=FakeVenue(script=["not-sent"] * 5))
    for number in range(1, 6):
        await first.replay_one(number)
    second = await at(target)
    running = asyncio.ensure_future(second.replay(6, 7))
    await soon(lambda: second.running is not None and bool(second.running.breakers()))
    assert second.running is not None
    second.running.stop()
    assert outcomes(await running) == ["skipped", "refused"]
    assert second.venue.posts == []


async def test_a_replace_whose_order_is_absent_has_nothing_to_replace(make: Make, at: At) -> None:
    stage = await at(make([_aiming("replace", captured_at=datetime.now(UTC) - timedelta(minutes=5))]))
    ended = await stage.replay_one(2)
    assert (ended.outcome, stage.venue.posts) == ("refused", [])
    assert "nothing to replace" in (ended.detail or "")


async def test_single_replays_share_the_breaker_of_the_store(make_both: Make, at: At) -> None:
    """Five in a row fail; the sixth, of another console, is told at once, and overriding the guard lets it try."""
    target = make_both(8)
    first = await at(target, venue=FakeVenue(script=["not-sent"] * 5))
    for number in range(1, 6):
        assert (await first.replay_one(number)).outcome == "not_sent"
    second = await at(target)
    ended = await second.replay_one(6)
    assert (ended.outcome, second.venue.posts) == ("refused", [])
    assert (ended.detail or "").startswith("not-ready: fake main: its last 5 sends failed; one more may be tried in")
    assert (await second.replay_one(6, overrides=frozenset({"not-ready"}))).outcome == "accepted"
    assert (await second.replay_one(7, overrides=frozenset({"not-ready"}))).outcome == "accepted"
    assert (await second.replay_one(8)).outcome == "accepted"  # two successes have closed it


async def test_a_cancel_passes_an_open_breaker(make: Make, at: At) -> None:
    cancel = fresh(6, action_json='{"action": "cancel", "venue_order_id": "o-1"}')
    stage = await at(make([*(fresh(n) for n in range(1, 6)), cancel]), venue=FakeVenue(script=["not-sent"] * 5))
    for number in range(1, 6):
        await stage.replay_one(number)
    assert (await stage.replay_one(6)).outcome == "accepted"


async def test_a_batch_waits_for_an_open_breaker_of_another_run(make: Make, at: At) -> None:
    target = make(7)
    first = await at(target, venue=FakeVenue(script=["not-sent"] * 5))
    for number in range(1, 6):
        await first.replay_one(number)
    second = await at(target)
    made = await second.plan(6, 7)
    running = asyncio.create_task(second.run(made))
    await soon(lambda: second.running is not None and bool(second.running.breakers()))
    assert second.running is not None
    assert second.running.breakers() == {"fake main": "open"}
    second.running.stop()
    assert outcomes(await running) == ["skipped", "skipped"]
    assert second.venue.posts == []


async def test_a_venue_that_answers_leaves_nothing_in_the_breakers(make: Make, at: At) -> None:
    stage = await at(make(3), venue=FakeVenue(script=["ok", "reject", "limit"]))
    await stage.replay(1, 2, 3)
    assert await stage.store.breakers() == {}

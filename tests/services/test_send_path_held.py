"""What holds a send up, and what it leaves behind: claims, halts, slow-downs, clocks, the last judgement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from backends.records import ActContext, Selection
from backends.store import ClaimRefused, Intent, Store, Unreachable
from console import clock
from console.services.replay import attempt as attempts
from console.services.replay import submit
from console.services.replay.attempt import TOO_LATE, AttemptLedger, HeldClaim, Lease, anchored
from console.services.replay.batch import ReplayBatch, _Traffic
from console.services.replay.flow_control import Breaker, Pace
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import ReplayPlan, Step
from console.services.replay.submit import OrderSubmitter, SubmitTools, VenueLane
from console.services.replay.venue_pool import VenueAccount
from console.settings.config import Limits, VenueConfig
from tests.services.conftest import Make
from tests.support.planning import command
from tests.support.session import ANN, BOB, Stage, fresh, ident
from tests.support.venue.in_process import PROFILE, FakeDesk, FakeVenue
from venues import Lookup, LookupFailed, OrderAction, Outcome, Prepared, RateLimited, Refused

At = Callable[..., Awaitable[Stage]]
TIMEOUT = "ReadTimeout: no answer in 10 s"
INTENT = Intent("paper", "fake", "cid-1", b"{}", "hash")
WIDE = Limits(stale_after=timedelta(hours=9))


def _why() -> ActContext:
    return ActContext(datetime.now(UTC), "op", "test", "because")


def test_an_age_is_judged_by_the_later_clock() -> None:
    here = datetime.now(UTC)
    ledger = AttemptLedger(cast(Store, None), ANN)
    assert ledger.latest(here) == here
    ledger._moment = lambda: here + timedelta(hours=1)
    assert ledger.latest(here) == here + timedelta(hours=1)
    assert ledger.latest(here + timedelta(hours=2)) == here + timedelta(hours=2)


@pytest.mark.parametrize(
    ("looks", "most"),
    [
        ([10.0, 2.0, 6.0], 2.0),
        ([0.05, 0.06, 0.04, 0.07, 0.001], 0.001),  # a busy machine: it goes on until one is quick
        ([0.001], 0.001),  # and not on after that
    ],
)
async def test_the_stores_clock_is_known_by_its_quickest_look_and_never_early(
    looks: list[float], most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, watch = datetime.now(UTC), SimpleNamespace(now=100.0)

    async def look() -> datetime:
        took = looks.pop(0)
        watch.now += took / 2
        told = began + timedelta(seconds=watch.now)
        watch.now += took / 2
        return told

    monkeypatch.setattr(attempts, "time", SimpleNamespace(monotonic=lambda: watch.now))
    moment = await anchored(cast(Store, SimpleNamespace(clock=look)))
    ahead = (moment() - began).total_seconds() - watch.now
    assert -1e-6 <= ahead <= most + 1e-6
    assert not looks


async def test_a_halt_is_noticed_at_the_claim_and_at_the_intent_which_gives_the_claim_back(make: Make, at: At) -> None:
    stage = await at(make(1))
    entry, ledger = await stage.entry(1), AttemptLedger(stage.store, ANN)
    held = await ledger.claim(entry.id, entry.version, Lease(60, 1), mode="paper")
    assert isinstance(held, HeldClaim)
    assert not ledger.halted
    await stage.store.halt(BOB, _why())
    assert isinstance(await ledger.intend(held, INTENT), ClaimRefused)
    assert ledger.halted
    assert not await stage.claims()
    later = AttemptLedger(stage.store, ANN)
    assert isinstance(await later.claim(entry.id, entry.version, Lease(60, 1)), ClaimRefused)
    assert later.halted


async def test_what_was_claimed_through_a_store_that_went_away_is_given_back(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await at(make(1), venue=FakeVenue(lookups=["fail"]))
    release, away = stage.store.release, [True]

    async def once(claim: Any) -> None:
        if away and away.pop():
            raise Unreachable("away")
        await release(claim)

    monkeypatch.setattr(stage.store, "release", once)
    assert (await stage.replay_one(1)).outcome == "not_sent"
    assert not await stage.claims()


async def test_what_an_engine_prepares_too_late_or_not_at_all_is_not_sent(make: Make, at: At) -> None:
    stage = await at(make(2))
    ledger, first, second = AttemptLedger(stage.store, ANN), await stage.entry(1), await stage.entry(2)
    nothing = EntryOutcome(first.id, "refused", "paper")

    async def refuse() -> EntryOutcome:
        return nothing

    async def prepare() -> tuple[Intent, str]:
        return INTENT, "request"

    assert await ledger.begin(first.id, first.version, Lease(60, 1), refuse) == nothing
    assert not await stage.claims()
    told = await ledger.begin(second.id, second.version, Lease(60, 61), prepare)
    assert isinstance(told, EntryOutcome)
    assert (told.outcome, told.detail) == ("not_sent", TOO_LATE)


async def test_the_own_venue_is_asked_by_the_own_id_and_the_other_gets_one_that_fits(make: Make, at: At) -> None:
    own, other = FakeVenue(), FakeVenue(profile=replace(PROFILE, id_pattern="z.+", id_prefix="z"))
    stage = await at(make(1), venue=own)
    stage.pool = FakeDesk({"fake": own, "other": other})
    assert (await stage.replay_one(1, venue="other")).outcome == "accepted"
    assert [one.client_order_id for one in own.asked] == ["cid-1"]
    assert [one.client_order_id[0] for one in other.posts] == ["z"]


async def test_what_may_stand_at_a_venue_that_cannot_be_opened_any_more_is_not_sent_to_another(
    make: Make, at: At
) -> None:
    old = datetime.now(UTC) - timedelta(minutes=5)
    rows = [fresh(1, error=TIMEOUT, captured_at=old), fresh(2)]
    stage, other = await at(make(rows)), FakeVenue()
    stage.pool = FakeDesk({"fake": stage.venue, "other": other})
    made = await stage.plan(1, 2, venue="other")
    assert made.count == 2
    stage.pool = FakeDesk({"other": other})
    told = await stage.run(made)
    assert told[ident(1)].outcome == "refused"
    assert (told[ident(1)].detail or "").startswith("may-have-arrived: ")
    assert told[ident(2)].outcome == "accepted"
    assert len(other.posts) == 1


class Slow(FakeVenue):
    async def submit(self, prepared: Prepared) -> Outcome:
        return RateLimited(30.0)


class SlowToAsk(FakeVenue):
    async def lookup(self, prepared: Prepared) -> Lookup:
        return LookupFailed("HTTP 429", retry_after=30.0)


@pytest.mark.parametrize("venue", [Slow(), SlowToAsk()], ids=["send", "look-up"])
async def test_a_venue_that_asks_to_slow_down_is_held_for_as_long_as_it_says(
    make: Make, at: At, venue: FakeVenue
) -> None:
    stage = await at(make(1), venue=venue)
    assert (await stage.replay_one(1)).outcome == "not_sent"
    assert stage.running is not None
    (traffic,) = stage.running._traffic.values()
    assert traffic.lane.pace.holds == 1
    assert 5 < traffic.lane.pace.wait() <= 30


async def _run(stage: Stage, made: ReplayPlan, **how: Any) -> EntryOutcome:
    given: dict[str, Any] = {"limits": lambda: WIDE, **how}
    now = given.pop("clock", clock.now)
    (ended,) = await ReplayBatch(stage.store, stage.at_desk(), ANN, now, **given).run(made)
    return ended


async def test_what_may_have_arrived_is_young_by_either_clock(make: Make, at: At) -> None:
    settings = {"fake": VenueConfig(visibility_seconds=60)}
    stage = await at(make([fresh(1, error=TIMEOUT)]), settings=settings)
    ended = await _run(stage, await stage.plan(1), clock=lambda: clock.now() + timedelta(hours=1))
    assert (ended.outcome, stage.venue.posts) == ("refused", [])
    assert (ended.detail or "").startswith("may-have-arrived")


@pytest.mark.parametrize(("point", "tried"), [("cleared", []), ("intended", ["not_sent"])])
async def test_limits_that_change_at_the_last_moment_hold_it(make: Make, at: At, point: str, tried: list[str]) -> None:
    stage, limits = await at(make(1)), [WIDE]

    def passed(now: str) -> None:
        if now == point:
            limits[0] = replace(WIDE, max_notional=Decimal(1))

    ended = await _run(stage, await stage.plan(1), limits=lambda: limits[0], at=passed)
    assert (ended.outcome, stage.venue.posts) == ("not_sent", [])
    assert (ended.detail or "").startswith("notional")
    assert [one.outcome for one in await stage.attempts(1)] == tried


async def test_what_was_overridden_is_on_record(make: Make, at: At) -> None:
    stage = await at(make([fresh(1, error=TIMEOUT)]))
    await stage.replay_one(1, overrides=frozenset({"may-have-arrived"}))
    events = [event.body.decode() for event in await stage.store.events(ident(1))]
    assert any("overridden: may-have-arrived" in event for event in events)


async def test_a_venue_that_does_not_answer_in_time_leaves_doubt(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "_SEND_SLACK_SECONDS", 0.0)

    async def hang(_: Prepared) -> None:
        await asyncio.Event().wait()

    stage = await at(make(1), settings={"fake": VenueConfig(timeout=0.05)})
    stage.venue.before_submit = hang
    assert (await stage.replay_one(1)).outcome == "unknown"


def _lane(pace: Pace, venue: FakeVenue | None = None) -> VenueLane:
    return VenueLane(venue or FakeVenue(), pace, 10.0, 60.0, VenueAccount("fake", "main"))


def _sender() -> OrderSubmitter:
    async def nowhere(_: VenueAccount) -> VenueLane:
        raise AssertionError

    tools = SubmitTools(clock.now, Limits, nowhere, asyncio.Event())
    return OrderSubmitter(AttemptLedger(cast(Store, None), ANN), tools)


async def test_a_turn_that_was_taken_before_a_slow_down_is_no_longer_good() -> None:
    pace = Pace(None)
    pace.hold(0.05)
    turn = asyncio.create_task(_sender()._turn(_lane(pace), None))
    await asyncio.sleep(0)
    pace.hold(0.3)
    assert await turn is None
    assert pace._held_until <= time.monotonic()


async def test_a_turn_is_not_waited_for_for_ever_nor_past_the_orders_time() -> None:
    pace, sender = Pace(None), _sender()
    pace.hold(120)
    young = Step(command(captured_at=clock.now() - timedelta(minutes=14)), 0)
    async with asyncio.timeout(30):
        assert (await sender._turn(_lane(pace), young) or "").startswith("stale: ")
        pace.hold(400)
        assert (await sender._turn(_lane(pace), None) or "").startswith("not-ready: ")


async def test_a_second_rehearsal_asks_nobody_while_the_first_is_in_doubt(make: Make, at: At) -> None:
    stage = await at(make(1), venue=FakeVenue(script=["lost"]), environment="live")
    assert (await stage.replay_one(1)).outcome == "unknown"
    asked = len(stage.venue.asked)
    assert (await stage.replay_one(1)).outcome == "refused"
    assert len(stage.venue.asked) == asked


class NotMine(FakeVenue):
    moved: bool = False

    def prepare(self, action: OrderAction, client_order_id: str) -> Prepared | Refused:
        return Refused("U2 is not ours", wrong_account=True) if self.moved else super().prepare(action, client_order_id)


async def test_an_account_that_is_not_the_clients_is_named_as_that(make: Make, at: At) -> None:
    venue = NotMine()
    stage = await at(make(1), venue=venue)
    made = await stage.plan(1)
    venue.moved = True
    ended = (await stage.run(made))[ident(1)]
    assert (ended.outcome, ended.detail) == ("refused", "unknown-account: U2 is not ours")


def test_a_lease_covers_every_wait_and_request_of_a_send() -> None:
    lease = _lane(Pace(60)).lease
    assert lease.seconds >= 60 + 3 * 10 + 12
    assert lease.sending >= 10


def _open() -> _Traffic:
    return _Traffic(_lane(Pace(None)), Breaker("open", 5, 0, time.monotonic()))


async def test_an_open_breaker_lets_a_cancel_pass_and_carries_nothing_past_its_time(make: Make, at: At) -> None:
    stage = await at(make(1))
    batch = ReplayBatch(stage.store, stage.at_desk(), ANN, clock.now)
    old = clock.now() - timedelta(minutes=14, seconds=50)
    async with asyncio.timeout(30):
        assert await batch._room(_open(), Step(command(verb="cancel"), 0), single=False) is None
        assert await batch._room(_open(), Step(command(), 0, overridden=("not-ready",)), single=True) is None
        alone = await batch._room(_open(), Step(command(), 0), single=True)
        late = await batch._room(_open(), Step(command(captured_at=old), 0), single=False)
    assert late is not None
    assert late.outcome in ("not_sent", "skipped")
    assert alone is not None
    assert (alone.outcome, (alone.detail or "").partition(":")[0]) == ("not_sent", "not-ready")


async def test_what_else_ends_meanwhile_does_not_end_the_wait_for_a_breaker(make: Make, at: At) -> None:
    """A cancel passes the breaker; when it ends, the others still wait their time."""
    stage = await at(make(1))
    batch = ReplayBatch(stage.store, stage.at_desk(), ANN, clock.now)
    traffic = _open()
    waiting = asyncio.ensure_future(batch._room(traffic, Step(command(captured_at=clock.now()), 0), single=False))
    for _ in range(3):
        await asyncio.sleep(0)
        traffic.moved.set()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(waiting), 0.05)
    batch.stop()
    held = await asyncio.wait_for(waiting, 30)
    assert held is not None
    assert held.outcome == "skipped"


async def test_without_its_breakers_a_store_holds_up_nothing(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await at(make(2))
    made = await stage.plan(1, 2)

    async def away(*_: object, **__: object) -> None:
        raise Unreachable("the store is away")

    for name in ("breakers", "breaker_learns"):
        monkeypatch.setattr(stage.store, name, away)
    stage.venue.script = ["not-sent"]
    ended = await stage.run(made)
    assert sorted(one.outcome for one in ended.values()) == ["accepted", "not_sent"]


async def test_no_more_is_under_way_than_could_fail(make: Make, at: At) -> None:
    stage = await at(make(1))
    batch = ReplayBatch(stage.store, stage.at_desk(), ANN, clock.now)
    traffic = _Traffic(_lane(Pace(None)), Breaker(failures=1), under_way=3)
    assert await batch._room(traffic, Step(command(), 0), single=False) is None
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(batch._room(traffic, Step(command(), 0), single=False), 0.05)


async def test_what_a_halt_stopped_half_way_says_so(make: Make, at: At) -> None:
    stage = await at(make(1))
    batch = ReplayBatch(stage.store, stage.at_desk(), ANN, clock.now)
    stopped = EntryOutcome("dlq_1", "skipped", "paper", detail="stopped: nothing was sent")
    assert batch._because_of_halt(stopped) == stopped
    batch._halted = True
    assert batch._because_of_halt(stopped).outcome == "not_sent"


async def test_what_was_handled_meanwhile_is_not_superseded(make: Make, at: At) -> None:
    target = make(
        [fresh(1), fresh(2, client_order_id="cid-1", action_json='{"action": "cancel", "venue_order_id": "o1"}')]
    )
    stage, other = await at(target), await at(target, actor=BOB)
    made = await stage.plan(1, 2)
    assert [one.entry_id for one in made.superseded] == [ident(1)]
    await other.store.dismiss(Selection.of([await other.entry(1)]), BOB, _why())
    told = await stage.run(made)
    assert (told[ident(2)].outcome, told[ident(1)].outcome) == ("accepted", "skipped")

"""Doubt ends by evidence alone: what was found, what was not, when, and who may say so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from backends.records import ActContext, Selection
from backends.store import Claim, ClaimRefused, Intent
from console import clock
from console.services.evidence import payload
from console.services.evidence.reconcile import LOOK_UPS, Reconciliation
from console.services.triage.triage import Triage
from console.settings.config import Limits, VenueConfig
from tests.services.conftest import Make
from tests.support.session import ANN, BOB, Stage, fresh, ident
from tests.support.venue.in_process import PROFILE, FakeVenue, dedup
from venues import Prepared, Status

At = Callable[..., Awaitable[Stage]]


def window(seconds: float) -> dict[str, VenueConfig]:
    return {"fake": VenueConfig(visibility_seconds=seconds)}


async def doubted(at: At, target: str, word: str, **given: object) -> Stage:
    venue = FakeVenue(script=[word], account=given.pop("account", None))  # type: ignore[arg-type]
    stage = await at(target, venue=venue, **given)
    assert (await stage.replay_one(1)).outcome == "unknown"
    return stage


async def abandoned(stage: Stage, *, lease: float, ago: float = 0.0, sent: bool = False) -> Prepared:
    """An attempt in flight whose owner is gone: its lease still lasts, or is over."""
    entry = await stage.entry(1)
    command = (await stage.plan(1)).steps[0].command
    prepared = stage.venue.prepare(command.action, command.client_order_id)
    assert isinstance(prepared, Prepared)
    claim = await stage.store.claim(entry.id, entry.version, BOB, 0.5 if lease <= 0 else lease)
    assert isinstance(claim, Claim)
    at = datetime.now(UTC) - timedelta(seconds=ago)
    intent = Intent("paper", "fake", prepared.client_order_id, payload.encode(prepared), "h", key_digest="key")
    assert not isinstance(await stage.store.intend(claim, intent, BOB, ActContext(at, "op")), ClaimRefused)
    if sent:
        stage.venue.place(prepared)
    if lease <= 0:
        while (await stage.attempts(1))[0].lease_until > (await stage.store.clock()).timestamp():
            await asyncio.sleep(0.01)
    return prepared


async def test_found_and_equal_is_accepted_at_once(make_both: Make, at: At) -> None:
    stage = await doubted(at, make_both(1), "drop", settings=window(60))
    ended = (await stage.reconcile())[ident(1)]
    assert (ended.outcome, ended.venue_order_id) == ("accepted", "ord_1")
    assert await stage.shows(1) == ("replayed", 1)
    assert len(stage.venue.posts) == 1


@pytest.mark.parametrize(
    ("status", "outcome", "state"),
    [
        ("filled", "accepted", "replayed"),
        ("partly_filled", "accepted", "replayed"),
        ("rejected", "rejected", "pending"),
        ("cancelled", "accepted", "replayed"),
        ("expired", "accepted", "replayed"),
        ("replaced", "accepted", "replayed"),
        ("unclear", "unknown", "in_doubt"),
    ],
)
async def test_found_by_its_status(make: Make, at: At, status: Status, outcome: str, state: str) -> None:
    stage = await doubted(at, make(1), "lost", settings=window(60))
    stage.venue.place(stage.venue.posts[0], status)
    ended = (await stage.reconcile())[ident(1)]
    assert (ended.outcome, ended.detail) == (outcome, f"found: {status}")
    assert await stage.shows(1) == (state, 1)  # the doubt was counted once, its end is not counted again


async def test_found_and_different_stays_in_doubt_for_a_person(make_both: Make, at: At) -> None:
    stage = await doubted(at, make_both(1), "lost", settings=window(0))
    stage.venue.place(stage.venue.posts[0], quantity=Decimal(2))
    for _ in range(2):
        ended = (await stage.reconcile())[ident(1)]
        assert ended.outcome == "unknown"
        assert (ended.detail or "").startswith("conflict: quantity")
        assert await stage.shows(1) == ("in_doubt", 1)


async def test_absent_only_after_the_window(make_both: Make, at: At) -> None:
    target = make_both(1)
    stage = await doubted(at, target, "lost", settings=window(60))
    ended = (await stage.reconcile())[ident(1)]
    assert (ended.outcome, "not found yet" in (ended.detail or "")) == ("unknown", True)
    assert await stage.shows(1) == ("in_doubt", 1)
    later = await at(target, venue=stage.venue, settings=window(0))
    asked = len(stage.venue.asked)
    ended = (await later.reconcile())[ident(1)]
    assert (ended.outcome, (ended.detail or "")[:8]) == ("not_sent", "absent: ")
    assert len(stage.venue.asked) - asked == LOOK_UPS
    assert await stage.shows(1) == ("pending", 1)
    assert (await later.replay_one(1)).outcome == "accepted"
    assert [post.client_order_id for post in stage.venue.posts] == ["cid-1", "cid-1"]


async def test_an_order_that_shows_up_late_is_found(make: Make, at: At) -> None:
    stage = await doubted(at, make(1), "late", settings=window(60))
    assert (await stage.reconcile())[ident(1)].outcome == "unknown"
    stage.venue.reveal()
    assert (await stage.reconcile())[ident(1)].outcome == "accepted"


async def test_one_look_up_that_shows_it_outweighs_two_that_do_not(make: Make, at: At) -> None:
    """A venue of several minds: its second replica has not heard of the order yet."""
    stage = await doubted(at, make(1), "late", settings=window(0))

    async def third(_: Prepared) -> None:
        if len(stage.venue.asked) == 3:
            stage.venue.reveal()

    stage.venue.asked.clear()
    stage.venue.before_lookup = third
    stage.venue.asked.append(stage.venue.posts[0])
    assert (await stage.reconcile())[ident(1)].outcome == "accepted"


@pytest.mark.parametrize("answers", [["fail"], ["busy"], ["ok", "fail"], ["ok", "ok", "busy"]])
async def test_a_failed_look_up_proves_nothing(make: Make, at: At, answers: list[str]) -> None:
    stage = await doubted(at, make(1), "lost", settings=window(0))
    stage.venue.lookups = answers
    ended = (await stage.reconcile())[ident(1)]
    assert (ended.outcome, (ended.detail or "")[:15]) == ("unknown", "look-up failed:")
    assert await stage.shows(1) == ("in_doubt", 1)


async def test_a_venue_that_cannot_be_asked_settles_nothing(make: Make, at: At) -> None:
    stage = await doubted(at, make(1), "lost", settings=window(0))
    stage.venue.profile = dedup("none", lookup=False)
    ended = (await stage.reconcile())[ident(1)]
    assert (ended.outcome, "look there, then settle it" in (ended.detail or "")) == ("unknown", True)


async def test_in_flight_and_found_is_settled_although_its_lease_lasts(make_both: Make, at: At) -> None:
    stage = await at(make_both(1), settings=window(60))
    await abandoned(stage, lease=60, sent=True)
    assert (await stage.shows(1))[0] == "in_flight"
    assert (await stage.reconcile())[ident(1)].outcome == "accepted"
    assert await stage.shows(1) == ("replayed", 0)
    assert not await stage.claims()


async def test_in_flight_and_absent_waits_for_lease_and_window(make: Make, at: At) -> None:
    stage = await at(make(1), settings=window(0))
    await abandoned(stage, lease=60, ago=3600)
    ended = (await stage.reconcile())[ident(1)]
    assert (ended.outcome, "owner may still" in (ended.detail or "")) == ("unknown", True)
    assert (await stage.shows(1))[0] == "in_flight"


async def test_in_flight_and_absent_with_lease_and_window_over_is_pending_again(make: Make, at: At) -> None:
    stage = await at(make(1), settings=window(5))
    await abandoned(stage, lease=0, ago=1)
    assert (await stage.reconcile())[ident(1)].outcome == "unknown"  # the window still lasts
    over = await at(stage.target, venue=stage.venue, settings=window(0))
    assert (await over.reconcile())[ident(1)].outcome == "not_sent"
    assert await stage.shows(1) == ("pending", 0)


async def test_the_window_counts_from_the_end_of_the_send(make: Make, at: At) -> None:
    """The request may have been under way until its end was recorded."""
    stage = await at(make(1), venue=FakeVenue(script=["lost"]), settings=window(0.2))

    async def slow(_: Prepared) -> None:
        await asyncio.sleep(0.25)  # a venue that takes its time

    stage.venue.before_submit = slow
    assert (await stage.replay_one(1)).outcome == "unknown"
    assert (await stage.reconcile())[ident(1)].outcome == "unknown"


async def test_a_clock_that_is_behind_the_stores_brings_absence_no_sooner(
    make_both: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A console an hour slow sends; what it writes down as the moment is the store's."""
    monkeypatch.setattr(clock, "now", lambda: datetime.now(UTC) - timedelta(hours=1))
    stage = await doubted(at, make_both(1), "lost", settings=window(60), limits=Limits(stale_after=timedelta(hours=9)))
    assert (await stage.reconcile())[ident(1)].outcome == "unknown"


async def test_in_doubt_refuses_replay_and_dismiss(make_both: Make, at: At) -> None:
    stage = await doubted(at, make_both(1), "drop")
    ended = await stage.replay_one(1)
    assert (ended.outcome, ended.detail) == ("refused", "in-doubt: in doubt: reconcile or settle it first")
    report = await Triage(stage.store, ANN, clock.now).dismiss(Selection.of([await stage.entry(1)]), reason="test")
    assert (report.done, report.changed) == ((), ((ident(1), "in doubt"),))
    assert await stage.shows(1) == ("in_doubt", 1)


async def test_reconcile_never_submits(make: Make, at: At) -> None:
    stage = await at(make(4), venue=FakeVenue(script=["drop", "lost", "late", "cancelled"]), settings=window(0))
    for number in (1, 2, 3, 4):
        assert (await stage.replay_one(number)).outcome == "unknown"
    for _ in range(3):
        await stage.reconcile()
    assert len(stage.venue.posts) == 4


async def test_only_the_mode_that_was_sent_in_is_asked(make: Make, at: At) -> None:
    stage = await doubted(at, make(1), "drop")
    assert await stage.reconcile(mode="live") == {}
    assert (await stage.reconcile(mode="paper"))[ident(1)].outcome == "accepted"


async def test_absence_in_live_is_settled_by_the_venues_own_answer(make: Make, at: At) -> None:
    stage = await at(make(1), venue=FakeVenue(script=["lost"], mode="live"), settings=window(0))
    assert (await stage.replay_one(1, mode="live")).outcome == "unknown"
    assert (await stage.reconcile(mode="live"))[ident(1)].outcome == "not_sent"


@pytest.mark.parametrize(
    ("account", "digest", "there", "outcome"),
    [
        ("PA1", "key", True, "accepted"),
        ("PA1", "rotated", True, "accepted"),
        ("PA1", "rotated", False, "not_sent"),
        ("PA2", "key", True, "unknown"),
        ("PA2", "key", False, "unknown"),
    ],
)
async def test_another_account_is_no_evidence(
    make_both: Make, at: At, account: str, digest: str, there: bool, outcome: str
) -> None:
    stage = await doubted(at, make_both(1), "drop" if there else "lost", settings=window(0), account="PA1")
    stage.venue.account, stage.venue.key_digest = account, digest
    ended = (await stage.reconcile())[ident(1)]
    assert ended.outcome == outcome
    assert (await stage.shows(1))[0] == {"accepted": "replayed", "not_sent": "pending", "unknown": "in_doubt"}[outcome]


@pytest.mark.parametrize(("digest", "there", "outcome"), [("key", False, "not_sent"), ("rotated", False, "unknown")])
async def test_where_the_venue_tells_no_account_the_key_decides_what_absence_proves(
    make: Make, at: At, digest: str, there: bool, outcome: str
) -> None:
    stage = await doubted(at, make(1), "drop" if there else "lost", settings=window(0))
    stage.venue.key_digest = digest
    assert (await stage.reconcile())[ident(1)].outcome == outcome


async def test_what_is_found_with_a_rotated_key_counts(make: Make, at: At) -> None:
    stage = await doubted(at, make(1), "drop", settings=window(0))
    stage.venue.key_digest = "rotated"
    assert (await stage.reconcile())[ident(1)].outcome == "accepted"


async def test_a_gateway_that_shows_its_day_proves_nothing_of_another_day(make: Make, at: At) -> None:
    """It lists the orders of its own day: an order of yesterday is not among them, whatever became of it."""
    venue = FakeVenue(script=["lost"], profile=replace(PROFILE, reach="day"))
    stage = await at(make(1), venue=venue, settings=window(0))
    assert (await stage.replay_one(1)).outcome == "unknown"
    now = stage.store.clock

    async def tomorrow() -> datetime:
        return await now() + timedelta(days=1)

    stage.store.clock = tomorrow  # type: ignore[method-assign]
    ended = (await stage.reconcile())[ident(1)]
    assert (ended.outcome, "day has changed" in (ended.detail or "")) == ("unknown", True)
    stage.store.clock = now  # type: ignore[method-assign]
    assert (await stage.reconcile())[ident(1)].outcome == "not_sent"


async def test_a_cancel_in_doubt_is_settled_by_the_order_it_aims_at(make: Make, at: At) -> None:
    act = json.dumps({"action": "cancel", "venue_order_id": "ord_1", "order_key": "k"})
    stage = await at(make([fresh(1, action_json=act)]), venue=FakeVenue(script=["lost"]), settings=window(60))
    assert (await stage.replay_one(1)).outcome == "unknown"
    stage.venue.place(stage.venue.posts[0], "open")
    ended = (await stage.reconcile())[ident(1)]
    assert (ended.outcome, "has not taken effect" in (ended.detail or "")) == ("unknown", True)
    stage.venue.book.clear()
    stage.venue.place(stage.venue.posts[0], "cancelled")
    assert (await stage.reconcile())[ident(1)].outcome == "accepted"


async def test_a_rehearsal_in_doubt_can_be_reconciled_too(make: Make, at: At) -> None:
    stage = await at(make(1), venue=FakeVenue(script=["drop"]), environment="live")
    assert (await stage.replay_one(1)).outcome == "unknown"
    assert (await stage.reconcile())[ident(1)].outcome == "accepted"
    assert await stage.shows(1) == ("pending", 0)


async def test_stopping_asks_no_further(make: Make, at: At) -> None:
    stage = await at(make(3), venue=FakeVenue(script=["drop"] * 3), settings=window(0))
    await stage.replay(1, 2, 3)
    reconcile = Reconciliation(stage.store, stage.at_desk(), ANN)
    attempts = await reconcile.open((), "paper")
    asked = len(stage.venue.asked)

    async def stop(_: Prepared) -> None:
        reconcile.stop()

    stage.venue.before_lookup = stop
    ended = await reconcile.run(attempts)
    assert [one.outcome for one in ended] == ["accepted", "skipped", "skipped"]
    assert len(stage.venue.asked) == asked + 1


async def test_two_who_reconcile_settle_it_once(make: Make, at: At) -> None:
    target = make(1)
    stage = await doubted(at, target, "drop")
    other = await at(target, actor=BOB, venue=stage.venue)

    async def first(_: Prepared) -> None:
        stage.venue.before_lookup = None
        assert (await other.reconcile())[ident(1)].outcome == "accepted"

    stage.venue.before_lookup = first
    ended = (await stage.reconcile())[ident(1)]
    assert (ended.outcome, ended.detail) == ("skipped", "settled elsewhere meanwhile")
    events = [json.loads(event.body)["kind"] for event in await stage.store.events(ident(1))]
    assert events == ["intent", "outcome", "reconcile"]

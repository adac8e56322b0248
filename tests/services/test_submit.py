"""One entry's way to its venue, step by step: what is asked, what is sent, what is recorded, what is given back."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from backends.records import ActContext, Selection
from backends.store import Claim, ClaimRefused
from console.services.evidence import payload
from console.services.replay.attempt import AttemptLedger
from console.services.replay.batch import ReplayBatch
from console.settings.config import VenueConfig
from tests.services.conftest import Make
from tests.support.session import BOB, Stage, fresh, ident
from tests.support.venue.in_process import PROFILE, FakeDesk, FakeVenue, dedup
from venues import Prepared, Status

At = Callable[..., Awaitable[Stage]]
TIMEOUT = "ReadTimeout: no answer in 10 s"


@pytest.mark.parametrize(
    ("word", "outcome", "state", "retries"),
    [
        ("ok", "accepted", "replayed", 0),
        ("reject", "rejected", "pending", 1),
        ("limit", "not_sent", "pending", 0),
        ("not-sent", "not_sent", "pending", 0),
        ("drop", "unknown", "in_doubt", 1),
        ("lost", "unknown", "in_doubt", 1),
    ],
)
async def test_each_outcome_is_recorded_with_what_it_does(
    make_both: Make, at: At, word: str, outcome: str, state: str, retries: int
) -> None:
    stage = await at(make_both(1), venue=FakeVenue(script=[word]))
    ended = await stage.replay_one(1)
    assert (ended.outcome, ended.client_order_id) == (outcome, "cid-1")
    assert await stage.shows(1) == (state, retries)
    assert bool((await stage.entry(1)).get("dismissed")) is (outcome == "accepted")
    (attempt,) = await stage.attempts(1)
    assert (attempt.outcome, attempt.mode, attempt.rehearsal) == (outcome, "paper", False)
    assert attempt.venue_order_id == ended.venue_order_id == ("ord_1" if word == "ok" else None)
    assert not await stage.claims()


async def test_the_intent_holds_the_very_bytes_that_were_sent(make: Make, at: At) -> None:
    stage = await at(make(1))
    seen: list[str | None] = []

    async def look(_: Prepared) -> None:
        (attempt,) = await stage.attempts(1)
        seen.append(attempt.outcome)

    stage.venue.before_submit = look
    await stage.replay_one(1)
    assert seen == [None]  # committed, and in flight, before the venue hears of it
    (attempt,) = await stage.attempts(1)
    (sent,) = stage.venue.posts
    kept = payload.decode(attempt.payload)
    assert kept == sent
    assert attempt.payload_hash == payload.fingerprint_of(sent)


@pytest.mark.parametrize(
    ("status", "outcome", "state", "retries"),
    [
        ("open", "accepted", "replayed", 0),
        ("partly_filled", "accepted", "replayed", 0),
        ("filled", "accepted", "replayed", 0),
        ("rejected", "rejected", "pending", 1),
        ("cancelled", "refused", "pending", 0),
        ("expired", "refused", "pending", 0),
        ("replaced", "refused", "pending", 0),
        ("unclear", "refused", "pending", 0),
    ],
)
async def test_an_order_that_is_there_already_is_adopted_or_left_to_a_person(
    make_both: Make, at: At, status: Status, outcome: str, state: str, retries: int
) -> None:
    stage = await at(make_both(1))
    step = (await stage.plan(1)).steps[0].command
    prepared = stage.venue.prepare(step.action, step.client_order_id)
    assert isinstance(prepared, Prepared)
    stage.venue.place(prepared, status)
    ended = await stage.replay_one(1)
    assert ended.outcome == outcome
    assert stage.venue.posts == []
    assert await stage.shows(1) == (state, retries)
    if outcome == "refused":
        assert ended.detail is not None
        assert ended.detail == f"found: {status}"
    else:
        assert ended.venue_order_id == "ord_1"
    assert not await stage.claims()


async def test_a_different_order_under_its_id_is_for_a_person(make: Make, at: At) -> None:
    stage = await at(make(1))
    step = (await stage.plan(1)).steps[0].command
    prepared = stage.venue.prepare(step.action, step.client_order_id)
    assert isinstance(prepared, Prepared)
    stage.venue.place(prepared, quantity=Decimal(99))
    ended = await stage.replay_one(1)
    assert (ended.outcome, stage.venue.posts) == ("refused", [])
    assert ended.detail == "conflict: quantity: 1.0 here, 99 at the venue"
    assert await stage.shows(1) == ("pending", 0)


@pytest.mark.parametrize("answer", ["fail", "busy"])
async def test_a_failed_look_up_sends_nothing(make: Make, at: At, answer: str) -> None:
    stage = await at(make(1), venue=FakeVenue(lookups=[answer]))
    ended = await stage.replay_one(1)
    assert (ended.outcome, stage.venue.posts) == ("not_sent", [])
    assert await stage.shows(1) == ("pending", 0)
    assert await stage.attempts(1) == ()
    assert not await stage.claims()


async def test_a_failed_look_up_of_what_may_have_arrived_names_the_guard(make: Make, at: At) -> None:
    stage = await at(make([fresh(1, error=TIMEOUT)]), venue=FakeVenue(lookups=["fail"]))
    ended = await stage.replay_one(1)
    assert (ended.outcome, stage.venue.posts) == ("refused", [])
    assert (ended.detail or "").startswith("may-have-arrived: look-up failed: ")
    assert await stage.shows(1) == ("pending", 0)


async def test_without_an_id_of_its_own_one_is_fixed_and_looked_up_each_time(make: Make, at: At) -> None:
    """The ledger may have been restored from a backup: only the venue knows whether the id was sent before."""
    stage = await at(make([fresh(1, client_order_id=None)]), venue=FakeVenue(script=["limit", "ok"]))
    first = await stage.replay_one(1)
    assert [one.client_order_id for one in stage.venue.asked] == [first.client_order_id]
    second = await stage.replay_one(1)
    assert first.client_order_id == second.client_order_id
    assert len(stage.venue.asked) == 2
    assert {post.client_order_id for post in stage.venue.posts} == {first.client_order_id}


async def test_a_fixed_id_differs_between_entries_and_fits_the_venue(make: Make, at: At) -> None:
    venue = FakeVenue(profile=replace(PROFILE, id_pattern=r"0x[0-9a-f]{32}", id_prefix="0x"))
    stage = await at(make([fresh(1, client_order_id=None), fresh(2), fresh(3, client_order_id=None)]), venue=venue)
    ids = {ended.client_order_id for ended in (await stage.replay(1, 2, 3)).values()}
    assert len(ids) == 3
    assert all(one and venue.profile.takes_id(one) for one in ids)


@pytest.mark.parametrize("kind", ["lifetime", "open"])
async def test_a_duplicate_id_answer_is_evidence_of_arrival(make: Make, at: At, kind: str) -> None:
    """Somebody else's order appears between look-up and send: the venue refuses ours, and its order is compared."""
    stage = await at(make(1), venue=FakeVenue(profile=dedup("lifetime" if kind == "lifetime" else "open")))

    async def other_hand(prepared: Prepared) -> None:
        stage.venue.place(prepared)

    stage.venue.before_submit = other_hand
    ended = await stage.replay_one(1)
    assert (ended.outcome, ended.venue_order_id) == ("accepted", "ord_1")
    assert len(stage.venue.book) == 1
    assert await stage.shows(1) == ("replayed", 0)


async def test_a_duplicate_id_answer_about_another_order_stays_in_doubt(make: Make, at: At) -> None:
    stage = await at(make(1))

    async def other_hand(prepared: Prepared) -> None:
        stage.venue.place(prepared, price=Decimal(11))

    stage.venue.before_submit = other_hand
    ended = await stage.replay_one(1)
    assert ended.outcome == "unknown"
    assert (ended.detail or "").startswith("conflict: price: 10.0 here, 11 at the venue")
    assert await stage.shows(1) == ("in_doubt", 1)


async def test_an_order_that_the_venue_rejected_burns_its_id(make: Make, at: At) -> None:
    stage = await at(make([fresh(1, error=TIMEOUT)]), settings=_window(0))
    step = (await stage.plan(1)).steps[0].command
    prepared = stage.venue.prepare(step.action, step.client_order_id)
    assert isinstance(prepared, Prepared)
    stage.venue.place(prepared, "rejected")
    assert (await stage.replay_one(1)).outcome == "rejected"
    assert await stage.shows(1) == ("pending", 1)
    made = await stage.plan(1)
    assert "has ended at the venue" in " ".join(made.steps[0].command.notes)
    ended = (await stage.run(made))[ident(1)]
    assert ended.outcome == "accepted"
    assert ended.client_order_id not in ("cid-1", None)


def _window(seconds: float, **more: float) -> dict[str, VenueConfig]:
    return {"fake": VenueConfig(visibility_seconds=seconds, timeout=more.get("timeout", 10.0))}


async def test_what_may_have_arrived_and_is_not_shown_waits_for_the_window(make: Make, at: At) -> None:
    stage = await at(make([fresh(1, error=TIMEOUT)]), settings=_window(60))
    ended = await stage.replay_one(1)
    assert (ended.outcome, stage.venue.posts) == ("refused", [])
    assert (ended.detail or "").startswith("may-have-arrived: the venue does not show it yet")
    old = datetime.now(UTC) - timedelta(seconds=61)
    assert await stage.shows(1) == ("pending", 0)
    second = await at(make([fresh(1, error=TIMEOUT, captured_at=old)], "older.db"), settings=_window(60))
    assert (await second.replay_one(1)).outcome == "accepted"


async def test_an_override_sends_what_may_have_arrived(make: Make, at: At) -> None:
    rows = [fresh(1, error=TIMEOUT, client_order_id=None), fresh(2, error=TIMEOUT)]
    stage = await at(make(rows), settings=_window(60))
    assert {one.outcome for one in (await stage.replay(1, 2)).values()} == {"refused"}
    told = await stage.replay(1, 2, overrides=frozenset({"may-have-arrived"}))
    assert {one.outcome for one in told.values()} == {"accepted"}


async def test_that_override_counts_as_one_even_where_only_the_look_up_would_have_refused(make: Make, at: At) -> None:
    stage = await at(make([fresh(1, error=TIMEOUT)]), settings=_window(60))
    asked = {"overrides": frozenset({"may-have-arrived"})}
    assert (await stage.plan(1, mode="live", **asked)).needs_second == "overrides may-have-arrived"
    assert (await stage.plan(1, mode="live")).needs_second is None


@pytest.mark.parametrize("how", ["halt", "dismissed", "changed", "claimed", "gone"])
async def test_what_happened_since_the_plan_stops_it_before_anything_is_sent(make: Make, at: At, how: str) -> None:
    target = make(1)
    stage, other = await at(target), await at(target, actor=BOB)
    made = await stage.plan(1)
    entry = await other.entry(1)
    expected = "refused"
    match how:
        case "halt":
            expected = "not_sent"
            await other.store.halt(BOB, _why())
        case "claimed":
            assert isinstance(await other.store.claim(entry.id, entry.version, BOB, 60), Claim)
        case "dismissed":
            expected = "skipped"
            await other.store.dismiss(Selection.of([entry]), BOB, _why())
        case "changed":
            expected = "skipped"
            bumped = await at(target, actor=BOB, venue=FakeVenue(script=["reject"]))
            await bumped.replay_one(1)
        case "gone":
            expected = "skipped"
            made = replace(made, steps=tuple(replace(s, command=replace(s.command, entry_id="x")) for s in made.steps))
    (ended,) = (await stage.run(made)).values()
    assert (ended.outcome, stage.venue.posts) == (expected, [])
    assert ended.detail


def _why() -> ActContext:
    return ActContext(datetime.now(UTC), "op", "test", "because")


async def test_a_claim_lost_before_the_intent_sends_nothing(make: Make, at: At) -> None:
    """While it looks the order up, its lease runs out and somebody else takes over."""
    target = make(1)
    stage, other = await at(target, lease=-29.9), await at(target, actor=BOB)

    async def somebody_else(_: Prepared) -> None:
        entry = await other.entry(1)
        while isinstance(taken := await other.store.claim(entry.id, entry.version, BOB, 60), ClaimRefused):
            assert taken.code == "claimed"

    stage.venue.before_lookup = somebody_else
    ended = await stage.replay_one(1)
    assert (ended.outcome, stage.venue.posts) == ("refused", [])
    assert "ran out" in (ended.detail or "")


async def test_nothing_is_sent_when_the_lease_is_nearly_over(make: Make, at: At) -> None:
    """30 s of lease are less than one send may take: the intent is withdrawn as not sent."""
    stage = await at(make(1), lease=-18.5)
    ended = await stage.replay_one(1)
    assert (ended.outcome, stage.venue.posts) == ("not_sent", [])
    assert await stage.shows(1) == ("pending", 0)


async def test_a_prepare_that_refuses_gives_the_claim_back(make: Make, at: At) -> None:
    stage = await at(make([fresh(1), fresh(2, client_order_id=None)]))
    made = await stage.plan(1, 2)
    stage.venue.refuse = "the price would be rounded"
    told = await stage.run(made)
    assert {one.detail for one in told.values()} == {"unparsable: the price would be rounded"}
    assert not await stage.claims()


async def test_the_late_owner_of_a_settled_attempt_changes_nothing(make: Make, at: At) -> None:
    """While the venue thinks, another console reconciles the attempt by evidence: theirs is the record."""
    target = make(1)
    stage, other = await at(target), await at(target, actor=BOB)
    other.venue, other.pool = stage.venue, None

    async def reconciled(prepared: Prepared) -> None:
        stage.venue.place(prepared)
        assert (await other.reconcile(1))[ident(1)].outcome == "accepted"
        stage.venue.script = ["lost"]

    stage.venue.before_submit = reconciled
    ended = await stage.replay_one(1)
    assert (ended.outcome, ended.venue_order_id) == ("accepted", "ord_1")
    assert ended.detail == "reconciled elsewhere meanwhile"
    assert await stage.shows(1) == ("replayed", 0)


async def test_a_rehearsal_changes_neither_state_nor_retries(make_both: Make, at: At) -> None:
    words = ["ok", "reject", "drop", "limit"]
    stage = await at(make_both(4), venue=FakeVenue(script=list(words)), environment="live")
    for number, word in enumerate(words, 1):
        ended = await stage.replay_one(number)
        assert ended.outcome == {"ok": "accepted", "reject": "rejected", "drop": "unknown", "limit": "not_sent"}[word]
        assert await stage.shows(number) == ("pending", 0)
        (attempt,) = await stage.attempts(number)
        assert (attempt.rehearsal, attempt.mode) == (True, "paper")


async def test_a_rehearsal_says_nothing_of_the_live_venue(make: Make, at: At) -> None:
    """Its ids, its doubts and its duplicates are the paper account's."""
    target = make([fresh(1, client_order_id=None), fresh(2)])
    paper = await at(target, environment="live", venue=FakeVenue(script=["drop", "cancelled"]))
    assert [one.outcome for one in (await paper.replay(1, 2)).values()] == ["unknown", "unknown"]
    await paper.reconcile()
    live = await at(target, environment="live", venue=FakeVenue(mode="live"))
    made = await live.plan(1, 2, mode="live")
    assert made.steps[1].command.client_order_id == "cid-2"
    assert {one.outcome for one in (await live.run(made)).values()} == {"accepted"}
    assert await live.shows(1) == await live.shows(2) == ("replayed", 0)


def _aimed(number: int, verb: str, venue_order_id: str, **changes: object) -> dict[str, object]:
    action = {"action": verb, "venue_order_id": venue_order_id, "order_key": f"k{number}"}
    return fresh(number, action_json=json.dumps(action), **changes)


@pytest.mark.parametrize(
    ("verb", "status", "outcome", "detail", "sent"),
    [
        ("cancel", "open", "accepted", None, 1),
        ("cancel", "partly_filled", "accepted", None, 1),
        ("cancel", "cancelled", "accepted", "found: cancelled; nothing was sent", 0),
        ("cancel", "filled", "refused", "found: filled: there is nothing left to cancel", 0),
        ("cancel", None, "accepted", "nothing to cancel: the venue has no such order; nothing was sent", 0),
        ("replace", "open", "accepted", None, 1),
        ("replace", "filled", "refused", "found: filled", 0),
        ("replace", "cancelled", "refused", "found: cancelled", 0),
        ("replace", None, "refused", "nothing to replace: the venue has no such order", 0),
    ],
)
async def test_replace_and_cancel_are_looked_up_by_the_order_they_aim_at(
    make: Make, at: At, verb: str, status: Status | None, outcome: str, detail: str | None, sent: int
) -> None:
    stage = await at(make([_aimed(1, verb, "ord_1")]), settings=_window(0))
    if status is not None:
        step = (await stage.plan(1)).steps[0].command
        prepared = stage.venue.prepare(step.action, "theirs")
        assert isinstance(prepared, Prepared)
        stage.venue.place(prepared, status, quantity=Decimal(7))
    ended = await stage.replay_one(1)
    assert (ended.outcome, ended.detail) == (outcome, detail)
    assert len(stage.venue.posts) == sent
    assert [one.action.venue_order_id for one in stage.venue.asked] == ["ord_1"]
    assert (await stage.shows(1))[0] == ("replayed" if outcome == "accepted" else "pending")


async def test_a_replace_that_has_taken_effect_is_adopted(make: Make, at: At) -> None:
    stage = await at(make([_aimed(1, "replace", "ord_1")]))
    step = (await stage.plan(1)).steps[0].command
    prepared = stage.venue.prepare(step.action, "theirs")
    assert isinstance(prepared, Prepared)
    stage.venue.place(prepared)
    ended = await stage.replay_one(1)
    assert (ended.outcome, ended.venue_order_id, stage.venue.posts) == ("accepted", "ord_1", [])


async def test_a_cancel_goes_out_where_the_venue_cannot_say_what_it_has(make: Make, at: At) -> None:
    """Neither silence nor a look-up within the window holds up what takes risk away."""
    stage = await at(make([_aimed(1, "cancel", "ord_1"), _aimed(2, "cancel", "ord_2")]), settings=_window(60))
    stage.venue.lookups = ["fail"]
    told = await stage.replay(1, 2)
    assert [one.outcome for one in told.values()] == ["accepted", "accepted"]
    assert [post.verb for post in stage.venue.posts] == ["cancel", "cancel"]


async def test_the_entrys_own_venue_is_asked_before_it_goes_to_another(make: Make, at: At) -> None:
    own, other = FakeVenue(), FakeVenue(host="other.test")
    stage = await at(make([fresh(1, error=TIMEOUT)]), venue=own, settings=_window(0))
    stage.pool = FakeDesk({"fake": own, "other": other})
    step = (await stage.plan(1)).steps[0].command
    prepared = own.prepare(step.action, "cid-1")
    assert isinstance(prepared, Prepared)
    own.place(prepared, "filled")
    ended = await stage.replay_one(1, venue="other")
    assert (ended.outcome, ended.venue_order_id) == ("accepted", "ord_1")
    assert other.posts == own.posts == []
    (attempt,) = await stage.attempts(1)
    assert attempt.venue == "fake"


async def test_an_order_older_than_the_entry_is_somebody_elses(make: Make, at: At) -> None:
    stage = await at(make(1))
    step = (await stage.plan(1)).steps[0].command
    prepared = stage.venue.prepare(step.action, step.client_order_id)
    assert isinstance(prepared, Prepared)
    stage.venue.place(prepared, "filled", created_at=datetime.now(UTC) - timedelta(hours=2))
    ended = await stage.replay_one(1)
    assert (ended.outcome, stage.venue.posts) == ("refused", [])
    assert (ended.detail or "").startswith("conflict: placed at ")
    stage.venue.book.clear()
    stage.venue.place(prepared, "filled", created_at=datetime.now(UTC) - timedelta(minutes=1))
    assert (await stage.replay_one(1)).outcome == "accepted"


async def test_two_accounts_with_one_client_order_id_are_two_orders(make: Make, at: At) -> None:
    main, hedge = FakeVenue(account="PA1", key_digest="a"), FakeVenue(account="PA2", key_digest="b")
    rows = [fresh(1, client_order_id="same"), fresh(2, client_order_id="same", account_id="hedge")]
    stage = await at(make(rows))
    stage.pool = FakeDesk({"fake": main, "fake/hedge": hedge})
    told = await stage.replay(1, 2)
    assert [(one.outcome, one.account) for one in told.values()] == [("accepted", "PA1"), ("accepted", "PA2")]
    assert (len(main.posts), len(hedge.posts)) == (1, 1)
    kept = [(one.account, one.key_digest) for n in (1, 2) for one in await stage.attempts(n)]
    assert kept == [("PA1", "a"), ("PA2", "b")]


@pytest.mark.parametrize(("account", "digest"), [("PA2", "key"), (None, "other key")])
async def test_another_account_than_the_planned_one_gets_nothing(
    make: Make, at: At, account: str | None, digest: str
) -> None:
    stage = await at(make(1), venue=FakeVenue(account=None if account is None else "PA1"))
    made = await stage.plan(1)
    stage.venue.account, stage.venue.key_digest = account, digest
    ended = (await stage.run(made))[ident(1)]
    assert (ended.outcome, stage.venue.posts) == ("not_sent", [])
    assert (ended.detail or "").startswith("unknown-account: ")
    assert await stage.attempts(1) == ()


async def test_a_wait_longer_than_the_claim_gives_the_entry_back(make: Make, at: At) -> None:
    """The venue asks to slow down between the look-up and the send: another console may have the entry meanwhile."""
    stage = await at(make(1), lease=-18.5)

    async def slow_down(_: Prepared) -> None:
        assert stage.running is not None
        for traffic in stage.running._traffic.values():
            traffic.lane.pace.hold(120)

    stage.venue.before_lookup = slow_down
    ended = await stage.replay_one(1)
    assert (ended.outcome, stage.venue.posts) == ("not_sent", [])
    assert (ended.detail or "").startswith("not-ready: fake main makes it wait 1")
    assert not await stage.claims()


async def test_a_look_up_that_began_within_the_window_proves_nothing_when_it_ends_after_it(make: Make, at: At) -> None:
    """The venue takes its time over the answer: what it did not show then was asked for too early."""
    stage = await at(make([fresh(1, error=TIMEOUT)]), settings=_window(60))
    made = await stage.plan(1)
    shift = timedelta()
    stage.pool = FakeDesk({"fake": stage.venue}, _window(60))

    async def slow(_: Prepared) -> None:
        nonlocal shift
        shift = timedelta(seconds=120)

    stage.venue.before_lookup = slow
    batch = ReplayBatch(stage.store, stage.pool, BOB, lambda: datetime.now(UTC) + shift)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AttemptLedger, "moment", property(lambda _: lambda: datetime.now(UTC) + shift))
        (ended,) = await batch.run(made)
    assert (ended.outcome, stage.venue.posts) == ("refused", [])
    assert (ended.detail or "").startswith("may-have-arrived: ")

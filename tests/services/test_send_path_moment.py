"""When an order's time is over, what a plan's hash covers, and which facts of the ledger count for a plan."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from console.services.market.worth import Worth
from console.services.replay.command import with_client_id
from console.services.replay.guards import BusyOrder, Guard, Replayed, likeness
from console.services.replay.moment import last_moment, too_late
from console.services.replay.plan import ReplayPlan, Step, plan
from console.services.replay.preflight import guard_of
from console.services.replay.still_fit import latest_start, unfit
from console.services.replay.venue_pool import VenueAccount, VenuePool
from console.settings.config import AccountConfig, ConfigError, Limits, VenueConfig
from tests.services.conftest import Make
from tests.support.planning import NOW, command, entry, facts
from tests.support.session import BOB, Stage, fresh
from tests.support.venue.in_process import PROFILE, READY, FakeDesk, FakeVenue
from venues import Credentials, Mode, NoPaperMode, Prepared, Readiness, SecretSet, Terms, WrongAccount
from venues.terms import read_terms

At = Callable[..., Awaitable[Stage]]
TIMEOUT = "ReadTimeout: no answer in 10 s"
DAYS = timedelta(days=9)
STEP = Step(command(), 0, account="PA1", key_digest="k", profile=PROFILE, readiness=READY, worth=Worth(Decimal(10)))


def _late(stale: timedelta = DAYS, readiness: Readiness | None = None, **of: Any) -> bool:
    one = command(**of)
    return too_late(one, NOW, stale_after=stale, profile=PROFILE, readiness=readiness) is not None


def _closing(hours: float, *, is_open: bool = True) -> Readiness:
    return replace(READY, market_open=is_open, session_close=(NOW + timedelta(hours=hours)).isoformat())


def _ago(**age: float) -> datetime:
    return NOW - timedelta(**age)


def test_age_and_time_in_force_end_an_order_and_never_a_cancel() -> None:
    quarter = timedelta(minutes=15)
    assert not _late(quarter, captured_at=_ago(minutes=14))
    assert _late(quarter, captured_at=_ago(minutes=16))
    assert not _late(quarter, captured_at=_ago(minutes=16), verb="cancel")
    assert _late(captured_at=None)
    assert _late(captured_at=_ago(minutes=-2))
    assert not _late(captured_at=_ago(seconds=-30))
    assert _late(captured_at=_ago(hours=25))
    assert not _late(captured_at=_ago(hours=25), time_in_force="gtc")
    assert _late(captured_at=_ago(hours=25), time_in_force="day")


@pytest.mark.parametrize("form", ["iso", "seconds", "milliseconds"])
def test_a_stated_end_counts_in_every_form(form: str) -> None:
    def stated(seconds: float) -> Terms:
        at = NOW + timedelta(seconds=seconds)
        said: object = at.isoformat() if form == "iso" else int(at.timestamp() * (1000 if form[0] == "m" else 1))
        return read_terms({"expire_at": said})

    assert _late(terms=stated(-1), time_in_force="gtc")
    assert not _late(terms=stated(60), time_in_force="gtc")


def test_a_day_ends_with_the_venues_session() -> None:
    assert _late(captured_at=_ago(hours=2), readiness=_closing(-1))
    assert not _late(captured_at=_ago(minutes=5), readiness=_closing(-1))
    assert not _late(captured_at=_ago(hours=2), readiness=_closing(3))
    assert _late(captured_at=_ago(hours=20), readiness=_closing(6))
    assert not _late(captured_at=_ago(minutes=5), readiness=_closing(60, is_open=False))
    assert _late(captured_at=_ago(hours=1), readiness=_closing(60, is_open=False))


def test_no_wait_carries_it_past_the_first_of_its_ends() -> None:
    one = command(captured_at=_ago(hours=1), terms=Terms(expire_at=NOW + timedelta(minutes=5)))

    def ends(hours: float) -> datetime | None:
        return last_moment(one, stale_after=DAYS, profile=PROFILE, readiness=_closing(hours))

    assert ends(3) == NOW + timedelta(minutes=5)
    assert ends(0.01) == NOW + timedelta(hours=0.01)
    stale = replace(STEP, overridden=("stale",))
    assert latest_start(stale, Limits) is None
    assert latest_start(STEP, Limits) == _ago(minutes=1) + Limits().stale_after


def _unfit(step: Step = STEP, *, account: str | None = "PA1", key: str = "k", **limits: Any) -> str | None:
    guard = unfit(step, NOW, limits=lambda: Limits(**limits), account=account, key_digest=key)
    return guard.code if guard else None


def test_an_order_is_judged_again_as_it_goes() -> None:
    assert _unfit() is None
    assert _unfit(account="PA2") == "unknown-account"
    assert _unfit(key="rotated") is None  # the venue itself says that the account is the same
    untold = replace(STEP, account=None)
    assert _unfit(untold, account=None) is None
    assert _unfit(untold, account=None, key="other") == "unknown-account"
    assert _unfit(stale_after=timedelta(seconds=1)) == "stale"
    assert _unfit(replace(STEP, overridden=("stale",)), stale_after=timedelta(seconds=1)) is None
    assert _unfit(max_notional=Decimal(9)) == "notional"
    assert _unfit(max_quantity=Decimal("0.5")) == "notional"
    assert _unfit(replace(STEP, worth=Worth(None))) is None  # in paper an order without a value may go
    assert _unfit(replace(STEP, worth=Worth(None), is_live=True)) == "notional"

    def unreadable() -> Limits:
        raise ConfigError("no such table")

    guard = unfit(STEP, NOW, limits=unreadable, account="PA1", key_digest="k")
    assert guard is not None
    assert guard.code == "notional"


def _hash(**changes: Any) -> str:
    return replace(STEP, host="h", **changes).hash


def test_a_hash_covers_what_makes_an_order_this_one() -> None:
    one = STEP.command
    others = [
        _hash(overridden=("stale",)),
        replace(STEP, host="other").hash,
        _hash(account="PA2"),
        _hash(command=replace(one, version=(1, 0))),
        _hash(command=replace(one, client_order_id="other")),
        _hash(command=replace(one, action=replace(one.action, price=Decimal(11)))),
        _hash(command=replace(one, venue="other")),
    ]
    assert len({_hash(), *others}) == 1 + len(others)
    assert _hash(key_digest="rotated", wave=3) == _hash()


def _plan(*of: Any, **known: Any) -> ReplayPlan:
    return plan([entry(one) for one in of], facts(of, **known))


def test_an_approval_is_for_one_mode_and_for_these_orders_or_fewer() -> None:
    both, one = _plan(command(1), command(2)), _plan(command(1))
    assert one.is_covered_by(both.document)
    assert not both.is_covered_by(one.document)
    assert not replace(one, mode="live").is_covered_by(both.document)
    assert _plan(command(1), mode="live").hash != one.hash
    assert not one.is_covered_by(json.dumps({"mode": "paper"}))


def test_a_plan_grows_old_by_a_clock_that_was_set_back_too() -> None:
    made = replace(_plan(command()), made_at=NOW)
    assert not made.is_old(NOW + timedelta(seconds=59), 60)
    assert made.is_old(NOW + timedelta(seconds=61), 60)
    assert made.is_old(NOW - timedelta(seconds=30), 60)


def _codes(one: Any, **known: Any) -> set[str]:
    return {guard.code for blocked in _plan(one, **known).blocked for guard in blocked.guards}


def test_a_stronger_or_open_command_of_the_same_order_holds_it_and_an_equal_one_does_not() -> None:
    def heads(rank: int) -> Replayed:
        return Replayed(heads={command().key: (rank, "dlq_other")})

    assert _codes(command(), replayed=heads(2)) == {"superseded"}
    assert _codes(command(verb="replace", venue_order_id="o1"), replayed=heads(1)) == set()
    for other, held in (("new", set()), ("cancel", {"in-doubt"})):
        busy = {command().key: (BusyOrder("dlq_other", other, in_doubt=True),)}  # type: ignore[arg-type]  # verbs
        assert _codes(command(verb="cancel"), busy=busy) == held
    flight = {command().key: (BusyOrder("dlq_other", "new", in_doubt=False),)}
    assert _codes(command(verb="cancel"), busy=flight) == {"in-doubt"}


def test_size_and_likeness_hold_an_order_and_no_cancel() -> None:
    assert _codes(command(), limits=Limits(max_notional=Decimal(9))) == {"notional"}
    assert _codes(command(), limits=Limits(max_notional=Decimal(10))) == set()
    assert _codes(command(), limits=Limits(max_quantity=Decimal("0.9"))) == {"notional"}
    assert _codes(command(), replayed=Replayed(frozenset({likeness(command())}))) == {"duplicate"}
    cancel = command(verb="cancel", retry_count=99, captured_at=_ago(hours=30))
    assert _codes(cancel, limits=Limits(max_notional=Decimal(9)), failures={cancel.entry_id: 9}) == set()


def test_a_rehearsal_may_be_repeated() -> None:
    accepted = {command().entry_id: frozenset({"paper"})}
    assert _codes(command(), accepted=accepted, rehearsal=True) == set()
    assert _codes(command(), accepted=accepted) == {"settled"}


def test_an_override_of_a_cancel_needs_no_second_person() -> None:
    known = {at: replace(one, problem=Guard("not-ready", "no answer")) for at, one in facts(()).venues.items()}
    how: dict[str, Any] = {"mode": "live", "overrides": frozenset({"not-ready"}), "venues": known}
    assert _plan(command(), **how).needs_second is not None
    assert _plan(command(verb="cancel"), **how).needs_second is None


def test_what_was_sent_without_an_id_cannot_be_asked_for() -> None:
    arrived = command(may_have_arrived=True)
    assert _codes(arrived) == set()
    assert _codes(replace(arrived, own_id=False)) == {"may-have-arrived"}


def test_a_fresh_id_is_not_the_entrys_own() -> None:
    one = command(client_order_id="cid 1 !")
    fitted = with_client_id(one, PROFILE, store_id="s", attempts=())
    assert (fitted.own_id, PROFILE.takes_id(fitted.client_order_id)) == (False, True)
    elsewhere = with_client_id(one, PROFILE, store_id="t", attempts=())
    assert elsewhere.client_order_id != fitted.client_order_id


def test_another_account_than_the_configs_cannot_be_overridden() -> None:
    guard = guard_of(WrongAccount("PA2 answers"))
    assert (guard.code, guard.overridable) == ("unknown-account", False)


async def test_a_plan_is_judged_by_the_later_clock(make: Make, at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await at(make(1))
    assert (await stage.plan(1)).count == 1

    async def ahead() -> datetime:
        return datetime.now(UTC) + timedelta(hours=1)

    monkeypatch.setattr(stage.store, "clock", ahead)
    (blocked,) = (await stage.plan(1)).blocked
    assert blocked.guards[0].code == "stale"


async def test_doubt_in_one_mode_or_in_a_rehearsal_holds_no_other(make: Make, at: At) -> None:
    rows = [fresh(1, client_order_id="same"), fresh(2, client_order_id="same", quantity=1.0)]
    stage = await at(make(rows), venue=FakeVenue(script=["lost"]))
    assert (await stage.replay_one(2)).outcome == "unknown"
    assert (await stage.plan(1)).count == 0
    assert (await stage.plan(1, mode="live")).count == 1
    rehearsing = await at(make(rows, "live.db"), venue=FakeVenue(script=["lost"]), environment="live")
    assert (await rehearsing.replay_one(2)).outcome == "unknown"
    assert (await rehearsing.plan(2, mode="live")).count == 1


async def test_rehearsals_neither_settle_nor_poison(make: Make, at: At) -> None:
    target = make(2)
    script = ["ok", "reject", "reject", "reject"]
    rehearsing = await at(target, venue=FakeVenue(script=script), environment="live")
    assert (await rehearsing.replay_one(1)).outcome == "accepted"
    for _ in range(3):
        assert (await rehearsing.replay_one(2)).outcome == "rejected"
    plain = await at(target)
    assert (await plain.plan(1, 2)).count == 2


async def test_the_newest_entry_of_an_order_says_when_it_may_have_been_sent(make: Make, at: At) -> None:
    old = datetime.now(UTC) - timedelta(minutes=5)
    rows = [
        fresh(1, error=TIMEOUT, client_order_id="same", captured_at=datetime.now(UTC)),
        fresh(2, error=TIMEOUT, client_order_id="same", captured_at=old, quantity=1.0),
    ]
    stage = await at(make(rows), settings={"fake": VenueConfig(visibility_seconds=60)})
    await stage.replay(1, 2)
    assert stage.venue.posts == []


async def test_an_id_is_burnt_in_its_mode_and_at_its_venue_only(make: Make, at: At) -> None:
    stage, other = await at(make(1)), FakeVenue()
    stage.pool = FakeDesk({"fake": stage.venue, "other": other})
    step = (await stage.plan(1)).steps[0].command
    prepared = stage.venue.prepare(step.action, step.client_order_id)
    assert isinstance(prepared, Prepared)
    stage.venue.place(prepared, "rejected")
    assert (await stage.replay_one(1)).outcome == "rejected"

    async def sent(**how: Any) -> str:
        return (await stage.plan(1, **how)).steps[0].command.client_order_id

    assert await sent() != "cid-1"
    assert not (await stage.plan(1)).steps[0].command.own_id
    assert await sent(mode="live") == "cid-1"
    assert await sent(venue="other") == "cid-1"


async def test_a_refusal_without_an_order_burns_no_id(make: Make, at: At) -> None:
    stage = await at(make(1), venue=FakeVenue(script=["reject"]))
    assert (await stage.replay_one(1)).outcome == "rejected"
    assert (await stage.plan(1)).steps[0].command.client_order_id == "cid-1"


async def test_what_another_console_has_claimed_is_not_planned(make: Make, at: At) -> None:
    stage = await at(make(1))
    one = await stage.entry(1)
    await stage.store.claim(one.id, one.version, BOB, 60)
    (blocked,) = (await stage.plan(1)).blocked
    assert [guard.code for guard in blocked.guards] == ["claimed"]


class Moves(FakeVenue):
    async def probe(self) -> Readiness:
        self.account = "PA2"
        return READY


async def test_the_account_is_checked_again_after_the_venue_was_asked(make: Make, at: At) -> None:
    settings = {"fake": VenueConfig(accounts={"main": AccountConfig(paper_number="PA1")})}
    venue = Moves(account="PA1", profile=replace(PROFILE, tells_account=True))
    stage = await at(make(1), venue=venue, settings=settings)
    (blocked,) = (await stage.plan(1)).blocked
    assert [guard.code for guard in blocked.guards] == ["unknown-account"]


def _pool(**settings: Any) -> tuple[VenuePool, list[SecretSet]]:
    wanted: list[SecretSet] = []

    def given(one: SecretSet) -> Credentials:
        wanted.append(one)
        return Credentials({})

    return VenuePool({"alpaca": VenueConfig(**settings)}, given), wanted


@pytest.mark.parametrize("mode", ["paper", "live"])
def test_each_mode_has_its_own_number_and_address(mode: Mode) -> None:
    numbers = {"main": AccountConfig(paper_number="PA1", live_number="123456789")}
    where = {"paper_endpoint": "http://127.0.0.1:1", "live_endpoint": "http://127.0.0.1:2"}
    pool, _ = _pool(accounts=numbers, default_account="main", **where)
    main = VenueAccount("alpaca", "main")
    assert pool.number(main, mode) == ("PA1" if mode == "paper" else "123456789")
    assert pool.number(VenueAccount("alpaca", None), mode) == pool.number(main, mode)
    assert pool._route(main, mode).endpoint == where[f"{mode}_endpoint"]


def test_only_the_default_account_may_use_the_venues_own_keys() -> None:
    pool, wanted = _pool(default_account="main")
    for account in ("main", "hedge", None):
        pool._secrets(VenueAccount("alpaca", account), "paper")
    assert [one.venue_too for one in wanted] == [True, False, True]


def test_an_account_that_the_venue_does_not_tell_is_not_the_configs() -> None:
    pool, _ = _pool(accounts={"main": AccountConfig(paper_number="PA1")})
    venue = FakeVenue(profile=replace(PROFILE, tells_account=True))
    with pytest.raises(WrongAccount):
        pool.check_number(VenueAccount("alpaca", "main"), "paper", venue)


def test_a_venue_without_paper_gets_no_paper_order() -> None:
    pool, _ = _pool()
    pool.check("polymarket", "live")
    with pytest.raises(NoPaperMode):
        pool.check("polymarket", "paper")


def test_absence_counts_no_sooner_than_a_request_may_still_arrive() -> None:
    pool = FakeDesk(
        {"fake": FakeVenue(profile=replace(PROFILE, arrival_bound=30.0))}, {"fake": VenueConfig(visibility_seconds=1)}
    )
    assert pool.window("fake") == 30

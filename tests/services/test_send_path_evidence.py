"""What the venue's answer means before a send, in a reconciliation, for a person: each case and its nearest other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from backends.records import Attempt
from backends.store import Intent
from console import clock
from console.services.engine.own_venue import OwnVenue, can_be_asked, mode_of
from console.services.evidence import payload
from console.services.evidence.ask import Inquiry
from console.services.evidence.ask_first import Adopt, GiveUp, Send, decide_cancel, decide_new, decide_replace
from console.services.evidence.lookup_verdict import Kind, LookupVerdict, judge
from console.services.evidence.reconcile import Reconciliation, Settled
from console.services.evidence.settle import Settlement, SettleRequest
from console.services.replay.attempt import AttemptLedger, HeldClaim, Lease
from console.services.replay.venue_pool import VenueAccount
from console.services.triage.approvals import Approvals
from console.settings.config import VenueConfig
from tests.services.conftest import Make
from tests.support.planning import command
from tests.support.session import ANN, Stage, fresh, ident
from tests.support.venue.in_process import FakeDesk, FakeVenue
from venues import Lookup, LookupFailed, Mode, Prepared, VenueClient, VenueOrder

At = Callable[..., Awaitable[Stage]]
NEW = command().action
ORDER = VenueOrder(
    venue_order_id="o1",
    client_order_id="cid-1",
    status="open",
    raw_status="open",
    market_id=NEW.market_id,
    side=NEW.side,
    quantity=NEW.quantity,
    order_type=NEW.order_type,
    price=NEW.price,
    filled=Decimal(0),
)


def _seen(kind: Kind, order: VenueOrder | None = None, retry_after: float | None = None) -> LookupVerdict:
    return LookupVerdict(kind, "so it says", order, retry_after)


def _new(seen: LookupVerdict, gap: str | None = None, *, arrived: bool = False, overridden: bool = False) -> Any:
    return decide_new(seen, gap=gap, may_have_arrived=arrived, overridden=overridden)


def test_a_new_order_goes_only_where_nothing_stands_against_it() -> None:
    assert _new(_seen("absent")) == Send()
    for kind in ("ended", "conflict", "unclear"):
        assert _new(_seen(kind, ORDER)).kind == "refused"
    assert _new(_seen("ours", ORDER)).result.outcome == "accepted"
    assert _new(_seen("refused", ORDER)).result.outcome == "rejected"
    assert _new(_seen("absent"), "too young").kind == "refused"
    assert _new(_seen("absent"), "too young", overridden=True) == Send()


def test_no_answer_sends_nothing_unless_somebody_answers_for_it() -> None:
    silent = _new(_seen("no-answer"))
    assert (silent.kind, silent.venue_failed) == ("not_sent", True)
    assert not _new(_seen("no-answer", retry_after=3.0)).venue_failed  # it answered: slow down
    arrived = _new(_seen("no-answer"), arrived=True)
    assert (arrived.kind, arrived.text.split(":")[0]) == ("refused", "may-have-arrived")
    assert _new(_seen("no-answer"), overridden=True) == Send()


def test_a_cancel_is_settled_only_by_an_order_that_is_surely_not_there() -> None:
    assert isinstance(decide_cancel(_seen("absent"), gap=None), Adopt)
    assert decide_cancel(_seen("absent"), gap="too young") == Send()
    assert decide_cancel(_seen("absent", ORDER), gap=None) == Send()
    assert decide_cancel(_seen("no-answer"), gap=None) == Send()


def test_a_replace_goes_to_an_open_order_that_is_not_so_already() -> None:
    dearer = replace(NEW, verb="replace", price=Decimal(11))
    assert decide_replace(dearer, _seen("absent", ORDER)) == Send()
    assert isinstance(decide_replace(replace(dearer, price=NEW.price), _seen("absent", ORDER)), Adopt)
    assert isinstance(decide_replace(dearer, _seen("refused", replace(ORDER, status="filled"))), GiveUp)
    silent = decide_replace(dearer, _seen("no-answer"))
    assert isinstance(silent, GiveUp)
    assert silent.kind == "not_sent"


def test_a_failed_look_up_tells_when_to_ask_again() -> None:
    assert judge(NEW, LookupFailed("HTTP 429", 3.0)).retry_after == 3.0


def test_a_stored_request_comes_back_with_every_digit() -> None:
    action = replace(NEW, quantity=Decimal("0.10"), price=Decimal("64123.000000000000001"))
    prepared = Prepared("new", "cid-1", "POST", "/orders", b"\x00body", action)
    assert payload.decode(payload.encode(prepared)) == prepared
    cheap = replace(prepared, action=replace(action, price=None))
    assert payload.decode(payload.encode(cheap)) == cheap
    assert payload.fingerprint_of(prepared) != payload.fingerprint_of(replace(prepared, body=b"other"))
    for other in (b"not json", b"[]", b'{"verb": "new"}', b'{"action": {"quantity": "x", "price": null}}'):
        assert payload.decode(other) is None


def test_an_engines_venue_is_live_unless_it_says_paper() -> None:
    assert mode_of(SimpleNamespace()) == "live"
    assert mode_of(SimpleNamespace(mode="paper")) == mode_of(SimpleNamespace(paper=True)) == "paper"
    assert mode_of(SimpleNamespace(paper="yes")) == "live"
    assert can_be_asked(SimpleNamespace(find=print))
    assert not can_be_asked(SimpleNamespace(find=None))


def test_an_engines_venue_gets_the_id_of_a_new_order_and_keeps_that_of_a_cancel() -> None:
    venue = OwnVenue("own", "paper", has_lookup=True)
    assert venue.named(NEW, "fixed").action.client_order_id == "fixed"
    assert venue.named(replace(NEW, verb="cancel"), "fixed").action.client_order_id == "cid-1"


@dataclass
class Watched(FakeDesk):
    """Who was asked for, in which mode."""

    venue: FakeVenue
    wanted: list[tuple[VenueAccount, Mode]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__({"fake": self.venue}, {"fake": VenueConfig(visibility_seconds=0)})

    async def client(self, at: VenueAccount, mode: Mode) -> VenueClient:
        self.wanted.append((at, mode))
        return await super().client(at, mode)


@pytest.mark.parametrize("mode", ["paper", "live"])
async def test_an_attempt_is_asked_about_in_its_own_mode_and_account(make: Make, at: At, mode: Mode) -> None:
    stage = await at(make(1), venue=FakeVenue(script=["drop"], mode=mode))
    assert (await stage.replay_one(1, mode=mode)).outcome == "unknown"
    stage.pool = pool = Watched(stage.venue)
    assert (await stage.reconcile(1, mode=mode))[ident(1)].outcome == "accepted"
    assert set(pool.wanted) == {(VenueAccount("fake", "main"), mode)}


class SlowToAsk(FakeVenue):
    async def lookup(self, prepared: Prepared) -> Lookup:
        self.asked.append(prepared)
        return LookupFailed("HTTP 429", retry_after=30.0)


async def test_a_reconciliation_slows_down_as_it_is_asked_to(make: Make, at: At) -> None:
    stage = await at(make(1), venue=FakeVenue(script=["lost"]))
    await stage.replay_one(1)
    reconciliation = Reconciliation(stage.store, FakeDesk({"fake": SlowToAsk()}), ANN)
    (attempt,) = await reconciliation.open((), "paper")
    await reconciliation.ask(attempt)
    (pace,) = reconciliation._paces.values()
    assert 5 < pace.wait() <= 30


async def test_an_order_from_before_the_entry_settles_nothing(make: Make, at: At) -> None:
    stage = await at(make(1), venue=FakeVenue(script=["lost"]))
    await stage.replay_one(1)
    (sent,) = stage.venue.posts
    stage.venue.place(sent, created_at=datetime.now(UTC) - timedelta(hours=2))
    assert (await stage.reconcile(1))[ident(1)].outcome == "unknown"


async def test_only_the_entries_that_were_named_are_asked_about(make: Make, at: At) -> None:
    stage = await at(make(2), venue=FakeVenue(script=["drop", "drop"]))
    await stage.replay(1, 2)
    assert list(await stage.reconcile(2)) == [ident(2)]
    assert (await stage.shows(1))[0] == "in_doubt"


async def test_of_two_in_doubt_a_person_settles_the_live_one_or_the_one_that_is_meant(make: Make, at: At) -> None:
    stage = await at(make(1), venue=FakeVenue(script=["lost", "lost"]), environment="live")
    assert (await stage.replay_one(1)).outcome == "unknown"
    assert (await stage.replay_one(1, mode="live")).outcome == "unknown"
    chosen: list[str] = []

    async def word(attempt: Attempt) -> Settled:
        chosen.append(attempt.mode)
        return Settled("unknown", "no answer")

    approvals = Approvals(stage.store, ANN, clock.now)
    settlement = Settlement(stage.store, ANN, approvals, word=word, two_people=lambda _: True)
    for mode in (None, "paper", "live"):
        await settlement.run(SettleRequest(ident(1), "absent", "looked", mode=mode))
    assert chosen == ["live", "paper", "live"]


async def test_what_is_still_being_sent_is_not_settled_by_a_person(make: Make, at: At) -> None:
    stage = await at(make(1))
    entry, ledger = await stage.entry(1), AttemptLedger(stage.store, ANN)
    held = await ledger.claim(entry.id, entry.version, Lease(60, 1), mode="paper")
    assert isinstance(held, HeldClaim)
    await ledger.intend(held, Intent("paper", "fake", "cid-1", b"{}", "hash"))

    async def word(_: Attempt) -> Settled:
        return Settled("unknown", "no answer")

    approvals = Approvals(stage.store, ANN, clock.now)
    settlement = Settlement(stage.store, ANN, approvals, word=word, two_people=lambda _: False)
    report = await settlement.run(SettleRequest(ident(1), "absent", "looked"))
    assert (report.ended.outcome, report.is_done) == ("refused", False)


async def test_asking_believes_the_clock_that_makes_it_younger_and_no_older_order(
    make: Make, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = await at(make([fresh(1), fresh(2)]), settings={"fake": VenueConfig(visibility_seconds=60)})
    ahead = Inquiry(stage.store, stage.at_desk(), ANN, lambda: clock.now() + timedelta(hours=1))
    (answer,) = await ahead.run([await stage.entry(1)], "paper")
    assert answer.answer == "unknown"
    prepared = stage.venue.prepare(replace(NEW, quantity=Decimal(2)), "cid-2")
    assert isinstance(prepared, Prepared)
    stage.venue.place(prepared, created_at=datetime.now(UTC) - timedelta(hours=2))
    (found,) = await Inquiry(stage.store, stage.at_desk(), ANN, clock.now).run([await stage.entry(2)], "paper")
    assert (found.answer, found.equal) == ("found", False)


async def test_an_entry_is_asked_about_by_the_attempt_of_that_mode(make: Make, at: At) -> None:
    venue = FakeVenue(script=["lost"])
    stage = await at(make(1), venue=venue, environment="live")
    await stage.replay_one(1)
    stage.pool = pool = Watched(venue)
    await Inquiry(stage.store, pool, ANN, clock.now).run([await stage.entry(1)], "live")
    assert {mode for _, mode in pool.wanted} == {"live"}

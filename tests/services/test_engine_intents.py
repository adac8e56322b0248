"""An order that its engine never learnt the outcome of: listed, asked for, settled, and in the way of its like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest

from backends import open_store
from backends.ledger.examination import examine
from backends.records import STATES, Filter, Selection
from backends.store import BadTarget, Store
from console import clock
from console.services.browse.queue_order import QueueOrder, View
from console.services.evidence.settle import SettleRequest
from console.services.replay.background_run import RunHandle
from console.services.replay.outcome import EntryOutcome
from console.services.replay.plan import ReplayPlan
from console.services.replay.preflight import ReplayRequest
from console.services.session import Chosen, SessionSettings, StoreSession
from console.services.triage.approvals import Approvals
from console.services.triage.triage import Query
from console.settings.config import Config, StoreConfig, VenueConfig
from tests.services.conftest import Make
from tests.support.intent import add_intents, intent_row, make_intents, resolution, run_sql
from tests.support.session import ANN, BOB, fresh, ident
from tests.support.venue.in_process import PROFILE, FakeDesk, FakeVenue, Held
from venues import Credentials, Mode, Status, VenueOrder

Open = Callable[..., Awaitable["Desk"]]


@dataclass
class Desk:
    """Ann's session on a store with intents, whose only venue is `venue`."""

    target: str
    session: StoreSession
    venue: FakeVenue

    async def reconcile(self, *ids: str, mode: Mode = "paper") -> list[EntryOutcome]:
        return list(await self.session.reconcile_work(ids, (mode,))(RunHandle()))

    async def settle(self, claimed: Any, number: int = 7, mode: str | None = None, order: str | None = None) -> Any:
        return await self.session.settle(SettleRequest(ident(number), claimed, "seen there", order, mode))

    async def ask(self, number: int = 7, mode: Mode = "paper") -> Any:
        (answer,) = await self.session.ask((ident(number),), mode)
        return answer

    async def shows(self, number: int = 7) -> tuple[str, str]:
        found = await self.session.store.get(ident(number))
        assert found is not None
        return found.state, found.origin

    def books(self, number: int = 7, *, price: str = "10", status: Status = "open") -> None:
        order = VenueOrder(
            f"ord_{number}", f"cid-{number}", status, status, quantity=Decimal(number), market_id="AAPL", side="buy",
            order_type="limit", price=Decimal(price),
        )  # fmt: skip
        self.venue.book.append(Held(order, ident(number)))

    async def verified(self) -> bool:
        seen = await examine(self.session.store)
        return (seen.problem, seen.differences) == (None, ())


@pytest.fixture
async def desk(make_both: Make, monkeypatch: pytest.MonkeyPatch) -> Any:
    sessions: list[StoreSession] = []

    async def made(*rows: dict[str, Any], entries: Any = 1, venue: FakeVenue | None = None, **store: Any) -> Desk:
        target = make_both(entries)
        make_intents(target, *rows)
        settings = {"fake": VenueConfig(visibility_seconds=60)}
        here = venue or FakeVenue()
        pool = FakeDesk({"fake": here}, settings)
        monkeypatch.setattr("console.services.replay.venue_pool.VenuePool", lambda *_: pool)

        async def reopen() -> Store:
            return await open_store(target)

        setting = SessionSettings(
            config=Config(venues=settings),
            store=StoreConfig("desk", target, **store),
            actor=ANN,
            clock=clock.now,
            open=reopen,
            credentials=lambda: lambda *_: Credentials({}),
        )
        sessions.append(await StoreSession.attach(setting))
        return Desk(target, sessions[-1], here)

    yield made
    for session in sessions:
        await session.aclose()


async def test_found_and_equal_is_adopted(desk: Open) -> None:
    here = await desk(intent_row(7, lease=-1, captured=-5))
    here.books()
    answer = await here.ask()
    assert (answer.answer, answer.equal, answer.venue_order_id) == ("found", True, "ord_7")
    (ended,) = await here.reconcile()
    assert (ended.outcome, ended.venue_order_id, ended.detail) == ("accepted", "ord_7", "found: open")
    assert (resolution(here.target, 7), await here.shows()) == ((True, "ord_7"), ("replayed", "intent"))
    assert await here.verified()
    assert here.venue.posts == []


@pytest.mark.parametrize(
    "odd",
    [
        {"quantity": 0.0},
        {"action_json": '{"quantity": 5}'},  # the column says 7
        {"price": None},
        {"side": "sideways"},
    ],
)
async def test_an_order_that_cannot_be_read_is_asked_for_by_its_id(desk: Open, odd: dict[str, Any]) -> None:
    """Its engine may have sent it, or something like it: only that nothing is there is a clear answer."""
    here = await desk(intent_row(7, **odd), intent_row(8, **odd))
    here.books(8)
    assert [(await here.ask(n)).answer for n in (7, 8)] == ["absent", "found"]
    assert (await here.ask(8)).equal is False
    absent, found = await here.reconcile()
    assert (absent.outcome, await here.shows(7)) == ("not_sent", ("pending", "entry"))
    assert (found.outcome, (found.detail or "").startswith("conflict: ")) == ("unknown", True)
    assert await here.shows(8) == ("in_doubt", "intent")
    chosen, _ = await here.session.triage.chosen((ident(7),))
    plan = await here.session.plan(Selection.of(list(chosen.values())), ReplayRequest("paper", single=True))
    assert isinstance(plan, ReplayPlan)
    assert [guard.code for one in plan.blocked for guard in one.guards] == ["unparsable"]
    assert await here.verified()
    assert here.venue.posts == []


@pytest.mark.parametrize(
    "odd",
    [
        {"action_json": '{"stop_price": "soon"}'},
        {"action_json": '{"type": "stop"}'},  # the column says limit
        {"order_type": "iceberg"},
        {"quantity": 0.0, "action_json": '{"quantity": 0, "params": {"trigger": 5}}'},
        {"quantity": 0.0, "action_json": '{"quantity": 0, "fires_at": 5}'},
    ],
)
async def test_of_an_order_of_unknown_kind_not_found_proves_nothing(desk: Open, odd: dict[str, Any]) -> None:
    """A venue keeps stops and plain orders apart, and only plain ones were looked through."""
    here = await desk(intent_row(7, **odd), intent_row(8, **odd))
    here.books(8)
    assert [(await here.ask(n)).answer for n in (7, 8)] == ["unknown", "found"]
    absent, found = await here.reconcile()
    assert (absent.outcome, "what kind of order it was" in (absent.detail or "")) == ("unknown", True)
    assert (found.outcome, (found.detail or "").startswith("conflict: ")) == ("unknown", True)
    assert [await here.shows(n) for n in (7, 8)] == [("in_doubt", "intent")] * 2


@pytest.mark.parametrize(
    "odd", [{"client_order_id": "two words"}, {"action_json": '{"clientOrderId": "other"}'}, {"action_json": "{"}]
)
async def test_an_order_whose_own_id_cannot_be_read_is_not_asked_for(desk: Open, odd: dict[str, Any]) -> None:
    here = await desk(intent_row(7, **odd))
    (ended,) = await here.reconcile()
    assert (ended.outcome, (ended.detail or "").startswith("look-up failed: unparsable: ")) == ("unknown", True)
    assert (here.venue.asked, await here.shows()) == ([], ("in_doubt", "intent"))


async def test_found_but_different_stays_in_doubt(desk: Open) -> None:
    here = await desk(intent_row(7))
    here.books(price="11")
    assert (await here.ask()).equal is False
    (ended,) = await here.reconcile(ident(7))
    assert (ended.outcome, (ended.detail or "").startswith("conflict: ")) == ("unknown", True)
    assert (resolution(here.target, 7), await here.shows()) == ((False, None), ("in_doubt", "intent"))
    assert await here.verified()


@pytest.mark.parametrize("leased", [-1.0, -50.0])
async def test_absent_too_early_proves_nothing(desk: Open, leased: float) -> None:
    here = await desk(intent_row(7, lease=leased))
    assert (await here.ask()).answer == "unknown"
    (ended,) = await here.reconcile()
    assert (ended.outcome, (ended.detail or "").startswith("not found yet")) == ("unknown", True)
    assert await here.shows() == ("in_doubt", "intent")


async def test_absent_becomes_an_entry_that_can_be_replayed(desk: Open) -> None:
    here = await desk(intent_row(7))
    assert (await here.ask()).answer == "absent"
    (ended,) = await here.reconcile()
    assert (ended.outcome, (ended.detail or "").startswith("absent: ")) == ("not_sent", True)
    assert (resolution(here.target, 7), await here.shows()) == ((True, None), ("pending", "entry"))
    chosen, _ = await here.session.triage.chosen((ident(7),))
    plan = await here.session.plan(Selection.of(list(chosen.values())), ReplayRequest("paper", single=True))
    (sent,) = await here.session.replay_work(plan, None)(RunHandle())
    assert (sent.outcome, sent.client_order_id) == ("accepted", "cid-7")
    assert (len(here.venue.posts), await here.verified()) == (1, True)


async def test_absence_proves_nothing_of_an_order_without_a_client_order_id(desk: Open) -> None:
    here = await desk(intent_row(7, client_order_id=None))
    (ended,) = await here.reconcile()
    assert (ended.outcome, await here.shows()) == ("unknown", ("in_doubt", "intent"))
    assert "without a client order id" in (ended.detail or "")


async def test_a_venue_that_does_not_answer_changes_nothing(desk: Open) -> None:
    here = await desk(intent_row(7), venue=FakeVenue(lookups=["fail", "fail"]))
    assert (await here.ask()).answer == "unknown"
    (ended,) = await here.reconcile()
    assert (ended.outcome, await here.shows()) == ("unknown", ("in_doubt", "intent"))


@pytest.mark.parametrize("known", [True, False])
async def test_the_other_mode_than_the_stores_is_refused(desk: Open, known: bool) -> None:
    here = await desk(intent_row(7), environment="live", venue=FakeVenue(mode="live"))
    if known:
        here.books()
    assert (await here.ask(mode="paper")).answer == "cannot-ask"
    (ended,) = await here.reconcile(ident(7), mode="paper")
    assert (ended.outcome, "say --live" in (ended.detail or "")) == ("refused", True)
    assert await here.reconcile(mode="paper") == []
    report = await here.settle("accepted", mode="paper")
    assert (report.is_done, report.ended.outcome) == (False, "refused")
    assert await here.shows() == ("in_doubt", "intent")
    (ended,) = await here.reconcile(mode="live")
    assert ended.outcome == ("accepted" if known else "not_sent")


def _unaskable(**given: Any) -> FakeVenue:
    return FakeVenue(profile=replace(PROFILE, lookup=False), **given)


@pytest.mark.parametrize(
    ("claimed", "order", "shown"),
    [("accepted", "ord_77", ("replayed", "intent")), ("absent", None, ("pending", "entry"))],
)
async def test_a_person_settles_it_where_the_venue_cannot_be_asked(
    desk: Open, claimed: str, order: str | None, shown: Any
) -> None:
    here = await desk(intent_row(7), venue=_unaskable())
    with pytest.raises(BadTarget, match="say --paper or --live"):
        await here.settle(claimed, order=order)
    report = await here.settle(claimed, mode="paper", order=order)
    assert (report.is_done, report.ended.detail) == (True, "settled by ann: seen there")
    assert (resolution(here.target, 7), await here.shows()) == ((True, order), shown)
    assert await here.verified()


async def test_in_live_a_second_person_agrees(desk: Open) -> None:
    here = await desk(intent_row(7), environment="live", venue=_unaskable(mode="live"))
    asked = await here.settle("absent")
    assert (asked.is_done, asked.plan is not None, await here.shows()) == (False, True, ("in_doubt", "intent"))
    assert await Approvals(here.session.store, BOB, clock.now).approve(asked.plan) == "approved"
    assert (await here.settle("absent")).is_done
    assert await here.shows() == ("pending", "entry")


async def test_a_clear_answer_overrules_the_person(desk: Open) -> None:
    here = await desk(intent_row(7))
    here.books()
    report = await here.settle("absent", mode="paper")
    assert (report.is_done, "the venue says otherwise" in report.ended.detail) == (False, True)
    assert await here.shows() == ("in_doubt", "intent")


async def test_the_engine_resolves_it_while_the_venue_is_asked(desk: Open) -> None:
    here = await desk(intent_row(7))

    async def back(_: Any) -> None:
        run_sql(here.target, "UPDATE order_dlq_intent SET resolved_at = captured_at, venue_order_id = 'mine'")

    here.venue.before_lookup = back
    (ended,) = await here.reconcile()
    assert (ended.outcome, "changed meanwhile" in (ended.detail or "")) == ("skipped", True)
    assert resolution(here.target, 7) == (True, "mine")
    assert await here.session.store.get(ident(7)) is None


async def test_it_is_neither_replayed_nor_dismissed(desk: Open) -> None:
    here = await desk(intent_row(7))
    found, _ = await here.session.triage.chosen((ident(7),))
    plan = await here.session.plan(Selection.of(list(found.values())), ReplayRequest("paper"))
    assert [(one.outcome, (one.detail or "").split(":")[0]) for one in plan.held] == [("refused", "in-doubt")]
    (entry,) = found.values()
    report = await here.session.dismiss([Chosen(entry.id, entry.version, entry.state)], reason="stale")
    assert (report.held, report.done.done) == ((ident(7),), ())


@pytest.mark.parametrize(("lease", "code"), [(-120.0, "in-doubt"), (600.0, "claimed")])
@pytest.mark.parametrize("verb", ["new", "cancel"])
async def test_an_open_intent_holds_up_its_logical_order(desk: Open, lease: float, code: str, verb: str) -> None:
    action = f'{{"order_key": "k1", "action": "{verb}", "venue_order_id": "ord_0"}}'
    row = fresh(1, action_json=action, account_id="main")
    here = await desk(intent_row(7, lease=lease, action_json='{"order_key": "k1"}'), entries=[row])
    found, _ = await here.session.triage.chosen((ident(1),))
    plan = await here.session.plan(Selection.of(list(found.values())), ReplayRequest("paper"))
    passes = verb == "cancel" and code == "in-doubt"  # what takes risk away goes while the order is in doubt
    held = [(one.detail or "").split(":")[0] for one in plan.held]
    assert (plan.count, held) == ((1, []) if passes else (0, [code]))


async def test_the_queue_has_them_on_top_and_lists_have_them_last(desk: Open) -> None:
    here = await desk(intent_row(7), intent_row(8, lease=600), entries=3)
    section = await QueueOrder(here.session.store).after(View(), None, 10)
    assert [spot.entry.id for spot in section.spots] == [ident(7), ident(3), ident(2), ident(1)]
    everything = Query(Filter(states=frozenset(STATES)))
    listed = [row.entry.id async for row in here.session.triage.stream(everything)]
    assert listed == [ident(1), ident(2), ident(3), ident(7)]
    assert [row.entry.id async for row in here.session.triage.stream(everything, limit=3)] == listed[:3]
    narrowed = View(Query(Filter(venue="fake", market="AAPL")))
    assert (await QueueOrder(here.session.store).after(narrowed, None, 1)).spots[0].entry.id == ident(7)
    here.books()
    await here.reconcile()
    section = await QueueOrder(here.session.store).after(View(everything), None, 10)
    assert [spot.entry.id for spot in section.spots] == [ident(3), ident(2), ident(1), ident(7)]
    add_intents(here.target, intent_row(9))
    before = await QueueOrder(here.session.store).before(View(everything), section.spots[-1].mark, 10)
    assert [spot.entry.id for spot in before.spots] == [ident(9), ident(3), ident(2), ident(1)]
